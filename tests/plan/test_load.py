"""Load: the largest of bandwidth, CPU and lag; extrapolated if it rises; predicted by the plan."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from equipoise.model import Plan, Specs
from equipoise.plan import Memory, Planner, PlannerSettings
from equipoise.plan.draft import Draft
from equipoise.plan.load import capacities
from equipoise.plan.memory import HubNoise, HubProfile
from equipoise.view import HubView, TopicView, View
from plan.small import plan_of, topic, view

SETTINGS = PlannerSettings()


def measured(hub: HubView) -> float:
    return float(capacities(View.of(0.0, (), [hub]), {}, {}, SETTINGS).measured[0])


@pytest.mark.parametrize(
    "hub, ratio",
    [
        (HubView(name="h"), 0.0),
        (HubView(name="h", out_bytes_per_s=60.0, out_bytes_per_s_max=100.0), 0.6),
        (HubView(name="h", out_bytes_per_s=120.0, out_bytes_per_s_max=100.0), 1.2),
        (HubView(name="h", out_bytes_per_s=1e12), 0.0),
        (HubView(name="h", cpu_ratio=0.7), 0.8),
        (HubView(name="h", cpu_ratio=0.7, out_bytes_per_s=90.0, out_bytes_per_s_max=100.0), 0.9),
        (HubView(name="h", cpu_ratio=0.35, deliveries_per_s=9e5, deliveries_per_s_max=1e6), 0.9),
        (HubView(name="h", deliveries_per_s=9e5), 0.0),
        (HubView(name="h", loop_lag_s=0.04), 0.8),
        (HubView(name="h", loop_lag_s=0.1), 1.1),
        (HubView(name="h", loop_lag_s=0.04, cpu_ratio=0.35), 0.8),
    ],
)
def test_the_load_of_a_hub_is_that_of_its_scarcest_resource(hub: HubView, ratio: float) -> None:
    assert measured(hub) == pytest.approx(ratio)


def test_a_configured_maximum_above_the_rate_of_distress_is_ignored() -> None:
    hub = HubView(name="h", out_bytes_per_s=38.0, out_bytes_per_s_max=100.0)
    profile = HubProfile(distress_bytes_per_s=50.0)
    caps = capacities(View.of(0.0, (), [hub]), {"h": profile}, {}, SETTINGS)
    assert caps.measured[0] == pytest.approx(38.0 / (0.95 * 50.0))


def draft(seen: View, plan: Plan, memory: Memory | None = None) -> Draft:
    return Draft(seen, plan, Specs(), seen.time_s, memory=memory or Memory(), settings=SETTINGS)


def test_a_busy_hub_with_almost_no_work_has_no_known_price() -> None:
    row = replace(topic("t", 0.1, "a"), deliveries_per_s=1.5e-303, publications_per_s=0.0)
    seen = view([row], [HubView(name="a", cpu_ratio=1.0)])
    assert draft(seen, plan_of([row], "a")).capacities.price.tolist() == [1.0]


def test_a_hub_without_a_known_price_of_work_uses_that_of_the_others() -> None:
    row = replace(topic("t", 0.1, "a"), deliveries_per_s=1e6, publications_per_s=0.0)
    seen = view([row], [HubView(name="a", cpu_ratio=0.6), "b"])
    caps = draft(seen, plan_of([row], "ab")).capacities
    # 1,000,000 deliveries at 0.3 µs are 0.3 of a core; the hub needed 0.6.
    assert caps.price.tolist() == pytest.approx([2.0, 2.0])


def test_cpu_that_no_topic_explains_stays_with_the_hub() -> None:
    row = replace(topic("t", 0.1, "a"), deliveries_per_s=1e6, publications_per_s=0.0)
    hubs: list[str | HubView] = [HubView(name="a", cpu_ratio=0.6), "b"]
    known = {"a": HubProfile(samples=100, weight=100, work=30, work_squared=9.0, cpu=30, work_cpu=9)}
    predicted = draft(view([row], hubs), plan_of([row], "ab"), Memory(profiles=known)).predicted
    predicted.place(0, 1)
    assert predicted.ratio.tolist() == pytest.approx([0.3 / 0.875, 0.3 / 0.875], rel=0.01)


def test_a_topic_counts_where_the_plan_puts_it_before_any_view_shows_it_there() -> None:
    row = topic("t", 0.5, "a")
    plan = plan_of({"t": ["b"]}, "ab")
    moving = draft(view([row], "ab"), plan, Memory(moved_s={b"t": 99.0}))
    assert moving.predicted.ratio.tolist() == pytest.approx([0.0, 0.5])


def test_the_output_of_a_relay_counts_at_the_relay() -> None:
    row = topic("t", 0.5, "a", "b")
    plan = plan_of({"t": ["b"]}, "ab")
    standing = draft(view([row], "ab"), plan)
    assert standing.predicted.ratio.tolist() == pytest.approx([0.25, 0.25])
    standing.predicted.place(0, 0)
    assert standing.predicted.ratio.tolist() == pytest.approx([0.5, 0.0])


def test_lag_counts_with_load_and_not_without() -> None:
    row = topic("t", 0.5, "a")
    busy = draft(view([row], [HubView(name="a", loop_lag_s=0.045), "b"]), plan_of([row], "ab")).predicted
    assert busy.ratio[0] == pytest.approx(0.9)
    assert busy.if_removed(0, 0.5)[0] == pytest.approx(0.45)
    small = topic("t", 0.02, "a")
    idle = draft(view([small], [HubView(name="a", loop_lag_s=0.045), "b"]), plan_of([small], "ab")).predicted
    assert idle.if_removed(0)[0] > 0.8


def test_a_topic_on_a_rising_hub_counts_as_what_it_will_be_and_not_more_than_it_has_shown() -> None:
    # It rose by 0.03 a second: 0.5 in the middle of the window, 0.65 now, 0.8 in five seconds.
    ramp = topic("t", 0.5, "a", trend=0.03)
    rising = draft(view([ramp], "ab"), plan_of([ramp], "ab"))
    assert rising.capacities.is_rising.tolist() == [True, False]
    assert rising.predicted.ratio[0] == pytest.approx(0.8)
    # A step to 0.7 looks steeper than it is.
    step = replace(topic("t", 0.5, "a", trend=0.06), out_bytes_per_s_max=0.7e6)
    assert draft(view([step], "ab"), plan_of([step], "ab")).predicted.ratio[0] == pytest.approx(0.7 * 1.25)


def test_usual_fluctuations_are_no_rise() -> None:
    ramp = topic("t", 0.5, "a", trend=0.03)
    noises = {"a": HubNoise(rise_variance=0.1**2)}
    assert not draft(
        view([ramp], "ab"), plan_of([ramp], "ab"), Memory(noises=noises)
    ).capacities.is_rising.any()


def test_a_view_wakes_the_planner_when_a_hub_is_too_full_or_rises() -> None:
    def wakes(row: TopicView, hub: HubView) -> bool:
        return Planner().wakes(view([row], [hub, "b"]), Specs(), Memory())

    assert not wakes(topic("t", 0.7, "a"), HubView(name="a"))
    assert wakes(topic("t", 0.81, "a"), HubView(name="a"))
    assert wakes(topic("t", 0.3, "a"), HubView(name="a", loop_lag_s=0.05))
    assert wakes(topic("t", 0.3, "a", trend=0.02), HubView(name="a"))
    assert not wakes(topic("t", 0.9, "a"), HubView(name="a", is_alive=False))


def test_no_limit_known_is_no_load() -> None:
    caps = capacities(View.of(0.0, (), [HubView(name="h", out_bytes_per_s=5.0)]), {}, {}, SETTINGS)
    assert math.isinf(caps.bytes_full[0])
    assert np.isfinite(caps.flow_ratio(np.array([1e9]), np.array([0.0]))).all()


def test_a_hub_is_filled_up_to_the_deliveries_it_can_make_whatever_cpu_they_take() -> None:
    row = replace(topic("t", 0.1, "a"), deliveries_per_s=1e5, publications_per_s=0.0)
    hubs = [HubView(name="a"), HubView(name="b", deliveries_per_s_max=2e5)]
    caps = draft(view([row], hubs), plan_of([row], "a")).capacities
    work = np.array([1e5 * SETTINGS.delivery_cost_us * 1e-6])
    plain, bounded = (float(caps.topic_ratio(np.zeros(1), work, hub)[0]) for hub in (0, 1))
    assert bounded == pytest.approx(0.5)
    assert plain < 0.1
