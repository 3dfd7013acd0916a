"""Small views by hand: hubs that carry 1 MB/s when full, topics given by the load ratio that they put on such a hub."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from equipoise.model import Entry, Member, Mode, Plan, PlanChange, Reason, Specs, apply
from equipoise.plan import Decision, Memory, Planner, PlannerSettings, Policy
from equipoise.view import HubView, TopicView, View

FULL_BYTES_PER_S = 1e6


def topic(
    name: str,
    ratio: float,
    *homes: str,
    publications_per_s: float = 10.0,
    subscribers: float = 10.0,
    publishers: float = 10.0,
    trend: float = 0.0,
) -> TopicView:
    """A topic that is carried in equal parts by its homes. `trend`: of its ratio, per second."""
    out = ratio * FULL_BYTES_PER_S
    return TopicView(
        name=name.encode(),
        publications_per_s=publications_per_s,
        deliveries_per_s=publications_per_s * subscribers,
        out_bytes_per_s=out,
        out_bytes_per_s_max=out + max(0.0, trend) * 5 * FULL_BYTES_PER_S,
        publishers=publishers,
        subscribers=subscribers,
        out_bytes_trend=trend * FULL_BYTES_PER_S,
        carried_by={home: 1.0 / len(homes) for home in homes},
    )


def view(
    topics: Sequence[TopicView], hubs: Iterable[str | HubView], *, at_s: float = 100.0, plan_version: int = 1
) -> View:
    """Hubs send what their topics send, and nothing else."""
    rows = [hub if isinstance(hub, HubView) else HubView(name=hub) for hub in hubs]
    made = []
    for hub in rows:
        sent = sum(row.out_bytes_per_s * row.carried_by.get(hub.name, 0.0) for row in topics)
        trend = sum(row.out_bytes_trend * row.carried_by.get(hub.name, 0.0) for row in topics)
        made.append(
            replace(
                hub,
                out_bytes_per_s=sent,
                out_bytes_per_s_max=hub.out_bytes_per_s_max or FULL_BYTES_PER_S,
                out_bytes_trend=trend,
                plan_version=plan_version,
            )
        )
    return View.of(at_s, topics, made)


def plan_of(
    homes: Mapping[str, Sequence[str]] | Sequence[TopicView],
    hubs: Iterable[str],
    *,
    mode: Mode = Mode.ALL_SUBSCRIBERS,
    version: int = 1,
) -> Plan:
    """A plan with an entry for every topic."""
    if not isinstance(homes, Mapping):
        homes = {row.name.decode(): tuple(row.carried_by) for row in homes}
    entries = [
        Entry(name.encode(), tuple(at), mode if len(at) > 1 else Mode.SINGLE) for name, at in homes.items()
    ]
    return Plan.of(version=version, members=[Member(hub) for hub in hubs], entries=entries)


def settled(hubs: Iterable[str], **known: object) -> Memory:
    """A planner that has known these hubs for long."""
    memory = Memory(incarnations=dict.fromkeys(hubs, 0))
    return msgspec.structs.replace(memory, **known)


def decide(
    topics: Sequence[TopicView],
    hubs: Sequence[str | HubView],
    *,
    settings: PlannerSettings | None = None,
    policy: Policy | None = None,
    plan: Plan | None = None,
    memory: Memory | None = None,
    views: int = 1,
    at_s: float = 100.0,
    specs: Specs | None = None,
) -> Outcome:
    """Decide on the same load again and again, a view every second, as long as nothing but tidying is to be done.

    By default no server is released; other tests cover that.
    """
    names = [hub if isinstance(hub, str) else hub.name for hub in hubs]
    plan = plan or plan_of(topics, names)
    policy = policy or Planner(settings or PlannerSettings(servers_min=len(names)))
    memory = memory or settled(names)
    for round_ in range(views):
        now = at_s + round_
        seen = view(topics, hubs, at_s=now, plan_version=plan.version)
        decision = policy.decide(seen, plan, specs or Specs(), now, memory)
        memory = decision.memory
        outcome = Outcome(decision, plan)
        if moved(outcome) or decision.change.members:
            break
        plan = apply(plan, decision.change) if decision.change.entries else plan
    return outcome


@dataclass(frozen=True)
class Outcome:
    """A decision and the plan that it was made on."""

    decision: Decision
    plan: Plan

    @property
    def change(self) -> PlanChange:
        return self.decision.change

    @property
    def memory(self) -> Memory:
        return self.decision.memory

    @property
    def servers_wanted(self) -> int:
        return self.decision.servers_wanted

    @property
    def reasons(self) -> set[Reason]:
        """Why something was changed, or found."""
        changed = {part.why.reason for part in self.change.entries}
        changed |= {part.why.reason for part in self.change.members}
        return changed | {why.reason for why in self.decision.reasons}


def moved(outcome: Outcome) -> dict[str, tuple[str, ...]]:
    """The topics that got other homes by their entries, and which."""
    after = apply(outcome.plan, outcome.change)
    return {
        part.topic.decode(): after.home_of(part.topic).homes
        for part in outcome.change.entries
        if part.why.reason is not Reason.AS_RING
    }
