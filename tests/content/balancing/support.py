"""Loads, filters and edges for the tests of balancing."""

from __future__ import annotations

from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.press import PressProfile
from equipoise.content.filter import Filter
from equipoise.content.parsing import parse_filter


def filter_of(text: str) -> Filter:
    return parse_filter(text.encode())


def load_of(
    *,
    input_ratio: float = 0.0,
    output_ratio: float = 0.0,
    delay_s: float = 0.02,
    subscriptions: int = 100,
    memory_ratio: float = 0.1,
    other_cpu_ratio: float = 0.0,
    subscription_s: float = 2e-4,
    match_s: float = 0.0,
    input_wait_s: float = 0.0,
    output_wait_s: float = 0.0,
) -> EdgeLoad:
    return EdgeLoad(
        input_rate=input_ratio / delay_s if delay_s else 0.0,
        delay_s=delay_s,
        output_bytes_per_s=output_ratio * 1_000,
        bandwidth_bytes_per_s=1_000,
        subscriptions=subscriptions,
        memory_ratio=memory_ratio,
        other_cpu_ratio=other_cpu_ratio,
        subscription_s=subscription_s,
        match_s=match_s,
        input_wait_s=input_wait_s,
        output_wait_s=output_wait_s,
    )


def profile_of(
    bits: dict[Filter, int], *, samples: int = 10, covered_bits: int = 0, input_rate: float = 10.0
) -> PressProfile[Filter]:
    return PressProfile(
        samples=samples, bits=bits, covered_bits=covered_bits, input_rate=input_rate, bytes_mean=10.0
    )
