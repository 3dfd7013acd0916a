"""Coordinates in a view: rows, columns and tables agree, and an invalid coordinate is rejected."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pytest

from equipoise.coordinates import Coordinate
from equipoise.errors import ViewError
from equipoise.view import HubView, TopicView, View, ViewTables, from_tables, to_tables
from equipoise.view.codec import HEADER_BYTES, decode_header, decode_view, encode_view

HERE = Coordinate((0.01, -0.02), 0.1, 0.003, -0.0005)
THERE = Coordinate((0.05, 0.04), 0.2, 0.001)


def view() -> View:
    topics = [
        TopicView(
            name=b"located",
            publishers_at=HERE,
            subscribers_at=THERE,
            publishers_located=3,
            subscribers_located=40,
            deviation_s=0.004,
            latency_s_worst=0.03,
        ),
        TopicView(name=b"silent", subscribers_at=HERE),
        TopicView(name=b"plain"),
    ]
    return View.of(5.0, topics, [HubView(name="a", coordinate=THERE), HubView(name="b")])


def test_coordinates_survive_columns_and_tables_and_the_wire() -> None:
    sent = encode_view(5.0, 10.0, to_tables(view()))
    decoded = decode_view(decode_header(sent[:HEADER_BYTES]), sent[HEADER_BYTES:])
    for seen in (view(), from_tables(5.0, to_tables(view())), decoded):
        located, silent, plain = seen.topic_rows()
        assert (located.publishers_at, located.subscribers_at) == (HERE, THERE)
        assert (located.publishers_located, located.subscribers_located) == (3, 40)
        assert (silent.publishers_at, silent.subscribers_at) == (None, HERE)
        assert (plain.publishers_at, plain.subscribers_at) == (None, None)
        assert [hub.coordinate for hub in seen.hub_rows()] == [THERE, None]


def test_a_view_without_coordinates_has_columns_without_width() -> None:
    seen = View.of(1.0, [TopicView(name=b"t")], [HubView(name="a")])
    back = from_tables(1.0, to_tables(seen))
    for one in (seen, back):
        assert one.topics.publishers_at.shape == (1, 0)
        assert one.hubs.coordinate.shape == (1, 0)


def test_a_view_of_a_pipeline_without_coordinates_is_accepted() -> None:
    carried = to_tables(View.of(1.0)).carried
    seen = from_tables(1.0, ViewTables(pa.table({"topic": [b"t"]}), pa.table({"hub": ["a"]}), carried))
    assert seen.topic(b"t").publishers_at is None
    assert seen.hub("a").coordinate is None


def test_corrections_by_the_store_keep_coordinates() -> None:
    seen = view().with_store([HubView(name="a", site="paris"), HubView(name="new")])
    assert seen.hub("a").coordinate == THERE
    assert seen.hub("new").coordinate is None


@pytest.mark.parametrize(
    "bad",
    [
        Coordinate((0.0, math.inf), 0.1, 0.0),
        Coordinate((0.0, 1e6), 0.1, 0.0),
        Coordinate((0.0, 0.0), 0.1, -0.01),
        Coordinate((0.0, math.nan), 0.1, 0.0),
        Coordinate((0.0, 0.0), -1.0, 0.0),
    ],
)
def test_an_invalid_coordinate_is_rejected(bad: Coordinate) -> None:
    with pytest.raises(ViewError):
        View.of(1.0, [TopicView(name=b"t", publishers_at=bad)])
    with pytest.raises(ViewError):
        View.of(1.0, hubs=[HubView(name="a", coordinate=bad)])


def test_coordinates_of_different_dimensions_are_rejected() -> None:
    flat = Coordinate((0.0,), 0.1, 0.0)
    with pytest.raises(ViewError, match="different spaces"):
        View.of(1.0, hubs=[HubView(name="a", coordinate=HERE), HubView(name="b", coordinate=flat)])
    hubs = pa.table({"hub": ["a", "b"], "coordinate": [[0.0, 0.1, 0.2, 0.3], [0.0, 0.1, 0.2, 0.3, 0.4]]})
    tables = to_tables(view())
    with pytest.raises(ViewError, match="different spaces"):
        from_tables(1.0, ViewTables(tables.topics, hubs, tables.carried))


def test_coordinates_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        view().hubs.coordinate[0, 0] = np.nan
