"""How many messages a second can one core match with many filters?

Question: what does it cost to find the filters that match a message, JSON included, with the workload of the PADRES
paper (Cheung and Jacobsen, Middleware 2006, section 6.1), with the same without its two broad templates, with
boxes, against a look at every filter; what does a change cost, the covering set kept; how much memory takes a filter?

Estimate: JSON 0.7 µs, five attributes 0.7 µs, then one look-up and some four bisections of 0.3 µs: 4 µs, whatever the
number of filters. Listing a match costs 25 ns more for each of them. A scan costs 0.2 µs for each filter.

Finding: see `docs/results/matching.md`, which holds the latest kept run.

    python benchmarks/micro/matching.py                            # print
    python benchmarks/micro/matching.py --only boxes               # one workload
    python benchmarks/micro/matching.py --out benchmarks/results   # and keep
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from equipoise.content.attributes import attributes_of, path_of, values_at
from equipoise.content.cover_set import CoverSet
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode
from equipoise.content.index import FilterIndex, count_of
from equipoise.content.index import listed as list_match
from equipoise.content.parsing import parse_filter
from equipoise.profile.environment import keep

EVENTS = 200
SECONDS = 1.0
SCANNED = 20
CHURN = 5_000
# Filters whose memory is taken: the tracer makes everything slow.
WEIGHED = 20_000
# Per mille, as in the paper; the last two are the broad ones.
TEMPLATES = (200, 200, 200, 340, 50, 10)


class Row(msgspec.Struct, frozen=True):
    """One workload."""

    workload: str
    filters: int
    matches: float
    # Slices only, slices listed one by one, and the scan that both replace.
    events_per_s: float
    listed_per_s: float
    scans_per_s: float
    add_us_mean: float
    add_us_max: float
    remove_us_mean: float
    remove_us_max: float
    covers: int
    bytes_per_filter: float

    @property
    def ratio(self) -> float:
        return self.listed_per_s / self.scans_per_s


class Quotes:
    """Stock quotes and filters on them."""

    def __init__(self, symbols: int, seed: int, *, is_broad: bool) -> None:
        self._chance = random.Random(seed)
        self._symbols = [f"S{i:05d}" for i in range(symbols)]
        self._weights = TEMPLATES if is_broad else TEMPLATES[:4]

    def _prices(self) -> dict[str, float]:
        chance = self._chance
        opened = round(chance.uniform(5, 100), 2)
        high = round(opened * chance.uniform(1, 1.1), 2)
        low = round(opened * chance.uniform(0.9, 1), 2)
        return {"open": opened, "high": high, "low": low, "volume": chance.randrange(1_000, 50_000_000)}

    def event(self) -> bytes:
        quote = {"class": "STOCK", "symbol": self._chance.choice(self._symbols), **self._prices()}
        return msgspec.json.encode({**quote, "close": quote["open"], "date": "12-Apr-96"})

    def filter(self) -> str:
        prices, symbol = self._prices(), self._chance.choice(self._symbols)
        stock, of = "class = 'STOCK'", f"class = 'STOCK' and symbol = '{symbol}'"
        texts = (
            f"{of} and high > {prices['high']}",
            f"{of} and low < {prices['low']}",
            f"{of} and volume > {prices['volume']}",
            of,
            f"{stock} and volume > {prices['volume']}",
            stock,
        )
        return self._chance.choices(texts[: len(self._weights)], self._weights)[0]


class Boxes:
    """Two attributes with two bounds each: a message is in some forty of a hundred thousand."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def event(self) -> bytes:
        x, y = self._chance.uniform(0, 1_000), self._chance.uniform(0, 1_000)
        return msgspec.json.encode({"kind": "position", "x": x, "y": y, "unit": "m"})

    def filter(self) -> str:
        x, y = self._chance.uniform(-10, 1_000), self._chance.uniform(-10, 1_000)
        wide, high = self._chance.uniform(10, 30), self._chance.uniform(10, 30)
        return f"x >= {x} and x < {x + wide} and y >= {y} and y < {y + high}"


Workload = Quotes | Boxes
CASES: dict[str, tuple[int, Callable[[], Workload]]] = {
    "paper's, 40 symbols": (2_000, lambda: Quotes(40, 1, is_broad=True)),
    "no broad ones, 50 symbols": (10_000, lambda: Quotes(50, 2, is_broad=False)),
    "no broad ones, 500 symbols": (100_000, lambda: Quotes(500, 2, is_broad=False)),
    "paper's, 5,000 symbols": (100_000, lambda: Quotes(5_000, 3, is_broad=True)),
    "boxes": (100_000, lambda: Boxes(4)),
    "paper's, 5,000 symbols, counted": (600_000, lambda: Quotes(5_000, 5, is_broad=True)),
}


def distinct(workload: Workload, known: set[Filter]) -> Iterator[Filter]:
    """Filters that are not among the known ones, without end."""
    while True:
        filter = parse_filter(workload.filter().encode())
        if filter not in known:
            known.add(filter)
            yield filter


def per_second(work: Callable[[bytes], object], events: list[bytes]) -> float:
    """How often a second the work can be done, by the CPU clock, at its best of three."""
    best = 0.0
    for _ in range(3):
        began, done = time.process_time(), 0
        while (taken := time.process_time() - began) < SECONDS / 3:
            for event in events:
                work(event)
            done += len(events)
        best = max(best, done / taken)
    return best


def churn(work: Callable[[FilterNode], object], nodes: list[FilterNode]) -> tuple[float, float]:
    """Mean and longest CPU time of a change, in µs: other programs on the machine are not counted."""
    taken: list[float] = []
    for node in nodes:
        began = time.thread_time()
        work(node)
        taken.append(time.thread_time() - began)
    return sum(taken) / len(taken) * 1e6, max(taken) * 1e6


def measure(name: str) -> Row:
    size, make = CASES[name]
    workload = make()
    index: FilterIndex[FilterNode] = FilterIndex()
    covers: CoverSet[FilterNode] = CoverSet()
    known: set[Filter] = set()
    fresh = distinct(workload, known)

    def add(node: FilterNode) -> None:
        index.add(node)
        covers.add(node)
        covers.settle(8)
        covers.changes.clear()

    def remove(node: FilterNode) -> None:
        index.remove(node)
        covers.remove(node)
        covers.settle(8)
        covers.changes.clear()

    nodes: list[FilterNode] = []
    tracemalloc.start()
    for _ in range(min(size, WEIGHED)):
        node = FilterNode(next(fresh))
        nodes.append(node)
        add(node)
    gc.collect()
    # Without the set of those known, which is the benchmark's own.
    used = tracemalloc.get_traced_memory()[0] - sys.getsizeof(known)
    bytes_per_filter = used / len(nodes)
    tracemalloc.stop()
    for _ in range(size - len(nodes)):
        node = FilterNode(next(fresh))
        nodes.append(node)
        add(node)
    gc.collect()
    gc.freeze()
    events = [workload.event() for _ in range(EVENTS)]

    def match(event: bytes) -> int:
        return count_of(index.match(attributes_of(event) or {}))

    def listed(event: bytes) -> int:
        return len(list_match(index.match(attributes_of(event) or {})))

    paths = list(map(path_of, ("class", "symbol", "high", "low", "volume", "x", "y")))

    def scan(event: bytes) -> int:
        values = values_at(attributes_of(event) or {}, paths)
        return sum([node.filter.matches(values) for node in nodes])

    matches = sum(map(match, events)) / EVENTS
    assert matches * EVENTS == sum(map(listed, events))
    assert [match(event) for event in events[:3]] == [scan(event) for event in events[:3]]
    began = time.process_time()
    for event in events[:SCANNED]:
        scan(event)
    scans = SCANNED / (time.process_time() - began)
    rates = per_second(match, events), per_second(listed, events)
    while not covers.settle(1_000):
        pass
    members = len(covers)
    more = [FilterNode(next(fresh)) for _ in range(CHURN)]
    added = churn(add, more)
    random.Random(6).shuffle(nodes)
    removed = churn(remove, nodes[:CHURN])
    gc.unfreeze()
    return Row(name, size, matches, *rates, scans, *added, *removed, members, bytes_per_filter)


def show(row: Row) -> str:
    return (
        f"| {row.filters:,}, {row.workload} | {row.matches:,.0f} | {row.events_per_s:,.0f} | {row.listed_per_s:,.0f} | "
        f"{row.scans_per_s:,.1f} | {row.ratio:,.0f} × | {row.add_us_mean:.0f} / {row.add_us_max / 1e3:.1f} ms | "
        f"{row.remove_us_mean:.0f} / {row.remove_us_max / 1e3:.1f} ms | {row.covers:,} | {row.bytes_per_filter:,.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="folder to keep the result in")
    parser.add_argument("--only", default="", help="workloads whose name has this text")
    arguments = parser.parse_args()
    print(
        "| filters | matches | events/s | listed/s | scans/s | ratio | add µs, worst | remove µs, worst | covers | B |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    rows = []
    for name in CASES:
        if arguments.only in name:
            rows.append(measure(name))
            print(show(rows[-1]), flush=True)
    keep("matching", {"rows": msgspec.to_builtins(rows)}, arguments.out)


if __name__ == "__main__":
    main()
