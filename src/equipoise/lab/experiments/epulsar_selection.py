"""Select hubs for one placement by three policies, and compute the resulting latencies (ePulsar 5.5).

    epulsar    W(t, b) from the centroids of a view, ranked and placed by the planner's own code
    all-pairs  the same with E(t, b) from every client's coordinate
    hashing    the space of hashes divided evenly among the hubs, as in Pulsar

Policies use coordinates; the results use true round trips. No hub is full: the paper considers only latency in this
experiment.

The paper adds distances of coordinates, which are round trips, over both legs of a message, and compares its limits
with the sum. The planner counts each leg one way. To match the paper's limits, limits are halved for the planner and
resulting latencies are doubled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from equipoise.coordinates import ClientGroup, Coordinate
from equipoise.lab.experiments.epulsar_worlds import PlacedClients, PlacementWorld
from equipoise.plan.latency import CentroidEstimate, HubHeadroom, LatencyEstimate, place_topics, rank
from equipoise.plan.latency.limits import legs_s
from equipoise.plan.load import Capacities
from equipoise.view import HubView, View
from equipoise.view.view import Carried, TopicColumns, places_of

__all__ = ["POLICIES", "NodesEstimate", "SelectionOutcome", "evaluate", "select"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]

POLICIES = ("epulsar", "all-pairs", "hashing")


@dataclass(frozen=True, slots=True)
class SelectionOutcome:
    """One policy on one placement: over all pairs of a publisher and a subscriber of a topic."""

    worst_ms: float
    pairs: int
    violated: int


class NodesEstimate:
    """E(t, b) from every client, where all clients of a node share its coordinate."""

    def __init__(self, placement: PlacedClients, legs: Floats) -> None:
        self._placement, self._legs = placement, legs

    @property
    def is_located(self) -> Flags:
        return np.ones(len(self._placement.topics), np.bool_)

    def worst_s(self, topics: Indices) -> Floats:
        found = _worst(self._legs, self._placement.publishers[topics])
        found += _worst(self._legs, self._placement.subscribers[topics])
        return found


def select(
    world: PlacementWorld, coordinates: Sequence[Coordinate], placement: PlacedClients
) -> dict[str, Indices]:
    """The hub of each topic by each policy."""
    hubs = len(world.hubs)
    view = _view(world, coordinates, placement)
    legs = legs_s(places_of(coordinates), view.hubs.coordinate)
    hashes = [xxh3_64_intdigest(topic) for topic in placement.topics]
    return {
        "epulsar": _placed(world, placement, CentroidEstimate(view)),
        "all-pairs": _placed(world, placement, NodesEstimate(placement, legs)),
        "hashing": np.array([(value * hubs) >> 64 for value in hashes], np.int64),
    }


def evaluate(world: PlacementWorld, placement: PlacedClients, hub: Indices) -> SelectionOutcome:
    """Compute the outcome with true round trips."""
    node = world.hubs[hub]
    inward = world.rtt_s[placement.publishers, node[:, None]]
    outward = world.rtt_s[placement.subscribers, node[:, None]]
    is_pair = (placement.publishers >= 0)[:, :, None] & (placement.subscribers >= 0)[:, None, :]
    latency_ms = 1_000 * (inward[:, :, None] + outward[:, None, :])[is_pair]
    violated = int((latency_ms > world.limit_ms + 1e-6).sum())
    return SelectionOutcome(float(latency_ms.max()), int(is_pair.sum()), violated)


def _placed(world: PlacementWorld, placement: PlacedClients, estimate: LatencyEstimate) -> Indices:
    count, hubs = len(placement.topics), len(world.hubs)
    limit_s = np.full(count, world.limit_ms / 1_000 / 2)
    candidates = rank(estimate, np.arange(count), limit_s, np.ones(hubs, np.bool_))
    return place_topics(candidates, _endless(count, hubs), [-1] * count).hub


def _endless(topics: int, hubs: int) -> HubHeadroom:
    """Hubs with unlimited capacity."""
    zeros = np.zeros(hubs)
    capacities = Capacities(
        bytes_full=np.full(hubs, np.inf),
        price=zeros,
        base_bytes=zeros,
        base_cpu=zeros,
        lag_ratio=zeros,
        measured=zeros,
        rise=zeros,
        is_rising=np.zeros(hubs, np.bool_),
        cpu_full=1.0,
    )
    return HubHeadroom(
        capacities,
        bytes_per_s=np.zeros(topics),
        work=np.zeros(topics),
        on_hubs=(zeros, zeros),
        flow_measured=zeros,
        ratio_max=1.0,
    )


def _view(world: PlacementWorld, coordinates: Sequence[Coordinate], placement: PlacedClients) -> View:
    """The view as hubs would report it: two centroids and one deviation per topic."""
    known: dict[bytes, tuple[tuple[float, ...], float]] = {}

    def crowd(nodes: Indices) -> tuple[tuple[float, ...], float]:
        ordered = np.sort(nodes[nodes >= 0])
        key = ordered.tobytes()
        if key not in known:
            found = ClientGroup.of([coordinates[node] for node in ordered.tolist()])
            assert found is not None
            known[key] = (found.centroid.numbers, found.deviation_s)
        return known[key]

    inward = [crowd(row) for row in placement.publishers]
    outward = [crowd(row) for row in placement.subscribers]
    count = len(placement.topics)
    hubs = [HubView(name=f"hub-{at}", coordinate=coordinates[node]) for at, node in enumerate(world.hubs)]
    none = np.zeros(0, np.int64)
    unused = dict.fromkeys(_RATES, np.zeros(count))
    topics = TopicColumns(
        names=placement.topics,
        **unused,
        latency_s_worst=np.full(count, np.nan),
        deviation_s=np.array([one[1] + other[1] for one, other in zip(inward, outward, strict=True)]),
        publishers_at=np.array([numbers for numbers, _ in inward]),
        subscribers_at=np.array([numbers for numbers, _ in outward]),
    )
    return View(0.0, topics, View.of(0.0, hubs=hubs).hubs, Carried(topic=none, hub=none, share=np.zeros(0)))


# Rates do not affect the result.
_RATES = (
    *("publications_per_s", "deliveries_per_s", "in_bytes_per_s", "out_bytes_per_s", "publishers"),
    *("subscribers", "publications_per_s_max", "out_bytes_per_s_max", "backlog_bytes_max"),
    *("throttle_delay_s", "queue_delay_s", "out_bytes_trend"),
)


def _worst(legs: Floats, nodes: Indices) -> Floats:
    """The longest leg from a node of each row to each hub; -1 is no node."""
    ways = legs[nodes]
    ways[nodes < 0] = 0.0
    worst: Floats = ways.max(axis=1)
    return worst
