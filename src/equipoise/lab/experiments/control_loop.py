"""Plan for a fleet: records in, view, policy, plan out, servers started and stopped.

The loop of a controller without its leader election and its store: once a second what hubs recorded is read over the
network and made a view of; the policy decides on it; what it wants is done. A server that is asked for is there after
the time a machine takes to start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.lab.experiments.meter import Meter
from equipoise.lab.experiments.views import SimulatedTelemetryReader
from equipoise.lab.simulation.cluster.fleet import Fleet
from equipoise.lab.simulation.legs import CLOUD
from equipoise.model import Specs, apply
from equipoise.plan import Decision, Memory, Policy
from equipoise.view import HubView, View

__all__ = ["Controlling", "MakesViews", "Timing"]

CONTROLLER = "controller"


class MakesViews(Protocol):
    """Turns records into views."""

    def view(self, batches: Sequence[pa.RecordBatch], now: float) -> View | None:
        """The view after these records; None while there is none. Times are the wall clock's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How quick the loop is."""

    # Between two looks at the hubs.
    look_s: float = 1.0
    # Between two decisions, unless the policy finds that something presses: as the controller's default.
    period_s: float = 5.0
    # From asking for a server until its hub runs.
    start_s: float = 5.0


class Controlling:
    """Made for one fleet. `run` goes on until cancelled."""

    def __init__(
        self, fleet: Fleet, meter: Meter, policy: Policy, views: MakesViews, timing: Timing | None = None
    ) -> None:
        self._fleet = fleet
        self._meter = meter
        self._policy = policy
        self._views = views
        self._timing = timing or Timing()
        self._memory = Memory()
        self._decided_at = 0.0
        self._is_pressing = False
        self._hubs: list[str] = []
        self._starting: set[str] = set()
        self._stopping: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._host = fleet.sim.host(CONTROLLER, place=CLOUD)
        self.load_ratios: tuple[float, ...] = ()

    async def run(self) -> None:
        await self._host.spawn(self._run(), name=CONTROLLER)

    async def _run(self) -> None:
        loop, reader = asyncio.get_running_loop(), SimulatedTelemetryReader()
        at = loop.time()
        while True:
            at += self._timing.look_s
            await asyncio.sleep(max(0.0, at - loop.time()))
            batches = await reader.read(self._fleet.running)
            now = self._host.clock.time()
            view = self._views.view(batches, now)
            if view is not None:
                view = view.with_store(self._alive(view))
                self.load_ratios = _ratios(view, self._fleet.members)
                # Who cannot see all members leaves the plan as it is.
                if set(self._fleet.members) <= view.hub_index.keys() and self._is_due(view, now):
                    self._decide(view, now)

    def _is_due(self, view: View, now: float) -> bool:
        """At the end of a period; at once if hubs have come or gone, or something presses."""
        hubs = [hub.name for hub in view.hub_rows() if hub.is_alive]
        has_changed, self._hubs = hubs != self._hubs, hubs
        is_over = now - self._decided_at > self._timing.period_s - self._timing.look_s / 2
        return is_over or has_changed or self._is_pressing or self._policy.wakes(view, Specs(), self._memory)

    def _alive(self, view: View) -> list[HubView]:
        """What the store would say of hubs. A new one takes part once it has told what it can carry."""
        fleet = self._fleet
        return [
            HubView(name=name, incarnation=fleet.alive[name].incarnation)
            for name in fleet.running
            if name in view.hub_index
        ]

    def _decide(self, view: View, now: float) -> None:
        fleet = self._fleet
        decision = self._policy.decide(view, fleet.plan, Specs(), now, self._memory)
        self._memory = decision.memory
        if not decision.change.is_empty:
            fleet.commit(apply(fleet.plan, decision.change))
            self._meter.plans_at_s.append(fleet.sim.now - self._meter.began_at)
        self._decided_at, self._is_pressing = now, decision.is_pressing
        self._provide(decision)

    def _provide(self, decision: Decision) -> None:
        """Start and stop servers as decided."""
        fleet = self._fleet
        idle = [name for name in fleet.hubs if name not in fleet.alive and name not in self._starting]
        missing = decision.servers_wanted - len(fleet.members) - len(self._starting)
        for name in idle[: max(0, missing)]:
            self._starting.add(name)
            self._spawn(self._start(name))
        for name in decision.releasable:
            if name in fleet.alive and name not in self._stopping and name not in fleet.members:
                self._stopping.add(name)
                self._spawn(self._stop(name))

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, name: str) -> None:
        await asyncio.sleep(self._timing.start_s)
        await self._fleet.start(name)
        self._starting.discard(name)

    async def _stop(self, name: str) -> None:
        await self._fleet.release(name)
        self._stopping.discard(name)


def _ratios(view: View, members: Sequence[str]) -> tuple[float, ...]:
    """The paper's load ratio (equation 1) of each member: outgoing bandwidth over its maximum."""
    hubs = [view.hub(name) for name in members if name in view.hub_index]
    return tuple(hub.out_bytes_per_s / hub.out_bytes_per_s_max for hub in hubs if hub.out_bytes_per_s_max)
