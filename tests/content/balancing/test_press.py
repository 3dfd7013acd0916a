"""PRESS gives the paper's own numbers, and samples are the matched messages."""

from __future__ import annotations

import pytest

from equipoise.content.balancing.delay_fit import DelayFit
from equipoise.content.balancing.load import LoadMeter, delay_difference, mean_load
from equipoise.content.balancing.press import PressSampler, publication_rate
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode
from equipoise.content.index import FilterIndex, listed

from .support import filter_of, load_of

STOCK = "class = 'STOCK'"
# Table 1 of the paper, and the messages in the order of their arrival.
CANDIDATES = {
    STOCK: "110111",
    f"{STOCK} and volume > 15": "110100",
    f"{STOCK} and volume > 150": "100000",
    "class = 'SPORTS'": "001000",
}
COVERS = (f"{STOCK} and volume > 50", f"{STOCK} and volume < 5", "class = 'MOVIES'")
MESSAGES = (
    {"class": "STOCK", "volume": 0},
    {"class": "STOCK", "volume": 10},
    {"class": "STOCK", "volume": 20},
    {"class": "SPORTS", "type": "racing"},
    {"class": "STOCK", "volume": 100},
    {"class": "STOCK", "volume": 500},
)


def table_1(covers: tuple[str, ...] = COVERS) -> PressSampler[Filter]:
    index: FilterIndex[FilterNode] = FilterIndex()
    for text in CANDIDATES:
        index.add(FilterNode(filter_of(text)))
    sampler: PressSampler[Filter] = PressSampler(map(filter_of, covers), samples=6, ends_s=30.0)
    for message in MESSAGES:
        sampler.take(message, [node.filter for node in listed(index.match(message))], 125)
    return sampler


def test_table_1_of_the_paper_to_the_bit() -> None:
    profile = table_1().profile(3.0)
    found = {text: format(profile.bits[filter_of(text)], "06b") for text in CANDIDATES}
    assert found == CANDIDATES
    assert format(profile.covered_bits, "06b") == "110001"
    each = [format(table_1((cover,)).profile(3.0).covered_bits, "06b") for cover in COVERS]
    assert each == ["110000", "000001", "000000"]


def test_the_rates_of_the_paper_by_equations_2_and_3() -> None:
    profile = table_1().profile(3.0)
    stock = profile.bits[filter_of(STOCK)]
    assert profile.rate(stock) == 2.5
    left = stock & ~profile.covered_bits
    assert format(left, "06b") == "000110"
    assert profile.rate(left) == 1.0
    # When it has moved, the acceptor gets what it matched as well.
    assert format(profile.covered_bits | stock, "06b") == "110111"
    assert profile.bytes_mean == 125


def test_sampling_ends_with_enough_samples_or_in_time() -> None:
    sampler = table_1()
    assert sampler.is_over(0.0)
    sampler.take(MESSAGES[0], [filter_of(STOCK)], 125)
    assert sampler.samples == 6
    few: PressSampler[Filter] = PressSampler((), samples=50, ends_s=30.0)
    assert not few.is_over(29.9)
    assert few.is_over(30.0)
    assert publication_rate(3.0, 0, 0) == 0.0


def test_delays_are_compared_by_equation_1() -> None:
    assert delay_difference(0.03, 0.01, 0.1) == pytest.approx(0.2)
    assert delay_difference(0.01, 0.03, 0.1) == pytest.approx(-0.2)


def test_a_cluster_is_the_mean_of_its_edges() -> None:
    mean = mean_load(
        [load_of(input_ratio=0.2, output_ratio=0.4), load_of(input_ratio=0.6, output_ratio=0.2, delay_s=0.04)]
    )
    assert mean.input_ratio == pytest.approx(0.4)
    assert mean.output_ratio == pytest.approx(0.3)
    assert mean.delay_s == pytest.approx(0.03)
    assert mean_load([]).input_ratio == 0.0


def metered(meter: LoadMeter, *, leaving: int = 0) -> None:
    for step in range(200):
        now_s = step * 0.1
        meter.arrived(now_s)
        meter.matched(
            now_s, delay_s=0.02, matches=10, subscriptions=100, staying=100 - leaving, staying_bytes=10 * 125
        )


def test_a_meter_measures_the_ratios_of_arriving_messages() -> None:
    meter = LoadMeter(window_s=10.0, bandwidth_bytes_per_s=25_000, subscription_s=2e-4)
    metered(meter)
    load = meter.load(19.95, subscriptions=100)
    # Ten messages a second, of 20 ms and 1,250 bytes each.
    assert load.input_ratio == pytest.approx(0.2, rel=0.02)
    assert load.output_ratio == pytest.approx(0.5, rel=0.02)
    assert load.delay_s == pytest.approx(0.02)


def test_a_queue_that_drains_is_no_load() -> None:
    """1. A hub takes 100 messages within a second that had come long before. 2. Its ratios are those of arrivals."""
    meter = LoadMeter(window_s=10.0, bandwidth_bytes_per_s=25_000, subscription_s=2e-4)
    for step in range(100):
        meter.arrived(step * 0.1)
    for step in range(100):
        meter.matched(
            9.0 + step * 0.01, delay_s=0.01, matches=1, subscriptions=50, staying=50, staying_bytes=125
        )
    load = meter.load(10.0, subscriptions=50)
    assert load.input_ratio == pytest.approx(0.1, rel=0.05)
    assert load.output_ratio == pytest.approx(10 * 125 / 25_000, rel=0.05)


def test_subscribers_that_wait_to_leave_are_no_load() -> None:
    meter = LoadMeter(window_s=10.0, bandwidth_bytes_per_s=25_000, subscription_s=2e-4)
    metered(meter, leaving=50)
    assert meter.load(19.95, subscriptions=50).delay_s == pytest.approx(0.01)


def test_samples_older_than_the_window_are_dropped() -> None:
    meter = LoadMeter(window_s=10.0, bandwidth_bytes_per_s=25_000, subscription_s=2e-4)
    metered(meter)
    assert meter.load(60.0, subscriptions=100).input_rate == 0.0


def test_a_fit_finds_the_cost_of_a_match_and_of_a_subscription() -> None:
    fit = DelayFit(subscription_s=1e-6)
    assert fit.costs() == (1e-6, 0.0)
    for step in range(4_000):
        matches, subscriptions = step % 17, 100 + step % 31
        fit.add(1e-3 + 4e-6 * matches + 2e-6 * subscriptions, matches, subscriptions)
    subscription_s, match_s = fit.costs()
    assert match_s == pytest.approx(4e-6, rel=0.1)
    assert subscription_s == pytest.approx(2e-6, rel=0.1)


def test_a_fit_keeps_the_profile_if_nothing_varies() -> None:
    fit = DelayFit(subscription_s=2e-4)
    for _ in range(1_000):
        fit.add(0.02, 5, 100)
    assert fit.costs() == pytest.approx((2e-4, 0.0))


def test_no_cost_is_negative() -> None:
    fit = DelayFit(subscription_s=0.0)
    for step in range(1_000):
        fit.add(0.02 - 1e-5 * (step % 7), step % 7, 100 - step % 11)
    assert min(fit.costs()) >= 0.0
