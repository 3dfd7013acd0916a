"""Networks of known shape, and how well coordinates find them: Serf's own acceptance runs."""

from __future__ import annotations

import math
import random

from equipoise.coordinates import Coordinate, CoordinateSettings, Estimator, centroid_of

Truth = list[list[float]]


def line(nodes: int, spacing_s: float) -> Truth:
    return [[abs(i - j) * spacing_s for j in range(nodes)] for i in range(nodes)]


def grid(nodes: int, spacing_s: float) -> Truth:
    side = int(math.sqrt(nodes))
    return [
        [spacing_s * math.dist(divmod(i, side), divmod(j, side)) for j in range(nodes)] for i in range(nodes)
    ]


def split(nodes: int, lan_s: float, wan_s: float) -> Truth:
    half = nodes // 2
    return [
        [0.0 if i == j else lan_s if (i <= half) == (j <= half) else lan_s + wan_s for j in range(nodes)]
        for i in range(nodes)
    ]


def circle(nodes: int, radius_s: float) -> Truth:
    """All on a circle but the first, which is in the middle and twice as far from every node."""

    def at(i: int) -> tuple[float, float]:
        angle = 2 * math.pi * i / nodes
        return math.cos(angle) * radius_s, math.sin(angle) * radius_s

    def distance_s(i: int, j: int) -> float:
        if i == j:
            return 0.0
        return 2 * radius_s if 0 in (i, j) else math.dist(at(i), at(j))

    return [[distance_s(i, j) for j in range(nodes)] for i in range(nodes)]


def scattered(nodes: int, mean_s: float, deviation_s: float, rng: random.Random) -> Truth:
    truth = [[0.0] * nodes for _ in range(nodes)]
    for i in range(nodes):
        for j in range(i):
            truth[i][j] = truth[j][i] = max(1e-3, rng.gauss(mean_s, deviation_s))
    return truth


def star(nodes: int, rtt_s: float) -> Truth:
    return [[0.0 if i == j else rtt_s for j in range(nodes)] for i in range(nodes)]


def converge(
    truth: Truth, cycles: int, seed: int, settings: CoordinateSettings | None = None
) -> list[Estimator]:
    """Every node probes one other, drawn at random, in each cycle."""
    settings = settings or CoordinateSettings()
    rng = random.Random(seed)
    nodes = [Estimator(settings, random.Random(rng.random()).random) for _ in truth]
    go_on(nodes, truth, cycles, seed)
    return nodes


def places_of(nodes: list[Estimator]) -> list[Coordinate]:
    return [node.coordinate for node in nodes]


def go_on(nodes: list[Estimator], truth: Truth, cycles: int, seed: int) -> list[Coordinate]:
    """The same with nodes that have begun already; the middle of where each has been."""
    rng = random.Random(seed)
    seen = [[node.coordinate] for node in nodes]
    for _ in range(cycles):
        for i, node in enumerate(nodes):
            j = rng.randrange(len(nodes))
            if i != j:
                seen[i].append(node.observe(f"node-{j}", nodes[j].coordinate, truth[i][j]))
    return [centroid_of(one) for one in seen]


def errors(places: list[Coordinate], truth: Truth) -> tuple[float, float]:
    """Relative error over all pairs: mean and largest."""
    found = [
        abs(places[i].distance_s(places[j]) - truth[i][j]) / truth[i][j]
        for i in range(len(places))
        for j in range(i)
    ]
    return sum(found) / len(found), max(found)
