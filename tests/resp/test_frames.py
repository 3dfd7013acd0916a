"""Deliveries: a run encoded at once is its messages encoded one by one, and any client can read it."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.resp.replies import Encoder, interleaved, plain_encoder, positioned_encoder
from resp.streams import words

FEW = settings(derandomize=True, max_examples=80, deadline=None)
# All of one length, as most topics have them, and of many.
payloads = st.one_of(
    st.lists(st.binary(min_size=7, max_size=7), min_size=1, max_size=12),
    st.lists(words, min_size=1, max_size=12),
)
positions = st.integers(1, 2**62)


def decode(data: bytes) -> list[list[object]]:
    reader = hiredis.Reader()
    reader.feed(data)
    return [list(frame) for frame in iter(reader.gets, False)]


@FEW
@given(st.sampled_from([2, 3]), words, words, st.lists(payloads, min_size=1, max_size=4))
def test_a_plain_run_is_its_messages_one_by_one(
    proto: int, pattern: bytes, topic: bytes, runs: list[list[bytes]]
) -> None:
    encode = plain_encoder(proto, b"pmessage", pattern, topic)
    alone = plain_encoder(proto, b"pmessage", pattern, topic)
    for run in runs:
        assert encode(1, run) == b"".join(alone(1, (payload,)) for payload in run)


@FEW
@given(words, payloads)
def test_redis_clients_read_plain_messages(topic: bytes, run: list[bytes]) -> None:
    expected = [[b"message", topic, payload] for payload in run]
    assert decode(plain_encoder(2, b"message", topic)(1, run)) == expected
    pushed = plain_encoder(3, b"message", topic)(1, run)
    assert decode(pushed) == expected
    assert pushed.startswith(b">3\r\n")


@FEW
@given(positions, positions, words, words, payloads)
def test_a_positioned_run_gives_each_message_its_position(
    epoch: int, first: int, pattern: bytes, topic: bytes, run: list[bytes]
) -> None:
    (frame,) = decode(positioned_encoder(epoch, b"eq.pmessage", pattern, topic)(first, run))
    assert frame == [b"eq.pmessage", pattern, topic, epoch, first, *run]


@FEW
@given(positions, words, payloads, payloads)
def test_positioned_runs_continue_where_the_last_one_ended(
    first: int, topic: bytes, one: list[bytes], other: list[bytes]
) -> None:
    encode = positioned_encoder(7, b"eq.message", topic)
    frames = decode(encode(first, one) + encode(first + len(one), other))
    numbered = [
        (n, payload) for _, _, _, start, *run in frames for n, payload in enumerate(run, int(str(start)))
    ]
    assert numbered == list(enumerate([*one, *other], first))


@FEW
@given(positions, payloads, st.integers(1, 300))
def test_several_forms_come_message_by_message_in_pieces(
    first: int, run: list[bytes], piece_bytes: int
) -> None:
    forms: list[Encoder] = [
        plain_encoder(3, b"message", b"t"),
        plain_encoder(3, b"pmessage", b"*", b"t"),
        positioned_encoder(9, b"eq.message", b"t"),
    ]
    expected = [
        frame
        for n, payload in enumerate(run, first)
        for frame in (
            [b"message", b"t", payload],
            [b"pmessage", b"*", b"t", payload],
            [b"eq.message", b"t", 9, n, payload],
        )
    ]
    pieces = list(interleaved(forms, first, run, piece_bytes))
    assert [len(decode(piece)) for _, piece in pieces] == [frames for frames, _ in pieces]
    assert decode(b"".join(piece for _, piece in pieces)) == expected
    longest = max(len(form(first, (payload,))) for form in forms for payload in run) + 20
    assert all(len(piece) < piece_bytes + longest for _, piece in pieces)


@pytest.mark.parametrize("size", [0, 1, 9, 10, 99, 100, 1_000, 100_000])
def test_lengths_are_right_at_every_number_of_digits(size: int) -> None:
    run = [b"x" * size] * 3
    assert decode(plain_encoder(2, b"message", b"t")(1, run)) == [[b"message", b"t", run[0]]] * 3


def test_sizes_remembered_from_earlier_runs_never_leak_into_later_ones() -> None:
    encode = plain_encoder(2, b"message", b"t")
    for size in [*range(20), *range(20)]:
        run = [bytes([65 + size]) * size] * 2
        assert decode(encode(1, run)) == [[b"message", b"t", run[0]]] * 2
