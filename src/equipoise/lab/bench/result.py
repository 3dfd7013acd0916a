"""The outcome of one run, as kept in `benchmarks/results/` and read back for the documentation; and the goals.

Goals are data: ratios hub/Redis that must not be exceeded.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from equipoise.lab.bench.cases import Case, FanoutCase, IdleCase, PacedCase
from equipoise.profile.environment import MachineFacts
from equipoise.profile.statistics import median, pair_ratios

__all__ = []

OURS = "hub"


class Row(msgspec.Struct, frozen=True):
    """All samples of one metric of one case: one per round, for each server without failures."""

    case: Case
    metric: Metric
    values: dict[str, list[float]]

    def median(self, server: str) -> float | None:
        values = self.values.get(server)
        return median(values) if values else None

    def ratios(self, rival: str) -> list[float]:
        """Hub over rival, pair by pair."""
        return pair_ratios(self.values.get(OURS, []), self.values.get(rival, []))

    @property
    def goal(self) -> float | None:
        return goal_for(self.case, self.metric)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without a goal or without a pair to judge it by."""
        ratios = self.ratios(RIVAL)
        if self.goal is None or not ratios:
            return None
        return median(ratios) <= self.goal


class Failure(msgspec.Struct, frozen=True):
    """A server that could not be measured on a case: it cut, dropped, stalled or did not start."""

    case: str
    server: str
    reason: str


class BenchResult(msgspec.Struct, frozen=True):
    benchmark: str
    taken_at: str
    commit: str
    machine: MachineFacts
    versions: dict[str, str]
    rounds: int
    window: int
    is_quick: bool
    servers: list[str]
    skipped: dict[str, str]
    rows: list[Row]
    failures: list[Failure]


def encode(result: BenchResult) -> bytes:
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


def decode(text: bytes) -> BenchResult:
    """Read a kept result. Raises msgspec.ValidationError if it is not one."""
    return msgspec.json.decode(text, type=BenchResult)


RIVAL = "redis"
# A message of a size at which a server's work per message counts, and not its copying.
_SMALL_BYTES = 100


class Metric(StrEnum):
    CPU = "cpu_us_per_delivery"
    RATE = "deliveries_per_s"
    BUSY = "server_busy"
    LATENCY_P50 = "latency_us_p50"
    LATENCY_P99 = "latency_us_p99"
    LEFT_OUT = "left_out_share"
    MEMORY_FRESH = "memory_bytes_fresh"
    MEMORY_SETTLED = "memory_bytes_settled"


class Goal(msgspec.Struct, frozen=True):
    """Applies to cases of one type and metric. The other fields narrow fan-out cases; the first that applies counts."""

    case_type: type
    metric: Metric
    ratio_max: float
    fanout: int | None = None
    is_single: bool | None = None
    # Only the plainest: small messages, one topic.
    is_plain: bool = False

    def applies(self, case: Case, metric: Metric) -> bool:
        if metric is not self.metric or not isinstance(case, self.case_type):
            return False
        if not isinstance(case, FanoutCase):
            return True
        is_plain = case.topics == 1 and case.payload_bytes <= _SMALL_BYTES
        is_alike = case.fanout == self.fanout and (case.batch == 1) == self.is_single
        return is_alike and (is_plain or not self.is_plain)


GOALS = (
    Goal(FanoutCase, Metric.CPU, 0.5, fanout=1000, is_single=False),
    Goal(FanoutCase, Metric.CPU, 0.5, fanout=100, is_single=False),
    Goal(FanoutCase, Metric.CPU, 1.0, fanout=10, is_single=False),
    Goal(FanoutCase, Metric.CPU, 1.0, fanout=1, is_single=False, is_plain=True),
    Goal(FanoutCase, Metric.CPU, 1.2, fanout=1, is_single=False),
    Goal(FanoutCase, Metric.CPU, 1.3, fanout=1, is_single=True),
    Goal(PacedCase, Metric.LATENCY_P99, 1.5),
    Goal(IdleCase, Metric.MEMORY_FRESH, 0.75),
    Goal(IdleCase, Metric.MEMORY_SETTLED, 1.0),
)


def goal_for(case: Case, metric: Metric) -> float | None:
    """The largest ratio hub/Redis that meets the goal, or None where there is no goal."""
    return next((goal.ratio_max for goal in GOALS if goal.applies(case, metric)), None)
