"""The outcome of one run, as kept in `benchmarks/results/` and read back for the documentation."""

from __future__ import annotations

import msgspec

from equipoise.lab.bench.cases import Case
from equipoise.lab.bench.goals import RIVAL, Metric, goal_for
from equipoise.profile.environment import MachineFacts
from equipoise.profile.statistics import median, pair_ratios

OURS = "hub"


class Row(msgspec.Struct, frozen=True):
    """All samples of one metric of one case: one per round, for each server that got through."""

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
