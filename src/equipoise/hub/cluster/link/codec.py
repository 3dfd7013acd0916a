"""What hubs say to each other over a link: one table of verbs and their fields, and how they are spelled.

A frame is a RESP command like any other, so the ordinary reader parses it under the ordinary limits. It carries no
number: both ends of a link count bytes. The same frame is therefore the same bytes on every link.

Always true: a frame holds at most `PAYLOADS_MAX` payloads and, unless it is a single one, at most as many bytes of
them as one payload may have; so a frame always fits what its receiver may buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from equipoise.errors import ProtocolError
from equipoise.resp.frames import Encoder
from equipoise.resp.spelling import bulk, spell

__all__ = [
    "GREETING",
    "PAYLOADS_MAX",
    "PROBING",
    "PROTOCOL",
    "VERBS",
    "Field",
    "Verb",
    "decode",
    "egress_encoder",
    "encode",
    "read_path",
    "runs",
    "spell",
    "spell_path",
]

# Opens a link: protocol, sender, its incarnation, the link's generation, receiver, its incarnation. Answered with the
# number of bytes of this generation that the receiver has dealt with.
GREETING = b"EQ.L.HELLO"
PROTOCOL = b"1"
# Which verbs a hub knows, as it tells the others in the store. 1: all up to AT; from PROBING on, PROBE and ECHO. A verb
# that comes later gets the next number, and is said only to those that know it: others would end the link over it.
PROBING = 2
VERBS = PROBING
# Below the argument limit of any setting, with room for the other fields.
PAYLOADS_MAX = 1_000
_DIGITS_MAX = 19


class Verb(Enum):
    """Value: the word; the fields, `name` for bytes and `number` for an integer; whether payloads follow."""

    # Number these messages, or pass them on: the sender's version of the plan; the hubs they have passed before it;
    # tags, positions of other streams of the topic that the first of them comes after, as `tags` spells them.
    INGRESS = (b"EQ.L.INGRESS", ("name", "number", "name", "name"), True)
    # Of the messages that you sent me for the topic, and that had come to you by these hubs, so many more have their
    # positions, the last (epoch, n); epoch 0: they never will.
    NUMBERED = (b"EQ.L.NUMBERED", ("name", "name", "number", "number", "number"), False)
    # A link between us has begun anew: of how many such messages do you still owe me the word? The number comes back
    # with the answer, here and below: one to an earlier question says nothing.
    RECOUNT = (b"EQ.L.RECOUNT", ("name", "name", "number"), False)
    RECOUNTED = (b"EQ.L.RECOUNTED", ("name", "name", "number", "number"), False)
    # Send me the topic's stream once it lives with you.
    ATTACH = (b"EQ.L.ATTACH", ("name", "number"), False)
    DETACH = (b"EQ.L.DETACH", ("name",), False)
    # You get the stream from the position after (epoch, n).
    ATTACHED = (b"EQ.L.ATTACHED", ("name", "number", "number", "number"), False)
    # A run of the stream: epoch, position of the first.
    EGRESS = (b"EQ.L.EGRESS", ("name", "number", "number"), True)
    # Send me the streams of all topics that match and live with you.
    PATTERN = (b"EQ.L.PATTERN", ("name", "number"), False)
    NOPATTERN = (b"EQ.L.NOPATTERN", ("name",), False)
    PATTERNED = (b"EQ.L.PATTERNED", ("name", "number"), False)
    # I have said what I have to say about the plan of this version under those who serve by it (a digest); the last
    # number is the latest epoch that I know of.
    DONE = (b"EQ.L.DONE", ("number", "number", "number"), False)
    # This life of that hub is over: whatever I say from now on, I say knowing it.
    DEAD = (b"EQ.L.DEAD", ("name", "number"), False)
    # Under this version of the plan the topic is to be yours; do you take it? CANCEL: under that version
    # it is not.
    PREPARE = (b"EQ.L.PREPARE", ("name", "number"), False)
    PREPARED = (b"EQ.L.PREPARED", ("name", "number"), False)
    CANCEL = (b"EQ.L.CANCEL", ("name", "number"), False)
    # The topic is yours: my epoch ended at n.
    CLOSE = (b"EQ.L.CLOSE", ("name", "number", "number"), False)
    # I have heard that this epoch of yours is closed: say ENDED, behind all that you have written of it.
    FLUSH = (b"EQ.L.FLUSH", ("name", "number"), False)
    ENDED = (b"EQ.L.ENDED", ("name", "number"), False)
    # End the connection of this client's link, and tell me when all that you took from clients has its position.
    SEVER = (b"EQ.L.SEVER", ("name",), False)
    SEVERED = (b"EQ.L.SEVERED", ("name",), False)
    # The topic's stream goes on in this epoch, after (epoch, n) of that hub; epoch 0 if nobody can say.
    OPENED = (b"EQ.L.OPENED", ("name", "number", "name", "number", "number"), False)

    # What follows in this stream, in its epoch, comes after (epoch, n) of another stream of the topic: the lane of that
    # hub, or the trunk if it is none.
    AFTER = (b"EQ.L.AFTER", ("name", "number", "name", "number", "number"), False)
    # All have said DONE about this version: my lanes that it names are open, those that it does not name have ended.
    SETTLED = (b"EQ.L.SETTLED", ("number",), False)
    # To a hub that I meet: I have this lane.
    LANE = (b"EQ.L.LANE", ("name",), False)
    # Send me your lane that the plan of this version names, or named: answered with ATTACHED, or OVER.
    FOLLOW = (b"EQ.L.FOLLOW", ("name", "number", "number"), False)
    # The lane that you follow ended at n; epoch 0: there is none.
    OVER = (b"EQ.L.OVER", ("name", "number", "number"), False)
    # How far is this stream with you? It is at (epoch, n), and lives with me: 1, or not: 0.
    ASK = (b"EQ.L.ASK", ("name",), False)
    AT = (b"EQ.L.AT", ("name", "number", "number", "number"), False)
    # Are you there, and where? The number comes back with the sender's coordinate, as `coordinates` spells it.
    PROBE = (b"EQ.L.PROBE", ("number",), False)
    ECHO = (b"EQ.L.ECHO", ("number", "name"), False)

    def __init__(self, word: bytes, fields: tuple[str, ...], has_payloads: bool) -> None:
        self.word = word
        self.fields = fields
        self.has_payloads = has_payloads

    __hash__ = object.__hash__


Field = bytes | int
_BY_WORD = {verb.word: verb for verb in Verb}


def encode(verb: Verb, *fields: Field, payloads: Sequence[bytes] = ()) -> bytes:
    """One frame. Runs that are too long for one are cut by `runs`."""
    words = [b"%d" % field if isinstance(field, int) else field for field in fields]
    return spell((verb.word, *words, *payloads))


def decode(command: Sequence[bytes]) -> tuple[Verb, list[Field], list[bytes]]:
    """Verb, fields and payloads. Raises ProtocolError for anything that `encode` does not make."""
    verb = _BY_WORD.get(command[0])
    if verb is None:
        raise ProtocolError(f"no frame of a link: {command[0][:32]!r}")
    count = len(verb.fields) + 1
    if len(command) < count or (len(command) > count) != verb.has_payloads:
        raise ProtocolError(f"{len(command)} words do not make {command[0]!r}")
    fields = [
        _number(word) if kind == "number" else word
        for kind, word in zip(verb.fields, command[1:count], strict=True)
    ]
    return verb, fields, list(command[count:])


def runs(payloads: Sequence[bytes], bytes_max: int) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Cut a run of messages so that each part fits a frame: the index of its first message, and the part."""
    start, size = 0, 0
    for index, payload in enumerate(payloads):
        if index - start >= PAYLOADS_MAX or (index > start and size + len(payload) > bytes_max):
            yield start, payloads[start:index]
            start, size = index, 0
        size += len(payload)
    yield start, payloads[start:]


def egress_encoder(topic: bytes, epoch: int, bytes_max: int) -> Encoder:
    """A run of messages for relays; a long one becomes several frames in one piece."""
    head = bulk(Verb.EGRESS.word) + bulk(topic) + bulk(b"%d" % epoch)

    def one(first: int, payloads: Sequence[bytes]) -> bytes:
        tails = [b"%d\r\n%b\r\n" % (len(payload), payload) for payload in payloads]
        position = bulk(b"%d" % first)
        return b"*%d\r\n%b%b$%b" % (len(tails) + 4, head, position, b"$".join(tails))

    def encode_run(first: int, payloads: Sequence[bytes]) -> bytes:
        count = len(payloads)
        if count == 1 or (count <= PAYLOADS_MAX and sum(map(len, payloads)) <= bytes_max):
            return one(first, payloads)
        return b"".join([one(first + start, part) for start, part in runs(payloads, bytes_max)])

    return encode_run


def spell_path(path: Sequence[tuple[str, int]]) -> bytes:
    """Lives of hubs in one field."""
    return b"\n".join([b"%d %b" % (incarnation, hub.encode()) for hub, incarnation in path])


def read_path(field: bytes) -> tuple[tuple[str, int], ...]:
    """Raises ProtocolError for anything that `spell_path` does not make."""
    if not field:
        return ()
    lives = [line.partition(b" ") for line in field.split(b"\n")]
    return tuple((hub.decode("utf-8", "replace"), _number(incarnation)) for incarnation, _, hub in lives)


def _number(word: bytes) -> int:
    if not (word.isdigit() and word.isascii()) or len(word) > _DIGITS_MAX:
        raise ProtocolError(f"no number: {word[:32]!r}")
    return int(word)
