"""Facts for the decision of a round, made by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from equipoise.control.rounds import RoundInput
from equipoise.model import Plan, Specs
from equipoise.plan import Memory
from equipoise.store import HubAlive, HubFacts, HubSeen, WantedServer
from equipoise.view import View

__all__ = ["known", "seen"]


def seen(alive: Collection[str], dead: Collection[str] = ()) -> dict[str, HubSeen]:
    """Hubs as the store knows them."""
    facts = {name: HubFacts(hub=name, address=f"{name}:6399", incarnation=0) for name in (*alive, *dead)}
    return {
        name: HubSeen(facts[name], HubAlive(facts=facts[name]) if name in alive else None) for name in facts
    }


def known(
    now: float,
    *,
    view: View | None = None,
    plan: Plan | None = None,
    hubs: Mapping[str, HubSeen] | None = None,
    wanted: Iterable[str] = (),
    memory: Memory | None = None,
    absent_s: Mapping[str, float] | None = None,
) -> RoundInput:
    return RoundInput(
        now=now,
        view=view,
        plan=plan or Plan(),
        specs=Specs(),
        hubs=hubs or {},
        wanted={hub: WantedServer(hub=hub) for hub in wanted},
        memory=memory or Memory(),
        absent_s=absent_s or {},
    )
