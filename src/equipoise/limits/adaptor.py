"""Shares of a split envelope that follow the traffic: rates by mean rates, depths by largest backlogs.

Publishers change their pace, come and go; what one home no longer needs delays messages at another. Every home says
once a second how many messages came to it, how many wait, and how many tokens deep its bucket was drained at most.
Over the last seconds, rates are divided as the messages were, and depths as the largest drains were. What waits counts
as messages too, as many a second as let it be gone soon: by mean rates alone, the few tokens that a topic has to
spare would take minutes to work off what a shift of load has left. While a home is behind, the last seconds say more
than the window, and small corrections are worth a plan.

Changing shares has a price: a plan, and depth that begins empty. So shares change only where one is off by more than
noise, and no sooner than a while after the last change.

Always true:
    rate parts and depth parts each sum up to the whole;
    no part is below the floor, whatever was seen: a home that is asked again after a pause is not starved;
    without anything seen nothing changes.
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
    """How quickly shares follow, and how little they are moved by noise."""

    # Seconds that are looked back on.
    window_s: int = 10
    # The least part of a home, of an equal one.
    floor: float = 0.1
    # Shares change if a home needs more than its share by this part of it, or the wholes differ as much.
    tolerance: float = 0.15
    # Seconds without a change after one: what was drained before it says nothing of the new shares. With 2, one of ten
    # shifts of load took 16 s to make up for; with 1, all of 25 took 12 s at most, and noise changes no more.
    pause_s: int = 1
    # A home is behind if more waits than came to it in this part of a second; then these settings count.
    behind_s: float = 0.1
    behind_window_s: int = 2
    behind_tolerance: float = 0.02
    # What waits should be gone in so many seconds.
    drain_s: float = 2.0


class HomeSecond(NamedTuple):
    """What one home saw in a second."""

    # That came.
    messages: int
    # The most tokens that were missing from a full bucket.
    drained: float
    # At its end.
    waiting: int = 0


class HomeWindow(NamedTuple):
    """What one home saw in the last seconds."""

    # Messages a second: over the window, and in its last seconds.
    rate_per_s: float
    recent_per_s: float
    # The most tokens that were missing from a full bucket.
    drained: float
    # At its end.
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
        """Take in a second of every home; the parts that should hold from now on, or None to leave them."""
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
    """Whether more waits at a home than comes to it in a moment, and another home has tokens to give."""
    behind = [home.waiting > settings.behind_s * home.recent_per_s for home in homes]
    return any(behind) and not all(behind)


def adapted(
    parts: SplitParts, homes: Sequence[HomeWindow], window_s: float, settings: AdaptorSettings
) -> SplitParts | None:
    """The parts that should hold in place of these; None to leave them."""
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
    """The parts that the window asks for."""
    rates = [home.recent_per_s if behind else home.rate_per_s for home in homes]
    if not any(rates):
        return None
    demand = [rate + home.waiting / settings.drain_s for rate, home in zip(rates, homes, strict=True)]
    drained = [home.drained for home in homes]
    parts = in_parts(demand, settings.floor)
    return SplitParts(parts, in_parts(drained, settings.floor) if any(drained) else parts)


def _noise(homes: Sequence[HomeWindow], window_s: float) -> float:
    """Twice the standard deviation of a part that counts of messages have by themselves, in millionths."""
    messages = window_s * sum(home.rate_per_s for home in homes)
    return 2 * PARTS * math.sqrt(0.25 / max(1.0, messages))


def in_parts(weights: Sequence[float], floor: float) -> tuple[int, ...]:
    """Parts in proportion, none below the floor, with what is left over at the first."""
    least = int(PARTS * floor / len(weights))
    free, total = PARTS - least * len(weights), sum(weights)
    parts = [least + int(free * weight / total) for weight in weights]
    parts[0] += PARTS - sum(parts)
    return tuple(parts)
