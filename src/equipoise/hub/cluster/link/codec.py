"""Encode and decode frames between hubs, field by field.

A frame is an ordinary RESP command, parsed by the ordinary reader under the ordinary limits. It has no sequence number,
because both ends of a link count bytes. So the same frame has the same bytes on every link.

Always true:
    the fields of a decoded frame have the declared types; any other input raises a ProtocolError that names the verb
    and the problem; a frame holds at most `PAYLOADS_MAX` payloads, and, unless there is only one, at most as many bytes
    of them as one payload may have; so a frame always fits the receiver's buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.link.frame import Offsets
from equipoise.hub.cluster.link.frames import (
    FRAMES,
    EgressFrame,
    Frame,
    FromFrame,
    IngressFrame,
    LossFrame,
    NumberedFrame,
    Path,
    Payloads,
    RunFrame,
    Tag,
    TearFrame,
)
from equipoise.resp import RequestLimits, RequestReader
from equipoise.resp.replies import Encoder, payload_bytes, spell, spell_values
from equipoise.resp.runs import Verbs, read_requests
from equipoise.stream.submission import Submission

__all__ = [
    "PAYLOADS_MAX",
    "decode",
    "egress_encoder",
    "encode",
    "parse_number",
    "read_frames",
    "runs",
    "unsent_messages",
]

# Below the argument limit of any setting, with room for the other fields.
PAYLOADS_MAX = 1_000
_DIGITS_MAX = 19
# Most bytes of a word in an error text.
_SHOWN_BYTES = 32


def encode(frame: Frame) -> bytes:
    """Encode one frame. Split runs that are too long for one with `runs`."""
    return _ENCODERS[type(frame)](frame)


def decode(command: Sequence[bytes]) -> Frame:
    """Decode one frame. Raises ProtocolError for any input that `encode` does not produce."""
    shape = _SHAPES.get(command[0])
    if shape is None:
        raise ProtocolError(f"not a link frame: {command[0][:_SHOWN_BYTES]!r}")
    if not shape.words_min <= len(command) <= shape.words_max:
        raise shape.wrong_arity(command)
    try:
        return shape.read(command)
    except ValueError:
        raise shape.wrong_field(command) from None


def runs(payloads: Sequence[bytes], bytes_max: int) -> Iterable[tuple[int, Sequence[bytes]]]:
    """Split a run of messages into parts that fit a frame, each with the index of its first message."""
    if len(payloads) <= PAYLOADS_MAX and payload_bytes(payloads) <= bytes_max:
        return ((0, payloads),)
    return _cut(payloads, bytes_max)


def _cut(payloads: Sequence[bytes], bytes_max: int) -> Iterator[tuple[int, Sequence[bytes]]]:
    start, size = 0, 0
    for index, payload in enumerate(payloads):
        if index - start >= PAYLOADS_MAX or (index > start and size + len(payload) > bytes_max):
            yield start, payloads[start:index]
            start, size = index, 0
        size += len(payload)
    yield start, payloads[start:]


def egress_encoder(key: bytes, epoch: int, bytes_max: int) -> Encoder:
    """An encoder of EGRESS frames of one epoch of a stream; a long run becomes several frames in one bytes object."""
    verb = EgressFrame.verb

    def encode_run(first: int, payloads: Sequence[bytes]) -> bytes:
        count = len(payloads)
        if count == 1 or (count <= PAYLOADS_MAX and payload_bytes(payloads) <= bytes_max):
            return spell_values(verb, key, epoch, first, payloads)
        parts = runs(payloads, bytes_max)
        return b"".join([spell_values(verb, key, epoch, first + start, part) for start, part in parts])

    return encode_run


# The frames of the hot path, and the kinds of their fields: the compiled part decodes them to the same result as
# `decode`.
_HOT: Verbs = {
    IngressFrame.verb: (IngressFrame, b"bnee*"),
    RunFrame.verb: (RunFrame, b"bnn*"),
    FromFrame.verb: (FromFrame, b"bsnn"),
    NumberedFrame.verb: (NumberedFrame, b"bennn"),
    EgressFrame.verb: (EgressFrame, b"bnn*"),
}


def read_frames(data: bytes, limits: RequestLimits) -> tuple[Sequence[Frame | list[bytes]], int]:
    """Decode the complete frames at the start of the data; return them, some as commands for `decode`, and their bytes.

    Without the compiled part it returns none.
    """
    if read_requests is None:
        return (), 0
    return read_requests(data, _HOT, limits.args_max, limits.payload_bytes_max)


# Fields. A reader raises ValueError for input that its writer does not produce.


def parse_number(word: bytes) -> int:
    """Raises ValueError unless the word is a number below 10^19 in decimal digits."""
    if not word.isdigit() or len(word) > _DIGITS_MAX:
        raise ValueError("not a number")
    return int(word)


def _spell_tags(tags: Iterable[Tag]) -> bytes:
    """Encode dependencies. Names of hubs contain neither spaces nor colons."""
    return b" ".join([b"%b:%d:%d" % tag for tag in tags])


def _parse_tags(spelled: bytes) -> tuple[Tag, ...]:
    """Decode dependencies. Raises ValueError for any input that `_spell_tags` does not produce."""
    tags = []
    for word in spelled.split(b" ") if spelled else ():
        stream, *numbers = word.split(b":")
        if len(numbers) != 2:
            raise ValueError("not a list of tags")
        tags.append(Tag(stream, parse_number(numbers[0]), parse_number(numbers[1])))
    return tuple(tags)


def _spell_path(path: Path) -> bytes:
    return b"\n".join([b"%d %b" % (incarnation, hub.encode()) for hub, incarnation in path])


def _parse_path(word: bytes) -> Path:
    if not word:
        return ()
    lives = [line.partition(b" ") for line in word.split(b"\n")]
    return tuple([(hub.decode(), parse_number(incarnation)) for incarnation, _, hub in lives])


def _spell_offsets(offsets: Offsets) -> bytes:
    return b" ".join([b"%d" % offset for offset in offsets])


def _parse_offsets(word: bytes) -> Offsets:
    offsets = tuple(map(parse_number, word.split(b" ")))
    if any(a >= b for a, b in pairwise(offsets)):
        raise ValueError("not rising")
    return offsets


def _parse_flag(word: bytes) -> bool:
    if word not in (b"0", b"1"):
        raise ValueError("neither 0 nor 1")
    return word == b"1"


# By type of a field, its encoder and decoder.
_KINDS: dict[Any, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    bytes: (bytes, bytes),
    int: (b"%d".__mod__, parse_number),
    bool: (b"%d".__mod__, _parse_flag),
    str: (str.encode, bytes.decode),
    Path: (_spell_path, _parse_path),
    tuple[Tag, ...]: (_spell_tags, _parse_tags),
    Offsets: (_spell_offsets, _parse_offsets),
}


class _Shape:
    """The decoder of one type of frame: its arity, and the names and readers of its fields."""

    def __init__(self, frame_type: type[Frame]) -> None:
        fields = msgspec.structs.fields(frame_type)
        self._frame_type = frame_type
        self._has_payloads = fields[-1].type == Payloads
        named = fields[:-1] if self._has_payloads else fields
        self._names = [field.name for field in named]
        self._readers = [_KINDS[field.type][1] for field in named]
        self._count = len(named) + 1
        self.words_min = self._count + self._has_payloads
        self.words_max: float = float("inf") if self._has_payloads else self._count
        self.read: Callable[[Sequence[bytes]], Frame] = _HOT_READERS.get(frame_type, self._read)

    def _read(self, command: Sequence[bytes]) -> Frame:
        values = [read(word) for read, word in zip(self._readers, command[1 : self._count], strict=True)]
        return (
            self._frame_type(*values, command[self._count :])
            if self._has_payloads
            else self._frame_type(*values)
        )

    def wrong_arity(self, command: Sequence[bytes]) -> ProtocolError:
        wanted = f"at least {self.words_min}" if self._has_payloads else str(self.words_min)
        return ProtocolError(f"{self._frame_type.verb.decode()} has {wanted} words, not {len(command)}")

    def wrong_field(self, command: Sequence[bytes]) -> ProtocolError:
        """The error for the first field that cannot be decoded."""
        for name, read, word in zip(self._names, self._readers, command[1 : self._count], strict=True):
            try:
                read(word)
            except ValueError as problem:
                shown = word[:_SHOWN_BYTES]
                return ProtocolError(f"{self._frame_type.verb.decode()} {name}: {problem}: {shown!r}")
        raise AssertionError("called only if a field cannot be decoded")


def _encoder(frame_type: type[Frame]) -> Callable[[Any], bytes]:
    fields = msgspec.structs.fields(frame_type)
    has_payloads = fields[-1].type == Payloads
    spellers = [(field.name, _KINDS[field.type][0]) for field in (fields[:-1] if has_payloads else fields)]

    def encode_frame(frame: Any) -> bytes:
        spelled = [speller(getattr(frame, name)) for name, speller in spellers]
        return spell(
            (frame_type.verb, *spelled, *frame.payloads) if has_payloads else (frame_type.verb, *spelled)
        )

    return encode_frame


# Decoders and encoders of the hot path, written out: twice as fast as by the table, which a test compares them with.


def _read_ingress(command: Sequence[bytes]) -> Frame:
    _, key, version, path, tags = command[:5]
    return IngressFrame(
        key,
        parse_number(version),
        _parse_path(path) if path else (),
        _parse_tags(tags) if tags else (),
        command[5:],
    )


def _read_run(command: Sequence[bytes]) -> Frame:
    key, version, sequence = command[1:4]
    return RunFrame(key, parse_number(version), parse_number(sequence), command[4:])


def _read_from(command: Sequence[bytes]) -> Frame:
    _, key, hub, incarnation, sequence = command
    return FromFrame(key, hub.decode(), parse_number(incarnation), parse_number(sequence))


def _read_numbered(command: Sequence[bytes]) -> Frame:
    _, key, path, count, epoch, n = command
    return NumberedFrame(
        key, _parse_path(path) if path else (), parse_number(count), parse_number(epoch), parse_number(n)
    )


def _read_egress(command: Sequence[bytes]) -> Frame:
    key, epoch, first = command[1:4]
    return EgressFrame(key, parse_number(epoch), parse_number(first), command[4:])


def _encode_ingress(frame: IngressFrame) -> bytes:
    path = _spell_path(frame.path) if frame.path else b""
    tags = _spell_tags(frame.tags) if frame.tags else b""
    return spell_values(IngressFrame.verb, frame.key, frame.version, path, tags, frame.payloads)


def _encode_run(frame: RunFrame) -> bytes:
    return spell_values(RunFrame.verb, frame.key, frame.version, frame.sequence, frame.payloads)


def _encode_from(frame: FromFrame) -> bytes:
    return spell_values(FromFrame.verb, frame.key, frame.hub.encode(), frame.incarnation, frame.sequence)


def _encode_numbered(frame: NumberedFrame) -> bytes:
    path = _spell_path(frame.path) if frame.path else b""
    return spell_values(NumberedFrame.verb, frame.key, path, frame.count, frame.epoch, frame.n)


_HOT_READERS: dict[type[Frame], Callable[[Sequence[bytes]], Frame]] = {
    IngressFrame: _read_ingress,
    RunFrame: _read_run,
    FromFrame: _read_from,
    NumberedFrame: _read_numbered,
    EgressFrame: _read_egress,
}
_ENCODERS: dict[type[Frame], Callable[[Any], bytes]] = {
    **{frame_type: _encoder(frame_type) for frame_type in FRAMES},
    IngressFrame: _encode_ingress,
    RunFrame: _encode_run,
    FromFrame: _encode_from,
    NumberedFrame: _encode_numbered,
}
_SHAPES = {frame_type.verb: _Shape(frame_type) for frame_type in FRAMES}


# Messages that were never sent, by the key of their stream.
Unsent = dict[bytes, list[Submission]]


def unsent_messages(pieces: Iterable[bytes], reader: RequestReader) -> Unsent:
    """The messages in frames that were never sent."""
    found: Unsent = {}
    for piece in pieces:
        for command in reader.feed(piece):
            frame = decode(command)
            if isinstance(frame, IngressFrame):
                item = Submission(frame.path, frame.version, frame.payloads, frame.tags)
                found.setdefault(frame.key, []).append(item)
            elif isinstance(frame, RunFrame):
                found.setdefault(frame.key, []).append(Submission((), frame.version, frame.payloads))
            elif isinstance(frame, LossFrame | TearFrame):
                is_doubtful = isinstance(frame, TearFrame)
                item = Submission(frame.path, frame.version, (), frame.tags, frame.count, is_doubtful)
                found.setdefault(frame.key, []).append(item)
    return found
