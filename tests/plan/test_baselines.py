"""The baselines: consistent hashing as the paper runs it, and doing nothing."""

from __future__ import annotations

import pytest

from equipoise.errors import SettingsError
from equipoise.model import Plan
from equipoise.plan import ConsistentHashing, Memory, PlannerSettings, Static
from equipoise.view import HubView
from plan.small import decide, plan_of, settled, topic

HUBS = ["a", "b"]


def test_hashing_requests_one_server_at_an_overload_and_moves_nothing() -> None:
    rows = [topic("t", 0.9, "a")]
    outcome = decide(rows, HUBS, policy=ConsistentHashing(), plan=plan_of({}, HUBS))
    assert outcome.servers_wanted == 3
    assert outcome.change.is_empty
    again = decide(
        rows, HUBS, policy=ConsistentHashing(), plan=plan_of({}, HUBS), memory=outcome.memory, at_s=101
    )
    assert again.servers_wanted == 3


def test_hashing_adds_a_new_server_by_the_ring_alone() -> None:
    rows = [topic("t", 0.9, "a")]
    outcome = decide(
        rows, [*HUBS, "c"], policy=ConsistentHashing(), plan=plan_of({}, HUBS), memory=settled(HUBS)
    )
    assert [part.hub for part in outcome.change.members] == ["c"]
    assert outcome.change.entries == ()


def test_hashing_waits_between_servers_and_stops_at_the_maximum() -> None:
    rows = [topic("t", 0.9, "a")]
    recent = settled(HUBS, plan_s=90.0)
    assert (
        decide(rows, HUBS, policy=ConsistentHashing(), plan=plan_of({}, HUBS), memory=recent).servers_wanted
        == 2
    )
    few = ConsistentHashing(PlannerSettings(servers_max=2))
    assert decide(rows, HUBS, policy=few, plan=plan_of({}, HUBS)).servers_wanted == 2


def test_hashing_never_releases_a_server() -> None:
    outcome = decide(
        [topic("t", 0.01, "a")], HUBS, policy=ConsistentHashing(), plan=plan_of({}, HUBS), views=300
    )
    assert outcome.change.is_empty
    assert outcome.servers_wanted == 2


def test_static_does_nothing_whatever_happens() -> None:
    rows = [topic("t", 2.0, "a")]
    hubs: list[str | HubView] = [HubView(name="a", loop_lag_s=1.0), HubView(name="b", is_alive=False), "c"]
    assert decide(rows, hubs, policy=Static(), plan=plan_of({}, HUBS), views=60).change.is_empty


def test_static_admits_the_first_hubs() -> None:
    outcome = decide([], HUBS, policy=Static(), plan=Plan(), memory=Memory())
    assert [part.hub for part in outcome.change.members] == HUBS


@pytest.mark.parametrize(
    "wrong",
    [
        {"safe_ratio": 0.9},
        {"severe_ratio": 0.7},
        {"accept_ratio": 0.78},
        {"servers_min": 9, "servers_max": 3},
    ],
)
def test_contradictory_settings_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        PlannerSettings(**wrong)  # type: ignore[arg-type]  # A table of several kinds.
