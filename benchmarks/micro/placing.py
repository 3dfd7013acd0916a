"""How long does it take to place topics by latency?

Question: what does it cost to place 100,000 topics with limits over 1,000 hubs, all of them at once, and how does that
grow with topics; and what does a round of the planner cost when all topics have limits, with none and with some of
them above?

Estimate: W(t, b) of all pairs is two products of matrices with ten columns, two roots and some sums: 10 ns for each of
10⁸ pairs, 1 s. The first eight choices of each topic are eight passes more, 0.5 s. Giving topics to hubs is a few µs of
Python for each, 0.5 s, and 0.2 ms for each topic that finds its first eight choices full. So 2 to 5 s, linear.

Finding: see `docs/concepts/latency.md`, which holds the latest kept run.

    python benchmarks/micro/placing.py                            # print
    python benchmarks/micro/placing.py --out benchmarks/results   # and keep
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from equipoise.coordinates import Coordinate
from equipoise.model import Entry, Member, Plan, Specs, TopicSpec
from equipoise.plan import Memory, Planner
from equipoise.plan.draft import Draft
from equipoise.plan.latency import place_topics, rank
from equipoise.plan.settings import PlannerSettings
from equipoise.profile.environment import keep
from equipoise.view import HubView, View
from equipoise.view.view import Carried, TopicColumns

HUBS = 1_000
SITES = 100
SIZES = (12_500, 25_000, 50_000, 100_000)
LIMIT_S = 0.040
FULL_BYTES_PER_S = 100e6
# Of what all hubs can carry: where a few hubs get full, and much above it where most do.
LOADS = (0.2, 0.5)
ROUNDS = 3
Floats = NDArray[np.float64]


class Row(msgspec.Struct, frozen=True):
    """One case: the wall time and CPU time of each round, and its outcome."""

    case: str
    topics: int
    hubs: int
    load: float
    seconds: list[float]
    cpu_seconds: list[float]
    moved: int
    above: int


class World:
    """Sites of ten hubs each in eight dimensions; each topic's clients are at one site, or at two that are near."""

    def __init__(self, topics: int, hubs: int, load: float) -> None:
        self.random = np.random.default_rng(1)
        sites = self.random.normal(0, 0.012, (SITES, 8))
        self.hub_site = np.arange(hubs) % SITES
        self.hub_places = self._places(sites[self.hub_site], 0.0005)
        self.home_site = self.random.integers(0, SITES, topics)
        apart = ((sites[:, None, :] - sites[None, :, :]) ** 2).sum(axis=2)
        neighbour = np.argsort(apart, axis=1)[:, 1]
        is_split = self.random.random(topics) < 0.3
        self.publishers = self._places(sites[self.home_site], 0.001)
        self.subscribers = self._places(
            sites[np.where(is_split, neighbour[self.home_site], self.home_site)], 0.001
        )
        sizes = 1.0 / np.arange(1, topics + 1) ** 0.5
        self.random.shuffle(sizes)
        self.out_bytes = sizes * (load * hubs * FULL_BYTES_PER_S / sizes.sum())
        self.names = [b"topic/%d" % at for at in range(topics)]

    def _places(self, points: Floats, spread_s: float) -> Floats:
        count = len(points)
        beside = [np.full(count, 0.05), self.random.uniform(0.0005, 0.002, count), np.zeros(count)]
        return np.column_stack([points + self.random.normal(0, spread_s, points.shape), *beside])

    def view(self, home: NDArray[np.int64], latency_s: Floats) -> View:
        count = len(self.names)
        deliveries, zeros = self.out_bytes / 500, np.zeros(count)
        topics = TopicColumns(
            names=self.names,
            publications_per_s=deliveries / 10,
            deliveries_per_s=deliveries,
            in_bytes_per_s=self.out_bytes / 10,
            out_bytes_per_s=self.out_bytes,
            publishers=np.full(count, 10.0),
            subscribers=np.full(count, 10.0),
            publications_per_s_max=deliveries / 10,
            out_bytes_per_s_max=self.out_bytes,
            backlog_bytes_max=zeros,
            throttle_delay_s=zeros.copy(),
            queue_delay_s=zeros.copy(),
            out_bytes_trend=zeros.copy(),
            latency_s_worst=latency_s,
            deviation_s=np.full(count, 0.002),
            publishers_at=self.publishers,
            subscribers_at=self.subscribers,
            publishers_located=np.full(count, 10.0),
            subscribers_located=np.full(count, 10.0),
        )
        sent = np.bincount(home, self.out_bytes, minlength=len(self.hub_site))
        hubs = [
            HubView(
                name=f"hub-{at:04}",
                out_bytes_per_s=float(sent[at]),
                out_bytes_per_s_max=FULL_BYTES_PER_S,
                incarnation=1,
                coordinate=Coordinate((*place[:8],), *place[8:]),
            )
            for at, place in enumerate(self.hub_places.tolist())
        ]
        carried = Carried(topic=np.arange(count), hub=home, share=np.ones(count))
        return View(100.0, topics, View.of(100.0, hubs=hubs).hubs, carried)


def timed(run: Callable[[], tuple[int, int]], rounds: int) -> tuple[list[float], list[float], int, int]:
    clock, processor, moved, above = [], [], 0, 0
    for _ in range(rounds):
        before, cpu_before = time.perf_counter(), time.process_time()
        moved, above = run()
        clock.append(time.perf_counter() - before)
        processor.append(time.process_time() - cpu_before)
    return clock, processor, moved, above


def place_all(count: int, load: float) -> Row:
    """Everything at once, from a ring that knows nothing of places."""
    world = World(count, HUBS, load)
    home = world.random.integers(0, HUBS, count)
    seen = world.view(home, np.full(count, np.nan))
    plan = Plan.of(version=1, members=[Member(name) for name in seen.hubs.names], entries=[])
    specs = Specs([TopicSpec(pattern=b"topic/*", latency_ms=1e3 * LIMIT_S)])

    def run() -> tuple[int, int]:
        draft = Draft(seen, plan, specs, 100.0, memory=Memory(), settings=PlannerSettings())
        limits = draft.limits
        limit_s = np.array([limits.limit_s[topic] for topic in limits.topics.tolist()])
        candidates = rank(limits.estimate, limits.topics, limit_s, draft.eligible)
        before = draft.predicted.home[limits.topics]
        made = place_topics(candidates, draft.predicted.room(0.75), before.tolist(), level_s=0.002)
        return int((made.hub != before).sum()), made.unserved

    return Row("place all", count, HUBS, load, *timed(run, ROUNDS))


def planner_round(count: int, above: float) -> Row:
    """One round: this part of the topics is where it must not stay."""
    world = World(count, HUBS, LOADS[0])
    home = world.home_site + SITES * world.random.integers(0, HUBS // SITES, count)
    strays = world.random.random(count) < above
    home = np.where(strays, world.random.integers(0, HUBS, count), home)
    seen = world.view(home, np.where(strays, 0.2, 0.01))
    entries = [
        Entry(name, (seen.hubs.names[at],)) for name, at in zip(world.names, home.tolist(), strict=True)
    ]
    plan = Plan.of(version=1, members=[Member(name) for name in seen.hubs.names], entries=entries)
    specs = Specs([TopicSpec(pattern=b"topic/*", latency_ms=1e3 * LIMIT_S)])
    planner = Planner(PlannerSettings(latency_hits=1, servers_min=HUBS, servers_max=HUBS))
    memory = Memory(incarnations=dict.fromkeys(seen.hubs.names, 1))

    def run() -> tuple[int, int]:
        decision = planner.decide(seen, plan, specs, 100.0, memory)
        return len(decision.change.entries), int(strays.sum())

    return Row(f"round, {above:.0%} above", count, HUBS, LOADS[0], *timed(run, ROUNDS))


def growth(rows: list[Row], load: float) -> float:
    """The exponent between the smallest and the largest size."""
    took = {row.topics: min(row.cpu_seconds) for row in rows if row.case == "place all" and row.load == load}
    return math.log(took[SIZES[-1]] / took[SIZES[0]]) / math.log(SIZES[-1] / SIZES[0])


def main() -> None:
    parser = argparse.ArgumentParser(description="Time placing by latency.")
    parser.add_argument("--out", type=Path, help="folder to keep the result in")
    options = parser.parse_args()
    rows = [place_all(count, load) for load in LOADS for count in SIZES]
    rows += [planner_round(SIZES[-1], above) for above in (0.0, 0.01, 0.2)]
    print("topics   hubs   load  case              best     processor   moved    above")
    for row in rows:
        print(
            f"{row.topics:>7,}  {row.hubs:>5,}  {row.load:.0%}  {row.case:<17}{min(row.seconds):>6.2f} s "
            f"{min(row.cpu_seconds):>8.2f} s {row.moved:>9,} {row.above:>8,}"
        )
    for load in LOADS:
        print(f"growth at {load:.0%}: n^{growth(rows, load):.2f}")
    keep("placing", {"rows": msgspec.to_builtins(rows)}, options.out)


if __name__ == "__main__":
    main()
