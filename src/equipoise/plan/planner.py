"""The planner: obligations, latency, then load from most to least urgent (Dynamoth and ePulsar).

A round is the list `STEPS`, from first to last; docs/concepts/balancing.md shows the same list. All steps change one
draft, so each sees the changes of earlier ones and none undoes them. The planner itself only carries the memory and the
moves in flight from round to round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from equipoise.model import Mode, Plan, Specs
from equipoise.plan.decision import Decision
from equipoise.plan.draft import PLANNER, Draft
from equipoise.plan.load import capacities, learn_all
from equipoise.plan.memory import Memory
from equipoise.plan.settings import PlannerSettings
from equipoise.plan.steps.autoscale import foresee, may_stop, release, servers_wanted
from equipoise.plan.steps.content import grow_edges
from equipoise.plan.steps.envelopes import divide, has_fallen_behind
from equipoise.plan.steps.high_load import count_hits, learn_noise, shed_load, spread
from equipoise.plan.steps.latency import approach, strays
from equipoise.plan.steps.obligations import keep_members, obey, tidy
from equipoise.plan.steps.replication import replicate
from equipoise.view.view import View

__all__ = ["STEPS", "Planner", "Step"]


class Step(NamedTuple):
    """One step of a round."""

    # As shown in the documentation.
    line: str
    run: Callable[[Draft], None]
    # Balances load: needs a new view, and an eligible hub.
    is_balancing: bool = True
    # Whether the step has work to do.
    is_asked_for: Callable[[Draft], bool] = lambda draft: True


def _begin_wait(draft: Draft) -> None:
    """A plan for load begins its waiting time, and evidence is collected anew."""
    if draft.has_moves:
        draft.remember(plan_s=draft.now, hits={})


def _has_latency_limits(draft: Draft) -> bool:
    return bool(draft.limits)


def _has_rate_limits(draft: Draft) -> bool:
    return any(spec.rate_per_s is not None for spec in draft.specs.all)


def _has_content(draft: Draft) -> bool:
    has_filters = bool((draft.view.topics.filters >= draft.settings.content_filters_min).any())
    return has_filters or any(at.mode is Mode.CONTENT for at in draft.predicted.several.values())


STEPS = (
    Step("members: hubs that join or leave the plan", keep_members, is_balancing=False),
    Step("obligations: sites that specs name, hubs that are drained", obey, is_balancing=False),
    Step("evidence: overloads are counted", count_hits, is_balancing=False),
    Step("latency: topics nearer to their clients", approach, is_asked_for=_has_latency_limits),
    Step("envelopes: limited topics split, and their shares", divide, is_asked_for=_has_rate_limits),
    Step("content: edges of topics with many filters", grow_edges, is_asked_for=_has_content),
    Step("replication: more or fewer homes", replicate),
    Step("high load: topics off overloaded hubs", shed_load),
    Step("T_wait starts after moves for load", _begin_wait),
    Step("servers for what is growing", foresee),
    Step("spread: topics shared out after a join", spread),
    Step("low load: surplus servers", release),
    Step("cleanup: redundant entries", tidy, is_balancing=False),
    Step("noise: the usual variation of each hub", learn_noise, is_balancing=False),
)


class Planner:
    """The default policy. Holds only settings; all other state is an argument or a result."""

    name = "load"

    def __init__(self, settings: PlannerSettings | None = None) -> None:
        self.settings = settings or PlannerSettings()

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        is_news = view.time_s > memory.view_s
        draft = Draft(
            view,
            plan,
            specs,
            now,
            memory=_recalled(view, now, memory, self.settings, is_news=is_news),
            settings=self.settings,
            view_before_s=memory.view_s,
        )
        may_balance: bool | None = None
        for step in STEPS:
            if step.is_balancing and may_balance is None:
                # Decided once for the whole round, after the facts are known.
                may_balance = is_news and bool(draft.eligible.any())
            is_due = may_balance or not step.is_balancing
            if is_due and step.is_asked_for(draft):
                step.run(draft)
        return _decided(draft)

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        """Whether to decide on this view at once, not at the next period: a hub is, or becomes, overloaded, a topic is
        above its latency limit, or a home lacks tokens that another home of the topic has.

        Cheap: it checks hubs, and the topics above the smallest limit.
        """
        caps = capacities(view, memory.profiles, memory.noises, self.settings)
        over = caps.measured > self.settings.high_ratio
        is_full = bool((view.hubs.is_alive & (over | caps.is_rising)).any())
        is_behind = bool(view.limited) and has_fallen_behind(view, memory)
        return is_full or is_behind or strays(view, specs, memory, self.settings)


def _recalled(view: View, now: float, memory: Memory, settings: PlannerSettings, *, is_news: bool) -> Memory:
    """The memory at the beginning of a round: with this view, without ended moves and outdated evidence."""
    versions = view.hubs.plan_version[view.hubs.is_alive]
    arbiter = memory.arbiter.settled(
        now=now,
        plan_version_min=int(versions.min()) if len(versions) else 0,
        settle_s=settings.settle_s,
        move_timeout_s=settings.move_timeout_s,
    )
    rest_s = max(settings.topic_wait_s, settings.settle_s)
    wait_s = max(settings.replication_wait_s, settings.settle_s)
    return msgspec.structs.replace(
        memory,
        view_s=max(view.time_s, memory.view_s),
        profiles=learn_all(view, memory.profiles, settings) if is_news else memory.profiles,
        moved_s={name: at for name, at in memory.moved_s.items() if now - at < rest_s},
        replicated_s={name: at for name, at in memory.replicated_s.items() if now - at < wait_s},
        joined_s={name: at for name, at in memory.joined_s.items() if name in view.hub_index},
        arbiter=arbiter,
    )


def _decided(draft: Draft) -> Decision:
    change = draft.changes.plan_change()
    topics = draft.changed_topics
    arbiter, _ = draft.memory.arbiter.claim(
        PLANNER,
        topics,
        now=draft.now,
        version=change.version,
        round_max=draft.settings.moves_per_round_max,
        total_max=draft.settings.moves_in_flight_max,
    )
    wanted = servers_wanted(draft)
    draft.remember(arbiter=arbiter, moved_s={**draft.memory.moved_s, **dict.fromkeys(topics, draft.now)})
    ratio = draft.predicted.ratio[draft.eligible]
    return Decision(
        change=change,
        memory=draft.memory,
        servers_wanted=wanted,
        servers_at_work=int(draft.eligible.sum()),
        releasable=may_stop(draft),
        reasons=tuple(draft.reasons),
        ratio_max=float(ratio.max()) if len(ratio) else 0.0,
        ratio_mean=float(ratio.mean()) if len(ratio) else 0.0,
        open_hubs=tuple(sorted(draft.open_hubs)),
        is_pressing=draft.is_pressing,
    )
