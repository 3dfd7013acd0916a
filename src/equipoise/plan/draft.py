"""The plan of a round, which the steps change one after the other.

Each step sees the predicted view with the changes of earlier steps, and cannot undo them: a topic changed in this round
is not changed again, a hub that gave a topic away for load receives none for load, and a hub that received one gives
none away. The draft also enforces the arbiter's bounds.

Always true:
    the hub that receives a topic is a live member, not drained, one of the topic's eligible hubs (by site, or by
    bookies), and has memory left;
    a latency limit that holds is not broken, by an entry or by the ring, unless no eligible hub keeps it;
    an entry that equals the ring's placement is not made, and an existing one is dropped;
    a topic and a member have one change each, the last.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from equipoise.model import (
    Entry,
    EntryChange,
    Member,
    MemberChange,
    Mode,
    Plan,
    PlanChange,
    Reason,
    Specs,
    Why,
)
from equipoise.plan.latency import LatencyLimits, bound_topics, coordinate_doubt, specs_asking
from equipoise.plan.load import capacities, eligible_hubs, needs
from equipoise.plan.memory import LONG_AGO_S, Memory
from equipoise.plan.predicted import (
    PlanBasis,
    Predicted,
    Replicas,
    by_entries,
    changed,
    home_of_each,
    moving_topics,
    on_ordinary_hub,
    ring_homes,
    standing,
    topic_positions,
)
from equipoise.plan.settings import PlannerSettings
from equipoise.view.view import View

__all__ = ["PLANNER", "Changes", "Draft", "why"]

# Owner id of the planner in claims of the arbiter.
PLANNER = "planner"


class Draft:
    """Made for one round from its inputs; `memory` already holds the profiles and hits of this view."""

    predicted: Predicted

    def __init__(
        self,
        view: View,
        plan: Plan,
        specs: Specs,
        now: float,
        *,
        memory: Memory,
        settings: PlannerSettings,
        view_before_s: float = LONG_AGO_S,
    ) -> None:
        self.view, self.plan, self.specs, self.now = view, plan, specs, now
        self.memory, self.settings = memory, settings
        self.members: dict[str, Member] = dict(plan.by_hub)
        self.reasons: list[Why] = []
        self.is_pressing = False
        # Hubs that are overloaded by topics that the view does not list.
        self.open_hubs: set[str] = set()
        # Capacity is missing, or will be.
        self.is_short = False
        # Whether the view is new, and the time since the one before it.
        self.is_news = view.time_s > view_before_s
        self.view_before_s = view_before_s
        self.changes = Changes(plan)
        self._positions = topic_positions(view)
        self._touched: set[int] = set()
        # Of these, those that were moved for latency.
        self.latency_moves = 0
        # Limited topics that are split, or will be: the distributor chooses their homes.
        self.divided: set[int] = set()
        count = view.hubs.count
        # Hubs that gave topics away for load in this round, and hubs that received some.
        self.gave = np.zeros(count, np.bool_)
        self.got = np.zeros(count, np.bool_)
        self.budget = memory.arbiter.room(
            round_max=settings.moves_per_round_max, total_max=settings.moves_in_flight_max
        )
        self.capacities = capacities(view, memory.profiles, memory.noises, settings)
        if self.is_in_flux:
            # Load that rises or falls because topics move is no trend.
            self.capacities = replace(self.capacities, is_rising=np.zeros(count, np.bool_))
        self.needs = needs(view, self.capacities, settings)
        self._single: dict[int, int] = {}
        self._standing: PlanBasis | None = None
        self.place_all()

    # --- hubs ---------------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> NDArray[np.bool_]:
        return self.view.hubs.is_alive

    def takers(self, topic: int, *, must: bool = False) -> NDArray[np.bool_]:
        """The hubs that may receive this topic for load. `must`: if no hub keeps its limit, all that may have it."""
        mask = self.eligible & ~self.gave
        if topic in self.bound:
            mask &= self.bound[topic]
        allowed = self.limits.allowed(topic, self.homes_of(topic)) if self.limits else None
        if allowed is not None and not (must and not (mask & allowed).any()):
            mask &= allowed
        return mask

    def givers(self) -> NDArray[np.bool_]:
        """The hubs that may give topics away for load: members that received none in this round."""
        is_member = np.array([name in self.members for name in self.view.hubs.names], np.bool_)
        return self.alive & is_member & ~self.got

    def at_site(self, site: str) -> NDArray[np.bool_]:
        return np.array([here == site for here in self.view.hubs.site], np.bool_)

    # --- when to act --------------------------------------------------------------------------------------------------

    @property
    def is_in_flux(self) -> bool:
        """A hub has just joined: the moves of topics look like load of the hubs themselves, and like growth.

        In the round of the joining the view is still from before, so its prediction is valid.
        """
        joined_s = max(self.memory.joined_s.values(), default=LONG_AGO_S)
        return 0 < self.now - joined_s < self.settings.settle_s

    @property
    def may_plan(self) -> bool:
        """T_wait is over, and the view is new."""
        return self.is_news and self.now - self.memory.plan_s >= self.settings.plan_wait_s

    @property
    def may_plan_severe(self) -> bool:
        return self.is_news and self.now - self.memory.plan_s >= self.settings.severe_wait_s

    @property
    def is_crowded(self) -> bool:
        """No further server is available."""
        return int(self.eligible.sum()) >= self.settings.servers_max

    # - constraints of topics
    # --- constraints of topics ----------------------------------------------------------------------------------------

    @cached_property
    def pinned(self) -> dict[int, str]:
        """The topics whose spec names a site, with the site."""
        found = specs_asking(self.view, self.specs, lambda spec: spec.site is not None)
        return {topic: spec.site for topic, spec in found.items() if spec.site is not None}

    @cached_property
    def bound(self) -> dict[int, NDArray[np.bool_]]:
        """The topics that only some hubs may serve, with these hubs."""
        at_sites = {topic: self.at_site(site) for topic, site in self.pinned.items()}
        return bound_topics(self.view, self.specs, at_sites)

    @cached_property
    def limits(self) -> LatencyLimits:
        """The topics whose spec has a latency limit."""
        doubt = coordinate_doubt(self.view, self.memory, self.settings, self.now)
        return LatencyLimits.of_specs(self.view, self.specs, doubt)

    @cached_property
    def mean_ratio(self) -> NDArray[np.float64]:
        """The load ratio of each topic on an ordinary hub, over the window."""
        return self._on_ordinary_hub(self.needs.mean_bytes, self.needs.mean_work)

    @cached_property
    def present_ratio(self) -> NDArray[np.float64]:
        """The same at present, by extrapolated trends."""
        return self._on_ordinary_hub(self.needs.present_bytes, self.needs.present_work)

    def is_idle(self, topic: int) -> bool:
        """The topic has no move in flight and no pin, and no earlier step of this round has changed it."""
        name = self.view.topics.names[topic]
        is_taken = topic in self._touched or self.is_kept(name)
        return not is_taken and self.memory.arbiter.is_free(name, PLANNER)

    def is_free(self, topic: int) -> bool:
        """The same, and the arbiter has room for one more."""
        return self.budget > 0 and self.is_idle(topic)

    def is_kept(self, topic: bytes) -> bool:
        """An operator has pinned it to members, none of which is drained; a dead one may come back.

        A content topic counts too: its hubs balance its subscribers themselves.
        """
        entry = self.plan.entries.get(topic)
        if entry is None or not (entry.is_pinned or entry.mode is Mode.CONTENT):
            return False
        return self._staying.issuperset(entry.homes)

    def is_rested(self, topic: int) -> bool:
        """Its last move for load is long enough ago."""
        moved_s = self.memory.moved_s.get(self.view.topics.names[topic])
        return moved_s is None or self.now - moved_s >= self.settings.topic_wait_s

    def remember(self, **changes: Any) -> None:
        """Change the memory of the next round."""
        self.memory = msgspec.structs.replace(self.memory, **changes)

    # --- changes ------------------------------------------------------------------------------------------------------

    def move(self, topic: int, to: int, why: Why, *, for_load: bool = True) -> None:
        """Give the topic one home."""
        if for_load:
            self.gave[[*self.homes_of(topic)]] = True
            self.got[to] = True
        self.predicted.place(topic, to)
        self._touch(topic, (to,), Mode.SINGLE, why)

    def replicate(
        self, topic: int, homes: Sequence[int], mode: Mode, why: Why, *, shares: tuple[int, ...] = ()
    ) -> None:
        """Give the topic several homes; the first one orders. `shares`: of its envelope, in millionths."""
        before = self.homes_of(topic)
        self.got[[hub for hub in homes if hub not in before]] = True
        if len(homes) >= len(before):
            self.gave[[*before]] = True
        self.predicted.place(topic, Replicas(tuple(homes), mode, shares))
        self._touch(topic, tuple(homes), mode, why, shares)

    def set_member(self, member: Member, why: Why) -> None:
        self.members[member.hub] = member
        self.changes.set_member(member, why)

    def remove_member(self, hub: str, why: Why) -> None:
        """Removes the home from entries; topics without another home go back to the ring."""
        self.members.pop(hub, None)
        self.changes.remove_member(hub, why)

    def place_all(self) -> None:
        """Compute the placement again, after members changed. Changes of entries so far are kept."""
        # The hubs that may receive topics, and the members that are not drained.
        self.eligible = eligible_hubs(self.view, self.members, self.memory, self.settings)
        draining = np.flatnonzero(self.view.hubs.is_draining).tolist()
        self._staying = self.members.keys() - {self.view.hubs.names[hub] for hub in draining}
        self.ring_home = ring_homes(self.view, self._positions, self.members.values(), self.alive)
        self._single, several = by_entries(self.view, self.changes.entries, self.alive)
        before = self.predicted.home if self._standing is not None else None
        self.predicted = self._predict(self.ring_home, several)
        if before is not None and self.limits:
            self._hold(before)

    def if_members(self, members: Iterable[Member]) -> NDArray[np.float64]:
        """The load ratios with these members and no other change."""
        ring = ring_homes(self.view, self._positions, members, self.alive)
        return self._predict(ring, dict(self.predicted.several)).ratio

    def homes_of(self, topic: int) -> tuple[int, ...]:
        replicas = self.predicted.several.get(topic)
        if replicas is not None:
            return replicas.homes
        home = int(self.predicted.home[topic])
        return () if home < 0 else (home,)

    @property
    def changed_topics(self) -> list[bytes]:
        """The topics that move by their entries."""
        names = self.view.topics.names
        return [names[topic] for topic in sorted(self._touched)]

    @property
    def has_moves(self) -> bool:
        """A topic was moved for another reason than latency."""
        return len(self._touched) > self.latency_moves

    # --- inside -------------------------------------------------------------------------------------------------------

    def _hold(self, before: NDArray[np.int64]) -> None:
        """If other members would let the ring break a limit that holds, keep the topic in place, or choose a home."""
        limited = self.limits.topics
        for topic in limited[(before != self.predicted.home)[limited]].tolist():
            was, ring = int(before[topic]), int(self.predicted.home[topic])
            allowed = self.limits.allowed(topic, (was,)) if was >= 0 and ring >= 0 else None
            name, note = self.view.topics.names[topic], f"not {self.view.hubs.names[ring]}"
            if allowed is None or allowed[ring] or topic in self._touched or self.is_kept(name):
                continue
            explained = why(Reason.LATENCY, note, expected_ms=1e3 * self.limits.worst_s(topic)[ring])
            if self.eligible[was]:
                # The topic does not move, so no move is in flight.
                self._single[topic] = was
                self.predicted.place(topic, was)
                self.changes.put(Entry(name, (self.view.hubs.names[was],)), explained)
                continue
            after = np.where(self.takers(topic) & allowed, self.predicted.if_added(topic), np.inf)
            if after.min() <= self.settings.crowded_ratio and self.is_free(topic):
                self.move(topic, int(np.argmin(after)), explained, for_load=False)

    def _predict(self, ring: NDArray[np.int64], several: dict[int, Replicas]) -> Predicted:
        home = home_of_each(ring, self._single, several)
        if self._standing is None:
            self._standing = standing(
                self.view,
                self.needs,
                self.capacities,
                home=home,
                several=several,
                is_moving=moving_topics(self.view, self.memory, self.settings, self.now),
            )
        return Predicted(self._standing, self.capacities, home=home, several=several)

    def _on_ordinary_hub(
        self, bytes_per_s: NDArray[np.float64], work: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        among = self.eligible if self.eligible.any() else self.alive
        return on_ordinary_hub(self.capacities, among, bytes_per_s, work)

    def _touch(
        self, topic: int, homes: tuple[int, ...], mode: Mode, why: Why, shares: tuple[int, ...] = ()
    ) -> None:
        name = self.view.topics.names[topic]
        self._touched.add(topic)
        self.budget -= 1
        self._single.pop(topic, None)
        if mode is Mode.SINGLE:
            self._single[topic] = homes[0]
        if mode is Mode.SINGLE and homes[0] == self.ring_home[topic]:
            self.changes.give_to_ring(name, why)
            return
        named = tuple(self.view.hubs.names[hub] for hub in homes)
        was = self.plan.entries.get(name)
        kept = Entry(name, named, mode) if was is None else was.at(named, mode)
        self.changes.put(Entry(name, named, mode, shares=shares) if shares else kept, why)


class Changes:
    """Owned by one draft."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._entries: dict[bytes, EntryChange] = {}
        self._members: dict[str, MemberChange] = {}

    @property
    def entries(self) -> Mapping[bytes, Entry]:
        """The entries with the changes so far."""
        return changed(self._plan.entries, self._entries.values())

    @property
    def has_member_changes(self) -> bool:
        return bool(self._members)

    def has_moved_for(self, reasons: Container[Reason]) -> bool:
        return any(part.why.reason in reasons for part in self._entries.values())

    def put(self, entry: Entry, why: Why) -> None:
        self._entries[entry.topic] = EntryChange(entry.topic, entry, why)

    def give_to_ring(self, topic: bytes, why: Why) -> None:
        if topic in self._plan.entries:
            self._entries[topic] = EntryChange(topic, None, why)

    def drop(self, topic: bytes, why: Why) -> None:
        """Remove the entry, unless this round has changed it."""
        if topic not in self._entries:
            self.give_to_ring(topic, why)

    def set_member(self, member: Member, why: Why) -> None:
        self._members[member.hub] = MemberChange(member.hub, member, why)

    def remove_member(self, hub: str, why: Why) -> None:
        """Removes the home from entries; topics without another home go back to the ring."""
        if hub in self._plan.by_hub:
            self._members[hub] = MemberChange(hub, None, why)
        else:
            self._members.pop(hub, None)
        for entry in [entry for entry in self.entries.values() if hub in entry.homes]:
            self._entries[entry.topic] = EntryChange(entry.topic, entry.without(hub), why)

    def plan_change(self) -> PlanChange:
        """The change from this plan to the next."""
        version = self._plan.version + 1
        return PlanChange(version, tuple(self._entries.values()), tuple(self._members.values()))


def why(reason: Reason, note: str = "", **numbers: float) -> Why:
    """A reason with its numbers, rounded to their precision."""
    return Why(reason, {name: round(float(value), 4) for name, value in numbers.items()}, note)
