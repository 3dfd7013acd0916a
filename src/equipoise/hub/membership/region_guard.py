"""Detect a store that was emptied, restored from a backup or replaced; restore its state, or do not register.

A store that lost its data ends every session, so each hub checks its region before it registers in a new session:
    identity missing     the store was emptied: put back plan, users and specs, then the identity
    another identity     hubs of another region were first: do not register, serve on with the last plan
    older plan           the store was restored from a backup: put back the plan and the users

Always true: a plan is put back only with its own version, so of several hubs the one with the latest plan wins; users
only replace users of a lower access version, so no revocation is undone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from equipoise.errors import BadVersionError, ForeignRegionError
from equipoise.model import Plan
from equipoise.store.contract import Store
from equipoise.store.records.hubs import RegionStore
from equipoise.store.records.plans import PlanStore
from equipoise.store.records.specs import SpecsStore, StoredSpecs
from equipoise.store.records.users import StoredUsers, UsersStore
from equipoise.store.tree import Tree

__all__ = ["KnownRegion", "RegionGuard"]

log = logging.getLogger("equipoise.hub")


class KnownRegion(Protocol):
    """The state of the region at this hub, which it can put back."""

    @property
    def known_plan(self) -> Plan | None: ...

    @property
    def known_users(self) -> StoredUsers: ...

    @property
    def known_specs(self) -> StoredSpecs: ...


class RegionGuard:
    """Owned by one membership, which calls `check` before the hub registers in a session."""

    def __init__(
        self,
        store: Store,
        tree: Tree,
        plans: PlanStore,
        known: KnownRegion,
        *,
        report: Callable[[str], None],
        new_identity: Callable[[], str],
    ) -> None:
        """`report` is called with the current problem of the store; empty: none."""
        self._region = RegionStore(store, tree)
        self._users = UsersStore(store, tree)
        self._specs = SpecsStore(store, tree)
        self._plans = plans
        self._known = known
        self._report = report
        self._new_identity = new_identity
        # Identity of the region; empty until it was read or claimed.
        self.identity = ""

    async def check(self) -> bool:
        """Check the region; return whether the store had lost state, which is then put back.

        Raises ForeignRegionError if the store has another region, and StoreError.
        """
        found = await self._region.identity()
        if not self.identity:
            self.identity = found or await self._region.claim(self._new_identity())
            return False
        if found is None:
            self._report("the store is empty: restoring plan, users and specs")
            await self._put_back()
            self._refuse_other(await self._region.claim(self.identity))
        else:
            self._refuse_other(found)
            if not await self._is_older():
                self._report("")
                return False
            self._report("the store has an older plan or older users: restoring the latest")
            await self._put_back()
        log.error("region %s is restored in the store", self.identity)
        self._report("")
        return True

    def _refuse_other(self, found: str) -> None:
        if found != self.identity:
            text = f"the store has another region ({found}) than this hub's ({self.identity})"
            self._report(f"{text}: stop this hub, or the hubs of that region")
            raise ForeignRegionError(text)

    async def is_intact(self) -> bool:
        """Whether the store still holds this hub's region. Raises StoreError."""
        return await self._region.identity() == self.identity

    async def _is_older(self) -> bool:
        plan, users = self._known.known_plan, self._known.known_users
        is_plan_older = plan is not None and await self._plans.last_known() < plan.version
        return is_plan_older or (await self._users.load()).access_version < users.access_version

    async def _put_back(self) -> None:
        users, plan = self._known.known_users, self._known.known_plan
        if users.access_version:
            stored = await self._users.load()
            if stored.access_version < users.access_version:
                try:
                    await self._users.put_back(users, over=stored.access_version)
                except BadVersionError:
                    # Another hub was first. Whether its users are as new is checked in the next session.
                    pass
        await self._specs.put_back(self._known.known_specs)
        if plan is not None and plan.version:
            await self._plans.put_back(plan)
