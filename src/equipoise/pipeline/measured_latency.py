"""Latency of a topic's messages from measurements at its hubs, without comparing clocks of two machines.

For each side a hub has quantiles over its clients, of half of each client's round trip. A message's latency is the sum
of:

    half the round trip between the publisher and its hub, and between that hub and the home;
    the time in the home's event loop, in which the message waits for its turn;
    half the round trip between the home and the subscriber's hub, and between that hub and the subscriber;
    for a slow subscriber, the time that messages waited in its backlog.

Always true: a quantile of a side over several hubs is rounded up to a quantile of one of them; the sides are added
quantile by quantile, which is exact if one side is a single client, and for the largest. A hub with clients and without
measurements makes the latency of the topic unknown (NaN), never shorter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.pipeline.samples import DELAYS, HOME_DELAY, MEASURED, SIDE_NUMBERS, SIDES
from equipoise.view.schema import MEASURED_QUANTILES

__all__ = ["MeasuredRows", "measured_latency"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# The share of clients that each reported quantile of a hub stands for.
_WEIGHTS = np.diff(MEASURED_QUANTILES, prepend=0.0)
# Rounding difference between sums of weights.
_ROUNDING = 1e-9


class MeasuredRows(NamedTuple):
    """One row per topic and hub that carries it at present."""

    # The topic.
    topic: Indices
    # Whether the hub numbers the messages: then there is no way to the home.
    is_numbering: NDArray[np.bool_]
    # The rows of `samples`.
    where: Floats
    # The number of clients at the hub: a column for each of `SIDES`.
    clients: Floats
    # The lag of the hub's event loop: a column for each of `MEASURED_QUANTILES`.
    lag_s: Floats
    # The longest wait in a backlog, and the number of such subscribers.
    queue_s: Floats
    queued: Floats
    # The longest delay of a message by the topic's envelope.
    throttle_s: Floats


def measured_latency(rows: MeasuredRows, home: Indices, count: int) -> Floats:
    """One row for each of `count` topics, a column for each of `MEASURED_QUANTILES`.

    `home`: the row of each topic's home, −1 if no hub reports to be it.
    """
    found = np.zeros((count, len(MEASURED_QUANTILES)))
    hop_s = np.where(rows.is_numbering, 0.0, rows.where[:, HOME_DELAY])
    for at, side in enumerate(SIDES):
        own = rows.where[:, at * SIDE_NUMBERS : (at + 1) * SIDE_NUMBERS]
        delays_s = own[:, DELAYS] + hop_s[:, None]
        if side == "subscribers":
            delays_s = delays_s + _queueing_s(rows, own[:, MEASURED])
        found += _side(rows.topic, delays_s, own[:, MEASURED], rows.clients[:, at], count)
    is_known = home >= 0
    found[~is_known] = np.nan
    found[is_known] += rows.lag_s[home[is_known]]
    found[is_known, -1] += rows.throttle_s[home[is_known]]
    return found


def _queueing_s(rows: MeasuredRows, measured: Floats) -> Floats:
    """Waits in backlogs, at the quantiles that include the subscribers concerned."""
    clients = np.maximum(np.nan_to_num(measured), 1.0)
    share = np.minimum(rows.queued / clients, 1.0)
    is_reached = share[:, None] > 1.0 - np.array(MEASURED_QUANTILES)[None, :] + _ROUNDING
    is_reached[:, -1] = share > 0
    return np.where(is_reached, rows.queue_s[:, None], 0.0)


def _side(topic: Indices, delays_s: Floats, measured: Floats, clients: Floats, count: int) -> Floats:
    """The quantiles of one side of each topic; NaN without clients, or if a hub with clients measured none."""
    is_measured = np.nan_to_num(measured) > 0
    rows = np.flatnonzero(is_measured | (clients > 0))
    is_unknown = np.zeros(count, np.bool_)
    is_unknown[topic[rows[~is_measured[rows] | np.isnan(delays_s[rows, -1])]]] = True
    made = np.full((count, len(MEASURED_QUANTILES)), np.nan)
    rows = rows[~is_unknown[topic[rows]]]
    if not len(rows):
        return made
    levels = len(MEASURED_QUANTILES)
    of, values = np.repeat(topic[rows], levels), delays_s[rows].ravel()
    weights = (measured[rows][:, None] * _WEIGHTS[None, :]).ravel()
    order = np.lexsort((values, of))
    of, values, weights = of[order], values[order], weights[order]
    present, first = np.unique(of, return_index=True)
    ends = np.append(first[1:], len(of))
    total = np.add.reduceat(weights, first)
    running = np.cumsum(weights)
    before = np.concatenate([[0.0], running])[first]
    for level, quantile in enumerate(MEASURED_QUANTILES):
        wanted = before + quantile * total * (1.0 - _ROUNDING)
        at = np.clip(np.searchsorted(running, wanted), first, ends - 1)
        made[present, level] = values[np.where(quantile == 1.0, ends - 1, at)]
    return made
