"""Find a rate and a burst for a topic from recorded arrivals.

The recipe of SRTM: the rate is 1.1 times that of the trace, the burst the smallest at which 99 of 100 messages have no
access delay. A burst fitted to one trace can be far too small for the next, so it is fitted to the first half and
judged on the second.

A bucket that is full at first delays message i, of those that come at a_1 ≤ a_2 ≤ …, until max(a_i, v_i - (b - 1)/r),
with v_i = max over j ≤ i of a_j + (i - j)/r: running maxima, so a trace of a million messages takes milliseconds.

Pure: a trace comes as arrays, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from equipoise.limits.shares import BURST_MAX, RATE_MAX, RATE_MIN

__all__ = [
    "MESSAGES_MIN",
    "BurstCandidate",
    "CandidateDelays",
    "EnvelopeFit",
    "candidates",
    "delays_of",
    "fit_envelope",
]

Times: TypeAlias = NDArray[np.float64]

HEADROOM = 1.1
QUANTILE = 0.99
# In each half: with fewer, 99 of 100 means all of them.
MESSAGES_MIN = 100
# Bursts on the curve.
CURVE_POINTS = 12
# The resolution of a float64 for seconds of a day is 10 ps.
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class EnvelopeFit:
    """`rate_per_s` and `burst` come from the first part of a trace, `judged_s` is the access delay of the second."""

    rate_per_s: float
    burst: int
    fitted_messages: int
    judged_messages: int
    judged_s: float
    # The least rate and burst of this recipe over the whole trace: not validated on other data.
    whole_rate_per_s: float
    whole_burst: int

    @property
    def has_enough(self) -> bool:
        return min(self.fitted_messages, self.judged_messages) >= MESSAGES_MIN

    @property
    def holds(self) -> bool:
        return self.judged_s == 0.0


@dataclass(frozen=True, slots=True)
class BurstCandidate:
    """One point of the curve: both parts of the trace through one bucket."""

    rate_per_s: float
    burst: int
    fitted: Times
    judged: Times


@dataclass(frozen=True, slots=True)
class CandidateDelays:
    """Access delays at the 99th percentile, in seconds."""

    burst: int
    fitted_s: float
    judged_s: float


def fit_envelope(times: Times) -> EnvelopeFit:
    """`times`: of messages, in order."""
    fitted, judged = halves(times)
    rate = _rate(fitted)
    burst = _smallest_burst(fitted, rate)
    whole_rate = _rate(times)
    return EnvelopeFit(
        rate_per_s=rate,
        burst=burst,
        fitted_messages=len(fitted),
        judged_messages=len(judged),
        judged_s=_delay_s(judged, rate, burst),
        whole_rate_per_s=whole_rate,
        whole_burst=_smallest_burst(times, whole_rate),
    )


def halves(times: Times) -> tuple[Times, Times]:
    """Halves by time, not by messages: a part without messages is data, too."""
    if not len(times):
        return times, times
    at = int(np.searchsorted(times, (times[0] + times[-1]) / 2, side="right"))
    return times[:at], times[at:]


def candidates(times: Times, fit: EnvelopeFit) -> list[BurstCandidate]:
    """Bursts near the fitted one, from one to four times as large."""
    fitted, judged = halves(times)
    bursts = np.unique(np.geomspace(1, max(4.0, 4.0 * fit.burst), CURVE_POINTS).astype(int))
    return [
        BurstCandidate(fit.rate_per_s, int(burst), fitted, judged) for burst in {*bursts.tolist(), fit.burst}
    ]


def delays_of(candidate: BurstCandidate) -> CandidateDelays:
    rate, burst = candidate.rate_per_s, candidate.burst
    return CandidateDelays(
        burst, _delay_s(candidate.fitted, rate, burst), _delay_s(candidate.judged, rate, burst)
    )


def _rate(times: Times) -> float:
    """Within the bounds of an envelope."""
    span_s = float(times[-1] - times[0]) if len(times) > 1 else 0.0
    rate = HEADROOM * len(times) / span_s if span_s > 0 else RATE_MIN
    return min(RATE_MAX, max(RATE_MIN, rate))


def _behind_s(times: Times, rate: float) -> Times:
    """The delay of each message by a bucket of depth one."""
    turns = np.arange(len(times)) / rate
    return np.maximum.accumulate(times - turns) + turns - times


def _smallest_burst(times: Times, rate: float) -> int:
    if not len(times):
        return 1
    needed = np.ceil((_behind_s(times, rate) - _SLACK) * rate) + 1
    return int(min(BURST_MAX, max(1, np.quantile(needed, QUANTILE, method="higher"))))


def _delay_s(times: Times, rate: float, burst: int) -> float:
    if not len(times):
        return 0.0
    delays = _behind_s(times, rate) - (burst - 1) / rate
    # A message within a nanosecond of its token has no delay.
    return float(max(0.0, np.quantile(np.where(delays > _SLACK, delays, 0.0), QUANTILE, method="higher")))
