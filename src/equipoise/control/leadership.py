"""Lead if no other controller does, stand by otherwise.

Always true: `is_leading` is False as soon as the session is known to be lost. A leader that does not know that yet is
harmless: each version of the plan is committed by one writer only, on the version right before it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

from equipoise.control.store_health import StoreHealth
from equipoise.errors import StoreError
from equipoise.store import LeaderFacts, LeaderStore, SessionState, Store, Tree

__all__ = ["Leadership"]

log = logging.getLogger("equipoise.control")

# Watches report changes of the store; this interval is for lost events, and for a claim that failed.
CLAIM_S = 2.0
_WHAT = "leader"


class Leadership:
    """One controller's claim. Run `run` as a task; `changed` is set at every change of `is_leading`."""

    def __init__(
        self, store: Store, facts: LeaderFacts, tree: Tree, health: StoreHealth, *, may_lead: bool = True
    ) -> None:
        self._store = store
        self._health = health
        self._leaders = LeaderStore(store, tree)
        # The leader's facts; set before `run`.
        self.facts = facts
        self._may_lead = may_lead
        self.is_leading = False
        self.leader: LeaderFacts | None = None
        self.changed = asyncio.Event()

    async def run(self) -> None:
        """Runs until it is cancelled; then a standby may lead at once."""
        stop_listening = self._store.listen(self._on_session)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._claim_again())
                group.create_task(self._health.keep(_WHAT, self._follow))
        finally:
            stop_listening()
            self._set(False)

    async def _follow(self) -> None:
        async with aclosing(self._leaders.watch()) as leaders:
            async for leader in leaders:
                self.leader = leader
                self._health.worked(_WHAT)
                await self._claim()

    async def resign(self) -> None:
        """Resign, so that standbys need not wait for the session to end."""
        was_leading, self.is_leading = self.is_leading, False
        if was_leading:
            try:
                await self._leaders.resign()
            except StoreError as problem:
                log.debug("could not resign: %s", problem)

    async def _claim_again(self) -> None:
        while True:
            await asyncio.sleep(CLAIM_S)
            if not self.is_leading:
                await self._claim()

    async def _claim(self) -> None:
        if not self._may_lead:
            return
        try:
            self._set(await self._leaders.claim(self.facts))
        except StoreError as problem:
            log.debug("could not claim: %s", problem)

    def _on_session(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._set(False)

    def _set(self, is_leading: bool) -> None:
        if is_leading != self.is_leading:
            self.is_leading = is_leading
            log.info("%s %s", self.facts.name, "leads" if is_leading else "no longer leads")
            self.changed.set()
