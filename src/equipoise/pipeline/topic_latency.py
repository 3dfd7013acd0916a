"""Locations of a topic's clients, from the reports of its hubs. Pure numpy.

ePulsar 3.2, over hubs: each reports the centroid of its clients, the distance of the farthest client from it, and the
longest leg. That is one row per topic and hub, for any number of clients.

    centroid    the mean of the hubs' centroids, weighted by their clients
    deviation   the largest sum of a hub's deviation and its centroid's distance from that mean: W(t), both sides
    latency     E(t): the longest way from a publisher by its hub to the home, the home's own delay, and the longest
                way from there by a subscriber's hub to the subscriber, including waits in backlogs; one way

Always true: a deviation is at least that of any client from the mean, by the triangle inequality; a missing report of a
hub makes a latency unknown (NaN), never shorter. So does a hub with clients on a side without any coordinate: an older
hub, or one without a coordinate of its own. A hub with some coordinates stands for all of its clients: new clients have
none for a few seconds, and each of them would otherwise make the latency of a topic unknown for that time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.pipeline.samples import DEVIATION, LEG, LOCATED, PLACE_NUMBERS, SIDE_NUMBERS, SIDES

__all__ = ["Gathered", "TopicRows", "gathered", "home_rows", "is_relaying"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

# Indices into `ROLES`.
_RELAY, _HOME = 0, 2


class TopicRows(NamedTuple):
    """One row per topic and hub that carries it at present."""

    # The topic.
    topic: Indices
    # An index into `ROLES`.
    role: NDArray[np.int8]
    time_us: Indices
    # The rows of `samples`.
    where: Floats
    # The number of clients at the hub, with or without coordinates: a column for each of `SIDES`.
    clients: Floats
    # The hub's coordinate, NaN if unknown, and its mean lag.
    hub_at: Floats
    lag_s: Floats
    # The longest wait of a message in a subscriber's backlog.
    queue_s: Floats


class Gathered(NamedTuple):
    """One row per topic; columns as in a view."""

    publishers_at: Floats
    publishers_located: Floats
    subscribers_at: Floats
    subscribers_located: Floats
    deviation_s: Floats
    latency_s_worst: Floats


def gathered(reported: TopicRows, count: int) -> Gathered:
    """Of `count` topics."""
    home = home_rows(reported.topic, reported.role, reported.time_us, count)
    hop_s = _hops_s(reported, home)
    found = []
    deviation_s, latency_s = np.full(count, np.nan), np.zeros(count)
    for at, name in enumerate(SIDES):
        side = reported.where[:, at * SIDE_NUMBERS : (at + 1) * SIDE_NUMBERS]
        place, located, own_s = _crowd(reported.topic, side, count)
        found.append((place, located))
        deviation_s = np.where(np.isnan(own_s), deviation_s, np.nan_to_num(deviation_s) + own_s)
        beyond_s = hop_s + reported.queue_s if name == "subscribers" else hop_s
        latency_s += _leg_s(reported.topic, side, reported.clients[:, at], beyond_s, count)
    lag_s = np.full(count, np.nan)
    lag_s[home >= 0] = reported.lag_s[home[home >= 0]]
    (publishers_at, publishers), (subscribers_at, subscribers) = found
    return Gathered(publishers_at, publishers, subscribers_at, subscribers, deviation_s, latency_s + lag_s)


def home_rows(topic: Indices, role: NDArray[np.int8], time_us: Indices, count: int) -> Indices:
    """The row of each topic's home, −1 if no hub reports to be it. Of two, the latest report."""
    home = np.full(count, -1)
    rows = np.flatnonzero(role == _HOME)
    rows = rows[np.argsort(time_us[rows], kind="stable")]
    # Of several values for one index the last one is kept.
    home[topic[rows]] = rows
    return home


def is_relaying(topic: Indices, role: NDArray[np.int8], home: Indices) -> Flags:
    """Whether a row's hub relays messages that another hub numbers."""
    is_former = (role == _HOME) & (home[topic] != np.arange(len(topic)))
    return np.asarray((role == _RELAY) | is_former, np.bool_)


def _hops_s(reported: TopicRows, home: Indices) -> Floats:
    """One way between each row's hub and the home; 0 for a hub that numbers messages itself."""
    hop_s = np.zeros(len(reported.topic))
    is_relay = is_relaying(reported.topic, reported.role, home)
    hop_s[is_relay] = np.nan
    rows = np.flatnonzero(is_relay & (home[reported.topic] >= 0))
    hop_s[rows] = _distance_s(reported.hub_at[rows], reported.hub_at[home[reported.topic[rows]]]) / 2
    return hop_s


def _crowd(topic: Indices, side: Floats, count: int) -> tuple[Floats, Floats, Floats]:
    """Of one side: centroids, their numbers of clients, deviations."""
    rows = np.flatnonzero(side[:, LOCATED] > 0)
    of, weights = topic[rows], side[rows, LOCATED]
    located = np.asarray(np.bincount(of, weights, minlength=count), np.float64)
    place = np.full((count, PLACE_NUMBERS), np.nan)
    is_known = located > 0
    for number in range(PLACE_NUMBERS):
        total = np.bincount(of, side[rows, number] * weights, minlength=count)
        place[is_known, number] = total[is_known] / located[is_known]
    beyond_s = side[rows, DEVIATION] + _beyond_s(side[rows, :PLACE_NUMBERS], place[of]) / 2
    return place, located, _largest(of, beyond_s, count)


def _leg_s(topic: Indices, side: Floats, clients: Floats, beyond_s: Floats, count: int) -> Floats:
    """Between the farthest client of the side and the home, with an addition for each row.

    NaN without clients, or if a hub with clients has no coordinates.
    """
    is_known = side[:, LOCATED] > 0
    rows = np.flatnonzero(is_known | (clients > 0))
    leg_s = np.where(is_known[rows], side[rows, LEG], np.nan)
    return _largest(topic[rows], leg_s + beyond_s[rows], count)


def _largest(topic: Indices, values: Floats, count: int) -> Floats:
    """Of each topic; NaN without a value, or with an unknown one."""
    found = np.full(count, -np.inf)
    # An unknown value counts as the largest.
    np.maximum.at(found, topic, np.where(np.isnan(values), np.inf, values))
    return np.where(np.isinf(found), np.nan, found)


def _distance_s(one: Floats, other: Floats) -> Floats:
    """Row by row, as `Coordinate.distance_s`."""
    raw_s = np.linalg.norm(one[:, :-3] - other[:, :-3], axis=1) + one[:, -2] + other[:, -2]
    adjusted_s = raw_s + one[:, -1] + other[:, -1]
    return np.asarray(np.where(adjusted_s > 0, adjusted_s, raw_s), np.float64)


def _beyond_s(place: Floats, centroid: Floats) -> Floats:
    """The least addition that makes the centroid's distance from any hub an upper bound of the client's own."""
    extra_s = place[:, -2:].sum(axis=1) - centroid[:, -2:].sum(axis=1)
    return np.asarray(np.linalg.norm(place[:, :-3] - centroid[:, :-3], axis=1) + np.maximum(0.0, extra_s))
