"""What does it cost to make a view, and what do places add to it?

    python benchmarks/micro/view_making.py [--topics N] [--places]

Ten seconds of records of that many topics on two hubs are validated, sampled and aggregated into views, as the pipeline
does it once a second; without `--places` the records have no coordinates. Estimate: grouping half a million rows by
name takes some 50 ms; a coordinate has 88 bytes, so a row with both sides of a topic takes more than twice as long.

Finding (50,000 topics a second): a view takes 54 ms without coordinates and 126 ms with them; validating and sampling a
second of records 12 ms and 60 ms.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.coordinates import Coordinate
from equipoise.pipeline.samples import Sampled, sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import SlidingWindow
from equipoise.pipeline.validation import judged
from equipoise.telemetry import arrow_schema

START_US = 1_790_000_000 * 1_000_000
SECOND_US = 1_000_000


def records(rng: random.Random, topics: int, second: int, hub: int, with_places: bool) -> pa.RecordBatch:
    """A second of one hub."""
    time_us, count = START_US + second * SECOND_US, topics + 1
    at = Coordinate((rng.random(),) * 8, 0.1, 0.001).to_bytes() if with_places else None
    side = {"at": at, "located": 3, "deviation_us": 2_000, "leg_us_max": 9_000} if with_places else {}
    told: dict[str, Any] = {
        f"{who}_{name}": value for who in ("publishers", "subscribers") for name, value in side.items()
    }
    numbers = dict.fromkeys(("publications", "deliveries", "bytes_in", "bytes_out", "subscribers"), 100)
    common = {"hub": f"h{hub}", "incarnation": 1, "time": time_us, "window_us": SECOND_US}
    made: dict[str, Any] = {name: [value] * count for name, value in {**common, **numbers}.items()}
    made |= {
        name: [value] * topics + [None]
        for name, value in {**told, "role": "home" if hub else "relay"}.items()
    }
    made["kind"] = ["topic"] * topics + ["hub"]
    made["topic"] = [b"topic-%d" % number for number in range(topics)] + [None]
    made["sequence"] = list(range(second * count, (second + 1) * count))
    made["cpu_ratio"] = [None] * topics + [0.5]
    made["coordinate"] = [None] * topics + [at]
    schema = arrow_schema()
    columns = [pa.array(made.get(field.name, [None] * count), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def sample(batches: list[pa.RecordBatch]) -> Sampled:
    found = [judged(batch, now_us=START_US + 60 * SECOND_US, plausible=Plausible()) for batch in batches]
    return sampled(found, Counter())


def best_cpu_s(work: Callable[[], object], times: int = 15) -> float:
    taken = []
    for _ in range(times):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of a view")
    parser.add_argument("--topics", type=int, default=50_000)
    parser.add_argument("--places", action="store_true")
    options = parser.parse_args()
    rng, window = random.Random(1), SlidingWindow()
    batches: list[pa.RecordBatch] = []
    for second in range(10):
        batches = [records(rng, options.topics // 2, second, hub, options.places) for hub in range(2)]
        window.add(sample(batches))
    print(f"judge and sample a second  {best_cpu_s(lambda: sample(batches)) * 1e3:8.1f} ms CPU")
    print(f"make a view                {best_cpu_s(window.view) * 1e3:8.1f} ms CPU")


if __name__ == "__main__":
    main()
