"""The view's one table: its sources exist, and everything else follows from it."""

from __future__ import annotations

from dataclasses import fields

import pytest

from equipoise.pipeline.samples import HUB_SAMPLES, TOPIC_SAMPLES
from equipoise.telemetry import COLUMNS, RecordKind
from equipoise.view.codec import HUB_SCHEMA, TOPIC_SCHEMA
from equipoise.view.schema import (
    ADDED,
    HUB_COLUMNS,
    TOPIC_COLUMNS,
    Aggregate,
    HubView,
    TopicView,
    ViewColumn,
)
from equipoise.view.view import HubColumns, TopicColumns

BY_KIND = [(RecordKind.TOPIC, column) for column in TOPIC_COLUMNS] + [
    (RecordKind.HUB, column) for column in HUB_COLUMNS
]


@pytest.mark.parametrize("kind, column", BY_KIND, ids=lambda part: getattr(part, "name", part))
def test_a_source_is_a_column_of_telemetry_that_such_a_record_fills(
    kind: RecordKind, column: ViewColumn
) -> None:
    names = {told.name for told in COLUMNS if kind in told.kinds}
    if column.source:
        assert set(ADDED.get(column.source, (column.source,))) <= names
    sourceless = (Aggregate.STORE, Aggregate.LOCATION, Aggregate.MEASURED, Aggregate.REST)
    assert bool(column.source) == (column.aggregate not in sourceless)


def test_rows_columns_tables_and_samples_have_the_columns_of_the_table() -> None:
    for declared, row, columns, schema, samples in (
        (TOPIC_COLUMNS, TopicView, TopicColumns, TOPIC_SCHEMA, TOPIC_SAMPLES),
        (HUB_COLUMNS, HubView, HubColumns, HUB_SCHEMA, HUB_SAMPLES),
    ):
        names = [column.name for column in declared]
        assert schema.names[1:] == names
        assert {part.name for part in fields(row)} - {"name", "carried_by", "limited_at"} == set(names)
        assert {part.name for part in fields(columns)} - {"names"} == set(names)
        assert {column.source for column in declared if column.source} <= set(samples.names)


def test_a_column_that_is_left_out_has_its_default_in_every_row() -> None:
    hubs = HubColumns(names=["a", "b"])
    assert hubs.is_alive.tolist() == [True, True]
    assert list(hubs.site) == ["", ""]
    assert hubs.coordinate.shape == (2, 0)
    assert TopicColumns(names=[b"t"]).publishers.tolist() == [0.0]
