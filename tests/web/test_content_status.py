"""Content topics on pages: the tree, measurements of edges, results of sessions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from equipoise.control.controller import Controller
from equipoise.model import Entry, Member, Mode, Plan
from equipoise.telemetry import EDGE_STATES
from equipoise.view import HubView, View
from equipoise.web.content_status import content_status, edge_numbers

HUBS = ("a", "b", "c", "d")
EDGE = HubView(
    name="d",
    content_state=EDGE_STATES.index("sampling"),
    content_subscriptions=7,
    content_input_ratio=0.5,
    content_estimated_input_ratio=0.4,
    content_realised_input_ratio=0.45,
)


def controller_of(entry: Entry, view: View | None) -> Controller:
    plan = Plan.of(members=[Member(hub) for hub in HUBS], entries=[entry])
    made: Any = SimpleNamespace(knowledge=SimpleNamespace(plan=plan), views=SimpleNamespace(latest=view))
    return cast("Controller", made)


def test_each_home_has_its_parent_and_edges_their_measurements() -> None:
    view = View.of(0.0, [], [HubView(name="a"), HubView(name="b"), HubView(name="c", content_state=1), EDGE])
    tree = Entry(b"t", HUBS, Mode.CONTENT, parents=(0, 0, 0, 1))
    rows = content_status(controller_of(tree, view), b"t", HUBS)
    assert rows is not None
    assert [(row["hub"], row["follows"], row["is_edge"], row["content_state"]) for row in rows] == [
        ("a", None, False, None),
        ("b", "a", False, None),
        ("c", "a", True, "ok"),
        ("d", "b", True, "sampling"),
    ]
    last = rows[-1]
    assert (last["content_subscriptions"], last["content_input_ratio"]) == (7.0, 0.5)
    assert (last["content_estimated_input_ratio"], last["content_realised_input_ratio"]) == (0.4, 0.45)


def test_other_topics_have_no_tree_and_without_a_view_numbers_are_unknown() -> None:
    assert content_status(controller_of(Entry(b"t", ("a",)), None), b"t", ["a"]) is None
    rows = content_status(controller_of(Entry(b"t", ("a", "b"), Mode.CONTENT), None), b"t", ["a", "b"])
    assert rows is not None and rows[1]["content_state"] is None and rows[1]["content_input_ratio"] is None


def test_a_head_has_the_number_of_publishers_it_has_moved() -> None:
    view = View.of(0.0, [], [HubView(name="a", content_publishers_moved=3.0)])
    found = edge_numbers(view, 0)
    assert (found["content_state"], found["content_moved"], found["content_publishers_moved"]) == (
        None,
        None,
        3.0,
    )


def test_a_state_of_a_later_release_is_unknown() -> None:
    view = View.of(0.0, [], [HubView(name="a", content_state=99)])
    assert edge_numbers(view, 0)["content_state"] == "unknown"
