"""Limited and durable topics are never placed at hubs of a release without support for them."""

from __future__ import annotations

from equipoise.control.cluster_state import hub_views
from equipoise.hub.membership.able_hubs import without_unable_hubs
from equipoise.model import Durability, Entry, Member, Mode, Plan, Specs, TopicSpec, apply
from equipoise.store.records.hubs import HubAlive, HubFacts, HubSeen

LIMITED = Specs([TopicSpec(pattern=b"x*", rate_per_s=10.0, burst_messages=5)])


def seen(name: str, *, keeps_limits: bool, is_alive: bool = True) -> HubSeen:
    facts = HubFacts(
        hub=name, address=f"{name}:1", incarnation=1, keeps_limits=keeps_limits, keeps_logs=keeps_limits
    )
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
    change = without_unable_hubs(before, hubs(new=True, old=False, two=True), LIMITED)
    assert change is not None
    after = apply(before, change)
    assert after.by_hub["old"].weight == 0
    assert after.entries == {b"x2": Entry(b"x2", ("new",)), b"free": Entry(b"free", ("old",))}
    assert all("old" not in after.home_of(b"x%d" % n).homes for n in range(100))
    assert without_unable_hubs(after, hubs(new=True, old=False, two=True), LIMITED) is None


def test_a_plan_without_such_topics_or_without_a_hub_for_them_is_not_changed() -> None:
    able, unable = hubs(new=True, old=True, two=True), hubs(new=True, old=False, two=True)
    assert without_unable_hubs(plan(), able, LIMITED) is None
    assert without_unable_hubs(plan(), unable, Specs()) is None
    assert without_unable_hubs(plan(weight=0), unable, LIMITED) is None
    assert without_unable_hubs(plan(), hubs(new=False, old=False, two=False), LIMITED) is None
    gone = unable | {"old": seen("old", keeps_limits=False, is_alive=False)}
    assert without_unable_hubs(plan(), gone, LIMITED) is None


def test_a_hub_without_logs_gets_no_share_of_the_ring_and_no_durable_topic() -> None:
    durable = Specs([TopicSpec(pattern=b"x*", durability=Durability(3, 3, 2))])
    before = plan(Entry(b"x1", ("old",)), Entry(b"free", ("old",)))
    change = without_unable_hubs(before, hubs(new=True, old=False, two=True), durable)
    assert change is not None
    assert "no logs at old" in str(change)
    after = apply(before, change)
    assert (after.by_hub["old"].weight, set(after.entries)) == (0, {b"free"})
    views = hub_views(hubs(new=True, old=False), plan(), durable, releasable=set())
    assert {view.name: view.is_draining for view in views} == {"new": False, "old": True}


def test_the_planner_treats_such_a_hub_as_drained() -> None:
    unable = hubs(new=True, old=False)
    draining = {view.name: view.is_draining for view in hub_views(unable, plan(), LIMITED, releasable=set())}
    assert draining == {"new": False, "old": True}
    assert not any(view.is_draining for view in hub_views(unable, plan(), Specs(), releasable=set()))
