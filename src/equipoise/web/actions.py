"""Operator actions of the dashboard, with the functions of the commands."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from equipoise.control import operations
from equipoise.model import WEIGHT_NORMAL, Mode, quantise_weight
from equipoise.model.names import from_id
from equipoise.store import Committed, HubsStore, PlanStore, SpecsStore, Store, Tree
from equipoise.web.facts import spec_row
from equipoise.web.history import PlanHistory

__all__ = ["Actions", "Drain", "Move", "SpecChange", "Weigh"]


# A page must not wait for an unreachable hub.
SPECS_TIMEOUT_S = 2.0


class Move(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The homes of a topic; without hubs the ring places it again. Without the pin the planner may move it."""

    topic: str
    hubs: list[str] = []
    mode: Mode = Mode.SINGLE
    is_pinned: bool = True


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hub: str


class Weigh(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of a hub, in multiples of an ordinary hub; a drained hub takes topics again."""

    hub: str
    weight: Annotated[float, Meta(ge=0, le=16)] = 1.0


class SpecChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The spec of a pattern. Omitted fields stay unchanged; an empty text removes one."""

    pattern: str
    latency_ms: float | Literal[""] | UnsetType = UNSET
    rate_per_s: float | Literal[""] | UnsetType = UNSET
    burst_messages: int | Literal[""] | UnsetType = UNSET
    wait_ms: float | Literal[""] | UnsetType = UNSET
    site: str | UnsetType = UNSET


class Actions:
    """Changes the store for requests with the token.

    `specs_timeout_s`: how long a request waits until every live hub has applied a spec.
    """

    def __init__(
        self,
        store: Store,
        tree: Tree,
        *,
        writer: str = "dashboard",
        specs_timeout_s: float = SPECS_TIMEOUT_S,
    ) -> None:
        self.store = store
        self.tree = tree
        self._specs_timeout_s = specs_timeout_s
        self._plans = PlanStore(store, tree, writer=writer)
        self._history = PlanHistory(self._plans)
        self._hubs = HubsStore(store, tree)
        self._specs = SpecsStore(store, tree)
        self._note = f"by {writer}"

    async def history(self, limit: int, version: int) -> list[Committed]:
        """The last changes of the plan, up to this version at least, or the latest one of this process."""
        return await self._history.latest(limit, max(version, self._plans.plan.version))

    async def move(self, wanted: Move) -> dict[str, Any]:
        """Raises PlanError."""
        topic = from_id(wanted.topic)
        if wanted.hubs:
            hubs = await self._hubs.load()
            plan = await operations.place(
                self._plans,
                topic,
                wanted.hubs,
                wanted.mode,
                alive={hub for hub, seen in hubs.items() if seen.alive is not None},
                is_pinned=wanted.is_pinned,
                unable=operations.hubs_without_content(hubs),
                specs=await self._specs.load(),
                note=self._note,
            )
        else:
            plan = await operations.unplace(self._plans, topic, note=self._note)
        return {"version": plan.version}

    async def drain(self, wanted: Drain) -> dict[str, Any]:
        """Raises PlanError."""
        plan = await operations.drain(self._plans, wanted.hub, alive=await self._living(), note=self._note)
        return {"version": plan.version}

    async def weigh(self, wanted: Weigh) -> dict[str, Any]:
        """Raises PlanError."""
        share = quantise_weight(wanted.weight) if wanted.weight > 0 else 0
        plan = await operations.weigh(
            self._plans, wanted.hub, share, alive=await self._living(), note=self._note
        )
        return {"version": plan.version, "weight": share / WEIGHT_NORMAL}

    async def limit(self, wanted: SpecChange) -> dict[str, Any]:
        """Raises SettingsError."""
        given = {
            field: value or None if isinstance(value, str) else value
            for field in ("latency_ms", "rate_per_s", "burst_messages", "wait_ms", "site")
            if (value := getattr(wanted, field)) is not UNSET
        }
        spec = await operations.change_spec(
            self._specs,
            wanted.pattern.encode(),
            given,
            plan=await self._plans.load(),
            hubs=await self._hubs.load(),
        )
        version = await operations.publish_specs(self._specs, self._plans)
        behind = await operations.hubs_without_specs(self._hubs, version, timeout_s=self._specs_timeout_s)
        return {
            "pattern": wanted.pattern,
            "spec": None if spec is None else spec_row(spec),
            # Live hubs that did not apply it in time.
            "behind": behind,
        }

    async def _living(self) -> set[str]:
        return {hub for hub, seen in (await self._hubs.load()).items() if seen.alive is not None}
