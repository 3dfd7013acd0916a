"""Runs: the compiled part reads and spells what the way in Python does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equipoise.hub.cluster.link.codec import decode, egress_encoder, encode, read_frames
from equipoise.hub.cluster.link.frames import (
    EgressFrame,
    Frame,
    FromFrame,
    IngressFrame,
    NumberedFrame,
    RunFrame,
)
from equipoise.resp import RequestLimits, RequestReader, requests, runs
from equipoise.resp.replies import _spell_values, payload_bytes, plain_encoder, positioned_encoder, spell
from equipoise.resp.runs import Run
from resp.streams import TIGHT, WIDE, cut, read, request, streams

pytestmark = pytest.mark.skipif(
    runs.read_requests is None, reason="_runs.c is not built: `make setup` does where there is a C compiler"
)

payloads = st.lists(st.binary(max_size=120), max_size=12)
FEW = settings(max_examples=60)


@FEW
@given(payloads, st.integers(-14, 14), st.integers(-14, 14), st.sampled_from([None, 1, 2, -1]))
def test_a_run_is_a_sequence_of_its_payloads(
    words: list[bytes], start: int, stop: int, step: int | None
) -> None:
    run = Run(words)
    assert list(run) == words
    assert len(run) == len(words)
    assert (run == words, run == tuple(words), run == Run(words), run != words) == (True, True, True, False)
    assert run != [*words, b"one more"]
    part = run[start:stop:step]
    assert list(part) == words[start:stop:step]
    assert runs.spell_compiled is not None
    assert runs.spell_compiled(part) == spell(words[start:stop:step])
    assert payload_bytes(part) == payload_bytes(words[start:stop:step])
    assert [run[i] for i in range(-len(words), len(words))] == words + words
    for outside in (len(words), -len(words) - 1):
        with pytest.raises(IndexError):
            run[outside]


@FEW
@given(payloads.filter(bool), st.integers(1, 2**40))
def test_a_run_is_encoded_as_its_payloads_are(words: list[bytes], first: int) -> None:
    for encoder in (
        plain_encoder(2, b"message", b"topic"),
        plain_encoder(3, b"pmessage", b"to*", b"topic"),
        positioned_encoder(7, b"eq.message", b"topic"),
        egress_encoder(b"topic", 7, 10_000),
        egress_encoder(b"topic", 7, 100),
    ):
        assert encoder(first, Run(words)) == encoder(first, words)


@FEW
@given(payloads.filter(bool))
def test_frames_with_a_run_are_those_with_its_payloads(words: list[bytes]) -> None:
    for one, other in (
        (RunFrame(b"topic", 3, 4, Run(words)), RunFrame(b"topic", 3, 4, words)),
        (
            IngressFrame(b"k", 3, (("hub", 1),), (), Run(words)),
            IngressFrame(b"k", 3, (("hub", 1),), (), words),
        ),
    ):
        assert encode(one) == encode(other)
        assert one == other


@given(streams, st.lists(st.integers(0, 2_000), max_size=6), st.sampled_from([TIGHT, WIDE]))
@FEW
@example(request(b"PUBLISH", b"t", b"x") * 3 + request(b"PING"), [40], WIDE)
def test_requests_are_read_as_without_the_compiled_part(
    stream: bytes, points: list[int], limits: RequestLimits
) -> None:
    compiled = read(cut(stream, points), limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(requests, "read_publishes", None)
        assert read(cut(stream, points), limits) == compiled


frames = st.one_of(
    st.builds(
        RunFrame, st.binary(max_size=9), st.integers(0, 9), st.integers(0, 2**62), payloads.filter(bool)
    ),
    st.builds(
        EgressFrame, st.just(b"topic"), st.integers(0, 9), st.integers(0, 2**62), payloads.filter(bool)
    ),
    st.builds(
        NumberedFrame, st.just(b"t"), st.just(()), st.integers(0, 99), st.just(3), st.integers(0, 2**62)
    ),
    st.builds(FromFrame, st.just(b"t"), st.text(max_size=5), st.integers(0, 9), st.integers(0, 2**62)),
)


@FEW
@given(st.lists(frames, max_size=8), st.integers(0, 60))
def test_frames_are_read_as_without_the_compiled_part(sent: list[Frame], missing: int) -> None:
    data = b"".join(map(encode, sent))
    data = data[: max(0, len(data) - missing)]
    found, size = read_frames(data, WIDE)
    commands = list(RequestReader(WIDE).feed(data)) if data else []
    frames = [decode(one) if isinstance(one, list) else one for one in found]
    assert frames == [decode(command) for command in commands]
    assert b"".join(map(encode, frames)) == data[:size]


numbers = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 9, 10, 99, 100, 2**62]))


@FEW
@given(
    st.lists(
        st.one_of(st.binary(max_size=120), numbers, payloads, payloads.map(Run), payloads.map(tuple)),
        max_size=6,
    )
)
def test_values_are_spelled_as_without_the_compiled_part(values: list[Any]) -> None:
    assert runs.spell_compiled is not None
    assert runs.spell_compiled(*values) == _spell_values(*values)


@pytest.mark.parametrize("value", [-1, 2**64, "text", None, 1.0, ["text"], (b"x", None), bytearray(b"x")])
def test_what_is_no_value_is_not_spelled(value: Any) -> None:
    assert runs.spell_compiled is not None
    with pytest.raises((TypeError, OverflowError)):
        runs.spell_compiled(b"verb", value)


# Where a field is not of its usual kind, the words are left to `decode`, which reads them or says what is wrong.
@pytest.mark.parametrize(
    "words",
    [
        (RunFrame.verb, b"t", b"-1", b"1", b"payload"),
        (RunFrame.verb, b"t", b"1", b"9" * 20, b"payload"),
        (RunFrame.verb, b"t", b"1", b"", b"payload"),
        (RunFrame.verb, b"t", b"1", b"1"),
        (FromFrame.verb, b"t", b"\xff", b"1", b"1"),
        (FromFrame.verb, b"t", b"hub", b"1", b"1", b"more"),
        (NumberedFrame.verb, b"t", b"1 hub", b"1", b"1", b"1"),
        (IngressFrame.verb, b"t", b"1", b"", b"lane:1:2", b"payload"),
    ],
)
def test_a_frame_with_an_unusual_field_is_left_to_the_way_in_python(words: tuple[bytes, ...]) -> None:
    assert read_frames(spell(words), WIDE) == ([list(words)], len(spell(words)))


@pytest.mark.parametrize(
    "data",
    [
        b"*0\r\n",
        b"*-1\r\n",
        b"PING\r\n",
        b"*01\r\n$4\r\nPING\r\n",
        b"*1\r\n$04\r\nPING\r\n",
        b"*1\r\n$4\r\nPING..",
        b"*1\r\n$4\r\nPIN",
        b"*1\r\n:4\r\n",
        b"*99999\r\n",
        spell([b"x"] * 5_000),
        spell([b"x" * (TIGHT.payload_bytes_max + 1)]),
    ],
)
def test_what_is_odd_or_unfinished_or_too_much_is_left(data: bytes) -> None:
    ordinary = spell((b"EQ.L.LEASE", b"1"))
    assert runs.read_requests is not None
    found, size = runs.read_requests(ordinary + data, {}, TIGHT.args_max, TIGHT.payload_bytes_max)
    assert (found, size) == ([[b"EQ.L.LEASE", b"1"]], len(ordinary))
