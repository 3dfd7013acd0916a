"""Looking up all topics at once agrees with looking up each."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from equipoise.model import Entry, Member, Mode, Plan
from equipoise.plan.predicted import by_entries, ring_homes, topic_positions
from equipoise.view import HubView, TopicView, View

HUBS = ["h1", "h2", "h3", "h4"]
TOPICS = [b"t%d" % number for number in range(12)]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    members = {hub: Member(hub, draw(st.integers(0, 3))) for hub in draw(st.sets(st.sampled_from(HUBS)))}
    entries = []
    for topic in draw(st.sets(st.sampled_from(TOPICS))):
        if members:
            homes = draw(st.lists(st.sampled_from(sorted(members)), min_size=1, max_size=3, unique=True))
            mode = Mode.SINGLE if len(homes) == 1 else Mode.ALL_SUBSCRIBERS
            entries.append(Entry(topic, tuple(homes), mode))
    return Plan.of(members=members.values(), entries=entries)


@given(plans(), st.sets(st.sampled_from(HUBS)), st.sets(st.sampled_from(HUBS)))
def test_all_at_once_is_one_by_one(plan: Plan, seen: set[str], alive: set[str]) -> None:
    hubs = [HubView(name=hub, is_alive=hub in alive) for hub in sorted(seen)]
    view = View.of(0.0, [TopicView(name=topic) for topic in TOPICS], hubs)
    living = view.hubs.is_alive
    ring = ring_homes(view, topic_positions(view), plan.members, living)
    single, several = by_entries(view, plan.entries, living)
    names = [*view.hubs.names, None]
    for at, topic in enumerate(TOPICS):
        if at in several:
            found = tuple(names[hub] for hub in several[at].homes)
        else:
            hub = names[single.get(at, int(ring[at]))]
            found = () if hub is None else (hub,)
        assert found == plan.home_of(topic, seen & alive).homes


def test_no_hub_is_alive() -> None:
    view = View.of(0.0, [TopicView(name=b"t")], [HubView(name="h1", is_alive=False)])
    ring = ring_homes(view, topic_positions(view), [Member("h1")], np.array([False]))
    assert ring.tolist() == [-1]
