"""Share the tests among workers: the longest modules first, and what clashes one after the other.

A module is one piece of work: its tests share fixtures, and some of them what earlier ones left behind. All modules
that name a group (`pytest.mark.xdist_group`) are one piece whatever they take: `up` for whole systems with Spark and
`cluster` for clusters of Spark's own, of which one at a time is enough for a machine, `spark` for modules that share a
Spark session. The group is read from the module's text: workers tell the scheduler ids of tests and nothing else.

How long a module takes is kept in tests/durations.json; `--keep-durations` writes there what this run took. A module
that is not in it counts as `UNKNOWN_S`. Wrong durations cost time, never a test.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # It ships no types.
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # As above.
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # As above.

__all__ = ["DURATIONS", "ByDuration", "DurationKeeper", "group_of", "module_of"]

ROOT = Path(__file__).parents[2]
DURATIONS = ROOT / "tests" / "durations.json"
UNKNOWN_S = 2.0


def module_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@cache
def group_of(module: str) -> str:
    """The group that the module names, as `@group`; empty if it names none."""
    path = ROOT / module
    found = re.search(r'xdist_group[(]"(\w+)"\)', path.read_text()) if path.exists() else None
    return f"@{found[1]}" if found else ""


class ByDuration(LoadScopeScheduling):  # type: ignore[misc]  # As above.
    """Gives a worker that has nearly finished the longest piece that is left."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._kept: dict[str, float] = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        self._seconds: dict[str, float] = {}

    def _split_scope(self, nodeid: str) -> str:
        """The piece that a test belongs to."""
        module = module_of(nodeid)
        return group_of(module) or module

    def _assign_work_unit(self, node: WorkerController) -> None:
        if not self._seconds:
            self._seconds = self._durations()
        self.workqueue.move_to_end(max(self.workqueue, key=self._seconds.__getitem__), last=False)
        super()._assign_work_unit(node)

    def _durations(self) -> dict[str, float]:
        """Of all pieces. The tests of a module count alike."""
        assert self.collection is not None, "pieces are given out once all workers have collected"
        sizes: dict[str, int] = defaultdict(int)
        for nodeid in self.collection:
            sizes[module_of(nodeid)] += 1
        found: dict[str, float] = defaultdict(float)
        for nodeid in self.collection:
            module = module_of(nodeid)
            found[self._split_scope(nodeid)] += self._kept.get(module, UNKNOWN_S) / sizes[module]
        return found


class DurationKeeper:
    """Adds up how long each module takes, and writes it over what is kept. Modules that did not run stay."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[module_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        kept: dict[str, float] = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        kept |= {module: round(seconds, 1) for module, seconds in self._seconds.items()}
        there = {module: kept[module] for module in sorted(kept) if (ROOT / module).exists()}
        DURATIONS.write_text(json.dumps(there, indent=0) + "\n")
