"""What the tests of each folder cost: seconds on the clock, and of CPU, children that have ended included.

Two workers for each core make the clock tell little: what a suite takes is its CPU time by the number of cores, and the
longest piece (schedule.py).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator

import pytest
from _pytest.terminal import TerminalReporter

__all__ = ["CostTable"]

_CPU = "cpu_s"
# Folders that take less than this part of the whole are one row.
_SMALL = 0.01


def cpu_s() -> float:
    """Of this process and of those of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class CostTable:
    """Measures in the process that runs a test; prints in the one that reports."""

    def __init__(self) -> None:
        self._since_s = cpu_s()
        self._cpu_s: dict[str, float] = defaultdict(float)
        self._clock_s: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now_s = cpu_s()
        report.user_properties = [*report.user_properties, (_CPU, now_s - self._since_s)]
        self._since_s = now_s
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = "/".join(report.nodeid.partition("::")[0].split("/")[:2])
        self._clock_s[folder] += report.duration
        self._cpu_s[folder] += sum(
            float(str(value)) for name, value in report.user_properties if name == _CPU
        )

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        whole_s = sum(self._cpu_s.values())
        if whole_s < 1.0:
            return
        terminalreporter.section("CPU and clock by folder, in seconds")
        shown = [folder for folder, spent_s in self._cpu_s.items() if spent_s >= _SMALL * whole_s]
        for folder in sorted(shown, key=self._cpu_s.__getitem__, reverse=True):
            terminalreporter.line(f"{self._cpu_s[folder]:8.1f} {self._clock_s[folder]:8.1f}  {folder}")
        rest_s = whole_s - sum(self._cpu_s[folder] for folder in shown)
        terminalreporter.line(f"{rest_s:8.1f} {'':8}  the others")
        terminalreporter.line(f"{whole_s:8.1f} {sum(self._clock_s.values()):8.1f}  all")
