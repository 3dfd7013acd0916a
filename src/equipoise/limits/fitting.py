"""Find the number of hubs of a limited topic, by replaying arrivals or by measuring round after round.

The replay knows what a count of messages does not: bursts, chunks, and a number of hubs that does not divide a group.
It tries every number of hubs at once. What it finds is confirmed once, by what the topic then measures; if the limit
does not hold, other numbers are tried by binary search (`SplitFit.judged`). Measuring alone, as the paper does it, puts
all publishers at one hub, halves their number until the hub keeps the limit, and gives the rest to the next hub; it is
here as the baseline.

Always true: a fit that is within its limit names the smallest number of hubs that is; else the one with the lowest
latency, and says that it is not within.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

__all__ = ["MARGIN", "FilledHubs", "Fit", "SplitFit", "best_fit", "measured_fit"]

# A fit must stay this far below the limit: what was recorded is not what will come.
MARGIN = 0.2


class Fit(NamedTuple):
    """A number of hubs, and the latency with it."""

    hubs: int
    latency_s: float
    is_within: bool


def best_fit(latency_s_by_hubs: Mapping[int, float], limit_s: float, margin: float = MARGIN) -> Fit:
    """The smallest number of hubs with a latency below the limit less the margin; else the best there is."""
    target_s = limit_s * (1 - margin)
    for hubs in sorted(latency_s_by_hubs):
        if latency_s_by_hubs[hubs] <= target_s:
            return Fit(hubs, latency_s_by_hubs[hubs], is_within=True)
    hubs = min(latency_s_by_hubs, key=lambda count: (latency_s_by_hubs[count], count))
    return Fit(hubs, latency_s_by_hubs[hubs], is_within=latency_s_by_hubs[hubs] <= limit_s)


class SplitFit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many hubs a limited topic should have, as replayed, then as measured; or why that is not known."""

    # When it was found.
    at_s: float
    # To be tried, or tried; 0: not known.
    hubs: int = 0
    # At the quantile of the topic's limit, with so many hubs; and of one undivided bucket before as many.
    latency_s: float = 0.0
    undivided_s: float = 0.0
    is_within: bool = False
    # Whether so many hubs have been measured to keep the limit, or nothing is left to be tried.
    is_confirmed: bool = False
    # The most hubs that were measured not to keep the limit, and the fewest that were measured to; 0: none were.
    broken_with: int = 0
    held_with: int = 0
    note: str = ""
    # The number of the order of publishers that was found; 0: none was.
    order: int = 0
    # Whether the latest attempt has found nothing; the numbers are those of the one before it.
    is_failed: bool = False

    def failed(self, at_s: float, note: str) -> SplitFit:
        """The next attempt has found nothing, for this reason: what was known before holds."""
        return msgspec.structs.replace(self, at_s=at_s, note=note, is_failed=True)

    def judged(self, hubs: int, most: int, *, holds: bool) -> SplitFit:
        """With so many hubs the limit was measured to hold, or not; at most `most` can be had."""
        broken = self.broken_with if holds else max(self.broken_with, hubs)
        held = min(hubs, self.held_with or hubs) if holds else self.held_with
        # A first try that holds is what was looked for; else the least number lies between the two.
        is_over = (holds and not broken) or (held or most + 1) - broken <= 1
        if is_over:
            note = "" if held else f"no number of hubs up to {most} meets the limit"
            return msgspec.structs.replace(
                self, hubs=held or most, is_confirmed=True, broken_with=broken, held_with=held, note=note
            )
        middle = (broken + (held or most + 1)) // 2
        return msgspec.structs.replace(self, hubs=middle, broken_with=broken, held_with=held)


class FilledHubs(NamedTuple):
    """Publishers at each hub, in the order in which hubs were filled, and rounds of measuring that each took."""

    publishers: tuple[int, ...]
    rounds: tuple[int, ...]
    # Publishers for which no hub was left.
    unplaced: int

    @property
    def rounds_total(self) -> int:
        return sum(self.rounds)


def measured_fit(
    publishers: int,
    hubs: int,
    measure_s: Callable[[int, int, int], float],
    limit_s: float,
    margin: float = MARGIN,
) -> FilledHubs:
    """Fill hub after hub by binary search. `measure_s(hub, first, n)` is one round: n publishers from `first` on there.

    A search ends with the first latency within the margin below the limit, or when it cannot go on.
    """
    placed: list[int] = []
    rounds: list[int] = []
    left = publishers
    for hub in range(hubs):
        if not left:
            break
        fitting, used = _search(left, partial(measure_s, hub, publishers - left), limit_s, margin)
        placed.append(fitting)
        rounds.append(used)
        left -= fitting
    return FilledHubs(tuple(placed), tuple(rounds), left)


def _search(most: int, measure_s: Callable[[int], float], limit_s: float, margin: float) -> tuple[int, int]:
    """The number of publishers that a hub keeps, and the rounds it took to find out."""
    if measure_s(most) <= limit_s:
        return most, 1
    low, high, rounds = 0, most, 1
    while high - low > 1:
        middle = (low + high) // 2
        found_s = measure_s(middle)
        rounds += 1
        if found_s > limit_s:
            high = middle
        else:
            low = middle
            if found_s >= limit_s * (1 - margin):
                break
    return low, rounds
