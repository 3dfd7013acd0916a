"""What the hub is to reach, as data: ratios hub/Redis that must not be exceeded."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from equipoise.lab.bench.cases import Case, FanoutCase, IdleCase, PacedCase

RIVAL = "redis"


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
    """Applies to cases of one type and metric. `fanout` and `is_single` narrow fan-out cases."""

    case_type: type
    metric: Metric
    ratio_max: float
    fanout: int | None = None
    is_single: bool | None = None

    def applies(self, case: Case, metric: Metric) -> bool:
        if metric is not self.metric or not isinstance(case, self.case_type):
            return False
        if not isinstance(case, FanoutCase):
            return True
        return case.fanout == self.fanout and (case.batch == 1) == self.is_single


GOALS = (
    Goal(FanoutCase, Metric.CPU, 0.5, fanout=1000, is_single=False),
    Goal(FanoutCase, Metric.CPU, 0.5, fanout=100, is_single=False),
    Goal(FanoutCase, Metric.CPU, 1.0, fanout=10, is_single=False),
    Goal(FanoutCase, Metric.CPU, 1.6, fanout=1, is_single=False),
    Goal(FanoutCase, Metric.CPU, 2.0, fanout=1, is_single=True),
    Goal(PacedCase, Metric.LATENCY_P99, 1.5),
    Goal(IdleCase, Metric.MEMORY_FRESH, 0.75),
    Goal(IdleCase, Metric.MEMORY_SETTLED, 0.75),
)


def goal_for(case: Case, metric: Metric) -> float | None:
    """The largest ratio hub/Redis that meets the goal, or None where there is no goal."""
    return next((goal.ratio_max for goal in GOALS if goal.applies(case, metric)), None)
