"""Report a campaign, as text or as one JSON object."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from equipoise.lab.scenarios.excused import is_excused
from equipoise.lab.simulation.runner import Run

__all__ = ["Tally", "failure_lines", "replay_command", "tables", "to_json"]

VIOLATIONS_SHOWN = 8


@dataclass(slots=True)
class Tally:
    """Sums over the runs of a campaign. Keeps failed runs completely and passed runs as hashes."""

    seeds: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    # By case, wall time summed over the processes.
    wall_s: dict[str, float] = field(default_factory=dict)
    # By case, then by kind of fault.
    faults: dict[str, Counter[str]] = field(default_factory=dict)
    messages: int = 0
    deliveries: int = 0
    failures: list[Run] = field(default_factory=list)
    # Failed runs that are listed in equipoise.lab.scenarios.excused.
    excused: Counter[str] = field(default_factory=Counter)
    verdicts: list[tuple[str, int, bool, str]] = field(default_factory=list)

    def add(self, run: Run) -> None:
        self.seeds[run.case] += 1
        is_listed = not run.is_green and is_excused(run.case, run.seed)
        self.excused[run.case] += is_listed
        self.failed[run.case] += not run.is_green and not is_listed
        self.wall_s[run.case] = self.wall_s.get(run.case, 0.0) + run.wall_s
        self.faults.setdefault(run.case, Counter()).update(run.faults)
        self.messages += run.messages
        self.deliveries += run.deliveries
        self.verdicts.append((run.case, run.seed, run.is_green, run.trace_hash))
        if not run.is_green and not is_listed:
            self.failures.append(run)

    def seeds_per_s(self, case: str) -> float:
        """Seeds per second of one process."""
        return self.seeds[case] / max(self.wall_s[case], 1e-9)

    @property
    def is_green(self) -> bool:
        return not self.failures


def replay_command(run: Run, *, without: str = "") -> str:
    command = f"equipoise simulate --case {run.case} --replay {run.seed}"
    return f"{command} --without {without}" if without else command


def failure_lines(run: Run, *, commit: str, without: str = "") -> list[str]:
    """The violations of a failed run, the command that replays it, and the end of its trace."""
    hidden = len(run.violations) - VIOLATIONS_SHOWN
    return [
        f"FAILED {run.case} seed {run.seed} at commit {commit}",
        *(f"  {violation}" for violation in run.violations[:VIOLATIONS_SHOWN]),
        *([f"  and {hidden} more"] if hidden > 0 else []),
        f"  replay: {replay_command(run, without=without)}",
        "  the trace ends:",
        *(f"    {line}" for line in run.lines),
    ]


def tables(tally: Tally, *, elapsed_s: float) -> RenderableType:
    """Cases with their seeds and speed, and the number of faults of each kind."""
    kinds = sorted({kind for faults in tally.faults.values() for kind in faults})
    cases = Table("case", "seeds", "failed", "excused", "seeds/s", "faults that happened", title=None)
    for case, count in tally.seeds.items():
        faults = tally.faults[case]
        shown = ", ".join(f"{kind} {faults[kind]}" for kind in kinds if faults[kind]) or "none"
        numbers = (count, tally.failed[case], tally.excused[case])
        cases.add_row(case, *map(str, numbers), f"{tally.seeds_per_s(case):.1f}", shown)
    total = sum(tally.seeds.values())
    speed = (
        f"{total} seeds in {elapsed_s:.1f} s, {total / elapsed_s:.0f} seeds/s; {tally.messages:,} messages, "
        f"{tally.deliveries:,} deliveries, {tally.deliveries / elapsed_s:,.0f} deliveries/s"
    )
    return Group(cases, Text(speed))


def to_json(tally: Tally, *, commit: str, elapsed_s: float, without: str = "") -> str:
    """One JSON object. `seeds` has one row per run, sorted, so that campaigns can be compared line by line."""
    total = sum(tally.seeds.values())
    return json.dumps(
        {
            "commit": commit,
            "without": without or None,
            "verdict": _verdict(tally.is_green),
            "elapsed_s": round(elapsed_s, 3),
            "seeds_per_s": round(total / elapsed_s, 1),
            "seeds_per_s_by_case": {case: round(tally.seeds_per_s(case), 1) for case in sorted(tally.seeds)},
            "excused": {case: tally.excused[case] for case in sorted(tally.excused) if tally.excused[case]},
            "messages": tally.messages,
            "deliveries": tally.deliveries,
            "faults": {case: dict(sorted(faults.items())) for case, faults in sorted(tally.faults.items())},
            "seeds": [
                {"case": case, "seed": seed, "verdict": _verdict(is_green), "trace_hash": trace_hash}
                for case, seed, is_green, trace_hash in sorted(tally.verdicts)
            ],
            "failures": _failures(tally.failures, without),
        },
        indent=1,
    )


def _failures(runs: Iterable[Run], without: str) -> Sequence[dict[str, object]]:
    return [
        {
            "case": run.case,
            "seed": run.seed,
            "replay": replay_command(run, without=without),
            "violations": [{"property": v.property, "text": v.text} for v in run.violations],
            "trace_tail": list(run.lines),
        }
        for run in sorted(runs, key=lambda run: (run.case, run.seed))
    ]


def _verdict(is_green: bool) -> str:
    return "green" if is_green else "failed"
