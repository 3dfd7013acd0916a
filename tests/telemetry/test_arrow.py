"""What is written by hand, pyarrow reads: the schema, every kind of column, any mixture of blocks."""

from __future__ import annotations

import datetime
import math
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.telemetry import (
    COLUMNS,
    Block,
    NameColumn,
    Numbers,
    Part,
    RecordKind,
    TelemetryRing,
    Values,
    arrow_schema,
    columns_of,
    narrow,
)
from equipoise.telemetry.arrow import END, batch, schema_message
from equipoise.telemetry.column import Column, ColumnType
from telemetry.records import SECOND_US, hub_block, read_stream, topic_block

HUB, INCARNATION = "hub-1", 1_700_000_000_000_000


ALL = frozenset(column.name for column in COLUMNS)


def stream(*batches: list[Part], names: frozenset[str] = ALL) -> bytes:
    return b"".join(
        (schema_message(names), *(batch(HUB, INCARNATION, parts, names) for parts in batches), END)
    )


def whole(block: Block) -> Part:
    return block.part(0, block.count)


def test_the_schema_is_the_one_that_readers_expect() -> None:
    read = pa.ipc.open_stream(stream()).schema
    assert read.equals(arrow_schema(), check_metadata=True)


def test_a_stream_without_records_is_a_stream() -> None:
    assert read_stream(stream()) == []


def test_a_record_says_where_and_when_it_was_made() -> None:
    (record,) = read_stream(stream([whole(hub_block(0.25, time_us=1_600_000_000_123_456))]))
    assert record["kind"] == "hub" and record["hub"] == HUB and record["incarnation"] == INCARNATION
    assert record["time"].replace(tzinfo=None) == datetime.datetime(2020, 9, 13, 12, 26, 40, 123_456)
    assert (record["sequence"], record["window_us"], record["cpu_ratio"]) == (0, SECOND_US, 0.25)


def test_what_a_kind_does_not_fill_is_null() -> None:
    (record,) = read_stream(stream([whole(topic_block([b"\xff\0$"], [5]))]))
    filled = {name for name, value in record.items() if value is not None}
    assert record["topic"] == b"\xff\0$"
    assert filled == {
        "kind",
        "hub",
        "incarnation",
        "sequence",
        "time",
        "window_us",
        "topic",
        "role",
        "publications",
        "cuts",
    }


def test_a_stream_has_the_columns_that_are_asked_for_and_those_of_every_record() -> None:
    block = whole(topic_block([b"t"], [5]))
    every = ["kind", "hub", "incarnation", "sequence", "time", "window_us"]
    read = pa.ipc.open_stream(stream([block], names=frozenset({"topic", "cuts", "cpu_ratio"}))).read_all()
    assert read.column_names == [*every, "topic", "cuts", "cpu_ratio"]
    assert pa.ipc.open_stream(stream(names=frozenset())).schema.names == every


def test_kinds_may_be_mixed_in_one_batch() -> None:
    records = read_stream(stream([whole(topic_block([b"a", b"bc"], [1, 300])), whole(hub_block())]))
    assert [(r["kind"], r["topic"], r["publications"], r["connections"]) for r in records] == [
        ("topic", b"a", 1, None),
        ("topic", b"bc", 300, None),
        ("hub", None, None, 3),
    ]


@pytest.mark.parametrize("value", [0.0, 1e300, math.inf, 5e-324])
def test_doubles_keep_every_bit(value: float) -> None:
    (record,) = read_stream(stream([whole(hub_block(value))]))
    assert record["cpu_ratio"] == value


def test_a_whole_ring_is_read_back_in_order() -> None:
    ring = TelemetryRing(INCARNATION, retention_s=1e6, bytes_max=1 << 30)
    for second in range(40):
        ring.append(
            topic_block([b"t%d" % i for i in range(second)], list(range(second)), time_us=second * SECOND_US)
        )
        ring.append(hub_block(time_us=second * SECOND_US))
    blocks = [block for block, _ in ring.read(0)]
    records = read_stream(stream(*([whole(block)] for block in blocks)))
    assert [record["sequence"] for record in records] == list(range(ring.end))
    assert [r["publications"] for r in records if r["kind"] == "topic"] == [
        n for s in range(40) for n in range(s)
    ]


LONGS = st.integers(0, 2**63 - 1)


def constants(column: Column) -> st.SearchStrategy[Any]:
    match column.type:
        case ColumnType.LONG:
            return st.one_of(st.none(), LONGS)
        case ColumnType.DOUBLE:
            return st.one_of(st.none(), st.floats(allow_nan=False))
        case ColumnType.STRING:
            return st.one_of(st.none(), st.text(max_size=4))
        case ColumnType.BINARY:
            return st.one_of(st.none(), st.binary(max_size=4))
        case _:
            raise AssertionError(column)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Block, dict[str, list[Any]]]:
    """A block, and what each of its columns says, record by record."""
    kind = draw(st.sampled_from(RecordKind))
    count = draw(st.integers(1, 20))
    values: dict[str, Values] = {}
    said: dict[str, list[Any]] = {}
    for column in columns_of(kind):
        if column.name in ("kind", "hub", "incarnation", "sequence", "time", "window_us"):
            continue
        is_text = column.type in (ColumnType.STRING, ColumnType.BINARY)
        if column.type is ColumnType.DOUBLE or draw(st.booleans()):
            constant = draw(constants(column))
            values[column.name], said[column.name] = constant, [constant] * count
        elif is_text:
            texts = draw(st.lists(constants(column), min_size=count, max_size=count))
            encoded = [text.encode() if isinstance(text, str) else text for text in texts]
            values[column.name], said[column.name] = NameColumn.of_optional(encoded), texts
        else:
            numbers = draw(st.lists(LONGS, min_size=count, max_size=count))
            values[column.name], said[column.name] = narrow(numbers), numbers
            if draw(st.booleans()):
                some = [number if draw(st.booleans()) else None for number in numbers]
                values[column.name], said[column.name] = Numbers.of_optional(some), some
    return Block.of(kind, count, values, time_us=draw(st.integers(0, 4 * 10**15)), window_us=1), said


@settings(max_examples=150, deadline=None)
@given(made=st.lists(blocks(), min_size=1, max_size=4))
def test_any_batch_of_any_blocks_reads_back_as_what_was_said(
    made: list[tuple[Block, dict[str, list[Any]]]],
) -> None:
    records = read_stream(stream([whole(block) for block, _ in made]))
    for column in COLUMNS:
        if column.name in ("kind", "hub", "incarnation", "sequence", "time", "window_us"):
            continue
        expected = [value for block, said in made for value in said.get(column.name, [None] * block.count)]
        assert [record[column.name] for record in records] == expected, column.name
    assert [record["kind"] for record in records] == [
        block.kind for block, _ in made for _ in range(block.count)
    ]


def test_null_columns_take_no_room() -> None:
    """They all refer to the same zeros: 1,000 records with eight columns take 100 bytes each, not 300."""
    names = [b"game.tile.%05d" % i for i in range(1_000)]
    assert len(batch(HUB, INCARNATION, [whole(topic_block(names, [1] * 1_000))], ALL)) < 110 * 1_000


def test_a_number_that_several_columns_repeat_takes_room_once() -> None:
    def size(**values: Values) -> int:
        block = Block.of(RecordKind.TOPIC, 1_000, {"topic": b"t", **values}, time_us=0, window_us=0)
        stored = batch(HUB, INCARNATION, [whole(block)], ALL)
        records = read_stream(b"".join((schema_message(ALL), stored, END)))
        assert all(record[name] == value for record in records for name, value in values.items())
        return len(stored)

    one = size(publishers=3)
    assert size(publishers=3, subscribers=3, relays=3) == one
    assert size(publishers=3, subscribers=4) == one + 8_000


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1_000])
def test_texts_and_sequences_are_right_for_any_number_of_records(count: int) -> None:
    block = Block.of(RecordKind.TOPIC, count, {"topic": b"ab", "role": "lane"}, time_us=1, window_us=1)
    records = read_stream(stream([whole(block)]))
    assert [record["sequence"] for record in records] == list(range(count))
    assert {(record["topic"], record["role"], record["hub"]) for record in records} == {(b"ab", "lane", HUB)}
