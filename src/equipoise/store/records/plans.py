"""Load, commit and follow the plan.

Always true:
    a version is committed by one writer, on the version right before it;
    a reader sees versions increase, never decrease; after an interruption it may skip some, never apply them out of
    order;
    a damaged or incomplete snapshot is skipped for an older one and the log after it. If no readable data leads to the
    latest version, DamagedError is raised and nothing is deleted: the caller keeps its plan.

A follower of the plan has the next one a single round trip after the store has reported it, and may read other data in
the same round trip, as of after the commit.

History is kept for the last `history_versions_max` versions, and always as far back as the second latest snapshot.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.errors import DamagedError, PlanError, PlanRaceError, StoreError, StoreUnavailableError
from equipoise.model import Plan, PlanChange, apply
from equipoise.store.contract import Answer, Node, Read, Store
from equipoise.store.executor import HEAVY_ENTRIES, offload
from equipoise.store.records.plan_log import Committed, PlanLog, head_in
from equipoise.store.tree import Tree

__all__ = ["Committed", "PlanSettings", "PlanStore"]

log = logging.getLogger("equipoise.store.records.plans")

# The log may be trimmed while it is read; repeated trimming during one read means another problem.
_LOADS_MAX = 5


class PlanSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a plan is written whole, and how long its changes are kept."""

    snapshot_versions_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Changes after a snapshot before the next: what a new hub reads one by one, 1 ms each.",
        ),
    ] = 100
    snapshot_bytes_max: Annotated[
        int,
        Meta(
            ge=1, description="Or this many bytes of changes, as much as a snapshot of 100,000 entries takes."
        ),
    ] = 500_000
    history_versions_max: Annotated[
        int,
        Meta(
            ge=1,
            description="Changes kept for `equipoise plan history`; at one plan in 20 s, most of an hour.",
        ),
    ] = 150


class PlanStore:
    """One region's plan. Several may write; each holds the last plan it has read and starts from it."""

    def __init__(
        self,
        store: Store,
        tree: Tree | None = None,
        *,
        writer: str = "",
        settings: PlanSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`writer` is the name of this writer in the history."""
        self._store = store
        self._tree = tree or Tree()
        self._log = PlanLog(store, self._tree)
        self._writer = writer
        self._settings = settings or PlanSettings()
        self._clock = clock
        # The latest plan read. Version 0: none.
        self._plan = Plan()
        # The size of the changes after the latest snapshot, which a reader has to apply.
        self._snapshot_version = 0
        self._bytes_since_snapshot = 0

    @property
    def plan(self) -> Plan:
        """The latest plan read, without a request to the store."""
        return self._plan

    async def load(self) -> Plan:
        """The latest plan; `Plan()`, version 0, if none was ever committed. Raises DamagedError."""
        problem: StoreError | None = None
        for _ in range(_LOADS_MAX):
            try:
                plan, is_latest = await self._load_once()
            except DamagedError as error:
                # A blob that was trimmed between two reads gives the same error.
                problem = error
                continue
            self._plan = max(self._plan, plan, key=lambda known: known.version)
            if is_latest:
                return self._plan
        raise problem or DamagedError(
            self._tree.log, f"the change after version {self._plan.version} is missing"
        )

    async def commit(self, change: PlanChange) -> Plan:
        """Commit the next version. Raises PlanRaceError if it exists, PlanError if the change does not fit.

        After StoreUnavailableError and SessionLostError the commit is uncertain: load the plan to find out.
        """
        if self._plan.version != change.version - 1:
            await self.load()
        if self._plan.version >= change.version:
            raise PlanRaceError(change.version)
        base = self._plan
        plan = await offload(_is_heavy(base, change), apply, base, change)
        if base.version == 0:
            await self._log.prepare()
        taken = await self._log.append(change, writer=self._writer, at_s=self._clock())
        self._plan = max(self._plan, plan, key=lambda known: known.version)
        self._bytes_since_snapshot += taken
        try:
            await self._log.raise_head(plan.version)
            await self._compact_if_due(plan)
        except StoreError as error:
            # The plan is committed. The next commit updates head and snapshot.
            log.warning(
                "plan version %d is committed, but old versions were not removed: %s", plan.version, error
            )
        return plan

    async def watch(self, plan: Plan | None = None) -> AsyncGenerator[Plan, None]:
        """Every later plan, in order, without end; without `plan`, the present one first.

        Continues after a loss of the store. Raises DamagedError if a change cannot be read: keep the last plan.
        """
        async with aclosing(self.follow(plan)) as plans:
            async for following, _ in plans:
                yield following

    async def follow(
        self, plan: Plan | None = None, *, beside: Callable[[], Sequence[Read]] = tuple
    ) -> AsyncGenerator[tuple[Plan, Sequence[Answer] | None], None]:
        """As `watch`, with the results of `beside`: reads in the same round trip, after the plan.

        The results are None if the plan did not arrive in one round trip: then read after it.
        """
        if plan is None:
            plan = await self.load()
            yield plan, None
        while True:
            following = await self._wait_for_next(plan, beside)
            if following is not None:
                plan, answers = following
                self._plan = max(self._plan, plan, key=lambda known: known.version)
                yield plan, answers

    async def history(self, limit: int = 50) -> list[Committed]:
        """The last changes, the latest first."""
        found: list[Committed] = []
        for version in reversed((await self._log.versions())[-limit:]):
            committed = await self._log.read(version)
            if committed is not None:
                found.append(committed)
        return found

    async def at(self, version: int) -> Plan:
        """An earlier plan within the history. Raises PlanError beyond it, and DamagedError."""
        latest = await self.load()
        if not 0 <= version <= latest.version:
            raise PlanError(f"there is no version {version}: the latest is {latest.version}")
        if version == latest.version:
            return latest
        plan = await self._latest_snapshot(version)
        while plan.version < version:
            node = await self._store.find(self._tree.change(plan.version + 1))
            if node is None:
                kept = await self._log.versions()
                raise PlanError(f"version {version} is no longer stored: history begins with {kept[0]}")
            plan, _ = await self._after(plan, node)
        return plan

    async def created_id(self, version: int) -> int | None:
        """The creation id of a version's commit, unique in the store; None if it is no longer known.

        Always known for the latest version.
        """
        return await self._log.created_id(version)

    async def last_known(self) -> int:
        """The latest version in the store; 0 if there is none."""
        return await self._log.last_known()

    async def put_back(self, plan: Plan) -> None:
        """Write a whole plan with its version into a store that has lost it. A later plan there stays the latest."""
        await self._log.prepare()
        await self._log.write_snapshot(plan)
        await self._log.raise_head(plan.version)

    # Reading.

    async def _load_once(self) -> tuple[Plan, bool]:
        """The plan by snapshots and log, and whether it is at the end of the log."""
        plan = await self._latest_snapshot()
        self._snapshot_version, self._bytes_since_snapshot = plan.version, 0
        while (last := await self._log.last_known()) > plan.version:
            while nodes := await self._log.nodes(range(plan.version + 1, last + 1)):
                for node in nodes:
                    plan, stored_bytes = await self._after(plan, node)
                    self._bytes_since_snapshot += stored_bytes
            if plan.version < last:
                return plan, False
        return plan, True

    async def _latest_snapshot(self, version_max: int | None = None) -> Plan:
        """The latest readable one up to a version; an empty plan if there is none."""
        for version in reversed(await self._log.snapshot_versions()):
            if version_max is not None and version > version_max:
                continue
            try:
                plan = await self._log.read_snapshot(version)
            except DamagedError as error:
                log.warning("snapshot skipped: %s", error)
                continue
            if plan is not None:
                return plan
        return Plan()

    async def _wait_for_next(
        self, plan: Plan, beside: Callable[[], Sequence[Read]]
    ) -> tuple[Plan, Sequence[Answer] | None] | None:
        """The next plan and the results beside it; None after a loss of the store, which needs another request."""
        path = self._tree.change(plan.version + 1)
        try:
            async with self._store.watch(path) as watch:
                own = (Read(path), Read(self._tree.head))
                node, head = await self._store.read(own)
                answers: Sequence[Answer] | None = None
                while True:
                    if isinstance(node, Node):
                        return (await self._after(plan, node))[0], answers
                    if head_in(head) > plan.version:
                        # Trimmed during an interruption: continue from a snapshot.
                        latest = await self.load()
                        if latest.version > plan.version:
                            return latest, None
                    node, head, *answers = await watch.changed_to(lambda: (*own, *beside()))
        except StoreUnavailableError:
            return None

    async def _after(self, plan: Plan, node: Node) -> tuple[Plan, int]:
        """The plan after this one, and the size of its change in a node. Raises DamagedError."""
        committed = await self._log.decode(plan.version + 1, node)
        stored_bytes, is_heavy = committed.stored_bytes, _is_heavy(plan, committed.change)
        # Passed on without another reference: to free a change of 100,000 entries takes as long as to apply it.
        handed = [committed.change]
        del committed
        try:
            return await offload(is_heavy, _applied, plan, handed), stored_bytes
        except PlanError as problem:
            raise DamagedError(self._tree.change(plan.version + 1), str(problem)) from problem

    # Writing.

    async def _compact_if_due(self, plan: Plan) -> None:
        settings = self._settings
        if (
            plan.version - self._snapshot_version < settings.snapshot_versions_max
            and self._bytes_since_snapshot < settings.snapshot_bytes_max
        ):
            return
        await self._log.write_snapshot(plan)
        self._snapshot_version, self._bytes_since_snapshot = plan.version, 0
        kept = (await self._log.snapshot_versions())[-2:]
        if len(kept) == 2:
            # If the latest snapshot is damaged, the second latest and the log after it are needed.
            floor = min(kept[0], plan.version - settings.history_versions_max)
            await self._log.trim(log_floor=floor, snapshot_floor=kept[0])


def _is_heavy(plan: Plan, change: PlanChange) -> bool:
    """Whether applying it takes long: entries are copied, and members checked against all of them."""
    return len(plan.entries) + len(change.entries) > HEAVY_ENTRIES


def _applied(plan: Plan, handed: list[PlanChange]) -> Plan:
    """Apply the only change in the list, and remove it."""
    return apply(plan, handed.pop())
