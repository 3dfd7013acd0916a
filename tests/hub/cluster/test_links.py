"""Links and frames: whatever breaks, the receiver gets every byte once and in order."""

from __future__ import annotations

import random

import pytest

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.link.codec import PAYLOADS_MAX, Verb, decode, egress_encoder, encode, runs
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


def test_what_no_connection_was_given_is_returned_when_the_peer_dies() -> None:
    link, sent = OutLink("peer", 1, 1 << 20, _never), bytearray()
    assert link.resume(0, sent.extend)
    link.write(b"one")
    link.suspend()
    link.write(b"two")
    link.write(b"three")
    assert link.end_for_good() == [b"two", b"three"]
    link.write(b"four")
    assert bytes(sent) == b"one"


def test_a_link_that_keeps_too_much_begins_anew() -> None:
    overflowed: list[OutLink] = []
    link = OutLink("peer", 1, 10, overflowed.append)
    link.write(b"123456")
    link.write(b"789012")
    assert overflowed == [link]
    assert (link.generation, link.voided, link.kept_bytes) == (2, 1, 0)


def test_a_receiver_that_claims_more_than_was_sent_is_not_believed() -> None:
    link = OutLink("peer", 1, 1 << 20, _never)
    link.write(b"one")
    assert not link.resume(1, lambda data: None)
    assert not link.acknowledge(4)


@pytest.mark.parametrize("verb", list(Verb))
def test_every_frame_is_read_as_it_was_written(verb: Verb) -> None:
    fields = [b"topic" if kind == "name" else 7 for kind in verb.fields]
    payloads = [b"one", b""] if verb.has_payloads else []
    (command,) = list(RequestReader(Limits().of_links()).feed(encode(verb, *fields, payloads=payloads)))
    assert decode(command) == (verb, fields, payloads)


@pytest.mark.parametrize(
    "command",
    [
        [b"PUBLISH", b"a", b"b"],
        [Verb.DONE.word],
        [Verb.DONE.word, b"-1"],
        [Verb.DONE.word, b"1", b"more"],
        [Verb.INGRESS.word, b"topic", b"1", b"0"],
        [Verb.NUMBERED.word, b"topic", b"9" * 20],
    ],
)
def test_what_is_no_frame_is_refused(command: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        decode(command)


def test_a_long_run_becomes_frames_that_their_receiver_may_buffer() -> None:
    payloads = [b"x" * (i % 700) for i in range(2 * PAYLOADS_MAX + 5)]
    data = egress_encoder(b"topic", 5, 100_000)(11, payloads)
    reader = RequestReader(Limits().of_links())
    commands = list(reader.feed(data))
    while reader.has_more:
        commands += reader.feed(b"")
    expected, got = 11, []
    for command in commands:
        _, (topic, epoch, first), part = decode(command)
        assert (topic, epoch, first) == (b"topic", 5, expected)
        assert len(part) <= PAYLOADS_MAX and sum(map(len, part)) <= 100_000
        expected += len(part)
        got += part
    assert got == payloads
    assert [start for start, _ in runs([b"a"], 0)] == [0]
