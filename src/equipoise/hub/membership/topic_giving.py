"""Spread logs over hubs without a leading controller: take over from dead homes, shed from busy hubs.

These are Hedwig's two rules. A topic whose planned home is dead is assigned to a live hub, chosen by its weight times
its free load. Only the ring's next hub decides: it opens the log itself, or commits a plan that names another hub. A
hub whose load is more than 10 % above the mean of the members gives topics away, every five minutes and when a ledger
of one rolls. The first plan that is committed wins; it redirects all hubs and clients.

Always true:
    no topic is given away while a controller leads;
    a hub gives away no more than brings its load down to the mean, and no topic that the same rule would give back.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from xxhash import xxh3_64_intdigest

from equipoise.errors import PlanRaceError
from equipoise.hub.logs.live_log import LogStage
from equipoise.hub.membership.able_hubs import unable_hubs
from equipoise.model import Entry, Plan, PlanChange, Reason, Specs, Why
from equipoise.store.records.hubs import HubSeen, HubsStore
from equipoise.store.records.leader import LeaderStore
from equipoise.store.records.plans import PlanStore

if TYPE_CHECKING:
    from equipoise.hub.shell.server import Hub

__all__ = ["TopicGiving", "best_hub", "free_shares", "topics_over_mean"]

log = logging.getLogger("equipoise.hub")

# Least ratio of a hub's load to the mean for giving topics away, and most topics at once: Hedwig's values.
OVER_MEAN = 1.1
GIVEN_MAX = 50
# Topics that need a stand-in within this time, in seconds, are committed as one plan.
_GATHER_S = 0.02
_PLANS_TRIED = 5


def free_shares(plan: Plan, hubs: Mapping[str, HubSeen], serving: Iterable[str]) -> dict[str, float]:
    """By serving member, its weight times its free load; members with 0 are omitted."""
    shares: dict[str, float] = {}
    for hub in serving:
        member, seen = plan.by_hub.get(hub), hubs.get(hub)
        if member is not None and seen is not None and seen.alive is not None:
            share = member.weight * (1.0 - min(1.0, seen.alive.load_ratio))
            if share > 0:
                shares[hub] = share
    return shares


def best_hub(topic: bytes, shares: Mapping[str, float]) -> str | None:
    """Choose a hub for a topic, in proportion to the shares: weighted rendezvous hashing."""
    best, best_score = None, -1.0
    for hub, share in sorted(shares.items()):
        digest = xxh3_64_intdigest(b"%b\0%b" % (hub.encode(), topic))
        score = share / -math.log((digest + 1) / (2**64 + 1))
        if score > best_score:
            best, best_score = hub, score
    return best


def topics_over_mean(own: float, loads: Iterable[float], topics: int) -> tuple[int, float]:
    """The number of topics that a hub with load `own` gives away, and the mean; `loads`: of all members."""
    known = list(loads)
    mean = sum(known) / len(known)
    if len(known) < 2 or not topics or own <= OVER_MEAN * mean:
        return 0, mean
    return min(GIVEN_MAX, int((own - mean) / (own / topics) + 1e-9)), mean


class TopicGiving:
    """Owned by one membership."""

    def __init__(
        self,
        hub: Hub,
        plans: PlanStore,
        leaders: LeaderStore,
        hubs: HubsStore,
        *,
        specs: Callable[[], Specs],
        load: Callable[[], float],
    ) -> None:
        self._hub = hub
        self._name = hub.settings.name
        self._plans = plans
        self._leaders = leaders
        self._hubs = hubs
        self._specs = specs
        self._load = load
        # By topic, the stand-in to commit.
        self._wanted: dict[bytes, str] = {}
        # Topics with a ledger that has rolled.
        self._rolled: dict[bytes, None] = {}
        self._has_rolled = asyncio.Event()

    async def work(self) -> None:
        """Give topics away every interval, and when ledgers roll. Runs until it is cancelled."""
        interval_s = self._hub.settings.membership.giving_interval_s
        loop = asyncio.get_running_loop()
        next_at = loop.time() + interval_s
        while True:
            try:
                async with asyncio.timeout_at(next_at):
                    await self._has_rolled.wait()
            except TimeoutError:
                next_at = loop.time() + interval_s
                await self.give(list(self._hub.core.logs.by_name if self._hub.core.logs is not None else ()))
                continue
            self._has_rolled.clear()
            rolled, self._rolled = self._rolled, {}
            await self.give(list(rolled))

    def rolled(self, topic: bytes) -> None:
        """A ledger of the topic was closed and another begun: a cheap moment to give the topic away."""
        self._rolled[topic] = None
        self._has_rolled.set()

    async def give(self, topics: list[bytes]) -> int:
        """Give some topics away if this hub's load is above the mean; return how many. Raises StoreError."""
        cluster, logs = self._hub.cluster, self._hub.core.logs
        if cluster is None or logs is None or await self._leaders.load() is not None:
            return 0
        plan, seen = cluster.router.routing.plan, await self._hubs.load()
        own_topics = [name for name, live in logs.by_name.items() if live.stage is LogStage.OPEN]
        serving = [hub for hub in cluster.router.serving if hub in plan.by_hub and plan.by_hub[hub].weight]
        loads = {hub: one.alive.load_ratio for hub in serving if (one := seen.get(hub)) and one.alive}
        if self._name not in loads:
            return 0
        own = loads[self._name] = self._load()
        count, mean = topics_over_mean(own, loads.values(), len(own_topics))
        below = {hub for hub, load in loads.items() if load < mean and self._is_able(hub, seen)}
        movable = [topic for topic in topics if topic in own_topics and self._is_movable(plan, topic)]
        shares = free_shares(plan, seen, self._near(below, seen))
        given = {topic: best for topic in movable[:count] if (best := best_hub(topic, shares)) is not None}
        if given:
            numbers = {"load_ratio": own, "mean_ratio": mean}
            await self._commit(given, Why(Reason.GIVEN_AWAY, numbers))
            log.info("gave %d topics away: load %.2f, mean %.2f", len(given), own, mean)
        return len(given)

    async def may_open(self, topic: bytes) -> bool:
        """Whether this hub may own the log; else it commits a plan that names another hub. Raises StoreError."""
        cluster = self._hub.cluster
        if cluster is None:
            return True
        plan, serving = cluster.router.routing.plan, cluster.router.serving
        planned = plan.home_of(topic).homes
        if not planned or not serving.isdisjoint(planned) or await self._leaders.load() is not None:
            return True
        seen = await self._hubs.load()
        able = [hub for hub in serving if self._is_able(hub, seen)]
        best = best_hub(topic, free_shares(plan, seen, able))
        if best is None or best == self._name:
            return True
        is_first = not self._wanted
        self._wanted[topic] = best
        if is_first:
            # Gather the topics of the next moments; each is requested again until the plan has arrived.
            try:
                await asyncio.sleep(_GATHER_S)
            finally:
                wanted, self._wanted = self._wanted, {}
            await self._commit(wanted, Why(Reason.STAND_IN))
        return False

    async def _commit(self, homes: Mapping[bytes, str], why: Why) -> None:
        """Commit these homes, except for topics whose entries have changed meanwhile."""
        base = self._hub.cluster.router.routing.plan if self._hub.cluster is not None else Plan()
        for _ in range(_PLANS_TRIED):
            plan = await self._plans.load()
            same = {
                name: hub for name, hub in homes.items() if plan.entries.get(name) == base.entries.get(name)
            }
            if not same:
                return
            entries = [Entry(topic, (hub,)) for topic, hub in same.items()]
            try:
                await self._plans.commit(PlanChange.on(plan, why, set_entries=entries))
                return
            except PlanRaceError:
                continue

    def _is_able(self, hub: str, seen: Mapping[str, HubSeen]) -> bool:
        return hub in seen and hub not in unable_hubs(seen, self._specs())

    def _is_movable(self, plan: Plan, topic: bytes) -> bool:
        """Whether the topic has one home, and neither an operator nor a spec has fixed it."""
        entry, spec = plan.entries.get(topic), self._specs().of(topic)
        is_free = entry is None or (len(entry.homes) == 1 and not entry.is_pinned)
        return is_free and (spec is None or spec.site is None)

    def _near(self, hubs: set[str], seen: Mapping[str, HubSeen]) -> set[str]:
        """The hubs of this hub's site; all hubs if there are none."""
        site = self._hub.settings.membership.site
        return {hub for hub in hubs if seen[hub].facts.site == site} or hubs
