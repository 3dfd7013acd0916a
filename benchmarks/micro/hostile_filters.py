"""How long can one filter, or one message, block a hub's loop?

Question: what CPU time do the costliest filters take to read and to file, and the costliest messages to match?

Estimate: 64 predicates that each look at 256 values, 0.6 µs each: 10 ms. A thousand searches of 8,192 characters at
1.6 ns each: 13 ms. A filter with 64 texts, compared with a thousand others: 64,000 comparisons of 80 ns, 5 ms.

Finding: see `docs/results/matching.md`. Each is below the 50 ms that a turn may take.

    python benchmarks/micro/hostile_filters.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import msgspec

from equipoise.content.attributes import STRING_MAX, attributes_of
from equipoise.content.cover_set import CoverSet
from equipoise.content.groups import SCANNED_MAX, FilterNode
from equipoise.content.index import FilterIndex, count_of
from equipoise.content.parsing import PREDICATES_MAX, parse_filter

MIB = 1 << 20
# Of five runs the best: other programs on the machine are not counted.
RUNS = 5
LISTED = ",".join(f"'{i:02x}z'" for i in range(256))
READ = {
    "a list of 256 values and 63 `suffix`": [f"a in ({LISTED})", *["a suffix 'z'"] * (PREDICATES_MAX - 1)],
    "64 `contains` on one attribute": [f"a contains '{'x' * 40}{i}'" for i in range(PREDICATES_MAX)],
    "64 `!=` on one attribute": [f"a != {i}" for i in range(PREDICATES_MAX)],
}
# Strings that nearly hold the text everywhere.
TEXT = "a" * 24 + "b" + "a" * 24
MATCHED = {
    f"1,000 `contains` on {STRING_MAX:,} characters": "a" * STRING_MAX,
    "1,000 `contains` on 255 characters": "a" * 255,
    "1,000 `contains` on 1 MiB, which only exists": "a" * MIB,
}


def cpu_ms(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(RUNS):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best * 1e3


def scanned() -> FilterIndex[FilterNode]:
    """As many filters as a message is compared with one by one."""
    index: FilterIndex[FilterNode] = FilterIndex()
    for i in range(SCANNED_MAX):
        index.add(FilterNode(parse_filter(f"a contains '{TEXT}{i:03}'".encode())))
    return index


def match(index: FilterIndex[FilterNode], event: bytes) -> int:
    return count_of(index.match(attributes_of(event) or {}))


def main() -> None:
    print("| work | CPU, ms |\n|---|---|")
    for name, predicates in READ.items():
        data = " and ".join(predicates).encode()
        print(f"| read a filter: {name} | {cpu_ms(partial(parse_filter, data)):.1f} |")
    index = scanned()
    covers: CoverSet[FilterNode] = CoverSet()
    for node in index:
        covers.add(FilterNode(node.filter))
    while not covers.settle(1_000):
        pass
    wide = parse_filter(" and ".join(f"a contains '{TEXT[:40]}{i}'" for i in range(60)).encode())

    def file() -> None:
        node = FilterNode(wide)
        covers.add(node)
        covers.settle(8)
        covers.remove(node)
        covers.settle(8)

    print(f"| file a filter of 60 `contains` beside 1,000, and remove it | {cpu_ms(file):.1f} |")
    for name, text in MATCHED.items():
        taken = cpu_ms(partial(match, index, msgspec.json.encode({"a": text})))
        print(f"| match a message: {name} | {taken:.1f} |")


if __name__ == "__main__":
    main()
