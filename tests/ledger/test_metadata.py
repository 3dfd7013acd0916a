"""Ledger metadata and quorums: BookKeeper's format, invariants, and refusal of everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import DamagedError, MisuseError
from equipoise.ledger.metadata import (
    LedgerMetadata,
    LedgerState,
    Segment,
    decode_metadata,
    encode_metadata,
    ledger_path,
)
from equipoise.ledger.quorum import Quorum, parse_quorum

ABC = ("a:3181", "b:3181", "c:3181")
OPEN = LedgerMetadata(
    7, Quorum(3, 3, 2), (Segment(0, ABC),), b"secret", created_ms=1, token=5, custom=(("topic", b"news"),)
)


def test_metadata_is_read_back() -> None:
    moved = OPEN.with_members(4, ("a:3181", "d:3181", "c:3181"))
    for metadata in (OPEN, moved, moved.closed_at(9, 1234)):
        assert decode_metadata(encode_metadata(metadata), 7) == metadata


def test_an_open_ledger_is_written_without_an_end() -> None:
    text = encode_metadata(OPEN)
    assert text.startswith(b"BookieMetadataFormatVersion\t3\n")
    # Field 4, the last entry, is the ten-byte varint of -1.
    assert b"\x20" + b"\xff" * 9 + b"\x01" in text


def test_a_segment_that_begins_where_the_next_does_is_replaced() -> None:
    once = OPEN.with_members(4, ("x", "b:3181", "c:3181"))
    twice = once.with_members(4, ("y", "b:3181", "c:3181"))
    assert [segment.first for segment in twice.segments] == [0, 4]
    assert twice.members_at(3) == ABC
    assert twice.members_at(4)[0] == "y"


@pytest.mark.parametrize(
    ("ledger", "path"),
    [
        (7, "00/0000/L0007"),
        ((1 << 31) - 2, "21/4748/L3646"),
        ((1 << 31) - 1, "000/0000/0021/4748/L3647"),
        (1 << 48, "000/0281/4749/7671/L0656"),
    ],
)
def test_ledgers_are_where_bookkeeper_looks_for_them(ledger: int, path: str) -> None:
    assert ledger_path(ledger) == path


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin"),
        (b"BookieMetadataFormatVersion\t2\nx", "does not begin"),
        (encode_metadata(OPEN)[:-1], "announced"),
        (encode_metadata(OPEN) + b"x", "announced"),
        (b"BookieMetadataFormatVersion\t3\n\x00", "missing"),
        (encode_metadata(LedgerMetadata(7, Quorum(3, 3, 2), (), b"")), "no segment"),
        (encode_metadata(LedgerMetadata(7, Quorum(3, 3, 2), (Segment(0, ABC[:2]),), b"")), "3 members"),
        (
            encode_metadata(LedgerMetadata(7, Quorum(3, 3, 2), (Segment(0, ABC), Segment(0, ABC)), b"")),
            "do not rise",
        ),
    ],
)
def test_what_is_no_metadata_is_refused_with_its_path(data: bytes, reason: str) -> None:
    with pytest.raises(DamagedError, match=reason) as caught:
        decode_metadata(data, 7)
    assert caught.value.path == "00/0000/L0007"


@given(st.binary(max_size=120))
def test_any_bytes_are_metadata_or_damage(tail: bytes) -> None:
    prefix = b"BookieMetadataFormatVersion\t3\n" + bytes([len(tail)])
    try:
        decode_metadata(prefix + tail, 7)
    except (DamagedError, MisuseError):
        pass


def test_a_quorum_is_written_as_three_numbers() -> None:
    assert parse_quorum("3/3/2") == Quorum(3, 3, 2)
    assert str(Quorum(5, 3, 2)) == "5/3/2"
    for text in ("3", "3/3", "a/b/c", "2/3/2", "3/2/3", "3/3/0", "99/3/2", "-1/1/1"):
        with pytest.raises(MisuseError):
            parse_quorum(text)


def quorums() -> st.SearchStrategy[Quorum]:
    return (
        st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))
        .map(lambda three: tuple(sorted(three, reverse=True)))
        .map(lambda three: Quorum(*three))
    )


@given(quorums(), st.data())
def test_fenced_means_that_no_entry_can_reach_its_ack_quorum(quorum: Quorum, data: st.DataObject) -> None:
    fenced = data.draw(st.sets(st.integers(0, quorum.ensemble - 1)))
    can_ack = any(
        len(set(quorum.write_set(entry)) - fenced) >= quorum.ack for entry in range(2 * quorum.ensemble)
    )
    assert quorum.is_fenced_by(fenced) is not can_ack


def test_state_numbers_are_bookkeepers() -> None:
    assert [state.value for state in LedgerState] == [1, 2, 3]
