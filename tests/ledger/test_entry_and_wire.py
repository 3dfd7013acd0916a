"""Entries and frames as bookies know them: the published example to the byte, damage found, any split read alike."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import DamagedError, ProtocolError
from equipoise.ledger.entry import (
    OVERHEAD_BYTES,
    PAYLOAD_BYTES_MAX,
    LedgerEntry,
    decode_entry,
    encode_entry,
    ledger_key,
)
from equipoise.ledger.wire import (
    FRAME_BYTES_MAX,
    AddAnswer,
    AddRequest,
    AuthAnswer,
    AuthRequest,
    BatchAnswer,
    BatchRequest,
    Code,
    Flag,
    FrameReader,
    ReadAnswer,
    ReadRequest,
    decode_answer,
    decode_request,
    encode_add,
    encode_add_answer,
    encode_auth,
    encode_auth_answer,
    encode_batch,
    encode_batch_answer,
    encode_read,
    encode_read_answer,
    plain_add,
)

HELLO = LedgerEntry(ledger=7, entry=0, confirmed=-1, length=5, payload=b"hello")
# Taken from a run against a bookie of release 4.17.
ADD_FRAME = bytes.fromhex(
    "00000045 02010000 5e1fcf1c03db1eaaacca24bab34aecf9de0889b8 0000000000000007 0000000000000000"
    "ffffffffffffffff 0000000000000005 00000000b9e72242 68656c6c6f"
)
ANSWER_FRAME = bytes.fromhex("00000018 02010000 00000000 0000000000000007 0000000000000000")


def test_an_add_and_its_answer_are_those_of_the_original() -> None:
    assert encode_add(ledger_key(b"equipoise"), encode_entry(HELLO)) == ADD_FRAME
    assert encode_add_answer(Code.OK, 7, 0) == ANSWER_FRAME
    assert ledger_key(b"").hex().startswith("850bf107")


def test_an_add_is_read_back() -> None:
    request = decode_request(ADD_FRAME[4:])
    assert request == AddRequest(7, 0, ledger_key(b"equipoise"), Flag(0), encode_entry(HELLO))
    assert decode_answer(ANSWER_FRAME[4:]) == AddAnswer(Code.OK, 7, 0)


def test_a_read_carries_its_key_exactly_if_it_fences() -> None:
    key = ledger_key(b"x")
    assert decode_request(encode_read(7, -1, key=key)[4:]) == ReadRequest(7, -1, key, Flag.FENCE)
    assert decode_request(encode_read(7, 3)[4:]) == ReadRequest(7, 3, None, Flag(0))
    answer = encode_read_answer(Code.OK, 7, 3, b"body")
    assert decode_answer(answer[4:]) == ReadAnswer(Code.OK, 7, 3, b"body")


def test_a_batch_read_and_its_answer_are_those_of_the_original() -> None:
    request = BatchRequest(7, 3, 5, 100, 1 << 20)
    frame = encode_batch(request)
    numbers = "0000000000000007 0000000000000003 0000000000000005"
    assert frame.hex(" ") == bytes.fromhex(f"00000028 02070000 {numbers} 00000064 0000000000100000").hex(" ")
    assert decode_request(frame[4:]) == request
    answer = encode_batch_answer(Code.OK, request, [b"one", b""])
    assert answer == bytes.fromhex(f"0000002b 02070000 00000000 {numbers} 00000003") + b"one" + bytes(4)
    assert decode_answer(answer[4:]) == BatchAnswer(Code.OK, 7, 3, 5, [b"one", b""])
    for cut in range(8, len(answer)):
        if cut not in (36, 43):
            with pytest.raises(ProtocolError):
                decode_answer(answer[4:cut])


def test_an_unknown_code_is_neither_yes_nor_no() -> None:
    frame = bytearray(ANSWER_FRAME[4:])
    frame[7] = 99
    answer = decode_answer(bytes(frame))
    assert isinstance(answer, AddAnswer) and answer.code is Code.UNKNOWN


def test_a_login_is_read_as_it_was_written() -> None:
    assert decode_request(encode_auth("hubs", "pässword")[4:]) == AuthRequest("hubs", "pässword")
    assert decode_answer(encode_auth_answer()[4:]) == AuthAnswer("")
    assert decode_answer(encode_auth_answer("no")[4:]) == AuthAnswer("no")
    with pytest.raises(ProtocolError, match="plugin"):
        decode_request(bytes.fromhex("02030000") + b"\x0a\x05other")


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"\x02", "no header"),
        (b"\x03\x01\x00\x00" + bytes(60), "version 3"),
        (b"\x02\x09\x00\x00" + bytes(60), "unknown operation 9"),
        (b"\x02\x01\x00\x00" + bytes(20), "no room"),
        (b"\x02\x02\x00\x00" + bytes(15), "not the size"),
        (b"\x02\x02\x00\x01" + bytes(16), "not the size"),
        (b"\x02\x07\x00\x00" + bytes(35), "not the size"),
    ],
)
def test_a_frame_that_is_none_is_named(frame: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_request(frame)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_an_error(frame: bytes) -> None:
    try:
        decode_request(frame)
    except ProtocolError:
        pass


@given(st.binary(max_size=60), st.integers(0, 6), st.integers(-3, 3))
def test_a_plain_add_is_read_as_any_add_and_nothing_else_is_one(payload: bytes, flags: int, cut: int) -> None:
    body = encode_entry(LedgerEntry(7, 3, 2, len(payload), payload))
    frame = encode_add(ledger_key(b"x"), body, Flag(flags))
    data = frame[:cut] if cut < 0 else frame + bytes(cut)
    found = plain_add(data)
    assert (found is not None) == (not flags and not cut)
    assert found is None or found == decode_request(frame[4:])
    assert plain_add(encode_read(7, 3, key=ledger_key(b"x"))) is None


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(0, 400), max_size=10))
def test_any_split_of_a_stream_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    frames = [
        encode_add(bytes(20), encode_entry(LedgerEntry(1, number, -1, 0, payload)))
        for number, payload in enumerate(payloads)
    ]
    stream = b"".join(frames)
    reader = FrameReader()
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    found = [frame for a, b in pairwise(bounds) for frame in reader.feed(stream[a:b])]
    assert found == [frame[4:] for frame in frames]
    assert reader.buffered_bytes == 0


def test_a_frame_that_announces_too_much_is_refused_before_it_is_held() -> None:
    reader = FrameReader()
    with pytest.raises(ProtocolError, match="the maximum is"):
        list(reader.feed((FRAME_BYTES_MAX - 3).to_bytes(4, "big")))


def test_the_largest_payload_makes_the_largest_frame() -> None:
    body = encode_entry(LedgerEntry(1, 0, -1, PAYLOAD_BYTES_MAX, bytes(PAYLOAD_BYTES_MAX)))
    assert len(encode_add(bytes(20), body)) == FRAME_BYTES_MAX
    assert PAYLOAD_BYTES_MAX == 5_242_812


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(-1, 2**40), st.binary(max_size=300))
def test_an_entry_is_read_back(ledger: int, entry: int, confirmed: int, payload: bytes) -> None:
    written = LedgerEntry(ledger, entry, confirmed, len(payload), payload)
    assert decode_entry(encode_entry(written), ledger=ledger, entry=entry) == written


@given(st.data())
def test_any_flipped_bit_and_any_cut_is_found(data: st.DataObject) -> None:
    body = bytearray(encode_entry(HELLO))
    at = data.draw(st.integers(0, len(body) * 8 - 1))
    body[at // 8] ^= 1 << at % 8
    with pytest.raises(DamagedError):
        decode_entry(bytes(body), ledger=7, entry=0)
    with pytest.raises(DamagedError):
        decode_entry(encode_entry(HELLO)[: data.draw(st.integers(0, OVERHEAD_BYTES + 4))], ledger=7, entry=0)


def test_another_entry_than_asked_for_is_damage() -> None:
    for ledger, entry in ((8, 0), (7, 1)):
        with pytest.raises(DamagedError, match="entry 0 of ledger 7"):
            decode_entry(encode_entry(HELLO), ledger=ledger, entry=entry)
