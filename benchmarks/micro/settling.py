"""How many samples does a node need to settle, and how wrong is it then?

    python benchmarks/micro/settling.py [--seeds 3] [--out FOLDER]

Estimate: a sample moves a node by an eighth of its error, because both nodes have the same error estimate; with twice
the gain half of the samples should be enough.

Finding: they are on Serf's shapes, but the error of the split is then a hundred times as large, and the error of the
world larger by a tenth (docs/decisions/0010). So the gain is a quarter.

Method: Serf's shapes, without noise, and a world of 500 nodes with noise: six regions in a plane, access links of 4 ms
in the middle, and detours, which make the path over a third node 20 % shorter for a fifth of all pairs, as in the data
of Ledlie et al., section 3.3 (22 % of MIT King's). In each cycle every node probes another node, drawn at random. A run
has settled when the mean relative error over pairs stays below a level; the final error is the mean of all runs.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.coordinates import CoordinateSettings, Estimator
from equipoise.profile.environment import report_result

Floats = NDArray[np.float64]
MS = 1e-3
PAIRS_MAX = 20_000


class Network(NamedTuple):
    rtt_s: Floats
    dimensions: int
    cycles: int
    # Of the mean relative error.
    level: float
    noise_s: float = 0.0


def of_points(points: Floats) -> Floats:
    found: Floats = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    return found


def split(nodes: int) -> Floats:
    is_left = np.arange(nodes) <= nodes // 2
    rtt_s = np.where(is_left[:, None] == is_left[None, :], 1 * MS, 11 * MS)
    np.fill_diagonal(rtt_s, 0.0)
    return rtt_s


def circle(nodes: int, radius_s: float) -> Floats:
    angles = 2 * math.pi * np.arange(nodes) / nodes
    rtt_s = of_points(radius_s * np.stack((np.cos(angles), np.sin(angles)), axis=1))
    rtt_s[0, 1:] = rtt_s[1:, 0] = 2 * radius_s
    return rtt_s


def world(nodes: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-60, 60, (6, 2)) * MS
    at = centres[rng.integers(0, 6, nodes)] + rng.normal(0, 8, (nodes, 2)) * MS
    access_s = rng.lognormal(math.log(4), 0.8, nodes) * MS
    shape = (nodes, nodes)
    longer = np.where(rng.random(shape) < 0.3, rng.exponential(0.6, shape), rng.exponential(0.2, shape))
    detours = 1 + np.triu(longer, 1) + np.triu(longer, 1).T
    rtt_s: Floats = of_points(at) * detours + access_s[:, None] + access_s[None, :]
    np.fill_diagonal(rtt_s, 0.0)
    return rtt_s


def violations(rtt_s: Floats) -> tuple[float, float]:
    """Of all pairs, the share with a shorter way by a third node, and that with one 20 % shorter."""
    direct = rtt_s.copy()
    np.fill_diagonal(direct, np.inf)
    best = np.full_like(direct, np.inf)
    for third in direct:
        best = np.minimum(best, third[:, None] + third[None, :])
    ones, others = np.triu_indices(len(rtt_s), 1)
    ratio = best[ones, others] / rtt_s[ones, others]
    return float((ratio < 1).mean()), float((ratio <= 0.8).mean())


def networks() -> dict[str, Network]:
    row, side = np.arange(10.0)[:, None], np.arange(25)
    grid = np.stack(np.divmod(side, 5), axis=1).astype(float)
    return {
        "line of 10": Network(of_points(10 * MS * row), 8, 1_000, 0.1),
        "grid of 25": Network(of_points(10 * MS * grid), 8, 1_000, 0.1),
        "split of 25": Network(split(25), 8, 1_000, 0.1),
        "circle of 25": Network(circle(25, 100 * MS), 2, 1_000, 0.1),
        "world of 500": Network(world(500, 1), 8, 240, 0.35, 0.5 * MS),
    }


def errors(nodes: list[Estimator], rtt_s: Floats, ones: Any, others: Any) -> float:
    places = [node.coordinate for node in nodes]
    points = np.array([place.point_s for place in places])
    above_s = np.array([place.height_s for place in places])
    adjusted_s = np.array([place.adjustment_s for place in places])
    raw_s = np.linalg.norm(points[ones] - points[others], axis=1) + above_s[ones] + above_s[others]
    found_s = raw_s + adjusted_s[ones] + adjusted_s[others]
    found_s = np.where(found_s > 0, found_s, raw_s)
    return float((abs(found_s - rtt_s[ones, others]) / rtt_s[ones, others]).mean())


def settle(network: Network, settings: CoordinateSettings, seed: int) -> tuple[int, float]:
    """Samples of each node until it is settled, and the mean relative error at the end."""
    rng, count = random.Random(seed), len(network.rtt_s)
    nodes = [Estimator(settings, random.Random(rng.random()).random) for _ in range(count)]
    ones, others = np.triu_indices(count, 1)
    if len(ones) > PAIRS_MAX:
        chosen = np.random.default_rng(0).choice(len(ones), PAIRS_MAX, replace=False)
        ones, others = ones[chosen], others[chosen]
    ways_s = network.rtt_s.tolist()
    settled, error = 0, math.inf
    for cycle in range(1, network.cycles + 1):
        for one, node in enumerate(nodes):
            other = rng.randrange(count)
            if one != other:
                noise_s = rng.expovariate(1 / network.noise_s) if network.noise_s else 0.0
                node.observe(str(other), nodes[other].coordinate, ways_s[one][other] + noise_s)
        if cycle % 4 == 0:
            error = errors(nodes, network.rtt_s, ones, others)
            settled = (settled or cycle) if error <= network.level else 0
    return settled or network.cycles, error


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name, network in networks().items():
        for gain in (0.25, 0.5):
            settings = CoordinateSettings(dimensions=network.dimensions, position_gain=gain)
            runs = [settle(network, settings, seed) for seed in range(1, options.seeds + 1)]
            samples, wrong = zip(*runs, strict=True)
            found[f"{name}, gain {gain:g}"] = {
                "level": network.level,
                "samples_p50": statistics.median(samples),
                "samples": samples,
                "error_mean": statistics.mean(wrong),
                "error_max": max(wrong),
            }
    found["world of 500, pairs with a shorter way, and a 20 % shorter one"] = violations(world(500, 1))
    report_result("settling", {"seeds": options.seeds, **found}, options.out)


if __name__ == "__main__":
    main()
