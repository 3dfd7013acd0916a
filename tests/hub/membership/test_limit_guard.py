"""Limited topics are kept from hubs of a release that keeps no limits, whoever put them there."""

from __future__ import annotations

from equipoise.control.cluster_state import hub_views
from equipoise.hub.membership.limit_guard import without_limited_topics
from equipoise.model import Entry, Member, Mode, Plan, Specs, TopicSpec, apply
from equipoise.store.records.hubs import HubAlive, HubFacts, HubSeen

LIMITED = Specs([TopicSpec(pattern=b"x*", rate_per_s=10.0, burst_messages=5)])


def seen(name: str, *, keeps_limits: bool, is_alive: bool = True) -> HubSeen:
    facts = HubFacts(hub=name, address=f"{name}:1", incarnation=1, keeps_limits=keeps_limits)
    return HubSeen(facts, HubAlive(facts=facts) if is_alive else None)


def hubs(**able: bool) -> dict[str, HubSeen]:
    return {name: seen(name, keeps_limits=can) for name, can in able.items()}


def plan(*entries: Entry, weight: int = 16) -> Plan:
    return Plan.of(
        version=3, members=[Member("new"), Member("old", weight), Member("two")], entries=list(entries)
    )


def test_a_hub_without_limits_gets_no_share_of_the_ring_and_no_limited_topic() -> None:
    before = plan(
        Entry(b"x1", ("old",)),
        Entry(b"x2", ("old", "new"), Mode.ALL_SUBSCRIBERS, shares=(400_000, 600_000)),
        Entry(b"free", ("old",)),
    )
    change = without_limited_topics(before, hubs(new=True, old=False, two=True), LIMITED)
    assert change is not None
    after = apply(before, change)
    assert after.by_hub["old"].weight == 0
    assert after.entries == {b"x2": Entry(b"x2", ("new",)), b"free": Entry(b"free", ("old",))}
    assert all("old" not in after.home_of(b"x%d" % n).homes for n in range(100))
    assert without_limited_topics(after, hubs(new=True, old=False, two=True), LIMITED) is None


def test_a_plan_is_left_alone_where_there_is_nothing_to_keep_or_no_hub_to_keep_it() -> None:
    able, unable = hubs(new=True, old=True, two=True), hubs(new=True, old=False, two=True)
    assert without_limited_topics(plan(), able, LIMITED) is None
    assert without_limited_topics(plan(), unable, Specs()) is None
    assert without_limited_topics(plan(weight=0), unable, LIMITED) is None
    assert without_limited_topics(plan(), hubs(new=False, old=False, two=False), LIMITED) is None
    gone = unable | {"old": seen("old", keeps_limits=False, is_alive=False)}
    assert without_limited_topics(plan(), gone, LIMITED) is None


def test_the_planner_takes_such_a_hub_for_one_that_is_drained() -> None:
    unable = hubs(new=True, old=False)
    draining = {view.name: view.is_draining for view in hub_views(unable, plan(), LIMITED, releasable=set())}
    assert draining == {"new": False, "old": True}
    assert not any(view.is_draining for view in hub_views(unable, plan(), Specs(), releasable=set()))
