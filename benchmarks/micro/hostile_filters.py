"""How long can one filter, or one message, block a hub's loop?

Question: what CPU time do the costliest filters take to read and to file, and the costliest messages to match?

Estimate: 64 predicates that each look at 256 values, 0.6 µs each: 10 ms. A thousand searches of 8,192 characters at
1.6 ns each: 13 ms. A filter with 64 texts, compared with a thousand others: 64,000 comparisons of 80 ns, 5 ms.

Finding: see `docs/results/matching.md`. Each is below the 50 ms that a turn may take.

    python benchmarks/micro/hostile_filters.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import msgspec

from equipoise.content.attributes import STRING_MAX, attributes_of
from equipoise.content.cover_set import CoverSet
from equipoise.content.groups import SCANNED_MAX, FilterNode
from equipoise.content.index import ATTRIBUTES_MAX, FilterIndex, count_of
from equipoise.content.parsing import PREDICATES_MAX, parse_filter

MIB = 1 << 20
# Half of `filters_max`.
MANY = 100_000
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


def many() -> Iterator[tuple[str, Iterable[str], dict[str, object]]]:
    """Filters that come close to a message without matching it, as many as half a hub may have."""
    half = MANY / 2
    searched = [f"a contains '{TEXT}{i:03}'" for i in range(SCANNED_MAX)]
    yield (
        f"1,000 `contains`, and 1,000 behind equalities, on {STRING_MAX:,} characters",
        [*searched, *(f"e{i % 100} = 1 and {text}" for i, text in enumerate(searched))],
        {**{f"e{i}": 1 for i in range(100)}, "a": "a" * STRING_MAX},
    )
    yield (
        f"{MANY:,} with a bound on each of two attributes",
        (f"a > {i} and b > {MANY - i}" for i in range(MANY)),
        {"a": half, "b": half},
    )
    yield (
        f"{MANY:,} ranges of strings",
        (f"a >= 'x{i:06}' and a < 'x{i + 1:06}'" for i in range(MANY)),
        {"a": f"x{MANY // 2:06}z"},
    )
    yield (
        f"{MANY:,} boxes that hold the message, and a bound that it does not reach",
        (
            f"a > -{i + 1} and a < {i + 1} and b > -{i % 997 + 1} and b < {i % 991 + 1} and c > {i}"
            for i in range(MANY)
        ),
        {"a": 0, "b": 0, "c": -1},
    )
    yield (
        f"{ATTRIBUTES_MAX:,} attributes",
        (" and ".join(f"a{i + j} exists" for j in range(50)) for i in range(0, ATTRIBUTES_MAX, 50)),
        {f"a{i}": 1 for i in range(ATTRIBUTES_MAX)},
    )


def filled(texts: Iterable[str]) -> FilterIndex[FilterNode]:
    index: FilterIndex[FilterNode] = FilterIndex()
    for text in texts:
        filter = parse_filter(text.encode())
        if index.objection(filter) is None:
            index.add(FilterNode(filter))
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
    for name, texts, event in many():
        taken = cpu_ms(partial(match, filled(texts), msgspec.json.encode(event)))
        print(f"| match a message: {name} | {taken:.1f} |")
    for name, text in MATCHED.items():
        taken = cpu_ms(partial(match, index, msgspec.json.encode({"a": text})))
        print(f"| match a message: {name} | {taken:.1f} |")


if __name__ == "__main__":
    main()
