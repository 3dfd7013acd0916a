"""The control loop: read, decide, commit, request servers; lead or stand by.

Never on the data path: hubs execute plans by themselves, and without a controller they continue with the last one. A
controller that dies in the middle of a round leaves either a committed plan or none; the next one decides anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from equipoise.control.cluster_state import ClusterState, StoredMemory, hub_views
from equipoise.control.leadership import Leadership
from equipoise.control.provision import Provisioner
from equipoise.control.rounds import (
    ControllerState,
    RoundInput,
    RoundOutcome,
    absent_since,
    decide,
    interest_of,
)
from equipoise.control.settings import ControllerSettings
from equipoise.control.split_fits import FindSplit, SplitFits
from equipoise.control.store_health import StoreHealth
from equipoise.errors import PlanError, PlanRaceError, ProvisionError, StoreError
from equipoise.limits.fitting import SplitFit
from equipoise.plan import Memory, Policy
from equipoise.plan.load import hub_loads
from equipoise.plan.settings import PlannerSettings
from equipoise.store import LeaderFacts, PlanStore, Store, Tree
from equipoise.view import View
from equipoise.view.interest import Interest

__all__ = ["Controller", "ControllerStatus", "Round", "ViewSource"]

log = logging.getLogger("equipoise.control")

# History of rounds for display: an hour at the usual period.
ROUNDS_KEPT = 720
_ROUND = "planning round"


class ViewSource(Protocol):
    """The source of views."""

    @property
    def latest(self) -> View | None:
        """The newest one; None before the first."""
        ...

    @property
    def news(self) -> asyncio.Event:
        """Set with every new one; the waiter clears it."""
        ...


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round, for display."""

    at_s: float
    state: ControllerState
    plan_version: int
    moves: int
    ratio_max: float
    ratio_mean: float
    took_s: float
    note: str = ""


@dataclass(slots=True)
class ControllerStatus:
    """The controller's state, for dashboard and metrics."""

    state: ControllerState = ControllerState.STANDBY
    # Why the plan is frozen.
    frozen: str = ""
    rounds: int = 0
    commits: int = 0
    races: int = 0
    failures: int = 0
    history: deque[Round] = field(default_factory=lambda: deque(maxlen=ROUNDS_KEPT))


class Controller:
    """The controller of one process. Run `run` as a task."""

    def __init__(
        self,
        store: Store,
        tree: Tree,
        settings: ControllerSettings,
        *,
        policy: Policy,
        views: ViewSource,
        provisioner: Provisioner,
        facts: LeaderFacts,
        clock: Callable[[], float] = time.time,
        interested: Callable[[Interest], None] | None = None,
        find_split: FindSplit | None = None,
    ) -> None:
        """`interested` gets, after each round, the topics for the next views. Without `find_split` no topic is
        fitted.
        """
        self.settings = settings
        self.status = ControllerStatus()
        self._plans = PlanStore(store, tree, writer=settings.name, clock=clock)
        self.store_health = StoreHealth(store)
        self.knowledge = ClusterState(store, tree, self._plans, self.store_health)
        may_lead = not settings.sites or settings.site in settings.sites
        self.leadership = Leadership(store, facts, tree, self.store_health, may_lead=may_lead)
        self.views = views
        self._policy = policy
        self._provisioner = provisioner
        self._clock = clock
        self._interested = interested
        self._remembering = StoredMemory(store, tree)
        self._fits = None if find_split is None else SplitFits(find_split, clock)
        # None while it does not lead.
        self._memory: Memory | None = None
        self._is_pressing = False
        # Requested hubs that are not alive, and since when; the time-out of a new leader begins with its term.
        self._absent_s: Mapping[str, float] = {}
        # The last log text about servers: rounds repeat a request until it is fulfilled.
        self._said = ""
        # The last exception of the policy, by method: logged once and not each second.
        self._problems: dict[str, str] = {}

    @property
    def provisioner_problem(self) -> str:
        """The start or stop command that failed last and has not succeeded since; empty if none."""
        return self._provisioner.problem

    def loads(self, view: View) -> list[float]:
        """The load of each hub of a view, as computed by the planner."""
        profiles = {} if self._memory is None else self._memory.profiles
        return [float(load) for load in hub_loads(view, profiles, self._planner_settings)]

    @property
    def _planner_settings(self) -> PlannerSettings:
        settings = getattr(self._policy, "settings", None)
        return settings if isinstance(settings, PlannerSettings) else PlannerSettings()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.knowledge.run())
            group.create_task(self.leadership.run())
            group.create_task(self._rounds())
            if self._fits is not None:
                group.create_task(self._fits.run())

    async def _rounds(self) -> None:
        await self.knowledge.is_complete.wait()
        while True:
            if self.leadership.is_leading:
                await self.round()
            else:
                # Another controller may plan meanwhile: the memory is outdated.
                self.store_health.worked(_ROUND)
                self.status.state, self._memory, self._absent_s = ControllerState.STANDBY, None, {}
            await self._pause()

    async def _pause(self) -> None:
        """Wait for a period; less for urgent evidence, not at all after a change of hubs or leader or an urgent
        view.
        """
        settings = self.settings
        facts = (self.knowledge.changed, self.leadership.changed)
        is_woken = await self._wait(
            settings.urgent_period_s if self._is_pressing else settings.period_s, facts
        )
        if not is_woken and self.knowledge.changed.is_set() and self._has_newcomers:
            await self._wait(settings.join_gather_s, ())
        for event in facts:
            event.clear()

    async def _wait(self, patience_s: float, facts: tuple[asyncio.Event, ...]) -> bool:
        """Wait until that time, or a change; return whether an urgent view ended the wait."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        while loop.time() < until and not any(event.is_set() for event in facts):
            await _first_of((*facts, self.views.news), until - loop.time())
            if self.views.news.is_set():
                self.views.news.clear()
                if self._is_woken():
                    return True
        return False

    @property
    def _has_newcomers(self) -> bool:
        """Whether new hubs have to join the plan."""
        known, released = self.knowledge.plan.by_hub, {} if self._memory is None else self._memory.released
        alive = [name for name, seen in self.knowledge.hubs.items() if seen.alive is not None]
        return bool(known) and any(name not in known and name not in released for name in alive)

    def _is_woken(self) -> bool:
        """Whether the newest view needs a round before the end of the period."""
        view = self.views.latest
        if view is None or self._memory is None:
            return False
        known = self.knowledge
        seen = view.with_store(
            hub_views(known.hubs, known.plan, known.specs, releasable=set(), bookies=known.bookies)
        )
        if self.status.state is ControllerState.FROZEN:
            # The plan was frozen without a view, and here is one; a failing policy waits for its period.
            return "decide" not in self._problems
        try:
            is_woken = self._policy.wakes(seen, known.specs, self._memory)
        except Exception as problem:
            self._judge("wakes", problem)
            return False
        self._judge("wakes", None)
        return is_woken

    async def round(self) -> None:
        """Decide once and execute. The next round repeats failed actions."""
        began_s = self._clock()
        try:
            outcome = await self._decide(began_s)
            version = await self._commit(outcome)
            if version is not None:
                await self._provide(outcome)
                await self._remembering.keep(outcome.decision.memory, began_s)
        except StoreError as problem:
            self.status.failures += 1
            self.store_health.failed(_ROUND, problem)
            return
        self.store_health.worked(_ROUND)
        self._note(outcome, began_s, version)

    async def _decide(self, now: float) -> RoundOutcome:
        if self._memory is None:
            self._memory = await self._remembering.recall()
        self._fit()
        plan = self.knowledge.plan
        known = RoundInput(
            now=now,
            view=self.views.latest,
            plan=plan,
            plan_id=await self._plans.created_id(plan.version) if plan.version else None,
            specs=self.knowledge.specs,
            hubs=self.knowledge.hubs,
            wanted=await self._provisioner.wanted(),
            memory=self._memory,
            absent_s=self._absent_s,
            bookies=self.knowledge.bookies,
        )
        self._absent_s = absent_since(known)
        # A second's work for 100,000 topics: in a thread, while the loop keeps the session alive.
        return await asyncio.to_thread(decide, known, self._policy, self.settings)

    def _fit(self) -> None:
        """Add the results of fits to the memory, and start the next fit if a topic needs one."""
        if self._fits is None or self._memory is None:
            return
        self._memory = self._fits.merged(self._memory)
        if (view := self.views.latest) is not None:
            costs = self._planner_settings
            self._fits.look(
                view,
                self.knowledge.specs,
                self._memory,
                publication_us=costs.publication_cost_us,
                delivery_us=costs.delivery_cost_us,
            )

    def split_fit(self, topic: bytes) -> SplitFit | None:
        """The known number of hubs for a limited topic; None if there was no fit."""
        return None if self._memory is None else self._memory.fits.get(topic)

    def split_doubt(self, topic: bytes) -> str:
        """Why there is no better split of a limited topic than the present one; empty if a fit has found one."""
        if self._memory is None:
            return "this controller does not lead; shares stay"
        if self.status.state is ControllerState.FROZEN:
            return f"the plan is frozen: {self.status.frozen}; shares stay"
        fit = self._memory.fits.get(topic)
        if self._fits is None:
            return "no fits without a pipeline; shares stay" if fit is None else fit.note
        spec = self.knowledge.specs.of(topic)
        if fit is None and (spec is None or spec.latency_ms is None):
            return "no latency limit"
        return self._fits.doubt(topic, fit)

    async def _commit(self, outcome: RoundOutcome) -> int | None:
        """Commit; return the version in force; None if another writer was faster."""
        change = outcome.decision.change
        if not change.is_empty:
            try:
                self.knowledge.committed(await self._plans.commit(change))
            except PlanRaceError:
                self.status.races += 1
                return None
            except PlanError as problem:
                # An error of the policy: nothing was changed, and it will repeat.
                self.status.failures += 1
                log.error("the policy %s made no plan: %s", self._policy.name, problem)
                return None
            self.status.commits += 1
        self._memory = outcome.decision.memory
        return self.knowledge.plan.version

    async def _provide(self, outcome: RoundOutcome) -> None:
        """Request missing servers and release surplus ones, in every round; raises StoreError."""
        if outcome.state is not ControllerState.LEADING:
            return
        asked = [server.hub for server in outcome.start]
        steps = (("asks for", asked), ("gives back", outcome.stop), ("gives up", outcome.given_up))
        said = "; ".join(f"{doing} {', '.join(hubs)}" for doing, hubs in steps if hubs)
        if said and said != self._said:
            log.info("%s", said)
        self._said = said
        try:
            await self._provisioner.remind(outcome.missing)
            if outcome.start:
                await self._provisioner.start(outcome.start)
            if too_many := [*outcome.stop, *outcome.given_up]:
                await self._provisioner.stop(too_many)
        except ProvisionError as problem:
            self.status.failures += 1
            log.warning("%s", problem)

    def _judge(self, asked: str, problem: Exception | None) -> None:
        """Log an exception of the policy, with all details, once."""
        if problem is None:
            self._problems.pop(asked, None)
            return
        self.status.failures += 1
        shown = f"{type(problem).__name__}: {problem}"
        if shown != self._problems.get(asked):
            log.error("%s of the policy %s fails: %s", asked, self._policy.name, shown, exc_info=problem)
        self._problems[asked] = shown

    def _note(self, outcome: RoundOutcome, began_s: float, version: int | None) -> None:
        status, decision = self.status, outcome.decision
        self._judge("decide", outcome.problem)
        if outcome.state is not status.state or outcome.frozen[:12] != status.frozen[:12]:
            log.info("%s%s", outcome.state, f": {outcome.frozen}" if outcome.frozen else "")
        if self._interested is not None:
            self._interested(interest_of(self.knowledge.plan, self.knowledge.specs, decision))
        status.state, status.frozen = outcome.state, outcome.frozen
        status.rounds += 1
        self._is_pressing = decision.is_pressing or version is None
        status.history.append(
            Round(
                began_s,
                outcome.state,
                self.knowledge.plan.version,
                len(decision.change.entries) if version is not None else 0,
                decision.ratio_max,
                decision.ratio_mean,
                self._clock() - began_s,
                outcome.frozen or "; ".join(why.note or why.reason for why in decision.reasons),
            )
        )


async def _first_of(events: tuple[asyncio.Event, ...], patience_s: float) -> None:
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
