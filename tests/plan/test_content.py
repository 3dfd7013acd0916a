"""Content topics in the planner: when a topic becomes one, gains or loses an edge, and when it is not changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from equipoise.model import Durability, Entry, Member, Mode, Plan, Specs, TopicSpec
from equipoise.plan import PlannerSettings
from equipoise.plan.steps.content import tree_by_site
from equipoise.telemetry import EDGE_STATES
from equipoise.view import HubView, TopicView
from plan.small import Outcome, decide, settled, topic

HUBS = ("a", "b", "c", "d", "e")
SETTINGS = PlannerSettings(servers_min=5)
SHORT_WAIT = PlannerSettings(servers_min=5, content_session_wait_s=60.0)


def filtered(ratio: float, *homes: str, filters: float = 5000.0) -> TopicView:
    return replace(topic("t", ratio, *homes, publications_per_s=10, subscribers=800), filters=filters)


def hubs(*sites: str, **unlike: bool) -> list[HubView]:
    places = sites or ("",) * len(HUBS)
    return [
        HubView(name=name, site=site, carries_content=unlike.get(name, True))
        for name, site in zip(HUBS, places, strict=False)
    ]


def run(
    topics: Sequence[TopicView],
    at: list[HubView],
    entry: Entry | None = None,
    *,
    views: int = 20,
    **more: object,
) -> Outcome:
    entries = [Entry(b"t", ("a",))] if entry is None else [entry]
    others = [Entry(row.name, tuple(row.carried_by)) for row in topics if row.name != b"t"]
    plan = Plan.of(members=[Member(hub.name, site=hub.site) for hub in at], entries=[*entries, *others])
    specs = more.get("specs")
    assert specs is None or isinstance(specs, Specs)
    settings = more.get("settings", SETTINGS)
    assert isinstance(settings, PlannerSettings)
    return decide(topics, at, plan=plan, memory=settled(HUBS), settings=settings, views=views, specs=specs)


def entry_of(outcome: Outcome) -> Entry | None:
    changed = {part.topic: part.entry for part in outcome.decision.change.entries}
    return changed.get(b"t")


def test_a_topic_with_many_filters_gets_a_head_and_edges() -> None:
    entry = entry_of(run([filtered(0.7, "a")], hubs()))
    assert entry is not None and entry.mode is Mode.CONTENT
    assert entry.homes[0] == "a" and len(entry.homes) >= 3 and not entry.parents


@pytest.mark.parametrize("case", ["few filters", "an older hub", "durable", "limited"])
def test_a_topic_stays_without_edges(case: str) -> None:
    row = filtered(0.7, "a", filters=10 if case == "few filters" else 5000)
    at = hubs(e=False) if case == "an older hub" else hubs()
    spec = TopicSpec(pattern=b"t")
    if case == "durable":
        spec = msgspec.structs.replace(spec, durability=Durability(1, 1, 1))
    elif case == "limited":
        spec = msgspec.structs.replace(spec, rate_per_s=1000.0)
    entry = entry_of(run([row], at, specs=Specs([spec])))
    assert entry is None or entry.mode is not Mode.CONTENT


def test_a_site_with_several_homes_gets_a_head() -> None:
    assert tree_by_site(["paris", "paris", "rome", "rome", "rome", "oslo"]) == (0, 0, 0, 2, 2, 0)
    assert tree_by_site(["paris", "paris", "paris", "rome", "rome"]) == ()
    assert tree_by_site(["rome"]) == ()


def test_an_edge_is_added_once_all_are_full_and_no_sooner() -> None:
    star = Entry(b"t", ("a", "b", "c"), Mode.CONTENT)
    # One is overloaded, another has room: that is for the hubs to settle.
    uneven = replace(filtered(1.0, "b", "c"), carried_by={"a": 0.0001, "b": 0.85, "c": 0.1499})
    assert entry_of(run([uneven], hubs(), star)) is None
    full = replace(filtered(1.7, "b", "c"), carried_by={"a": 0.0001, "b": 0.5, "c": 0.4999})
    entry = entry_of(run([full], hubs(), star))
    assert entry is not None and entry.mode is Mode.CONTENT
    assert entry.homes[:3] == star.homes and len(entry.homes) == 4
    pinned = msgspec.structs.replace(star, is_pinned=True)
    assert entry_of(run([full], hubs(), pinned)) is None


def test_a_new_edge_keeps_the_existing_tree() -> None:
    tree = Entry(b"t", ("a", "b", "c"), Mode.CONTENT, parents=(0, 0, 1))
    full = replace(filtered(0.9, "c"), carried_by={"a": 0.0001, "b": 0.0001, "c": 0.9998})
    entry = entry_of(run([full], hubs(), tree))
    assert entry is not None and entry.parents == (0, 0, 1, 0)


def test_an_edge_is_removed_when_the_others_have_room() -> None:
    star = Entry(b"t", ("a", "b", "c", "d"), Mode.CONTENT)
    idle = replace(filtered(0.3, "b", "c", "d"), carried_by={"a": 1e-4, "b": 0.4, "c": 0.3, "d": 0.2999})
    entry = entry_of(run([idle], hubs(), star, views=200))
    assert entry is not None and entry.homes == ("a", "b", "c")
    busy = replace(filtered(1.2, "b", "c", "d"), carried_by={"a": 1e-4, "b": 0.4, "c": 0.3, "d": 0.2999})
    assert entry_of(run([busy], hubs(), star, views=200)) is None


def test_another_hub_replaces_a_drained_one_in_the_tree() -> None:
    tree = Entry(b"t", ("a", "b", "c", "d"), Mode.CONTENT, parents=(0, 0, 1, 1))
    at = [replace(hub, is_draining=hub.name == "b") for hub in hubs()]
    entry = entry_of(run([filtered(0.4, "c", "d")], at, tree))
    assert entry is not None
    assert (entry.homes, entry.mode, entry.parents) == (("a", "e", "c", "d"), Mode.CONTENT, (0, 0, 1, 1))


@pytest.mark.parametrize("state", ["asking", "sampling", "migrating", "accepting", "stabilizing"])
def test_a_topic_in_a_session_is_not_changed_for_a_while(state: str) -> None:
    star = Entry(b"t", ("a", "b", "c"), Mode.CONTENT)
    full = replace(filtered(1.7, "b", "c"), carried_by={"a": 0.0001, "b": 0.5, "c": 0.4999})
    busy = [replace(hub, content_state=EDGE_STATES.index(state) if hub.name == "c" else 1) for hub in hubs()]
    assert entry_of(run([full], busy, star)) is None
    # A view a second: the last of these come after the time-out.
    waited = int(SHORT_WAIT.content_session_wait_s) + 30
    entry = entry_of(run([full], busy, star, views=waited, settings=SHORT_WAIT))
    assert entry is not None and len(entry.homes) == 4
    calm = [replace(hub, content_state=EDGE_STATES.index("n/a")) for hub in hubs()]
    assert entry_of(run([full], calm, star)) is not None
