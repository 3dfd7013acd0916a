"""The summary of many clients, and when a change of the centroid is announced."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.coordinates import ClientGroup, Coordinate, Stability, centroid_of
from equipoise.coordinates.centroid import deviation_s, expected_worst_s, worst_s
from equipoise.coordinates.stability import energy_ms

places = st.builds(
    lambda x, y, height, adjustment: Coordinate((x, y), 0.1, height, adjustment),
    st.floats(-0.2, 0.2),
    st.floats(-0.2, 0.2),
    st.floats(0, 0.05),
    st.floats(-0.001, 0.001),
)


def at(x_ms: float, y_ms: float = 0.0, height_ms: float = 0.0) -> Coordinate:
    return Coordinate((x_ms / 1_000, y_ms / 1_000), 0.1, height_ms / 1_000)


@given(st.lists(places, min_size=1, max_size=8), st.lists(places, min_size=1, max_size=8), places)
def test_the_summary_never_promises_less_than_the_clients_themselves_need(
    producers: list[Coordinate], consumers: list[Coordinate], hub: Coordinate
) -> None:
    inward, outward = ClientGroup.of(producers), ClientGroup.of(consumers)
    assert inward is not None and outward is not None
    # An adjustment counts unless the distance would fall below zero; next to zero the two cases may differ by it.
    slack_s = 0.01
    assert expected_worst_s(inward, outward, hub) >= worst_s(producers, consumers, hub) - slack_s


def test_latency_is_half_of_both_round_trips() -> None:
    assert worst_s([at(10)], [at(-30), at(0)], at(0)) == pytest.approx(0.005 + 0.015)


def test_one_client_in_one_place_needs_no_deviation() -> None:
    crowd = ClientGroup.of([at(20, height_ms=5)])
    assert crowd is not None and crowd.deviation_s == 0.0
    assert crowd.worst_leg_s(at(0)) == pytest.approx(0.0125)


def test_the_centre_lies_between_the_many_and_the_few() -> None:
    crowd = ClientGroup.of([*[at(0)] * 6, at(60)])
    assert crowd is not None
    # The mean is at 8.6 ms, 51.4 ms of round trip from the farthest; the middle is at 30.
    assert crowd.centroid.point_s[0] == pytest.approx(0.030, abs=0.005)
    assert 0.015 <= crowd.deviation_s <= 0.018


@given(st.lists(places, min_size=1, max_size=100))
def test_no_deviation_is_larger_than_that_from_the_mean(some: list[Coordinate]) -> None:
    crowd, mean = ClientGroup.of(some), centroid_of(some)
    assert crowd is not None
    assert crowd.deviation_s <= max(deviation_s(one, mean) for one in some) / 2
    assert crowd.deviation_s == max(deviation_s(one, crowd.centroid) for one in some) / 2


def test_no_client_has_no_centroid() -> None:
    assert ClientGroup.of([]) is None
    assert worst_s([], [at(1)], at(0)) == 0.0


def test_the_centroid_is_in_the_middle() -> None:
    middle = centroid_of([at(0, 0, 2), at(10, 20, 4)])
    assert middle.point_s == pytest.approx((0.005, 0.010))
    assert middle.height_s == pytest.approx(0.003)


def test_energy_is_zero_between_equal_samples_and_grows_with_their_distance() -> None:
    rng = random.Random(1)
    cloud = [at(rng.gauss(0, 1), rng.gauss(0, 1)) for _ in range(32)]
    assert energy_ms(cloud, cloud) == pytest.approx(0.0, abs=1e-9)
    near, far = ([at(1_000 * c.point_s[0] + shift, 0) for c in cloud] for shift in (2, 20))
    assert 0 < energy_ms(cloud, near) < energy_ms(cloud, far)


def test_small_changes_are_not_announced_and_a_real_move_is() -> None:
    rng = random.Random(2)
    stability = Stability()

    def tremble(x_ms: float, count: int) -> list[Coordinate]:
        told = [stability.consider(at(x_ms + rng.gauss(0, 0.3), rng.gauss(0, 0.3))) for _ in range(count)]
        return [coordinate for coordinate in told if coordinate is not None]

    first = tremble(0, 500)
    # 1, 2, 4, 8, 16 and 32 samples: then there is a window.
    assert len(first) == 6
    moved = tremble(15, 500)
    assert 1 <= len(moved) <= 12
    assert stability.announced is not None and abs(stability.announced.point_s[0] - 0.015) < 0.002
    assert tremble(15, 500) == []


@pytest.mark.parametrize("seed", range(5))
def test_sliding_windows_have_the_energy_of_recomputed_ones(seed: int) -> None:
    rng = random.Random(seed)
    stability, x_ms = Stability(), 0.0
    start: list[Coordinate] = []
    current: list[Coordinate] = []
    for _ in range(600):
        x_ms += rng.choice((0.0, 0.0, 0.0, 0.05))
        coordinate = at(x_ms + rng.gauss(0, 0.3), rng.gauss(0, 0.3))
        told = stability.consider(coordinate)
        current = [*current, coordinate][-32:]
        if len(start) < 32:
            start.append(coordinate)
        elif told is None:
            assert energy_ms(start, current) <= 8.0 + 1e-9
        else:
            assert energy_ms(start, current) > 8.0 - 1e-9
            start = list(current)


def test_a_known_change_of_location_is_announced_at_once() -> None:
    stability = Stability()
    for _ in range(100):
        stability.consider(at(0))
    assert stability.jump(at(50)) == at(50) == stability.announced
    assert stability.consider(at(50)) is not None


def test_a_client_behind_a_proxy_is_farther_by_its_access_latency() -> None:
    proxy = at(10, height_ms=1)
    assert proxy.behind(0.005).distance_s(at(0)) == pytest.approx(proxy.distance_s(at(0)) + 0.005)
