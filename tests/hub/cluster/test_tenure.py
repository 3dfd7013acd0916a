"""Since when a hub is the only one to number a topic, and from when no dead hub's lease is left."""

from __future__ import annotations

from equipoise.hub.cluster.tenure import SoleHome, Tenure
from equipoise.model import Member, Plan

TERM = 3_000
HUBS = ("a", "b")


def plan(version: int, *members: str) -> Plan:
    return Plan(version=version, members=tuple(Member(name) for name in members))


def test_a_hub_that_takes_over_from_a_dead_hub_waits_until_its_lease_has_expired() -> None:
    """
    1. The topic lives at b; no death is known, and the leases of hubs that died before are over.
    2. b dies, and a is the home. Its barrier passes at 20,000.
    3. b may have paused, and numbers on under its lease: a waits for a term behind the barrier.
    """
    tenure = Tenure("a", TERM)
    tenure.applied(plan(1, "b"), HUBS, has_deaths=False)
    tenure.passed(1_000)
    tenure.applied(plan(2, "a"), {"a"}, has_deaths=True)
    assert tenure.of(b"t") is None
    assert tenure.deaths_over_at is None
    tenure.passed(20_000)
    assert tenure.of(b"t") == SoleHome(20_000, 20_000 + TERM)
    assert tenure.deaths_over_at == 20_000 + TERM


def test_a_hub_that_takes_over_from_a_live_hub_waits_for_its_barrier_only() -> None:
    tenure = Tenure("a", TERM)
    tenure.applied(plan(1, "b"), HUBS, has_deaths=False)
    tenure.passed(1_000)
    tenure.applied(plan(2, "a"), HUBS, has_deaths=False)
    tenure.passed(20_000)
    assert tenure.of(b"t") == SoleHome(20_000, 20_000)


def test_hubs_may_have_died_before_the_first_routing() -> None:
    tenure = Tenure("a", TERM)
    tenure.applied(plan(1, "a"), {"a"}, has_deaths=False)
    tenure.passed(1_000)
    assert tenure.of(b"t") == SoleHome(1_000, 1_000 + TERM)


def test_a_later_routing_with_the_same_home_does_not_begin_the_tenure_again() -> None:
    tenure = Tenure("a", TERM)
    for version, passed_at in ((1, 1_000), (2, 30_000)):
        tenure.applied(plan(version, "a"), HUBS, has_deaths=False)
        tenure.passed(passed_at)
    assert tenure.of(b"t") == SoleHome(1_000, 1_000 + TERM)
