"""How long does it take to plan?

Question: what does one round of the planner cost at 100,000 topics on 100 hubs, when nothing is wrong, when hubs are
overloaded, and when hubs join; and how does that grow with the number of topics?

Estimate: a topic's place on the ring is a hash and a search among 76,800 points, some 0.5 µs together; a dozen sums
over columns cost a few ns per topic each; sorting the topics of overloaded hubs is n log n with a small constant. A
move asks what every hub would be: some 50 µs at 100 hubs, 256 moves at most. So 0.1 s at 100,000 topics, nearly linear.

Finding: see `docs/concepts/balancing.md`, which holds the latest kept run.

    python benchmarks/micro/planning.py                            # print
    python benchmarks/micro/planning.py --out benchmarks/results   # and keep
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from equipoise.model import Plan, Specs, apply
from equipoise.plan import Memory, Planner, PlannerSettings
from equipoise.plan.predicted import ring_homes, topic_positions
from equipoise.profile.environment import keep
from equipoise.view import HubView, View, from_tables, to_tables
from equipoise.view.view import Carried, HubColumns, TopicColumns

HUBS = 100
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
GOAL_TOPICS, GOAL_S = 100_000, 1.0
ROUNDS = 5
FULL_BYTES_PER_S = 100e6
Floats = NDArray[np.float64]


class Row(msgspec.Struct, frozen=True):
    """One case: what happened, and what each round took."""

    case: str
    topics: int
    hubs: int
    seconds: list[float]
    moves: int

    @property
    def best_s(self) -> float:
        return min(self.seconds)


def zipf(count: int, total: float) -> Floats:
    sizes = 1.0 / np.arange(1, count + 1) ** 0.8
    np.random.default_rng(1).shuffle(sizes)
    rates: Floats = sizes * (total / sizes.sum())
    return rates


def hub_rows(count: int) -> list[HubView]:
    return [
        HubView(name=f"hub-{at:03}", out_bytes_per_s_max=FULL_BYTES_PER_S, incarnation=1)
        for at in range(count)
    ]


def view_of(out_bytes: Floats, hubs: list[HubView], plan: Plan, at_s: float) -> View:
    """Topics of fan-out 20 and 200 B, at the homes that the plan names."""
    count = len(out_bytes)
    zeros, unknown = np.zeros(count), np.full(count, np.nan)
    names = [b"topic/%d" % at for at in range(count)]
    deliveries = out_bytes / 200
    topics = TopicColumns(
        names=names,
        publications_per_s=deliveries / 20,
        deliveries_per_s=deliveries,
        in_bytes_per_s=out_bytes / 20,
        out_bytes_per_s=out_bytes,
        publishers=np.full(count, 20.0),
        subscribers=np.full(count, 20.0),
        publications_per_s_max=deliveries / 20,
        out_bytes_per_s_max=out_bytes,
        backlog_bytes_max=zeros,
        throttle_delay_s=zeros.copy(),
        queue_delay_s=zeros.copy(),
        out_bytes_trend=zeros.copy(),
        latency_s_worst=unknown,
        deviation_s=unknown.copy(),
    )
    bare = View(at_s, topics, View.of(at_s, hubs=hubs).hubs, _nothing())
    home = ring_homes(bare, topic_positions(bare), plan.members, bare.hubs.is_alive)
    for topic, entry in plan.entries.items():
        home[bare.topic_index[topic]] = bare.hub_index[entry.homes[0]]
    carried = np.flatnonzero(home >= 0)
    sent = np.bincount(home[carried], out_bytes[carried], minlength=len(hubs)).astype(np.float64)
    return View(
        at_s,
        topics,
        _sending(bare.hubs, sent),
        Carried(topic=carried, hub=home[carried], share=np.ones(len(carried))),
    )


def _nothing() -> Carried:
    return Carried(topic=np.zeros(0, np.int64), hub=np.zeros(0, np.int64), share=np.zeros(0))


def _sending(hubs: HubColumns, sent: Floats) -> HubColumns:
    return replace(hubs, out_bytes_per_s=sent, cpu_ratio=sent / FULL_BYTES_PER_S * 0.5)


def settled(out_bytes: Floats, hubs: list[HubView]) -> tuple[Plan, Memory]:
    """A cluster that has found its plan."""
    plan, memory, planner = Plan(), Memory(), Planner()
    for round_ in range(6):
        now = 1.0 + 5 * round_
        decision = planner.decide(view_of(out_bytes, hubs, plan, now), plan, Specs(), now, memory)
        plan, memory = apply(plan, decision.change), decision.memory
    return plan, memory


def timed(case: str, view: View, plan: Plan, memory: Memory) -> Row:
    """Repeat one round, a pure function. Each repetition gets a new view, because a view caches results."""
    planner = Planner(PlannerSettings(hits=1))
    seconds, moves = [], 0
    for _ in range(ROUNDS):
        fresh = from_tables(view.time_s, to_tables(view))
        before = time.perf_counter()
        decision = planner.decide(fresh, plan, Specs(), view.time_s, memory)
        seconds.append(time.perf_counter() - before)
        moves = len(decision.change.entries)
    return Row(case, view.topics.count, view.hubs.count, seconds, moves)


def run(count: int) -> list[Row]:
    hubs = hub_rows(HUBS)
    calm = zipf(count, 0.55 * HUBS * FULL_BYTES_PER_S)
    plan, memory = settled(calm, hubs)
    hot = calm.copy()
    hot[np.random.default_rng(2).choice(count, count // 20, replace=False)] *= 8
    joining = [*hubs, *hub_rows(HUBS + 10)[HUBS:]]
    return [
        timed("steady", view_of(calm, hubs, plan, 200.0), plan, memory),
        timed("overloaded", view_of(hot, hubs, plan, 200.0), plan, memory),
        timed("ten hubs join", view_of(calm, joining, plan, 200.0), plan, memory),
    ]


def growth(rows: list[Row], case: str) -> float:
    """The exponent of the growth between the sizes around the goal; n log n would be 1.1 there."""
    times = {row.topics: row.best_s for row in rows if row.case == case}
    return math.log(times[300_000] / times[30_000]) / math.log(10)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the planner.")
    parser.add_argument("--out", type=Path, help="folder to keep the result in")
    options = parser.parse_args()
    rows = [row for count in SIZES for row in run(count)]
    print("topics    hubs  case             best      median    entries changed")
    for row in rows:
        median = sorted(row.seconds)[len(row.seconds) // 2]
        print(
            f"{row.topics:>7,}  {row.hubs:>5}  {row.case:<14} {row.best_s:>7.3f} s {median:>8.3f} s {row.moves:>8}"
        )
    for case in ("steady", "overloaded", "ten hubs join"):
        print(f"growth from 30,000 to 300,000 topics, {case}: n^{growth(rows, case):.2f} (n log n: n^1.09)")
    worst = max(row.best_s for row in rows if row.topics == GOAL_TOPICS)
    print(f"goal: {GOAL_TOPICS:,} topics in {GOAL_S:g} s; {worst:.3f} s at worst")
    keep("planning", {"rows": msgspec.to_builtins(rows)}, options.out)


if __name__ == "__main__":
    main()
