"""Shares of a split envelope that follow the traffic: rates by mean rates, depths by largest backlogs.

Publishers change their rate, join and leave; tokens that one home does not use would serve messages at another. Every
home reports once a second its messages, its backlog, and the most tokens missing from its bucket. Over the last
seconds, rates are divided in proportion to messages, and depths in proportion to the largest drains. The backlog counts
as messages too, at a rate that clears it soon: by mean rates alone, the few spare tokens of a topic would take minutes
to clear the backlog of a shift of load. While a home is behind, the last seconds count more than the window, and small
corrections are worth a plan.

A change of shares costs a plan, and new depth begins empty. So shares change only if one is off by more than noise,
and not within some seconds of the last change.

Always true:
    rate parts and depth parts each sum up to the whole;
    no part is below the floor: a home that becomes active after a pause has tokens;
    without messages nothing changes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from equipoise.limits.shares import PARTS, equal_parts

__all__ = [
    "AdaptorSettings",
    "HomeSecond",
    "HomeWindow",
    "ShareAdaptor",
    "SplitParts",
    "adapted",
    "in_parts",
    "is_behind",
]


class AdaptorSettings(NamedTuple):
    """How quickly shares follow the traffic, and how little noise changes them."""

    # Length of the window in seconds.
    window_s: int = 10
    # The least part of a home, relative to an equal part.
    floor: float = 0.1
    # Shares change if a home needs more than its part of rate or depth by this ratio.
    tolerance: float = 0.15
    # Seconds between changes: earlier drains are no measure of new shares. With 2, one of ten shifts of load took 16 s
    # to absorb; with 1, all of 25 took 12 s at most, and noise causes no more changes.
    pause_s: int = 1
    # A home is behind if its backlog exceeds its messages in this part of a second; then the next settings apply.
    behind_s: float = 0.1
    behind_window_s: int = 2
    behind_tolerance: float = 0.02
    # A backlog should be cleared in this many seconds.
    drain_s: float = 2.0


class HomeSecond(NamedTuple):
    """Measurements of one home in a second."""

    # Arrived messages.
    messages: int
    # The most tokens that were missing from a full bucket.
    drained: float
    # The backlog at the end of the second.
    waiting: int = 0


class HomeWindow(NamedTuple):
    """Measurements of one home over the window."""

    # Messages a second: over the window, and in its last seconds.
    rate_per_s: float
    recent_per_s: float
    # The most tokens that were missing from a full bucket.
    drained: float
    # The backlog at its end.
    waiting: float


class SplitParts(NamedTuple):
    """Parts of rate and depth of each home, in millionths, the trunk's first."""

    rates: tuple[int, ...]
    depths: tuple[int, ...]


class ShareAdaptor:
    """The shares of one topic. `observe` once a second, in seconds that only grow."""

    def __init__(
        self, homes: int, settings: AdaptorSettings | None = None, parts: SplitParts | None = None
    ) -> None:
        self._settings = settings or AdaptorSettings()
        self._seen: deque[tuple[HomeSecond, ...]] = deque(maxlen=self._settings.window_s)
        self._quiet_s = 0
        self.parts = parts or SplitParts(equal_parts(homes), equal_parts(homes))
        self.changes = 0

    def observe(self, homes: Sequence[HomeSecond]) -> SplitParts | None:
        """Add a second of every home; return the new parts, None if they stay."""
        assert len(homes) == len(self.parts.rates), "a topic with other homes has another adaptor"
        self._seen.append(tuple(homes))
        if self._quiet_s > 0:
            self._quiet_s -= 1
            return None
        windows = [self._window(home) for home in range(len(homes))]
        wanted = adapted(self.parts, windows, len(self._seen), self._settings)
        if wanted is not None:
            self.parts = wanted
            self._quiet_s = self._settings.pause_s
            self.changes += 1
        return wanted

    def _window(self, home: int) -> HomeWindow:
        seconds = [second[home] for second in self._seen]
        recent = seconds[-self._settings.behind_window_s :]
        return HomeWindow(
            sum(second.messages for second in seconds) / len(seconds),
            sum(second.messages for second in recent) / len(recent),
            max(second.drained for second in seconds),
            seconds[-1].waiting,
        )


def is_behind(homes: Sequence[HomeWindow], settings: AdaptorSettings) -> bool:
    """Whether a home's backlog exceeds its arrivals of a moment, while another home is not behind."""
    behind = [home.waiting > settings.behind_s * home.recent_per_s for home in homes]
    return any(behind) and not all(behind)


def adapted(
    parts: SplitParts, homes: Sequence[HomeWindow], window_s: float, settings: AdaptorSettings
) -> SplitParts | None:
    """The new parts; None if the present ones stay."""
    behind = is_behind(homes, settings)
    wanted = _wanted(homes, settings, behind=behind)
    if wanted is None:
        return None
    if behind:
        tolerance, noise = settings.behind_tolerance, 0.0
    else:
        tolerance, noise = settings.tolerance, _noise(homes, window_s)
    pairs = zip((*parts.rates, *parts.depths), (*wanted.rates, *wanted.depths), strict=True)
    is_worth_it = any(needed > has * (1 + tolerance) + noise for has, needed in pairs)
    return wanted if is_worth_it else None


def _wanted(homes: Sequence[HomeWindow], settings: AdaptorSettings, *, behind: bool) -> SplitParts | None:
    """The parts in proportion to the window's measurements."""
    rates = [home.recent_per_s if behind else home.rate_per_s for home in homes]
    if not any(rates):
        return None
    demand = [rate + home.waiting / settings.drain_s for rate, home in zip(rates, homes, strict=True)]
    drained = [home.drained for home in homes]
    parts = in_parts(demand, settings.floor)
    return SplitParts(parts, in_parts(drained, settings.floor) if any(drained) else parts)


def _noise(homes: Sequence[HomeWindow], window_s: float) -> float:
    """Twice the standard deviation of a part due to counting noise, in millionths."""
    messages = window_s * sum(home.rate_per_s for home in homes)
    return 2 * PARTS * math.sqrt(0.25 / max(1.0, messages))


def in_parts(weights: Sequence[float], floor: float) -> tuple[int, ...]:
    """Parts in proportion, none below the floor, with the remainder of rounding at the first."""
    least = int(PARTS * floor / len(weights))
    free, total = PARTS - least * len(weights), sum(weights)
    parts = [least + int(free * weight / total) for weight in weights]
    parts[0] += PARTS - sum(parts)
    return tuple(parts)
