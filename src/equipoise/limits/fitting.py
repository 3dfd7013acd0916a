"""Find the number of hubs of a limited topic, by replaying arrivals or by measuring round after round.

The replay models what a message rate does not show: bursts, chunks, and a number of hubs that does not divide a group.
It tries every number of hubs. The result is confirmed by the topic's measured latency; if that exceeds the limit, other
numbers are tried by binary search (`SplitFit.judged`). Fitting by measurement alone, as in the paper, assigns all
publishers to one hub, halves their number until the hub keeps the limit, and assigns the rest to the next hub; it is
the baseline here.

Always true: a fit within its limit has the smallest number of hubs that is within it; otherwise the fit has the lowest
latency, and is marked as outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

__all__ = ["MARGIN", "FilledHubs", "Fit", "SplitFit", "best_fit", "measured_fit"]

# A fit must stay this far below the limit: future arrivals differ from recorded ones.
MARGIN = 0.2


class Fit(NamedTuple):
    """A number of hubs, and the latency with it."""

    hubs: int
    latency_s: float
    is_within: bool


def best_fit(latency_s_by_hubs: Mapping[int, float], limit_s: float, margin: float = MARGIN) -> Fit:
    """The smallest number of hubs with a latency below the limit less the margin; else the number with the lowest."""
    target_s = limit_s * (1 - margin)
    for hubs in sorted(latency_s_by_hubs):
        if latency_s_by_hubs[hubs] <= target_s:
            return Fit(hubs, latency_s_by_hubs[hubs], is_within=True)
    hubs = min(latency_s_by_hubs, key=lambda count: (latency_s_by_hubs[count], count))
    return Fit(hubs, latency_s_by_hubs[hubs], is_within=latency_s_by_hubs[hubs] <= limit_s)


class SplitFit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The number of hubs for a limited topic, as replayed, then as measured; or the reason why it is unknown."""

    # When it was computed.
    at_s: float
    # The number to try, or tried; 0: unknown.
    hubs: int = 0
    # At the quantile of the topic's limit, with this many hubs; and of one undivided bucket before them.
    latency_s: float = 0.0
    undivided_s: float = 0.0
    is_within: bool = False
    # Whether the limit was measured to hold with this many hubs, or no other number is left.
    is_confirmed: bool = False
    # The most hubs measured above the limit, and the fewest measured within it; 0: none.
    broken_with: int = 0
    held_with: int = 0
    note: str = ""
    # The number of the order of publishers; 0: none.
    order: int = 0
    # Whether the latest attempt has failed; the numbers are those of the earlier result.
    is_failed: bool = False

    def failed(self, at_s: float, note: str) -> SplitFit:
        """The next attempt has failed for this reason: the earlier result stays."""
        return msgspec.structs.replace(self, at_s=at_s, note=note, is_failed=True)

    def judged(self, hubs: int, most: int, *, holds: bool) -> SplitFit:
        """With this many hubs the limit was measured to hold, or not; at most `most` are available."""
        broken = self.broken_with if holds else max(self.broken_with, hubs)
        held = min(hubs, self.held_with or hubs) if holds else self.held_with
        # A first try that holds is the result; otherwise the least number lies between the two.
        is_over = (holds and not broken) or (held or most + 1) - broken <= 1
        if is_over:
            note = "" if held else f"no number of hubs up to {most} meets the limit"
            return msgspec.structs.replace(
                self, hubs=held or most, is_confirmed=True, broken_with=broken, held_with=held, note=note
            )
        middle = (broken + (held or most + 1)) // 2
        return msgspec.structs.replace(self, hubs=middle, broken_with=broken, held_with=held)


class FilledHubs(NamedTuple):
    """Publishers at each hub, in the order in which hubs were filled, and the rounds of measuring for each."""

    publishers: tuple[int, ...]
    rounds: tuple[int, ...]
    # Publishers without a hub.
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
    """Fill hub after hub by binary search. `measure_s(hub, first, n)` measures one round: n publishers from `first` on.

    A search ends with the first latency below the limit and within the margin of it, or when no number is left.
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
    """The number of publishers that a hub keeps, and the number of rounds."""
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
