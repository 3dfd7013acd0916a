"""Links and frames: whatever breaks, the receiver gets every byte once and in order."""

from __future__ import annotations

import random

import msgspec
import pytest

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.link.codec import PAYLOADS_MAX, decode, egress_encoder, encode, runs
from equipoise.hub.cluster.link.frame import Offsets
from equipoise.hub.cluster.link.frames import (
    FRAMES,
    AtFrame,
    DoneFrame,
    EgressFrame,
    Frame,
    IngressFrame,
    NumberedFrame,
    Path,
    Payloads,
    ProbeFrame,
    Tag,
)
from equipoise.hub.cluster.link.incoming import VOID_OFFSET
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.settings import Limits
from equipoise.resp import RequestReader


def _never(link: OutLink) -> None:
    raise AssertionError("the link overflowed")


def test_a_reset_at_any_byte_loses_and_repeats_nothing() -> None:
    for seed in range(200):
        rng = random.Random(seed)
        link, received, written = OutLink("peer", 1, 1 << 20, _never), bytearray(), bytearray()
        connection = bytearray()
        for _ in range(60):
            match rng.randrange(4):
                case 0:
                    link.suspend()
                    received += connection[: rng.randrange(len(connection) + 1)]
                    connection.clear()
                case 1 if not link.is_connected:
                    assert link.resume(len(received), connection.extend)
                case 2 if link.is_connected:
                    received += connection
                    connection.clear()
                    assert link.acknowledge(rng.randrange(link.base, len(received) + 1))
                case _:
                    frame = rng.randbytes(rng.randrange(1, 9))
                    written += frame
                    link.write(frame)
        if not link.is_connected:
            assert link.resume(len(received), connection.extend)
        assert received + connection == written, f"seed {seed}"


def test_bytes_that_no_connection_was_given_are_returned_when_the_peer_dies() -> None:
    link, sent = OutLink("peer", 1, 1 << 20, _never), bytearray()
    assert link.resume(0, sent.extend)
    link.write(b"one")
    link.suspend()
    link.write(b"two")
    link.write(b"three")
    assert link.end_for_good() == [b"two", b"three"]
    link.write(b"four")
    assert bytes(sent) == b"one"


def test_a_link_with_a_full_buffer_restarts() -> None:
    overflowed: list[OutLink] = []
    link = OutLink("peer", 1, 10, overflowed.append)
    link.write(b"123456")
    link.write(b"789012")
    assert overflowed == [link]
    assert (link.generation, link.voided, link.kept_bytes) == (2, 1, 0)


def test_an_offset_beyond_the_sent_bytes_is_rejected() -> None:
    link = OutLink("peer", 1, 1 << 20, _never)
    link.write(b"one")
    assert not link.resume(1, lambda data: None)
    assert not link.acknowledge(4)


def test_a_receiver_reports_an_error_by_an_impossible_offset() -> None:
    link = OutLink("peer", 1, 1 << 20, _never)
    link.write(b"one")
    assert not link.resume(VOID_OFFSET, lambda data: None)


def test_a_frame_is_sent_only_to_a_hub_that_announced_its_capability() -> None:
    link, sent = OutLink("peer", 1, 1 << 20, _never), bytearray()
    assert link.resume(0, sent.extend)
    assert not link.send(ProbeFrame(1))
    assert not sent
    link.capabilities = frozenset({ProbeFrame.capability, "something of a later release"})
    assert link.send(ProbeFrame(1))
    assert bytes(sent) == encode(ProbeFrame(1))


PATH: Path = (("hub-1", 17), ("hüb 2", 2**62))
TAGS = (Tag(b"", 1, 2), Tag(b"h-1", 2**62, 0))
# By the type of a field, values of it.
VALUES: dict[object, tuple[object, ...]] = {
    bytes: (b"topic", b"", b"\r\n \xff"),
    int: (0, 7, 2**63 - 1),
    bool: (True, False),
    str: ("hub-1", "hüb"),
    Path: ((), PATH),
    tuple[Tag, ...]: ((), TAGS),
    Offsets: ((0,), (0, 3, 2**62)),
    Payloads: ([b"one", b""], [b"one"]),
}


def _samples(frame_type: type[Frame]) -> list[Frame]:
    types = [field.type for field in msgspec.structs.fields(frame_type)]
    return [frame_type(*(VALUES[one][i % len(VALUES[one])] for one in types)) for i in range(3)]


def _words(frame: Frame) -> list[bytes]:
    (command,) = list(RequestReader(Limits().of_links()).feed(encode(frame)))
    assert isinstance(command, list)
    return command


@pytest.mark.parametrize("frame_type", FRAMES)
def test_every_frame_is_read_as_it_was_written(frame_type: type[Frame]) -> None:
    for frame in _samples(frame_type):
        assert decode(_words(frame)) == frame


@pytest.mark.parametrize("frame_type", FRAMES)
def test_an_error_names_the_verb_whose_words_are_too_few_or_too_many(frame_type: type[Frame]) -> None:
    words = _words(_samples(frame_type)[1])
    has_payloads = msgspec.structs.fields(frame_type)[-1].type == Payloads
    for wrong in (words[:-1], words[:1], *([] if has_payloads else [[*words, b"1"]])):
        with pytest.raises(ProtocolError, match=f"{frame_type.verb.decode()} has .* not {len(wrong)}"):
            decode(wrong)


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ([b"PUBLISH", b"a", b"b"], "not a link frame: b'PUBLISH'"),
        ([b"EQ.L.NEWER", b"a"], "not a link frame: b'EQ.L.NEWER'"),
        ([DoneFrame.verb, b"-1", b"1", b"1"], "EQ.L.DONE version: not a number: b'-1'"),
        ([DoneFrame.verb, b"1", b"1", "\u0661".encode()], "EQ.L.DONE epoch: not a number"),
        ([NumberedFrame.verb, b"t", b"", b"1", b"9" * 20, b"1"], "EQ.L.NUMBERED epoch: not a number"),
        ([NumberedFrame.verb, b"t", b"hub", b"1", b"1", b"1"], "EQ.L.NUMBERED path: not a number"),
        ([EgressFrame.verb, b"t", b"1", b"", b"payload"], "EQ.L.EGRESS first: not a number: b''"),
        ([IngressFrame.verb, b"t", b"x", b"", b"", b"payload"], "EQ.L.INGRESS version: not a number"),
        ([IngressFrame.verb, b"t", b"1", b"", b"x:1", b"payload"], "EQ.L.INGRESS tags: not a list of tags"),
        (
            [IngressFrame.verb, b"t", b"1", b"", b"x:1:2 ", b"payload"],
            "EQ.L.INGRESS tags: not a list of tags",
        ),
        ([AtFrame.verb, b"t", b"1", b"1", b"2"], "EQ.L.AT is_home: neither 0 nor 1: b'2'"),
        ([b"EQ.L.DEAD", b"\xff", b"1"], "EQ.L.DEAD hub: "),
    ],
)
def test_an_invalid_frame_is_rejected_with_an_error_that_names_it(
    command: list[bytes], complaint: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode(command)
    assert str(caught.value).startswith(complaint)


def test_a_long_run_becomes_frames_that_their_receiver_may_buffer() -> None:
    payloads = [b"x" * (i % 700) for i in range(2 * PAYLOADS_MAX + 5)]
    data = egress_encoder(b"topic", 5, 100_000)(11, payloads)
    reader = RequestReader(Limits().of_links())
    commands = list(reader.feed(data))
    while reader.has_more:
        commands += reader.feed(b"")
    expected = 11
    got: list[bytes] = []
    for command in commands:
        assert isinstance(command, list)
        frame = decode(command)
        assert isinstance(frame, EgressFrame)
        assert (frame.key, frame.epoch, frame.first) == (b"topic", 5, expected)
        part = frame.payloads
        assert len(part) <= PAYLOADS_MAX and sum(map(len, part)) <= 100_000
        expected += len(part)
        got += part
    assert got == payloads
    assert [start for start, _ in runs([b"a"], 0)] == [0]


def test_a_held_link_sends_no_more_until_the_peer_acknowledges() -> None:
    link, sent = OutLink("peer", 1, 1 << 20, _never), bytearray()
    link.resume(0, sent.extend)
    link.write(b"before")
    link.hold()
    link.write(b"held")
    assert sent == b"before"
    assert link.acknowledge(6)
    assert sent == b"beforeheld"


def test_frames_held_when_a_peer_dies_have_never_been_sent() -> None:
    link, sent = OutLink("peer", 1, 1 << 20, _never), bytearray()
    link.resume(0, sent.extend)
    link.write(b"before")
    link.hold()
    link.write(b"held")
    assert link.end_for_good() == [b"held"]


def test_a_link_is_full_at_half_of_its_buffer_limit() -> None:
    link, sent, seen = OutLink("peer", 1, 10, _never), bytearray(), list[bool]()
    link.resume(0, sent.extend)
    for data in (b"12345", b"6"):
        link.write(data)
        seen.append(link.is_full)
    link.acknowledge(3)
    assert [*seen, link.is_full] == [False, True, False]
