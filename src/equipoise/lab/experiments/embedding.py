"""Let nodes of a network that is known find their coordinates, as agents do that ask one other every second."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.coordinates import Coordinate, CoordinateSettings, Estimator, Stability

__all__ = ["Noise", "distances_s", "embed"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Noise:
    """What a sample has on top of the round trip: queues, and now and then a busy moment."""

    mean_s: float = 0.0005
    busy_share: float = 0.01
    busy_s: float = 0.010

    def draw(self, rng: random.Random) -> float:
        busy_s = self.busy_s if rng.random() < self.busy_share else 0.0
        return busy_s + (rng.expovariate(1.0 / self.mean_s) if self.mean_s > 0 else 0.0)


def embed(rtt_s: Floats, seconds: int, seed: int, noise: Noise) -> list[Coordinate]:
    """Where the nodes say they are after so many seconds, in each of which everybody asks one other.

    `rtt_s` holds the round trips of all pairs. What a node says is the middle of its last half minute.
    """
    rng = random.Random(seed)
    settings = CoordinateSettings()
    nodes = [Estimator(settings, random.Random(rng.random()).random) for _ in range(len(rtt_s))]
    told = [Stability() for _ in nodes]
    for second in range(seconds):
        is_end = second >= seconds - 32
        for at, node in enumerate(nodes):
            other = rng.randrange(len(nodes) - 1)
            other += other >= at
            sample_s = float(rtt_s[at, other]) + noise.draw(rng)
            coordinate = node.observe(str(other), nodes[other].coordinate, sample_s)
            if is_end:
                told[at].consider(coordinate)
    return [one.settled or node.coordinate for one, node in zip(told, nodes, strict=True)]


def distances_s(coordinates: Sequence[Coordinate]) -> Floats:
    """The round trips of all pairs as coordinates estimate them; 0 between a node and itself."""
    count = len(coordinates)
    found = np.zeros((count, count))
    for one in range(count):
        for other in range(one):
            found[one, other] = found[other, one] = coordinates[one].distance_s(coordinates[other])
    return found
