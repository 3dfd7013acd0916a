"""What a profile concludes from loads that were measured."""

from __future__ import annotations

import math
import tomllib
from random import Random

import msgspec
import pytest

from equipoise.errors import UnmeasuredError
from equipoise.hub.settings import HubSettings
from equipoise.plan import PlannerSettings
from equipoise.profile.advice import controller_toml, hub_toml
from equipoise.profile.driver import LoadShape, Measured
from equipoise.profile.knees import costs_of, knees_of, late_ms
from equipoise.profile.sweep import profile_of

FULL_DELIVERIES_PER_S = 1e6


def load(
    publications_per_s: float, fanout: int, payload_bytes: int = 100, *, rng: Random | None = None
) -> Measured:
    """Of a hub for which 2 µs a publication, 0.5 µs a delivery and 0.1 µs a kilobyte is all there is."""
    deliveries = publications_per_s * fanout
    out_bytes = deliveries * (payload_bytes + 50)
    noise = 1.0 if rng is None else rng.uniform(0.95, 1.05)
    cpu = noise * (2.0 * publications_per_s + 0.5 * deliveries + 0.1 * out_bytes / 1e3) / 1e6
    # Calm up to a rate of deliveries, and then ever later.
    late = max(0.0, deliveries / FULL_DELIVERIES_PER_S - 1)
    return Measured(
        shape=LoadShape(1, 1, fanout, payload_bytes),
        publications_per_s=publications_per_s,
        deliveries_per_s=deliveries,
        in_bytes_per_s=publications_per_s * payload_bytes,
        out_bytes_per_s=out_bytes,
        cpu_ratio=cpu,
        p50_ms=0.2 + 10 * late,
        p95_ms=0.4 * noise + 50 * late,
        left_out=0.0,
        is_paced=True,
    )


def loads(rng: Random | None = None) -> list[Measured]:
    return [
        load(rate, fanout, size, rng=rng)
        for rate in (1e3, 1e4, 3e4, 1.5e5, 4e5)
        for fanout in (1, 10, 100)
        for size in (100, 1_000)
    ]


def test_the_number_that_makes_loads_late_is_found_with_its_knee() -> None:
    found = knees_of(loads(), 2.0)
    best = found[0]
    assert best.number == "deliveries_per_s"
    assert best.sorts == 1.0
    assert best.at is not None and 4e5 <= best.at <= 1.5e6
    assert all(0.5 <= knee.sorts <= 1.0 and -1.0 <= knee.correlation <= 1.0 for knee in found)


def test_without_late_loads_nothing_has_a_knee() -> None:
    calm = [load(rate, 10) for rate in (1e3, 2e3, 4e3, 8e3)]
    assert all(knee.at is None and knee.sorts == 0.5 for knee in knees_of(calm, 2.0))


def test_a_single_late_load_is_a_hiccup() -> None:
    some = [load(rate, 10) for rate in (1e3, 2e3, 4e3, 8e3, 5e5)]
    assert all(knee.at is None for knee in knees_of(some, 2.0))


def test_costs_are_found_however_loads_are_mixed() -> None:
    costs = costs_of(loads())
    assert costs.publication_us == pytest.approx(2.0, rel=0.01)
    assert costs.delivery_us == pytest.approx(0.5, rel=0.01)
    assert costs.kilobyte_us == pytest.approx(0.1, rel=0.01)


def test_costs_are_never_negative() -> None:
    rng = Random(3)
    strange = [msgspec.structs.replace(each, cpu_ratio=rng.random()) for each in loads()]
    costs = costs_of(strange)
    assert min(costs.publication_us, costs.delivery_us, costs.kilobyte_us) >= 0
    assert all(map(math.isfinite, (costs.publication_us, costs.delivery_us, costs.kilobyte_us)))


def test_late_is_several_times_what_calm_loads_take_but_never_a_moment() -> None:
    assert late_ms(loads()) == 2.0
    slow = [msgspec.structs.replace(each, p95_ms=each.p95_ms + 3) for each in loads()]
    assert late_ms(slow) == pytest.approx(17.0)


def test_what_is_advised_are_settings_that_hubs_and_controllers_take() -> None:
    profile = profile_of(loads(Random(1)), is_quick=True, limit_ms=None)
    hub = msgspec.convert({"name": "h", **tomllib.loads(hub_toml(profile))}, HubSettings)
    assert hub.telemetry.deliveries_per_s_max is not None
    assert 4e5 <= hub.telemetry.deliveries_per_s_max <= 1.5e6
    planner = msgspec.convert(tomllib.loads(controller_toml(profile))["planner"], PlannerSettings)
    assert planner.delivery_cost_us == pytest.approx(0.5, rel=0.1)


def test_nothing_is_advised_where_no_knee_was_met() -> None:
    calm = [load(rate, fanout) for rate in (1e3, 2e3, 4e3) for fanout in (1, 5, 10)]
    assert hub_toml(profile_of(calm, is_quick=True, limit_ms=2.0)) == ""


def test_loads_that_only_the_driver_was_too_slow_for_do_not_count() -> None:
    slow = [msgspec.structs.replace(each, is_paced=False, cpu_ratio=0.2) for each in loads()]
    with pytest.raises(UnmeasuredError, match="stop other processes"):
        profile_of(slow, is_quick=True, limit_ms=None)
