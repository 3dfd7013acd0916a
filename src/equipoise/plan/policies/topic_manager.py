"""ePulsar's Topic Manager as printed, as a baseline: Algorithm 1 with the policies of section 3.4.

Each round takes the topics above their limits and, of each overloaded broker, the topics with the most messages until
the rest is below the threshold; all of them are placed anew, those with the fewest choices first. It needs no repeated
evidence and has no memory of earlier placements.

`AllPairs` is the paper's baseline (5.5): the same with every client's own coordinate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from equipoise.coordinates import Coordinate
from equipoise.model import Plan, Reason, Specs
from equipoise.plan.decision import Decision
from equipoise.plan.draft import Draft, why
from equipoise.plan.latency import (
    CentroidEstimate,
    HubHeadroom,
    LatencyEstimate,
    LatencyLimits,
    PairsEstimate,
    limits_of,
    place_topics,
    rank,
)
from equipoise.plan.memory import Memory
from equipoise.plan.settings import PlannerSettings
from equipoise.plan.steps.obligations import keep_members
from equipoise.view.view import View, places_of

__all__ = ["AllPairs", "TopicManager", "excess_rates", "topics_to_shed"]

Floats = NDArray[np.float64]
Clients = tuple[Sequence[Coordinate], Sequence[Coordinate]]

# R_out^th (5.4): the rate of a broker of the paper before it became slow.
OUT_MESSAGES_PER_S_MAX = 1_500_000.0
# Use of a core is use of a core here, and the paper's manager makes all its moves at once.
AS_PRINTED = PlannerSettings(cpu_full_ratio=1.0, moves_per_round_max=1_000_000, moves_in_flight_max=1_000_000)


class TopicManager:
    """Settings in use: the resource threshold and the patience with dead hubs."""

    name = "epulsar"

    def __init__(
        self,
        settings: PlannerSettings = AS_PRINTED,
        *,
        out_messages_per_s_max: float = OUT_MESSAGES_PER_S_MAX,
        estimate_of: Callable[[View], LatencyEstimate] = CentroidEstimate,
    ) -> None:
        self.settings = settings
        self._rate_max = out_messages_per_s_max
        self._estimate_of = estimate_of

    def decide(self, view: View, plan: Plan, specs: Specs, now: float, memory: Memory) -> Decision:
        draft = Draft(
            view, plan, specs, now, memory=memory, settings=self.settings, view_before_s=memory.view_s
        )
        keep_members(draft)
        if draft.eligible.any() and draft.is_news:
            self._repartition(draft)
        draft.remember(view_s=max(view.time_s, memory.view_s))
        ratio = draft.predicted.ratio[draft.eligible]
        return Decision(
            change=draft.changes.plan_change(),
            memory=draft.memory,
            servers_wanted=int(draft.eligible.sum()),
            ratio_max=float(ratio.max()) if len(ratio) else 0.0,
            ratio_mean=float(ratio.mean()) if len(ratio) else 0.0,
        )

    def wakes(self, view: View, specs: Specs, memory: Memory) -> bool:
        """Monitoring data is processed periodically, whatever its values (4)."""
        return False

    def _repartition(self, draft: Draft) -> None:
        limits = LatencyLimits(draft.view, limits_of(draft.view, draft.specs), self._estimate_of(draft.view))
        home = draft.predicted.home
        far = [topic for topic in limits.broken(draft.homes_of) if home[topic] >= 0]
        shed = {topic for topic in self._shed(draft) if home[topic] >= 0}
        moved = [*far, *sorted(shed.difference(far))]
        limit_s = np.array([limits.limit_s.get(topic, np.inf) for topic in moved], np.float64)
        topics = np.array(moved, np.int64)
        candidates = rank(limits.estimate, topics, limit_s, draft.eligible)
        placement = place_topics(
            candidates,
            self._room(draft),
            home[topics].tolist(),
            must_leave=[topic in shed for topic in moved],
            makes_way=False,
        )
        before = home[topics].tolist()
        for row, (topic, to) in enumerate(zip(moved, placement.hub.tolist(), strict=True)):
            if to != before[row] and draft.is_free(topic):
                reason = Reason.HIGH_LOAD if topic in shed else Reason.LATENCY
                draft.move(topic, to, why(reason, choices=candidates.choices[row]), for_load=False)

    def _shed(self, draft: Draft) -> list[int]:
        """get_topics_to_migrate, for all overloaded brokers."""
        rates = _rates(draft.view)
        excess = excess_rates(draft.view, self.settings.resource_full_ratio, self._rate_max)
        found: list[int] = []
        for hub in np.flatnonzero((excess > 0) & draft.givers()).tolist():
            here = np.flatnonzero(draft.predicted.home == hub)
            found += here[topics_to_shed(rates[here], float(excess[hub]))].tolist()
        return found

    def _room(self, draft: Draft) -> HubHeadroom:
        room = draft.predicted.room(self.settings.resource_full_ratio)
        rates, single = _rates(draft.view), draft.predicted.home >= 0
        on_hubs = np.bincount(
            draft.predicted.home[single], rates[single], minlength=draft.view.hubs.count
        ).astype(np.float64)
        room.bound_rates(rates, on_hubs, np.full(draft.view.hubs.count, self._rate_max))
        return room


class AllPairs(TopicManager):
    """With every client's coordinate: for each topic its publishers and its subscribers."""

    name = "all-pairs"

    def __init__(
        self,
        clients: Mapping[bytes, Clients],
        settings: PlannerSettings = AS_PRINTED,
        *,
        out_messages_per_s_max: float = OUT_MESSAGES_PER_S_MAX,
    ) -> None:
        def estimate_of(view: View) -> LatencyEstimate:
            known = [clients.get(name, ((), ())) for name in view.topics.names]
            sides = [(places_of(publishers), places_of(subscribers)) for publishers, subscribers in known]
            return PairsEstimate(sides, view.hubs.coordinate, view.hubs.loop_lag_s)

        super().__init__(settings, out_messages_per_s_max=out_messages_per_s_max, estimate_of=estimate_of)


def excess_rates(view: View, resource_max: float, rate_max: float) -> Floats:
    """The messages per second by which each broker is overloaded (3.4.2, 3.4.3); 0: not overloaded.

    If a resource is overused, the rate has to fall by the same ratio as its use.
    """
    hubs = view.hubs
    use = [
        hubs.cpu_ratio,
        hubs.memory_bytes / np.where(hubs.memory_bytes_max > 0, hubs.memory_bytes_max, np.inf),
        hubs.out_bytes_per_s / np.where(hubs.out_bytes_per_s_max > 0, hubs.out_bytes_per_s_max, np.inf),
    ]
    highest = np.max(use, axis=0)
    rate = hubs.publications_per_s + hubs.deliveries_per_s
    by_resource = np.where(
        highest > resource_max, rate * (1 - resource_max / np.maximum(highest, resource_max)), 0.0
    )
    by_rate = np.maximum(0.0, hubs.deliveries_per_s - rate_max)
    excess: Floats = np.maximum(by_resource, by_rate)
    return excess


def topics_to_shed(rates: Floats, excess: float) -> NDArray[np.int64]:
    """The topics to move off a broker, by index: those with the most messages first, until it is enough."""
    order = np.argsort(-rates, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(rates[order])[:-1]]) if len(order) else np.zeros(0)
    shed: NDArray[np.int64] = order[before < excess]
    return shed


def _rates(view: View) -> Floats:
    """R_out(t): incoming and outgoing messages together."""
    rates: Floats = view.topics.publications_per_s + view.topics.deliveries_per_s
    return rates
