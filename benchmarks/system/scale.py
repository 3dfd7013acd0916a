"""How far does it go, and what breaks first? Generated telemetry, no hubs, no Spark: the arithmetic alone.

    python benchmarks/system/scale.py [--sizes 10x1000 30x1000 100x1000 100x10000] [--out benchmarks/results]

Estimate: a hub's window costs some 1 µs per topic and second (`benchmarks/micro/view_making.py`), and tasks share it;
the driver joins what is named. Unbounded, 1,000 hubs of 10,000 topics are ten million rows and 1.4 GB a second on the
wire; bounded to 200,000 names they are what 20 hubs are.

Finding: docs/results/scale.md.

Method: one hub's second is generated, validated and sampled ten times over; its sums are made once and renamed for each
other hub, since a hub's sums follow from its own records alone. What is measured, in CPU time of one thread: a hub's
sums (which executors share), joining all hubs on the driver, with and without the bound, the view's bytes, reading it
at the controller, deciding on it with the planner, and the plan with an entry for every hundredth topic it names.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
from sums import (  # type: ignore[import-not-found]  # Its neighbour, found when this is run as a script.
    SECOND_US,
    START_US,
    second,
)

from equipoise.model import Entry, Member, Plan, Specs, encode_plan
from equipoise.pipeline.hub_sums import HubSums, hub_sums, joined_sums
from equipoise.pipeline.samples import Sampled, sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import view_tables
from equipoise.pipeline.validation import judged
from equipoise.pipeline.view_bound import ViewBound, bounded
from equipoise.plan import Memory, Planner
from equipoise.profile.environment import keep
from equipoise.view.codec import HEADER_BYTES, ViewTables, decode_header, decode_view, encode_view
from equipoise.view.interest import Interest
from equipoise.view.view import View

OVER_US = 10 * SECOND_US
VIEW_TOPICS_MAX = 200_000
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    began_s = time.process_time()
    made = work()
    return made, time.process_time() - began_s


def window_of(topics: int) -> Sampled:
    found = []
    for at in range(10):
        batch = second(0, at, topics)
        found.append(judged(batch, now_us=START_US + OVER_US, plausible=Plausible()))
    return sampled(found, Counter())


def renamed(sums: HubSums, hub: int) -> HubSums:
    """The same hub under another name, with topics of its own."""
    topics = sums.topics
    names = pa.array([b"topic-%d-%d" % (hub, at) for at in range(len(topics))], pa.binary())
    at = topics.schema.get_field_index("topic")
    hubs = sums.hubs.set_column(0, "hub", pa.array([f"h{hub}"]))
    return HubSums(topics.set_column(at, "topic", names), hubs)


def join(parts: list[HubSums], end_us: int) -> ViewTables:
    return view_tables(joined_sums(parts), end_us=end_us, entries=None)


def measure(hubs: int, topics: int) -> dict[str, Any]:
    window = window_of(topics)
    one, sums_s = timed(lambda: hub_sums(window.topics, window.hubs, over_us=OVER_US))
    bound = ViewBound(max(100, VIEW_TOPICS_MAX // hubs), Interest())
    small, bound_s = timed(lambda: bounded(one, bound))
    end_us = int(one.hubs.column("time_us")[0].as_py())
    found: dict[str, Any] = {
        "hubs": hubs,
        "topics_per_hub": topics,
        "hub_sums_s": sums_s,
        "bound_s": bound_s,
        "named_per_hub": len(small.topics),
    }
    # Beyond two million rows an unbounded view has no room here: what it takes is known by then.
    ways = {"bounded": small} if hubs * topics > 2_000_000 else {"whole": one, "bounded": small}
    for name, part in ways.items():
        parts = [renamed(part, hub) for hub in range(hubs)]
        tables, join_s = timed(partial(join, parts, end_us))
        data, encode_s = timed(partial(encode_view, end_us / 1e6, 10.0, tables))
        view, decode_s = timed(partial(decode_view, decode_header(data[:HEADER_BYTES]), data[HEADER_BYTES:]))
        found[name] = {
            "topics": view.topics.count,
            "join_s": join_s,
            "encode_s": encode_s,
            "view_bytes": len(data),
            "decode_s": decode_s,
            **plan_on(view),
        }
    return found


def plan_on(view: View) -> dict[str, float]:
    """Deciding once, with a plan that has an entry for every hundredth topic."""
    members = [Member(name) for name in view.hubs.names]
    names = list(view.topics.names)[::100]
    entries = [Entry(name, (view.hubs.names[at % len(members)],)) for at, name in enumerate(names)]
    plan = Plan.of(members=members, entries=entries)
    _, decide_s = timed(lambda: Planner().decide(view, plan, Specs(), view.time_s, Memory()))
    return {"decide_s": decide_s, "plan_entries": len(entries), "plan_bytes": len(encode_plan(plan))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["10x1000", "30x1000", "100x1000", "100x10000"])
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    found = []
    for size in options.sizes:
        hubs, topics = map(int, size.split("x"))
        found.append(measure(hubs, topics))
        print(found[-1], flush=True)
    print(keep("scale", {"sizes": found, "load_average": os.getloadavg()[0]}, options.out), end="")


if __name__ == "__main__":
    np.seterr(all="raise")
    main()
