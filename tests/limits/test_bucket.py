"""The bucket against exact fractions, for any arrivals, and what splitting it costs."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from equipoise.limits import PARTS, TOKEN, Bucket, Envelope, equal_parts, nanoseconds, split


class ExactBucket:
    """The definition, in fractions of a token and of a second."""

    def __init__(self, rate: Fraction, depth: Fraction, level: Fraction) -> None:
        self.rate, self.depth, self.level, self.at = rate, depth, level, Fraction(0)

    def take(self, count: int, at: Fraction) -> bool:
        at = max(at, self.at)
        self.level = min(self.depth, self.level + (at - self.at) * self.rate)
        self.at = at
        if self.level < count:
            return False
        self.level -= count
        return True


def arrivals(random: Random, rate: float, count: int) -> list[int]:
    """Gaps from nothing to many tokens long, some of them exactly one token, some backwards."""
    now, moments = 0, []
    for _ in range(count):
        mean = 1e9 / rate
        gap = random.choice([0, 1, round(mean), round(mean) - 1, round(random.expovariate(1) * mean * 3), -5])
        now = max(0, now + gap)
        moments.append(now)
    return moments


@pytest.mark.parametrize("seed", range(60))
def test_it_admits_exactly_what_the_definition_admits(seed: int) -> None:
    random = Random(seed)
    rate = random.choice([0.001, 0.3, 7.0, 1_000.0, 33_333.333_333, 1e7])
    envelope = Envelope(rate, random.choice([1, 2, 10, 10_000]))
    whole = envelope.whole
    level = random.randrange(whole.depth + 1)
    bucket = Bucket(whole.rate, whole.depth, 0, level=level)
    exact = ExactBucket(Fraction(whole.rate, 10**6), Fraction(whole.depth, TOKEN), Fraction(level, TOKEN))
    for at in arrivals(random, rate, 400):
        count = random.choice([1, 1, 1, 2, 5])
        assert bucket.take(count, at) == exact.take(count, Fraction(at, 10**9))


@pytest.mark.parametrize("seed", range(20))
def test_no_interval_has_more_than_rate_and_burst(seed: int) -> None:
    random = Random(seed)
    rate, burst = random.choice([5.0, 1_234.5]), random.choice([1, 7])
    whole = Envelope(rate, burst).whole
    bucket = Bucket(whole.rate, whole.depth, 0, level=whole.depth)
    admitted = [at for at in sorted(arrivals(random, rate * 4, 500)) if bucket.take(1, at)]
    for first, since in enumerate(admitted):
        for last in range(first, len(admitted)):
            t = admitted[last] - since
            assert (last - first + 1) * TOKEN <= whole.rate * t + whole.depth


def test_the_wait_is_exact_to_the_nanosecond() -> None:
    bucket = Bucket(3_000_000, 2 * TOKEN, 0)
    wait = bucket.wait(1, 0)
    assert wait == 333_333_334
    assert not bucket.take(1, wait - 1)
    assert bucket.take(1, wait)
    assert bucket.wait(5, wait) is not None


def test_without_rate_or_depth_there_is_nothing_to_wait_for() -> None:
    assert Bucket(0, TOKEN, 0).wait(1, 0) is None
    assert Bucket(1, TOKEN - 1, 0).wait(1, 0) is None


def test_depth_that_is_gained_is_empty_and_a_level_above_a_smaller_depth_is_cut() -> None:
    bucket = Bucket(1_000_000, 2 * TOKEN, 0, level=2 * TOKEN)
    bucket.resize(1_000_000, 10 * TOKEN, 0)
    assert bucket.level(0) == 2 * TOKEN
    bucket.resize(1_000_000, TOKEN, 0)
    assert bucket.level(0) == TOKEN
    bucket.resize(1_000_000, 10 * TOKEN, 0)
    assert bucket.level(0) == TOKEN


def test_seconds_become_nanoseconds() -> None:
    assert nanoseconds(1.5) == 1_500_000_000


@pytest.mark.parametrize("seed", range(200))
def test_shares_sum_up_to_the_whole_and_each_is_a_token_deep(seed: int) -> None:
    random = Random(seed)
    homes = random.randint(1, 64)
    cuts = sorted(random.sample(range(1, PARTS), homes - 1))
    parts = [b - a for a, b in zip((0, *cuts), (*cuts, PARTS), strict=True)]
    if random.random() < 0.3:
        parts = list(equal_parts(homes))
    assert sum(parts) == PARTS
    whole = Envelope(random.choice([0.001, 0.7, 10.0, 99_999.9, 1e7]), homes + random.randrange(100)).whole
    shares = split(whole, parts)
    assert sum(share.rate for share in shares) == whole.rate
    assert sum(share.depth for share in shares) == whole.depth
    assert all(share.depth >= TOKEN and share.rate >= 1 for share in shares)


def test_a_burst_below_the_number_of_homes_still_sums_up() -> None:
    shares = split(Envelope(10.0, 2).whole, equal_parts(3))
    assert sum(share.depth for share in shares) == 2 * TOKEN


@pytest.mark.parametrize("seed", range(60))
def test_splitting_never_shortens_the_sum_of_delays(seed: int) -> None:
    """Proposition 1, for random arrivals, random splits and any way of dealing messages to the parts."""
    random = Random(seed)
    rate, homes = 100.0, random.randint(2, 5)
    whole = Envelope(rate, homes + random.randrange(20)).whole
    moments = sorted(arrivals(random, rate * random.choice([0.7, 1.0, 1.6]), 300))
    undivided = _departures(Bucket(whole.rate, whole.depth, 0, level=whole.depth), moments)
    shares = split(whole, equal_parts(homes))
    dealt: list[list[int]] = [[] for _ in shares]
    for at in moments:
        random.choice(dealt).append(at)
    divided = [
        left - came
        for share, own in zip(shares, dealt, strict=True)
        for came, left in zip(
            own, _departures(Bucket(share.rate, share.depth, 0, level=share.depth), own), strict=True
        )
    ]
    # To the nanosecond that each wait is rounded up by.
    assert sum(divided) + len(moments) >= sum(
        left - came for came, left in zip(moments, undivided, strict=True)
    )


def _departures(bucket: Bucket, moments: list[int]) -> list[int]:
    """When each message leaves a bucket that lets them wait in order."""
    left, departures = 0, []
    for at in moments:
        now = max(at, left)
        wait = bucket.wait(1, now)
        assert wait is not None, "it has a rate"
        left = now + wait
        assert bucket.take(1, left)
        departures.append(left)
    return departures


@pytest.mark.parametrize("seed", range(40))
def test_after_a_stall_exactly_what_would_have_been_admitted_meanwhile_is_admitted(seed: int) -> None:
    """Messages that come while a hub stands still, and are judged together at its end, at a bucket that was full."""
    random = Random(seed)
    rate, burst = random.choice([50.0, 3_000.0]), random.choice([1, 4, 30])
    whole = Envelope(rate, burst).whole
    began_at, lasted = 10**9, random.randrange(1, 20_000_000)
    prompt = Bucket(whole.rate, whole.depth, 0, level=whole.depth)
    late = Bucket(whole.rate, whole.depth, 0, level=whole.depth)
    came = sorted(began_at + random.randrange(lasted) for _ in range(random.randrange(1, 100)))
    admitted = sum(prompt.take(1, at) for at in came)
    ended_at = began_at + lasted
    judged = sum(late.take(1, ended_at, began_at) for _ in came)
    assert judged >= admitted
    # Never more than the envelope has room for from the first moment to the last.
    assert judged * TOKEN <= whole.depth + whole.rate * lasted
    # What was not used is lost at the next moment that is no stall.
    assert late.level(ended_at + 1) <= whole.depth


def test_what_a_full_bucket_did_not_take_before_the_stall_is_lost() -> None:
    bucket = Bucket(10**9, 2 * TOKEN, 0, level=2 * TOKEN)
    assert bucket.tokens(10**9, 10**9 - 5_000_000) == 2 + 5
    assert bucket.tokens(10**9 + 1_000_000, 10**9 - 5_000_000) == 2 + 6
    assert bucket.tokens(10**9 + 2_000_000) == 2


def test_a_bucket_that_is_asked_often_during_a_stall_is_full_at_its_beginning_at_most() -> None:
    """`limits-clocks`, seed 329: each question added to what a bucket may hold beyond its depth."""
    bucket = Bucket(10**6, 5 * TOKEN, 0, level=5 * TOKEN)
    ms = 1_000_000
    for now in range(2 * ms, 60 * ms, 2 * ms):
        assert bucket.level(now, max(1, now - 20 * ms)) <= 5 * TOKEN + 20 * ms * 10**6
