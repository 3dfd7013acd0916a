"""See the hubs: anew, or in the round trip that brought the plan, whichever may be used.

A plan and the hubs after it are two reads, and a store may be far away. So the hubs are asked for together with each
plan (a glance), behind it in the order of reads, which is all that routing needs: whoever serves under the plan is
among them.

Always true: what is seen is read after the plan it is used with, after everything that was said to have changed
(`outdate`), and not before what was seen last. A glance that cannot be shown to be is passed over, and the hubs are
read anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.model import Plan
from equipoise.store.contract import Answer, Read
from equipoise.store.records.hubs import HubSeen, HubsStore
from equipoise.store.records.hubs_snapshot import HubLook

__all__ = ["Glances"]


class Glances:
    """Owned by one membership, whose `begin` and `keep` come in turn from one task, `see` from another."""

    def __init__(self, hubs: HubsStore) -> None:
        self._hubs = hubs
        # Looks are numbered as they begin. Those up to `_outdated` are too old to be used.
        self._last = 0
        self._outdated = 0
        self._begun: tuple[int, HubLook] | None = None
        # The glance that came with a plan, until it is used.
        self._kept: tuple[Plan, int, HubLook, Sequence[Answer]] | None = None

    def outdate(self) -> None:
        """Something has changed: what was asked until now may not show it."""
        self._outdated = self._last

    def begin(self, *, is_held: bool) -> Sequence[Read]:
        """What is to be read right after the next plan: nothing while this hub is not alive in the store itself."""
        self._begun = None
        if not is_held:
            return ()
        self._last += 1
        look = self._hubs.glance()
        self._begun = (self._last, look)
        return look.reads

    def keep(self, plan: Plan, answers: Sequence[Answer] | None) -> None:
        """This plan has come, with these answers to what `begin` asked last; None: by itself."""
        begun, self._begun = self._begun, None
        self._kept = None if begun is None or answers is None else (plan, *begun, answers)

    async def see(self, plan: Plan) -> dict[str, HubSeen]:
        """All hubs, as they were after this plan. Raises StoreError."""
        kept, self._kept = self._kept, None
        if kept is not None and kept[0] is plan and kept[1] > self._outdated:
            _, number, look, answers = kept
            seen = await self._hubs.conclude(look, answers)
        else:
            self._last += 1
            number = self._last
            seen = await self._hubs.load()
        self._outdated = max(self._outdated, number)
        return seen
