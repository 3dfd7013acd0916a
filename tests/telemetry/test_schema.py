"""One table, and what is made from it says the same."""

from __future__ import annotations

import pytest

from equipoise.telemetry import (
    COLUMNS,
    EVERY_KIND,
    ColumnType,
    RecordKind,
    arrow_schema,
    columns_of,
    spark_schema,
)


def test_every_record_says_where_when_and_in_which_order_it_was_made() -> None:
    common = [column.name for column in COLUMNS if column.kinds == EVERY_KIND]
    assert common == ["kind", "hub", "incarnation", "sequence", "time", "window_us"]


def test_no_column_is_there_twice_or_without_a_meaning() -> None:
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
    assert all(column.meaning and column.kinds for column in COLUMNS)


def test_a_number_has_a_unit_unless_it_only_names_something() -> None:
    names = {"incarnation", "plan_version", "publisher"}
    without = {column.name for column in COLUMNS if column.type is ColumnType.LONG and not column.unit}
    assert without == names


@pytest.mark.parametrize("kind", RecordKind)
def test_a_kind_has_what_the_others_have_not(kind: RecordKind) -> None:
    own = {column.name for column in columns_of(kind)}
    others = {column.name for other in RecordKind if other is not kind for column in columns_of(other)}
    assert own - others


def test_arrow_and_spark_get_the_same_columns_in_the_same_order() -> None:
    names = [column.name for column in COLUMNS]
    assert arrow_schema().names == names
    assert [part.split("`")[1] for part in spark_schema().split(", ")] == names


def test_topic_names_may_be_any_bytes_and_time_is_in_utc() -> None:
    schema = arrow_schema()
    assert str(schema.field("topic").type) == "binary"
    assert str(schema.field("time").type) == "timestamp[us, tz=UTC]"
    assert "`topic` binary" in spark_schema() and "`time` timestamp" in spark_schema()
