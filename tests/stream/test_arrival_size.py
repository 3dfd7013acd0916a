"""Parts that wait at a relay count with the memory they use, also without a payload."""

from __future__ import annotations

import tracemalloc

import pytest

from equipoise.stream.parts import Dependency, Messages
from equipoise.stream.relay import Arrival


@pytest.mark.parametrize("payloads", [1, 10])
@pytest.mark.parametrize("length", [0, 7, 1_000])
def test_arrivals_count_with_the_memory_they_use(payloads: int, length: int) -> None:
    count = 2_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        # Numbers and payloads that no other object shares.
        waiting = [
            Arrival(
                "h1", 10**15 + i, Messages(10**15 + i, 1_000 + i, [bytes(length) for _ in range(payloads)])
            )
            for i in range(count)
        ]
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    counted = sum(arrival.size for arrival in waiting)
    assert counted >= (0.8 if length else 0.5) * taken
    assert counted <= 2.5 * taken


def test_a_part_without_a_payload_counts_too() -> None:
    assert Arrival("h1", 1, Dependency(b"lane", 1, 1)).size > 0
    assert Arrival("h1", 1, Messages(1, 1, [b""])).size > Arrival("h1", 1, Dependency(b"lane", 1, 1)).size
