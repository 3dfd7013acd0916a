"""What a hub's work costs, for hosts that are given a processor.

Measured, not guessed: benchmarks/results/fanout-20261115T120036-4a15259de49e.json, medians of `cpu_us_per_delivery` of
the hub, one publish per send, 2 cores of an Intel Xeon. A delivery at fan-out 1,000 is 4.42 µs, nearly all of it a
send; at fan-out 1 a publish with its reply and its delivery is 23.1 µs, so 14.3 µs are a wake-up, a receive and a
command. The same with 1 kB in place of 100 B takes 2.8 µs more, for 900 bytes in and out.

What is left out: a hub under load finds several messages per wake-up and gathers what it sends to one client, and
then needs a twentieth of this (the pipelined rows). A hub that is simulated with these costs is therefore full
earlier than a real one, by the same factor wherever it runs.
"""

from __future__ import annotations

from dataclasses import replace

from equipoise.lab.simulation.cpu import CpuSpec

__all__ = ["MEASURED", "measured_cpu"]

MEASURED = CpuSpec(
    received_chunk_s=14.3e-6 - 100 * 1.55e-9,
    received_byte_s=1.55e-9,
    written_chunk_s=4.42e-6 - 144 * 1.55e-9,
    written_byte_s=1.55e-9,
)


def measured_cpu(speed: float = 1.0) -> CpuSpec:
    """A processor so many times as fast as the one that was measured."""
    return replace(MEASURED, speed=speed)
