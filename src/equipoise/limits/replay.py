"""Replay recorded arrivals through token buckets and hubs, vectorised over all messages.

A bucket is a queue that serves `rate` messages a second, and delays a message by the time that the queue's work exceeds
its depth; a hub is a queue with one server. Both are running maxima, so numpy replays a million messages in tens of
milliseconds. Each candidate (number of hubs, assignment of publishers) is one replay.

Always true:
    messages leave a bucket and a hub in the order of their arrival;
    a full bucket of the same rate and depth (`limits.bucket`) admits each message at the same moment, to a nanosecond;
    the latency of a message is at least its cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ArrivalTrace",
    "DeliveryCosts",
    "Replayed",
    "admitted_at",
    "replay",
    "served_at",
    "smallest_depth",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The beginning of a trace, which is left out because buckets are still full.
WARM_UP = 0.1


class ArrivalTrace(NamedTuple):
    """Messages of a topic in the order of their arrival."""

    times_s: Floats
    # The index of each message's publisher.
    publishers: Ints
    # Whether a message is the first of a chunk, which a hub reads with one call.
    begins_chunk: NDArray[np.bool_]

    @property
    def rate_per_s(self) -> float:
        return len(self.times_s) / float(self.times_s[-1] - self.times_s[0])

    def of(self, chosen: NDArray[np.bool_]) -> ArrivalTrace:
        """The messages of these publishers: a flag for each publisher."""
        kept = chosen[self.publishers]
        return ArrivalTrace(self.times_s[kept], self.publishers[kept], self.begins_chunk[kept])


class DeliveryCosts(NamedTuple):
    """Processor time of a hub for deliveries."""

    chunk_s: float
    message_s: float

    def of(self, begins_chunk: NDArray[np.bool_]) -> Floats:
        """The cost of each message: the first of a chunk has the cost of reading it."""
        return np.where(begins_chunk, self.chunk_s + self.message_s, self.message_s)

    def capacity_per_s(self, chunk_messages: int) -> float:
        """Messages per second that a processor delivers in chunks of this size."""
        return chunk_messages / (self.chunk_s + chunk_messages * self.message_s)


def admitted_at(times_s: Floats, rate_per_s: float, depth: float) -> Floats:
    """When a bucket that is full at first admits each message."""
    position = np.arange(len(times_s)) / rate_per_s
    finish = np.maximum.accumulate(times_s - position) + position
    return np.maximum(times_s, finish - (depth - 1) / rate_per_s)


def served_at(times_s: Floats, costs_s: Floats) -> Floats:
    """When a processor that serves messages in order has finished each. `times_s` is sorted."""
    total = np.cumsum(costs_s)
    return np.maximum.accumulate(times_s - (total - costs_s)) + total


def smallest_depth(
    times_s: Floats, rate_per_s: float, quantile: float = 0.99, *, warm_up: float = WARM_UP
) -> int:
    """The least burst that does not delay at least this share of messages, without the first ones."""
    position = np.arange(len(times_s)) / rate_per_s
    finish = np.maximum.accumulate(times_s - position) + position
    judged = times_s >= _warm_at(times_s, warm_up)
    needed = np.ceil((finish - times_s)[judged] * rate_per_s - 1e-9) + 1
    return int(np.quantile(needed, quantile, method="higher"))


class Replayed(NamedTuple):
    """Latencies of a replay, by hub, without its beginning."""

    latencies_s: tuple[Floats, ...]

    @property
    def every_s(self) -> Floats:
        return np.concatenate(self.latencies_s)

    def quantile_s(self, quantile: float) -> float:
        """Over the messages of all hubs."""
        return float(np.quantile(self.every_s, quantile))

    def by_hub_s(self, quantile: float) -> tuple[float, ...]:
        """Of each hub's messages; 0 for a hub without any."""
        return tuple(float(np.quantile(one, quantile)) if len(one) else 0.0 for one in self.latencies_s)


def replay(
    arrivals: ArrivalTrace,
    seats: Ints,
    hubs: int,
    *,
    rate_per_s: float,
    depth: float,
    costs: DeliveryCosts,
    background: Sequence[ArrivalTrace | None] = (),
    is_divided: bool = True,
) -> Replayed:
    """Latencies with publisher i at hub `seats[i]`, and the envelope split in proportion to the messages of each hub.

    `background` has the messages of other topics at each hub, which pass no bucket and share its processor. Undivided,
    one bucket is before all hubs: the additional latency of a split is its cost.
    """
    at_hub = seats[arrivals.publishers]
    counts = np.bincount(at_hub, minlength=hubs)
    warm_s = _warm_at(arrivals.times_s, WARM_UP)
    whole_s = None if is_divided else admitted_at(arrivals.times_s, rate_per_s, depth)
    found = []
    for hub in range(hubs):
        mine = at_hub == hub
        times_s, begins = arrivals.times_s[mine], arrivals.begins_chunk[mine]
        part = counts[hub] / len(at_hub)
        if not len(times_s):
            found.append(np.zeros(0))
            continue
        ready_s = (
            admitted_at(times_s, rate_per_s * part, max(1.0, depth * part))
            if whole_s is None
            else whole_s[mine]
        )
        other = background[hub] if hub < len(background) else None
        done_s = _done_at(ready_s, costs.of(begins), other, costs)
        found.append((done_s - times_s)[times_s >= warm_s])
    return Replayed(tuple(found))


def _warm_at(times_s: Floats, part: float) -> float:
    return float(times_s[0] + part * (times_s[-1] - times_s[0]))


def _done_at(ready_s: Floats, costs_s: Floats, other: ArrivalTrace | None, costs: DeliveryCosts) -> Floats:
    """When the hub has finished each message of the topic, beside those of other topics."""
    if other is None:
        return served_at(ready_s, costs_s)
    times_s = np.concatenate((ready_s, other.times_s))
    order = np.argsort(times_s, kind="stable")
    done_s = np.empty(len(times_s))
    done_s[order] = served_at(times_s[order], np.concatenate((costs_s, costs.of(other.begins_chunk)))[order])
    return done_s[: len(ready_s)]
