"""The cases of the fan-out benchmark as data.

A plan is a list of cases and the number of rounds of each. In a round every server is measured once on the
same case, so round k of two servers is a pair whose ratio is not affected by slow drifts of the machine.

Always true: a case's messages are a whole number of batches and of passes over its topics, so every
subscriber of every topic expects the same number of frames.
"""

from __future__ import annotations

import math
import re

import msgspec

FANOUTS = (1, 10, 100, 1000)
PAYLOADS_BYTES = (100, 1000)
TOPICS = 50
BATCH = 50

# A quick plan keeps every kind of row and answers within a minute; its numbers are indications.
ROUNDS, ROUNDS_QUICK = 5, 3
RUN_S, RUN_QUICK_S = 0.5, 0.08

PACED_FANOUT, PACED_RATE_PER_S = 20, 1000
PACED_S, PACED_QUICK_S = 2.0, 0.4
IDLE_CONNECTIONS, IDLE_CONNECTIONS_QUICK = 10_000, 2_000


class FanoutCase(msgspec.Struct, frozen=True, tag="fanout"):
    """One publisher in a closed loop. Each topic has `fanout` subscribers, each with its own connection."""

    fanout: int
    payload_bytes: int
    batch: int  # Frames per send; 1 means that each publish waits for its receipt.
    topics: int
    messages: int

    @property
    def label(self) -> str:
        manner = "singly" if self.batch == 1 else "pipelined"
        topics = f", {self.topics} topics" if self.topics > 1 else ""
        return f"fan-out {self.fanout}, {size_label(self.payload_bytes)}, {manner}{topics}"

    @property
    def deliveries(self) -> int:
        return self.messages * self.fanout


class PacedCase(msgspec.Struct, frozen=True, tag="paced"):
    """One publisher that sends at fixed times, regardless of the server."""

    fanout: int
    payload_bytes: int
    rate_per_s: int
    messages: int

    @property
    def label(self) -> str:
        return f"paced {self.rate_per_s:,} msg/s x {self.fanout}, {size_label(self.payload_bytes)}"


class IdleCase(msgspec.Struct, frozen=True, tag="idle"):
    """Connections that subscribe and then wait: all to one topic, or each to a topic of its own."""

    connections: int
    is_topic_shared: bool

    @property
    def label(self) -> str:
        topics = "one topic" if self.is_topic_shared else "a topic each"
        return f"{self.connections:,} idle subscribers, {topics}"


Case = FanoutCase | PacedCase | IdleCase


class BenchPlan(msgspec.Struct, frozen=True):
    fanout: list[FanoutCase]
    paced: list[PacedCase]
    idle: list[IdleCase]
    rounds: int

    @property
    def size(self) -> int:
        return len(self.fanout) + len(self.paced) + len(self.idle)

    def only(self, pattern: str) -> BenchPlan:
        """The same plan with only those cases whose label matches the regular expression."""
        wanted = re.compile(pattern)
        return BenchPlan(
            [case for case in self.fanout if wanted.search(case.label)],
            [case for case in self.paced if wanted.search(case.label)],
            [case for case in self.idle if wanted.search(case.label)],
            self.rounds,
        )


def make_plan(
    *,
    fanouts: tuple[int, ...] = FANOUTS,
    payloads_bytes: tuple[int, ...] = PAYLOADS_BYTES,
    topics: int = TOPICS,
    is_quick: bool = False,
) -> BenchPlan:
    """Make the plan of a run. `topics` below 2 leaves out the cases that interleave topics."""
    run_s = RUN_QUICK_S if is_quick else RUN_S
    if is_quick:
        payloads_bytes = payloads_bytes[:1]
    shapes = [(fanout, payload, BATCH, 1) for payload in payloads_bytes for fanout in fanouts]
    shapes += [(1, payload, 1, 1) for payload in payloads_bytes if 1 in fanouts]
    if not is_quick:
        shapes += [(fanout, payloads_bytes[0], 1, 1) for fanout in fanouts if fanout != 1]
    if topics > 1:
        shapes += [(fanout, payloads_bytes[0], BATCH, topics) for fanout in fanouts if fanout in (1, 10)]
    return BenchPlan(
        fanout=[fanout_case(*shape, run_s=run_s) for shape in shapes],
        paced=[paced_case(payloads_bytes[0], PACED_QUICK_S if is_quick else PACED_S)],
        idle=[IdleCase(IDLE_CONNECTIONS_QUICK, True)]
        if is_quick
        else [IdleCase(IDLE_CONNECTIONS, True), IdleCase(IDLE_CONNECTIONS, False)],
        rounds=ROUNDS_QUICK if is_quick else ROUNDS,
    )


def fanout_case(fanout: int, payload_bytes: int, batch: int, topics: int, *, run_s: float) -> FanoutCase:
    """Choose the number of messages so that one run takes a server of Redis's speed about `run_s`."""
    deliveries = run_s * 1e6 / estimated_cost_us(fanout, payload_bytes, batch, topics)
    step = math.lcm(batch, topics)
    steps = max(4, round(deliveries / fanout / step))
    return FanoutCase(fanout, payload_bytes, batch, topics, steps * step)


def estimated_cost_us(fanout: int, payload_bytes: int, batch: int, topics: int) -> float:
    """Rough estimate of the wall time of a delivery, in µs. It only sizes the runs; no result depends on it.

    A frame that shares its write with other frames costs a copy, a frame with a write of its own a system
    call. Each publish adds its parsing and, when sent singly, a round trip.
    """
    writes_alone = batch == 1 or topics >= batch
    per_delivery = (3.0 if writes_alone else 0.4) + 0.7e-3 * payload_bytes
    per_publish = 20.0 if batch == 1 else 1.5
    return per_delivery + per_publish / fanout


def paced_case(payload_bytes: int, duration_s: float) -> PacedCase:
    return PacedCase(PACED_FANOUT, payload_bytes, PACED_RATE_PER_S, round(duration_s * PACED_RATE_PER_S))


def size_label(size_bytes: int) -> str:
    if size_bytes >= 1000 and size_bytes % 1000 == 0:
        return f"{size_bytes // 1000} kB"
    return f"{size_bytes:,} B"
