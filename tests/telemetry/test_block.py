"""Blocks: as narrow as their numbers allow, and every part of them says the same as the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.telemetry import Block, NameColumn, Numbers, Part, RecordKind, Values, narrow
from equipoise.telemetry.ring import BLOCK_BYTES, size_bytes_of
from telemetry.records import SECOND_US, hub_block, topic_block

NAMES = st.lists(st.one_of(st.none(), st.binary(max_size=6)), max_size=20)


@pytest.mark.parametrize(
    ("greatest", "width"), [(0, 1), (255, 1), (256, 2), (65_536, 4), (1 << 32, 8), (2**64 - 1, 8)]
)
def test_numbers_take_the_bytes_that_the_greatest_needs(greatest: int, width: int) -> None:
    numbers = narrow([1, greatest, 0])
    assert list(numbers) == [1, greatest, 0]
    assert numbers.itemsize == width


@given(names=NAMES)
def test_names_come_back_as_they_were_given(names: list[bytes | None]) -> None:
    packed = NameColumn.of_optional(names)
    assert packed.split() == [name or b"" for name in names]
    assert [bool(packed.present >> i & 1) for i in range(len(names))] == [name is not None for name in names]


def test_a_record_of_a_topic_takes_few_bytes() -> None:
    block = topic_block([b"game.tile.%05d" % i for i in range(500)], [3] * 500)
    assert (BLOCK_BYTES + sum(map(size_bytes_of, block.held))) / 500 < 25


def test_a_column_that_the_kind_does_not_have_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="cpu_ratio"):
        Block.of(RecordKind.TOPIC, 1, {"cpu_ratio": 0.5}, time_us=0, window_us=0)


def test_a_hub_block_has_no_topics() -> None:
    assert hub_block().topics() is None
    assert topic_block([b"a", b"b"], [1, 2]).topics() == [b"a", b"b"]


def test_one_topic_may_stand_for_all_records() -> None:
    block = Block.of(
        RecordKind.ARRIVAL,
        2,
        {"topic": b"t", "size_bytes": narrow([1, 2])},
        time_us=narrow([5, 9]),
        window_us=0,
    )
    assert block.topics() == [b"t", b"t"]
    assert block.latest_us == 9


Row = tuple[int, int, bytes | None, int, int | None]


def rows(part: Part) -> list[Row]:
    """Sequence, time, topic, publications and located publishers of each record."""
    names, numbers, some = (part.values[name] for name in ("topic", "publications", "publishers_located"))
    assert isinstance(names, NameColumn) and isinstance(some, Numbers)
    assert not isinstance(numbers, int | float | str | bytes | NameColumn | Numbers | None)
    topics = [name if names.present >> i & 1 else None for i, name in enumerate(names.split())]
    located = [number if some.present >> i & 1 else None for i, number in enumerate(some.values)]
    times = [part.time_us] * len(topics) if isinstance(part.time_us, int) else part.time_us
    return list(zip(part.sequences, times, topics, numbers, located, strict=True))


@settings(deadline=None)
@given(names=NAMES.filter(bool), data=st.data())
def test_parts_and_heads_and_choices_are_rows_of_the_whole(
    names: list[bytes | None], data: st.DataObject
) -> None:
    count = len(names)
    some = data.draw(st.lists(st.one_of(st.none(), st.integers(0, 300)), min_size=count, max_size=count))
    values: dict[str, Values] = {
        "topic": NameColumn.of_optional(names),
        "publications": narrow(range(count)),
        "publishers_located": Numbers.of_optional(some),
    }
    block = replace(Block.of(RecordKind.TOPIC, count, values, time_us=7, window_us=SECOND_US), first=40)
    whole = rows(block.part(0, count))
    assert [(name, located) for _, _, name, _, located in whole] == list(zip(names, some, strict=True))
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    assert rows(block.part(start, stop)) == whole[start:stop]
    size = data.draw(st.integers(0, stop - start))
    assert rows(block.part(start, stop).head(size)) == whole[start : start + size]
    chosen = sorted(data.draw(st.sets(st.integers(0, count - 1))))
    assert rows(block.chosen(chosen)) == [whole[row] for row in chosen]
