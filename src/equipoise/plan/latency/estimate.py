"""What a topic's messages would take at worst by way of each hub.

ePulsar 3.4.1: W(t, b) is the way from the publishers' centroid to the hub, from the hub to the subscribers' centroid,
and what the farthest of both are beyond their centroids. To that comes the time that messages spend in the hub, so that
there is one definition of latency. All of it is one way; distances of coordinates are round trips.

`CentroidEstimate` has that from a view, whatever the number of clients. `PairsEstimate` has every client's own
coordinate and is exact as far as coordinates are: the paper's baseline, which no large system can afford.

A side of a topic without coordinates counts nothing: then W is a bound from below. A hub that has not
found out where it is takes for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.view.columns import BESIDE_POINT, Places, is_known
from equipoise.view.view import View

__all__ = ["CentroidEstimate", "LatencyEstimate", "PairsEstimate", "legs_s"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]


class LatencyEstimate(Protocol):
    """How to know what topics would take."""

    @property
    def is_located(self) -> Flags:
        """The topics of which at least one side is known."""
        ...

    def worst_s(self, topics: Indices) -> Floats:
        """W: one row for each of the topics, one column for each hub; infinite where a hub's place is not known."""
        ...


class CentroidEstimate:
    """From the centroids of a view."""

    def __init__(self, view: View, doubt: Floats | None = None) -> None:
        """`doubt`: by how much of itself the way to each hub may be longer than its coordinate says."""
        topics, hubs = view.topics, view.hubs
        self._doubt = None if doubt is None or not doubt.any() else 1.0 + doubt
        self._sides = (topics.publishers_at, topics.subscribers_at)
        self._hubs = hubs.coordinate
        self._deviation_s = np.nan_to_num(topics.deviation_s)
        self._residence_s = hubs.loop_lag_s
        # What of all hubs is needed again and again.
        self._are_hubs_known = hubs.count > 0 and bool(is_known(self._hubs).all())
        self._right = _right(self._hubs)
        self._beside = _beside(self._hubs)

    @property
    def is_located(self) -> Flags:
        return is_known(self._sides[0]) | is_known(self._sides[1])

    def worst_s(self, topics: Indices) -> Floats:
        sides = [side[topics] for side in self._sides]
        if self._are_hubs_known and all(self._is_plain(side) for side in sides):
            worst = self._plain(sides)
        else:
            worst = legs_s(sides[0], self._hubs)
            worst += legs_s(sides[1], self._hubs)
        if self._doubt is not None:
            worst *= self._doubt[None, :]
        worst += self._deviation_s[topics][:, None]
        worst += self._residence_s[None, :]
        return worst

    def _is_plain(self, side: Places) -> bool:
        """All are known, and no adjustment can make a distance negative."""
        if not len(side) or not is_known(side).all():
            return False
        return bool(_beside(side).min() + self._beside.min() > 0)

    def _plain(self, sides: Sequence[Places]) -> Floats:
        """The same as `legs_s` of both sides, with half of the passes."""
        worst = _points_s(sides[0], self._right)
        worst += _points_s(sides[1], self._right)
        worst += (_beside(sides[0]) + _beside(sides[1]))[:, None]
        worst += 2 * self._beside[None, :]
        worst *= 0.5
        return worst


class PairsEstimate:
    """From the coordinates of all clients: for each topic its publishers and its subscribers."""

    def __init__(self, clients: Sequence[tuple[Places, Places]], hubs: Places, residence_s: Floats) -> None:
        self._clients, self._hubs, self._residence_s = clients, hubs, residence_s

    @property
    def is_located(self) -> Flags:
        known = [bool(is_known(one).any() or is_known(other).any()) for one, other in self._clients]
        return np.array(known, np.bool_)

    def worst_s(self, topics: Indices) -> Floats:
        worst = np.tile(self._residence_s, (len(topics), 1))
        for row, topic in enumerate(topics.tolist()):
            for side in self._clients[topic]:
                if len(side):
                    worst[row] += legs_s(side, self._hubs).max(axis=0)
        return worst


def legs_s(places: Places, hubs: Places) -> Floats:
    """One way between each place and each hub: half of `Coordinate.distance_s`, to a billionth of a second."""
    legs = np.zeros((len(places), len(hubs)))
    is_place, is_hub = is_known(places), is_known(hubs)
    if is_place.any() and is_hub.any():
        if is_place.all() and is_hub.all():
            legs = _legs_s(places, hubs)
        else:
            legs[np.ix_(is_place, is_hub)] = _legs_s(places[is_place], hubs[is_hub])
    legs[:, ~is_hub] = np.inf
    return legs


def _legs_s(places: Places, hubs: Places) -> Floats:
    legs = _points_s(places, _right(hubs))
    legs += places[:, -2][:, None]
    legs += hubs[:, -2][None, :]
    adjustment = places[:, -1][:, None] + hubs[:, -1][None, :]
    if adjustment.min() < 0:
        # They count unless they would make a distance negative.
        adjustment = np.where(legs + adjustment > 0, adjustment, 0.0)
    legs += adjustment
    legs *= 0.5
    return legs


def _points_s(places: Places, right: Floats) -> Floats:
    """The distances of the points alone.

    The square of a difference as one product of matrices: two orders of magnitude faster than pair by pair.
    """
    own = places[:, :-BESIDE_POINT]
    left = np.empty((len(own), own.shape[1] + 2))
    left[:, :-2] = -2.0 * own
    left[:, -2] = np.einsum("ij,ij->i", own, own)
    left[:, -1] = 1.0
    found: Floats = left @ right
    np.maximum(found, 0.0, out=found)
    return np.sqrt(found, out=found)


def _right(hubs: Places) -> Floats:
    """The hubs' side of that product."""
    points = hubs[:, :-BESIDE_POINT]
    return np.vstack([points.T, np.ones(len(points)), np.einsum("ij,ij->i", points, points)])


def _beside(places: Places) -> Floats:
    """What a place adds to all its distances."""
    beside: Floats = places[:, -2:].sum(axis=1)
    return beside
