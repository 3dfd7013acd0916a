"""Locations of a topic's clients, from the reports of its hubs. Pure numpy.

ePulsar 3.2, over hubs: each tells the centroid of the clients it has, how far the farthest is from it, and how long the
way to the farthest is. Whatever the number of clients, that is one row per topic and hub.

    centroid    the mean of the hubs' centroids, by how many clients each is of
    deviation   the largest of a hub's deviation and how far its centroid is from that mean: W(t), both sides together
    latency     E(t): the longest way from a publisher by way of its hub to the home, the home's own delay, and the
                longest way from there by way of a subscriber's hub to it, waits in backlogs included; one way

Always true: a deviation is never less than that of any client from the mean, by the triangle inequality; what one hub
would have to tell and does not makes a latency unknown (NaN), never shorter. So does a hub that has clients on a side
and knows of none where it is: an older one, or one that has not found its own place. A hub that knows it of some speaks
for all of them: clients that have just come are known a few seconds later, and each of them would otherwise make the
latency of a topic unknown for that while.
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
    """One row per topic and hub that carries it now."""

    # Which topic it is about.
    topic: Indices
    # An index into `ROLES`.
    role: NDArray[np.int8]
    time_us: Indices
    # As `samples` has it.
    where: Floats
    # How many clients the hub has, known or not: a column for each of `SIDES`.
    clients: Floats
    # Where the hub is, NaN if it does not know, and how late it is on average.
    hub_at: Floats
    lag_s: Floats
    # The longest wait of a message in a subscriber's backlog.
    queue_s: Floats


class Gathered(NamedTuple):
    """One row per topic; called as in a view."""

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
    """The row of each topic's home, −1 if no hub says that it is. Of two, the one that has said so last."""
    home = np.full(count, -1)
    rows = np.flatnonzero(role == _HOME)
    rows = rows[np.argsort(time_us[rows], kind="stable")]
    # Of several values for one index the last one stays.
    home[topic[rows]] = rows
    return home


def is_relaying(topic: Indices, role: NDArray[np.int8], home: Indices) -> Flags:
    """Whether a row's hub passes on what another hub numbers."""
    is_former = (role == _HOME) & (home[topic] != np.arange(len(topic)))
    return np.asarray((role == _RELAY) | is_former, np.bool_)


def _hops_s(reported: TopicRows, home: Indices) -> Floats:
    """One way between each row's hub and the home; nothing for a hub that numbers messages itself."""
    hop_s = np.zeros(len(reported.topic))
    is_relay = is_relaying(reported.topic, reported.role, home)
    hop_s[is_relay] = np.nan
    rows = np.flatnonzero(is_relay & (home[reported.topic] >= 0))
    hop_s[rows] = _distance_s(reported.hub_at[rows], reported.hub_at[home[reported.topic[rows]]]) / 2
    return hop_s


def _crowd(topic: Indices, side: Floats, count: int) -> tuple[Floats, Floats, Floats]:
    """Of one side: centroids, how many clients they are of, deviations."""
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
    """Between the farthest of the side and the home, with what each row adds to it.

    NaN without clients, or if a hub that has some does not know.
    """
    is_known = side[:, LOCATED] > 0
    rows = np.flatnonzero(is_known | (clients > 0))
    leg_s = np.where(is_known[rows], side[rows, LEG], np.nan)
    return _largest(topic[rows], leg_s + beyond_s[rows], count)


def _largest(topic: Indices, values: Floats, count: int) -> Floats:
    """Of each topic; NaN without a value, or with one that is not known."""
    found = np.full(count, -np.inf)
    # What is not known is more than anything.
    np.maximum.at(found, topic, np.where(np.isnan(values), np.inf, values))
    return np.where(np.isinf(found), np.nan, found)


def _distance_s(one: Floats, other: Floats) -> Floats:
    """Row by row, as `Coordinate.distance_s`."""
    raw_s = np.linalg.norm(one[:, :-3] - other[:, :-3], axis=1) + one[:, -2] + other[:, -2]
    adjusted_s = raw_s + one[:, -1] + other[:, -1]
    return np.asarray(np.where(adjusted_s > 0, adjusted_s, raw_s), np.float64)


def _beyond_s(place: Floats, centroid: Floats) -> Floats:
    """What has to be added to the centroid's distance from any hub so that it is no less than the place's own."""
    extra_s = place[:, -2:].sum(axis=1) - centroid[:, -2:].sum(axis=1)
    return np.asarray(np.linalg.norm(place[:, :-3] - centroid[:, :-3], axis=1) + np.maximum(0.0, extra_s))
