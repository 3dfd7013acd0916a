"""Order publishers by recorded arrivals so that neighbours fire together.

Publishers that fire together should be assigned to different hubs. The order has no group labels: periodic publishers
have phases, not groups, and any cut between phases would be arbitrary. An order that is assigned round robin needs
none.

For every pair of publishers, the windows in which both fire are counted. The pairs with the highest counts are joined
first, into chains, end to end: the chains grow together into one order. Windows overlap by half, so that no boundary
hides a pair.

Always true: the order has every publisher once; the same arrivals give the same order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["WINDOWS_S", "firing_order"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Sensors of one event report within milliseconds or within a network's round trip: which one is not known before.
WINDOWS_S = (0.002, 0.008, 0.020, 0.050)
# A window with more publishers than this shows nothing about any pair, and has the square of their number as cost.
_CROWD = 400


def firing_order(times_s: Floats, publishers: Ints, count: int, window_s: float) -> Ints:
    """All `count` publishers, ordered so that publishers that fire within `window_s` of each other are near."""
    first, second, together = _pairs(times_s, publishers, count, window_s)
    fired = np.bincount(publishers, minlength=count).astype(np.float64)
    # The common windows as a part of the more active publisher's windows: 1 for publishers that always fire together.
    likeness = together / np.maximum(fired[first], fired[second])
    order = np.lexsort((second, first, -likeness))
    return _chained(first[order], second[order], count)


def _pairs(times_s: Floats, publishers: Ints, count: int, window_s: float) -> tuple[Ints, Ints, Floats]:
    """Pairs that fire in one window, and the number of such windows."""
    keys: list[Ints] = []
    for shift in (0.0, 0.5):
        window = np.floor(times_s / window_s + shift).astype(np.int64)
        # Once per publisher and window.
        unique = np.unique(window * count + publishers)
        window, fired = unique // count, unique % count
        starts = np.flatnonzero(np.diff(window, prepend=-1))
        for members in np.split(fired, starts[1:]):
            if 1 < len(members) <= _CROWD:
                one, other = np.triu_indices(len(members), 1)
                keys.append(members[one] * count + members[other])
    if not keys:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, np.zeros(0)
    pairs, together = np.unique(np.concatenate(keys), return_counts=True)
    return pairs // count, pairs % count, together.astype(np.float64)


class _Chains:
    """Chains of publishers, joined end to end or, if an end is inside a chain, behind it."""

    def __init__(self, count: int) -> None:
        self._chain_of = list(range(count))
        self._chains: list[list[int] | None] = [[one] for one in range(count)]

    def join(self, one: int, other: int) -> bool:
        """Join the chains of both, so that the two are near; False if they are in one chain already."""
        left, right = self._chain_of[one], self._chain_of[other]
        if left == right:
            return False
        a, b = self._chains[left], self._chains[right]
        assert a is not None, "a chain with members exists"
        assert b is not None, "a chain with members exists"
        if a.index(one) < len(a) / 2:
            a.reverse()
        if b.index(other) > len(b) / 2:
            b.reverse()
        if len(a) < len(b):
            a, b, left, right = b[::-1], a[::-1], right, left
        a += b
        for member in b:
            self._chain_of[member] = left
        self._chains[left], self._chains[right] = a, None
        return True

    def flat(self) -> list[int]:
        return [member for chain in self._chains if chain for member in chain]


def _chained(first: Ints, second: Ints, count: int) -> Ints:
    chains, left = _Chains(count), count - 1
    for one, other in zip(first.tolist(), second.tolist(), strict=True):
        if chains.join(one, other):
            left -= 1
            if not left:
                break
    return np.array(chains.flat(), np.int64)
