"""The map: hubs and the clients of topics by their network coordinates, on a plane. Pure.

A coordinate has more dimensions than a screen. The picture is the plane in which the distances of hubs are largest
(their principal axes, which for points equals classical scaling of their distances), in milliseconds of round trip,
without heights. Such a plane has no orientation: each picture is rotated and mirrored so that hubs stay as near as
possible to their last positions, and topics, too, where hubs on a line leave a side open.

Always true: the same coordinates give the same picture again; a topic is at the mean of its publishers' and its
subscribers' centroids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.view import View
from equipoise.view.view import BESIDE_POINT, Places, is_known

__all__ = ["Picture", "Projector", "clients_at"]

Floats = NDArray[np.float64]
# All topics together have this part of one hub's weight: they determine the plane where hubs span only a line.
_TOPICS_WEIGHT = 0.1
_MS = 1_000.0


class Picture(NamedTuple):
    """Positions in milliseconds; only known ones."""

    hubs: Mapping[str, tuple[float, float]]
    topics: Mapping[int, tuple[float, float]]


class Projector:
    """Owned by the facts; keeps the last picture."""

    def __init__(self) -> None:
        # The positions of hubs and topics in the last picture, by name.
        self._hubs: dict[str, Floats] = {}
        self._topics: dict[bytes, Floats] = {}

    def picture(self, view: View, topics: Sequence[int]) -> Picture | None:
        """The map of a view with these topics; None if no hub knows its coordinate."""
        known = np.flatnonzero(is_known(view.hubs.coordinate))
        if not len(known):
            return None
        names = [view.hubs.names[at] for at in known.tolist()]
        hub_points = _MS * view.hubs.coordinate[known][:, :-BESIDE_POINT]
        places = clients_at(view, topics)
        located = np.flatnonzero(is_known(places))
        topic_points = _MS * places[located][:, : hub_points.shape[1]].reshape(-1, hub_points.shape[1])
        axes, centre = _plane(hub_points, topic_points)
        shown = [topics[row] for row in located.tolist()]
        hubs = dict(zip(names, (hub_points - centre) @ axes, strict=True))
        crowd = dict(
            zip([view.topics.names[at] for at in shown], (topic_points - centre) @ axes, strict=True)
        )
        turn, shift = self._aligned(hubs, crowd)
        self._hubs = {name: spot @ turn + shift for name, spot in hubs.items()}
        self._topics = {name: spot @ turn + shift for name, spot in crowd.items()}
        return Picture(
            {name: _pair(spot) for name, spot in self._hubs.items()},
            {at: _pair(self._topics[view.topics.names[at]]) for at in shown},
        )

    def _aligned(self, hubs: Mapping[str, Floats], topics: Mapping[bytes, Floats]) -> tuple[Floats, Floats]:
        """The rotation, reflection and shift that make a picture resemble the last one (orthogonal Procrustes)."""
        common = [name for name in hubs if name in self._hubs]
        if not common:
            return _first_turn(np.array(list(hubs.values()))), np.zeros(2)
        here = np.array([hubs[name] for name in common])
        there = np.array([self._hubs[name] for name in common])
        middle, aim = here.mean(axis=0), there.mean(axis=0)
        likeness = (here - middle).T @ (there - aim)
        stayed = [name for name in topics if name in self._topics]
        for name in stayed:
            part = np.outer(topics[name] - middle, self._topics[name] - aim)
            likeness += part * (_TOPICS_WEIGHT / len(stayed))
        left, _, right = np.linalg.svd(likeness)
        turn = left @ right
        return turn, aim - middle @ turn


def clients_at(view: View, topics: Sequence[int]) -> Places:
    """One row for each of these: the mean of its sides, weighted by clients; NaN if neither is known."""
    columns, rows = view.topics, np.array(topics, np.int64)
    width = max(columns.publishers_at.shape[1], columns.subscribers_at.shape[1])
    total, weight = np.zeros((len(rows), width)), np.zeros(len(rows))
    for places, located in (
        (columns.publishers_at[rows], columns.publishers_located[rows]),
        (columns.subscribers_at[rows], columns.subscribers_located[rows]),
    ):
        if places.shape[1]:
            known = is_known(places)
            share = np.maximum(1.0, located[known])
            total[known] += places[known] * share[:, None]
            weight[known] += share
    total[weight == 0] = np.nan
    total[weight > 0] /= weight[weight > 0][:, None]
    return total


def _plane(hubs: Floats, topics: Floats) -> tuple[Floats, Floats]:
    """Two axes, as columns, and their origin."""
    centre = hubs.mean(axis=0)
    spread = hubs - centre
    if len(topics):
        spread = np.vstack([spread, (topics - centre) * np.sqrt(_TOPICS_WEIGHT / len(topics))])
    _, _, directions = np.linalg.svd(spread, full_matrices=True)
    axes = directions[:2].T
    if axes.shape[1] < 2:
        axes = np.hstack([axes, np.zeros((len(axes), 1))])
    return axes, centre


def _first_turn(flat: Floats) -> Floats:
    """The orientation of the first picture: the first hub to the left, the second one above it."""
    second = flat[min(1, len(flat) - 1)]
    return np.diag([-1.0 if flat[0, 0] > 0 else 1.0, -1.0 if second[1] > 0 else 1.0])


def _pair(spot: Floats) -> tuple[float, float]:
    return round(float(spot[0]), 3), round(float(spot[1]), 3)
