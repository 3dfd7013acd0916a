"""Shares that follow traffic: back within the limit after a shift, and at rest over an hour of noise."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.limits.adaptor import AdaptorSettings, HomeSecond, ShareAdaptor, SplitParts
from equipoise.limits.bucket import TOKEN, Bucket
from equipoise.limits.shares import PARTS

RATE, BURST = 1_100.0, 60
STEP_NS = 1_000_000


class SplitTopic:
    """Buckets of several homes, in steps of a millisecond, with what waits at each in the order of its arrival."""

    def __init__(self, homes: int, adaptor: ShareAdaptor, seed: int) -> None:
        self._rng = random.Random(seed)
        self._adaptor, self._now = adaptor, 0
        self._buckets = [Bucket(1, 0, 0) for _ in range(homes)]
        self._waiting: list[list[int]] = [[] for _ in range(homes)]
        self._apply(adaptor.parts)
        for bucket in self._buckets:
            bucket.fill(bucket.depth)

    def _apply(self, parts: SplitParts) -> None:
        for bucket, rate, depth in zip(self._buckets, parts.rates, parts.depths, strict=True):
            bucket.resize(int(RATE * rate), max(TOKEN, BURST * TOKEN * depth // PARTS), self._now)

    def second(self, rates_per_s: list[float]) -> float:
        """The 99th percentile of waits in milliseconds over the next second of Poisson arrivals."""
        waits: list[int] = []
        messages, drained = [0] * len(rates_per_s), [0.0] * len(rates_per_s)
        for _ in range(1_000):
            self._now += STEP_NS
            for home, rate in enumerate(rates_per_s):
                bucket, waiting = self._buckets[home], self._waiting[home]
                # At most a message in a millisecond: as good as Poisson at these rates.
                if self._rng.random() < rate / 1_000:
                    waiting.append(self._now)
                    messages[home] += 1
                while waiting and bucket.take(1, self._now):
                    waits.append(self._now - waiting.pop(0))
                missing = bucket.depth / TOKEN - bucket.level(self._now) / TOKEN + len(waiting)
                drained[home] = max(drained[home], missing)
        found = self._adaptor.observe(
            [
                HomeSecond(count, drain, len(waiting))
                for count, drain, waiting in zip(messages, drained, self._waiting, strict=True)
            ]
        )
        if found is not None:
            self._apply(found)
        return sorted(waits)[int(0.99 * len(waits))] / 1e6 if waits else 0.0


@pytest.mark.parametrize("seed", range(1, 11))
def test_after_load_has_shifted_waits_are_short_again_within_fifteen_seconds(seed: int) -> None:
    """A tenth of the rate is to spare: what waits after the first second takes most of that time to work off."""
    topic = SplitTopic(3, ShareAdaptor(3), seed)
    for _ in range(20):
        topic.second([330.0, 330.0, 330.0])
    shifted = [topic.second([700.0, 200.0, 90.0]) for _ in range(40)]
    assert max(shifted[:5]) > 400.0, "the shift does not hurt: the test shows nothing"
    assert max(shifted[15:]) <= 100.0, shifted
    assert max(shifted[25:]) <= 10.0, shifted


def test_without_an_adaptor_waits_do_not_end() -> None:
    still = ShareAdaptor(3, AdaptorSettings(tolerance=1e9, behind_tolerance=1e9))
    topic = SplitTopic(3, still, seed=1)
    shifted = [topic.second([700.0, 200.0, 90.0]) for _ in range(30)]
    assert shifted[-1] > 1_000.0


def test_an_hour_of_noise_changes_nothing_after_the_first_minute() -> None:
    rng = random.Random(5)
    adaptor = ShareAdaptor(4)

    def second() -> list[HomeSecond]:
        rates = (40, 30, 20, 10)
        return [HomeSecond(max(0, round(rng.gauss(rate, rate**0.5))), 5 + rng.random()) for rate in rates]

    for _ in range(60):
        adaptor.observe(second())
    settled = adaptor.changes
    for _ in range(3_600):
        adaptor.observe(second())
    assert adaptor.changes - settled <= 1


def test_without_tolerance_and_pause_the_same_noise_makes_shares_flap() -> None:
    rng = random.Random(5)
    adaptor = ShareAdaptor(2, AdaptorSettings(tolerance=-1.0, pause_s=0))
    for _ in range(600):
        adaptor.observe([HomeSecond(round(rng.gauss(50, 7)), 5.0) for _ in range(2)])
    assert adaptor.changes > 100


def test_a_home_without_traffic_keeps_its_floor() -> None:
    adaptor = ShareAdaptor(4)
    for _ in range(20):
        adaptor.observe([HomeSecond(1_000, 50.0), *[HomeSecond(0, 0.0)] * 3])
    assert all(part == PARTS * 0.1 / 4 for part in adaptor.parts.rates[1:])
    assert all(part == PARTS * 0.1 / 4 for part in adaptor.parts.depths[1:])


def left_waiting(floor: float) -> int:
    """Messages that still wait after the first second of a home that had no traffic for a minute."""
    topic = SplitTopic(2, ShareAdaptor(2, AdaptorSettings(floor=floor)), seed=4)
    for _ in range(60):
        topic.second([900.0, 0.0])
    topic.second([900.0, 30.0])
    return len(topic._waiting[1])


def test_without_the_floor_a_home_that_had_no_traffic_has_no_tokens_when_it_comes() -> None:
    assert left_waiting(AdaptorSettings().floor) == 0
    assert left_waiting(1e-6) > 10


def test_nothing_seen_changes_nothing() -> None:
    adaptor = ShareAdaptor(2)
    before = adaptor.parts
    for _ in range(30):
        assert adaptor.observe([HomeSecond(0, 0.0), HomeSecond(0, 0.0)]) is None
    assert adaptor.parts == before


@given(
    st.integers(1, 6).flatmap(
        lambda homes: st.lists(
            st.lists(st.tuples(st.integers(0, 10_000), st.floats(0, 1e6)), min_size=homes, max_size=homes),
            min_size=1,
            max_size=40,
        )
    )
)
def test_parts_are_always_a_whole_and_none_is_below_the_floor(
    seconds: list[list[tuple[int, float]]],
) -> None:
    adaptor = ShareAdaptor(len(seconds[0]))
    for second in seconds:
        adaptor.observe([HomeSecond(*home) for home in second])
        for parts in adaptor.parts:
            assert sum(parts) == PARTS
            assert min(parts) >= int(PARTS * 0.1 / len(parts))
