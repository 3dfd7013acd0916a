"""Schedule Python's garbage collector away from message traffic, and measure its pauses.

A full collection visits every object: 75 ms at 200,000 topics. Topics, subscriptions and connections are long-lived and
freed by their reference counts; only reference cycles need the collector. So objects that survive a young collection
are frozen: no later young collection visits them, and none takes longer than for YOUNG new objects.

Frozen cycles would leak once they are unused. Connections and topics leave no cycles behind (a test counts them); for
any others, a full collection runs when no message has flowed for a while.

Always true between `begin` and `end`: the collector tracks only objects created since the last young collection.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Protocol

from equipoise.hub.data.ports import Timer

__all__ = ["LONG_PAUSE_S", "Collector", "CollectorStats"]

# New objects after which a young collection runs. It visits up to three times as many, since each frozen object that is
# freed meanwhile lowers the count: 0.05 ms on average, 0.4 ms at most, of CPU time. With 10,000 it took up to 6 ms.
YOUNG = 500
LONG_PAUSE_S = 0.001
# Interval of the check whether messages flow, in seconds; and consecutive checks without any before a full collection.
LOOK_S = 1.0
QUIET_LOOKS = 5


class CollectorStats(Protocol):
    """The counters of pauses."""

    gc_pauses: int
    gc_pauses_long: int
    gc_pauses_long_cpu: int
    gc_pause_s: float
    gc_pause_s_max: float
    gc_full: int


class Collector:
    """Owned by the process of one hub."""

    def __init__(
        self,
        stats: CollectorStats,
        is_quiet: Callable[[], bool],
        call_later: Callable[..., Timer],
    ) -> None:
        """`is_quiet`: whether no message flows now."""
        self._stats = stats
        self._is_quiet = is_quiet
        self._call_later = call_later
        self._timer: Timer | None = None
        self._began_at = self._cpu_began_at = 0.0
        self._quiet_looks = 0
        # Whether the current collection is a full one.
        self._is_full = False
        # Number of young collections since the last full one.
        self._frozen = 0

    def begin(self) -> None:
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, 10, 10)
        gc.callbacks.append(self._notice)
        self._timer = self._call_later(LOOK_S, self._check)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        gc.callbacks.remove(self._notice)

    def _notice(self, phase: str, info: dict[str, int]) -> None:
        """Called by the collector, before and after each collection."""
        if phase == "start":
            self._began_at, self._cpu_began_at = perf_counter(), thread_time()
            return
        if self._is_full:
            self._stats.gc_full += 1
            return
        pause_s, stats = perf_counter() - self._began_at, self._stats
        stats.gc_pauses += 1
        stats.gc_pause_s += pause_s
        stats.gc_pause_s_max = max(stats.gc_pause_s_max, pause_s)
        stats.gc_pauses_long += pause_s > LONG_PAUSE_S
        # Wall-clock time includes time in which another process had the core.
        stats.gc_pauses_long_cpu += thread_time() - self._cpu_began_at > LONG_PAUSE_S
        self._frozen += 1
        gc.freeze()

    def _check(self) -> None:
        self._timer = self._call_later(LOOK_S, self._check)
        self._quiet_looks = self._quiet_looks + 1 if self._is_quiet() else 0
        if self._quiet_looks >= QUIET_LOOKS and self._frozen:
            self.collect_everything()

    def collect_everything(self) -> None:
        """Run a full collection, which also frees frozen cycles. Blocks the loop while it visits all objects."""
        self._is_full = True
        try:
            gc.unfreeze()
            gc.collect()
        finally:
            self._is_full = False
        gc.freeze()
        self._frozen = 0
