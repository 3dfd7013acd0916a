"""How much a hub's load wobbles by itself, so that wobbling is not taken for news.

Of each hub a slow mean and a slower variance of its rise are kept: how much its load ratio went up within a window. A
load that rises all the time has a rise that stays the same, so growth is not taken for noise; and a step is none
either: what is far out counts as three deviations at most, so that one event does not make the planner deaf.
"""

from __future__ import annotations

import math

import msgspec

__all__ = ["HubNoise", "heard"]

# A minute: six windows. Slower than a hub's own wobbling, faster than its day.
_LEVEL_S = 60.0
_VARIANCE_S = 300.0
_CLIP = 3.0
# Until a hub has been heard: what a hub with a few hundred topics of ordinary traffic shows.
_PRIOR = 0.03
# Of seconds that wobble independently, the mean over ten varies 0.29 times as much as the rise over them.
_MEAN_PART = 0.29


class HubNoise(msgspec.Struct, frozen=True, array_like=True):
    """Deviations are those of a view, which is a mean over its window."""

    rise_level: float = 0.0
    rise_variance: float = _PRIOR**2
    # What the last view showed; below 0: not heard yet.
    ratio_last: float = -1.0

    def is_growing(self, ratio: float, expected: float, parts: float) -> bool:
        """Whether the mean has gone the way to what is expected, `parts` being the part of the window that is new.

        After one second that stands out the trend says the same as after a step; but it does not go on.
        """
        if self.ratio_last < 0:
            return False
        return ratio - self.ratio_last >= 0.75 * min(1.0, parts) * (expected - self.ratio_last)

    @property
    def deviation(self) -> float:
        """Of the load ratio."""
        return _MEAN_PART * self.rise_deviation

    @property
    def rise_deviation(self) -> float:
        return math.sqrt(self.rise_variance)


def heard(noise: HubNoise, ratio: float, rise: float, elapsed_s: float) -> HubNoise:
    """With one more view, `elapsed_s` after the one before."""
    if noise.ratio_last < 0:
        return msgspec.structs.replace(noise, ratio_last=ratio)
    keep, keep_variance = math.exp(-elapsed_s / _LEVEL_S), math.exp(-elapsed_s / _VARIANCE_S)
    off = _clipped(rise - noise.rise_level, noise.rise_deviation)
    return HubNoise(
        rise_level=keep * noise.rise_level + (1 - keep) * rise,
        rise_variance=keep_variance * noise.rise_variance + (1 - keep_variance) * off**2,
        ratio_last=ratio,
    )


def _clipped(off: float, deviation: float) -> float:
    bound = _CLIP * max(deviation, 1e-3)
    return max(-bound, min(bound, off))
