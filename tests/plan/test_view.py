"""The view: rows, columns and tables agree, and an invalid view is rejected."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import ViewError
from equipoise.view import HubView, TopicView, View, ViewTables, from_tables, to_tables
from equipoise.view.schema import LimitUse

HUBS = (
    HubView(name="h1", site="paris", cpu_ratio=0.5, out_bytes_per_s=300.0, out_bytes_per_s_max=1000.0),
    HubView(name="h2", rack="r2", is_alive=False, out_bytes_trend=-3.0),
)
TOPICS = (
    TopicView(name=b"a", out_bytes_per_s=300.0, subscribers=3, carried_by={"h1": 0.75, "h2": 0.25}),
    TopicView(
        name=b"\xff", out_bytes_trend=-1.0, latency_s_worst=0.02, deviation_s=0.01, carried_by={"h2": 1.0}
    ),
    TopicView(name=b"quiet", latency_s_worst=0.02, deviation_s=0.01),
)


def view() -> View:
    return View.of(12.5, TOPICS, HUBS)


def known(topic: TopicView) -> dict[str, Any]:
    """The fields that are not NaN, which equals nothing."""
    named = {name: getattr(topic, name) for name in TopicView.__dataclass_fields__}
    return {name: value for name, value in named.items() if value == value}


def test_rows_survive_columns() -> None:
    assert list(map(known, view().topic_rows())) == list(map(known, TOPICS))
    assert tuple(view().hub_rows()) == HUBS
    assert known(view().topic(b"a")) == known(TOPICS[0])
    assert view().hub("h2") == HUBS[1]


def test_a_view_survives_its_tables() -> None:
    back = from_tables(12.5, to_tables(view()))
    assert list(map(known, back.topic_rows())) == list(map(known, TOPICS))
    assert tuple(back.hub_rows()) == HUBS
    assert back.time_s == 12.5


def test_numbers_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        view().topics.subscribers[0] = 7
    with pytest.raises(ValueError, match="read-only"):
        from_tables(1.0, to_tables(view())).carried.share[0] = 0.1


def test_an_empty_view_is_a_view() -> None:
    assert from_tables(0.0, to_tables(View.of(0.0))).topics.count == 0


def test_a_missing_column_has_its_default_and_an_unknown_one_is_ignored() -> None:
    tables = to_tables(view())
    hubs = tables.hubs.drop_columns(["is_alive", "rack", "cpu_trend"])
    hubs = hubs.append_column("colour", pa.array(["red", "blue"]))
    back = from_tables(1.0, ViewTables(tables.topics, hubs, tables.carried))
    assert back.hub("h2").is_alive
    assert back.hub("h2").rack == ""
    assert back.hub("h1").cpu_ratio == 0.5


def test_a_null_has_the_default_of_its_column() -> None:
    tables = to_tables(view())
    at = tables.topics.column_names.index("latency_s_worst")
    topics = tables.topics.set_column(at, "latency_s_worst", pa.nulls(3, pa.float64()))
    back = from_tables(1.0, ViewTables(topics, tables.hubs, tables.carried))
    assert math.isnan(back.topic(b"a").latency_s_worst)


def test_load_outside_the_view_is_left_out() -> None:
    tables = to_tables(view())
    more = pa.table(
        {
            "topic": [b"a", b"other"],
            "hub": ["h9", "h1"],
            "out_bytes_per_s": [100.0, 5.0],
            "limit_use": [None, None],
        },
        tables.carried.schema,
    )
    back = from_tables(1.0, ViewTables(tables.topics, tables.hubs, pa.concat_tables([tables.carried, more])))
    assert back.topic(b"a").carried_by == {"h1": 0.75, "h2": 0.25}


def test_a_view_has_the_use_of_envelope_shares() -> None:
    uses = {"h1": LimitUse(10.0, 3.0, 0.0), "h2": LimitUse(2.5, 7.0, 4.0)}
    rows = [TopicView(name=b"t", carried_by={"h1": 0.5, "h2": 0.5}, limited_at=uses), TopicView(name=b"u")]
    made = View.of(1.0, rows, [HubView(name="h1"), HubView(name="h2")])
    back = from_tables(1.0, to_tables(made))
    assert back.topic(b"t").limited_at == uses
    assert back.limited.keys() == {b"t"}
    told = LimitUse(1.0, 2.0, 3.0, 4.0, 0.5)
    assert View.of(1.0, [TopicView(name=b"t", limited_at={"h1": told})]).limited == {b"t": {"h1": told}}
    # A newer pipeline may send more columns of each hub.
    tables = to_tables(made)
    at = tables.carried.column_names.index("limit_use")
    more = [None if one is None else [*one, 9.0] for one in tables.carried.column("limit_use").to_pylist()]
    longer = tables.carried.set_column(at, tables.carried.schema.field(at), [more])
    assert from_tables(1.0, ViewTables(tables.topics, tables.hubs, longer)).topic(b"t").limited_at == uses
    # An older pipeline does not send it.
    tables = to_tables(made)
    older = ViewTables(tables.topics, tables.hubs, tables.carried.drop_columns(["limit_use"]))
    assert from_tables(1.0, older).limited == {}


def test_a_topic_without_deliveries_is_carried_in_equal_parts() -> None:
    carried = pa.table({"topic": [b"t", b"t"], "hub": ["h1", "h2"], "out_bytes_per_s": [0.0, 0.0]})
    tables = ViewTables(pa.table({"topic": [b"t"]}), pa.table({"hub": ["h1", "h2"]}), carried)
    assert from_tables(1.0, tables).topic(b"t").carried_by == {"h1": 0.5, "h2": 0.5}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_impossible_numbers_are_rejected(bad: float) -> None:
    with pytest.raises(ViewError):
        View.of(0.0, [TopicView(name=b"t", out_bytes_per_s=bad)])
    with pytest.raises(ViewError):
        View.of(0.0, hubs=[HubView(name="h", cpu_ratio=bad)])


@pytest.mark.parametrize(
    "topics, hubs",
    [
        ([TopicView(name=b"t"), TopicView(name=b"t")], []),
        ([], [HubView(name="h"), HubView(name="h")]),
        ([TopicView(name=b"t", carried_by={"h": 1.5})], [HubView(name="h")]),
        ([TopicView(name=b"t", carried_by={"h": 0.0})], [HubView(name="h")]),
        ([TopicView(name=b"t", carried_by={"h": math.nan})], [HubView(name="h")]),
    ],
)
def test_contradictory_views_are_rejected(topics: list[TopicView], hubs: list[HubView]) -> None:
    with pytest.raises(ViewError):
        View.of(0.0, topics, hubs)


def test_a_table_that_is_no_view_is_rejected() -> None:
    tables = to_tables(view())
    with pytest.raises(ViewError):
        from_tables(1.0, ViewTables(tables.hubs, tables.hubs, tables.carried))
    with pytest.raises(ViewError):
        from_tables(
            1.0, ViewTables(tables.topics, pa.table({"hub": ["h"], "cpu_ratio": ["x"]}), tables.carried)
        )
    with pytest.raises(ViewError):
        from_tables(math.nan, tables)


FLOATS = st.floats(0, 1e9)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=5), st.data())
def test_shares_are_what_each_hub_sent_of_the_whole(
    rates: list[tuple[float, float]], data: st.DataObject
) -> None:
    topics = {b"%d" % index: first + second for index, (first, second) in enumerate(rates)}
    rows = [
        (name, hub, pair[at]) for name, pair in zip(topics, rates, strict=True) for at, hub in enumerate("ab")
    ]
    tables = ViewTables(
        pa.table({"topic": list(topics), "out_bytes_per_s": list(topics.values())}),
        pa.table({"hub": ["a", "b"]}),
        pa.table(dict(zip(("topic", "hub", "out_bytes_per_s"), zip(*rows, strict=True), strict=True))),
    )
    made = from_tables(0.0, tables)
    sums = np.bincount(made.carried.topic, made.carried.share)
    assert np.allclose(sums, 1.0)
