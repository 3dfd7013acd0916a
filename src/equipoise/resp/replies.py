"""Encode requests, replies in RESP2 and RESP3, and deliveries.

Every function returns the finished bytes. `proto` is 2 or 3; where the two differ, RESP3 has the richer type and
RESP2 the array that Redis sends instead. A request has one encoding, an array of bulk strings: clients send it, hubs
send it to each other, and the reader compares parsed input with it.

A delivery is a run of messages of one topic, encoded once for all subscribers with the same format. Two thirds of a
hub's work is here. So the parts that depend only on the topic are encoded once, when the topic's audience is
compiled, and a run of equal-sized payloads costs one join in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from equipoise.resp.runs import Run, spell_compiled

OK = b"+OK\r\n"
PONG = b"+PONG\r\n"

# The most frequent replies: the numbers of receivers of PUBLISH.
_SMALL = [b":%d\r\n" % number for number in range(1_024)]

Value = bytes | str | int | None | list["Value"] | dict[str, "Value"]


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def spell(words: Iterable[bytes]) -> bytes:
    """Raises TypeError if a word is not a byte string."""
    parts = [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


def payload_bytes(payloads: Sequence[bytes]) -> int:
    """The total size of the payloads."""
    return payloads.size if type(payloads) is Run else sum(map(len, payloads))


def _spell_values(*values: bytes | int | Sequence[bytes]) -> bytes:
    """A request of these values: words, numbers, and sequences of payloads, each payload a word."""
    words: list[bytes] = []
    for value in values:
        if isinstance(value, bytes):
            words.append(value)
        elif isinstance(value, int):
            words.append(b"%d" % value)
        else:
            words += value
    return spell(words)


spell_values = spell_compiled or _spell_values


# A command of up to this many words is measured word by word, which is faster than in one pass.
_FEW = 8
_BYTES_ONLY = {bytes}
_LISTS_ONLY = {list}


def bulks_size(column: Sequence[bytes]) -> int:
    if set(map(type, column)) != _BYTES_ONLY:
        raise TypeError("not byte strings")
    lengths = list(map(len, column))
    if lengths.count(lengths[0]) == len(lengths):
        return len(lengths) * bulk_size(column[0])
    # As text, a list of numbers has two more characters for each than it has digits; a bulk string has five.
    return sum(lengths) + len(str(lengths)) + 3 * len(lengths)


def spelled_size(commands: Sequence[list[bytes]]) -> int:
    """The encoded size of the commands. Raises TypeError if one is not a list of byte strings."""
    if len(commands) > 1 and set(map(type, commands)) == _LISTS_ONLY:
        words = len(commands[0])
        if words and list(map(len, commands)).count(words) == len(commands):
            # Commands of one shape, as in a pipeline of XADDs: column by column, in C.
            header = 3 + len(str(words))
            return header * len(commands) + sum(map(bulks_size, zip(*commands, strict=True)))
    size = 0
    for command in commands:
        if type(command) is not list:
            raise TypeError("not a list")
        size += 3 + len(str(len(command)))
        # Many words: a frame between hubs with many messages, or XADD with many fields.
        size += bulks_size(command) if len(command) > _FEW else sum(map(bulk_size, command))
    return size


def bulk_size(word: bytes) -> int:
    if type(word) is not bytes:
        raise TypeError("not a byte string")
    length = len(word)
    if length < 10:
        return length + 6
    if length < 100:
        return length + 7
    return length + 5 + len(str(length))


def simple(text: str) -> bytes:
    return b"+%b\r\n" % text.encode()


def error(text: str) -> bytes:
    """A newline would end the reply early, so it becomes a blank, as in Redis."""
    return b"-%b\r\n" % text.encode("utf-8", "surrogateescape").replace(b"\r", b" ").replace(b"\n", b" ")


def integer(number: int) -> bytes:
    return _SMALL[number] if 0 <= number < len(_SMALL) else b":%d\r\n" % number


def null(proto: int) -> bytes:
    return b"_\r\n" if proto == 3 else b"$-1\r\n"


def verbatim(text: str, proto: int) -> bytes:
    body = text.encode("utf-8", "surrogateescape")
    return b"=%d\r\ntxt:%b\r\n" % (len(body) + 4, body) if proto == 3 else bulk(body)


def array(items: Iterable[bytes]) -> bytes:
    """The items are encoded already."""
    parts = list(items)
    return b"*%d\r\n%b" % (len(parts), b"".join(parts))


def set_of(items: Iterable[bytes], proto: int) -> bytes:
    parts = list(items)
    return b"%c%d\r\n%b" % (b"~" if proto == 3 else b"*", len(parts), b"".join(parts))


def push(items: Iterable[bytes], proto: int) -> bytes:
    parts = list(items)
    return b"%c%d\r\n%b" % (b">" if proto == 3 else b"*", len(parts), b"".join(parts))


def mapping(pairs: Mapping[bytes, bytes], proto: int) -> bytes:
    """From encoded key to encoded value; in RESP2 an array of alternating keys and values."""
    body = b"".join(part for pair in pairs.items() for part in pair)
    return b"%%%d\r\n%b" % (len(pairs), body) if proto == 3 else b"*%d\r\n%b" % (2 * len(pairs), body)


def value(item: Value, proto: int) -> bytes:
    """Plain Python values by their natural type; a str becomes a bulk string."""
    match item:
        case None:
            return null(proto)
        case bytes():
            return bulk(item)
        case str():
            return bulk(item.encode())
        case int():
            return integer(item)
        case list():
            return array(value(part, proto) for part in item)
        case dict():
            return mapping({bulk(k.encode()): value(v, proto) for k, v in item.items()}, proto)


# --- deliveries -------------------------------------------------------------------------------------------------------

# (position of the first payload, payloads) -> bytes for one subscriber.
Encoder = Callable[[int, Sequence[bytes]], bytes]

_LARGE_RUN_BYTES = 64 * 1024


def plain_encoder(proto: int, word: bytes, *names: bytes) -> Encoder:
    """One frame per message, as Redis sends it: `word`, the names, the payload.

    A closure: a call of an object costs a tenth of a publish. The hub's compiled part reads `head` from its first cell.
    """
    mark = b">" if proto == 3 else b"*"
    # A frame up to the digits of the payload's length.
    head = b"%b%d\r\n%b$" % (mark, len(names) + 2, b"".join(map(bulk, (word, *names))))
    # Most payloads of a topic have one size, so the head with its length is kept from run to run.
    sized: dict[int, bytes] = {}

    def encode(first: int, payloads: Sequence[bytes]) -> bytes:
        if len(payloads) == 1:
            payload = payloads[0]
            return b"%b%d\r\n%b\r\n" % (head, len(payload), payload)
        if type(payloads) is Run:
            return payloads.spell_behind(head)
        lengths = set(map(len, payloads))
        if len(lengths) > 1:
            return head + head.join([b"%d\r\n%b\r\n" % (len(p), p) for p in payloads])
        (length,) = lengths
        between = sized.get(length)
        if between is None:
            if len(sized) >= 4:
                sized.clear()
            between = sized[length] = b"\r\n%b%d\r\n" % (head, length)
        if length * len(payloads) < _LARGE_RUN_BYTES:
            return b"%b%b\r\n" % (between[2:], between.join(payloads))
        # Copies each payload once; the join above copies it twice. For small runs the join is cheaper than the list.
        parts = [between] * (2 * len(payloads) + 1)
        parts[1::2] = payloads
        parts[0] = between[2:]
        parts[-1] = b"\r\n"
        return b"".join(parts)

    return encode


def positioned_encoder(epoch: int, word: bytes, *names: bytes) -> Encoder:
    """One frame per run for smart clients: `word`, the names, epoch, first position, the payloads."""
    fixed = len(names) + 3
    body = b"%b:%d\r\n:" % (b"".join(map(bulk, (word, *names))), epoch)

    def encode(first: int, payloads: Sequence[bytes]) -> bytes:
        if type(payloads) is Run:
            return b">%d\r\n%b%d\r\n%b" % (fixed + len(payloads), body, first, payloads.body)
        tails = [b"%d\r\n%b\r\n" % (len(p), p) for p in payloads]
        return b">%d\r\n%b%d\r\n$%b" % (fixed + len(tails), body, first, b"$".join(tails))

    return encode


def interleaved(
    encoders: Sequence[Encoder], first: int, payloads: Sequence[bytes], piece_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """For subscribers that get a message in several formats: all frames of one message before the next.

    Yields how many frames there are in a piece, and the piece, which is cut after the frame that makes it as long as
    `piece_bytes`.
    """
    frames: list[bytes] = []
    size = 0
    for n, payload in enumerate(payloads, first):
        for encode in encoders:
            frame = encode(n, (payload,))
            frames.append(frame)
            size += len(frame)
            if size >= piece_bytes:
                yield len(frames), b"".join(frames)
                frames, size = [], 0
    if frames:
        yield len(frames), b"".join(frames)
