"""Predict the load of every hub under a plan, from a view measured under another plan.

The first half gives the same result as `Plan.home_of` with the view's live hubs, for 100,000 topics in the time of a
few hundred calls. Hubs are indices into the view's; -1 is none.

The second half is one predicted view. Measured are totals of topics, which are independent of their hubs, and the load
of hubs beside their topics. The plan defines the placement. So a topic that has just been moved counts at its new home
at once, before any view shows it there (pre-allocated load), and all steps of a round, shedding and placing, use the
same numbers. The bytes that a relay sends to plain clients stay at the relay, whatever the topic's home; until a change
has settled, the load of a hub that is not a home counts as moving.

Owned by a draft; only the draft changes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from equipoise.limits.shares import PARTS
from equipoise.model import Entry, EntryChange, Member, Mode
from equipoise.model.ring import MEMBERS_MAX, POSITION_BITS, ring_over
from equipoise.plan.latency.headroom import HubHeadroom
from equipoise.plan.load import Capacities, TopicNeeds, sums
from equipoise.plan.memory import Memory
from equipoise.plan.settings import PlannerSettings
from equipoise.view.view import View

__all__ = [
    "PlanBasis",
    "Predicted",
    "Replicas",
    "by_entries",
    "changed",
    "home_of_each",
    "moving_topics",
    "on_ordinary_hub",
    "ring_homes",
    "standing",
    "topic_positions",
]

Floats = NDArray[np.float64]
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Replicas:
    """The live homes of a topic that has several, the first one first."""

    homes: tuple[int, ...]
    mode: Mode
    # The parts of the topic's envelope at each, in millionths; empty: equal.
    shares: tuple[int, ...] = ()


def topic_positions(view: View) -> NDArray[np.float64]:
    """The positions of topics on any ring: the first point above belongs to the owner."""
    hashes = np.fromiter(map(xxh3_64_intdigest, view.topics.names), np.uint64, view.topics.count)
    return (hashes >> np.uint64(POSITION_BITS)).astype(np.float64) * MEMBERS_MAX


def ring_homes(
    view: View, positions: NDArray[np.float64], members: Iterable[Member], alive: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The hub of every topic by the ring alone. `alive` is by the view's hubs."""
    known = list(members)
    ring = ring_over(tuple((member.hub, member.weight) for member in known))
    index = view.hub_index
    owners = np.array([index.get(hub, NOWHERE) for hub in ring.hubs], np.int64)
    is_serving = np.array([owner >= 0 and bool(alive[owner]) for owner in owners.tolist()], np.bool_)
    points = np.array(ring.points, np.float64)
    members_at = (points % MEMBERS_MAX).astype(np.int64)
    # The topics of a dead member go to the next live one along the ring, as if its points did not exist.
    if len(points):
        keep = is_serving[members_at]
        points, members_at = points[keep], members_at[keep]
    if len(points) == 0:
        return _last_resort(view, known, alive)
    found = np.searchsorted(points, positions, side="right") % len(points)
    return owners[members_at[found]]


def changed(entries: Mapping[bytes, Entry], parts: Iterable[EntryChange]) -> dict[bytes, Entry]:
    """The entries with these changes; removing an entry that does not exist has no effect."""
    made = dict(entries)
    for part in parts:
        if part.entry is None:
            made.pop(part.topic, None)
        else:
            made[part.topic] = part.entry
    return made


def by_entries(
    view: View, entries: Mapping[bytes, Entry], alive: NDArray[np.bool_]
) -> tuple[dict[int, int], dict[int, Replicas]]:
    """The topics whose entries have a live home: of one home, and of several."""
    hubs, topics = view.hub_index, view.topic_index
    serving = {name: at for name, at in hubs.items() if alive[at]}
    single: dict[int, int] = {}
    several: dict[int, Replicas] = {}
    for topic, entry in entries.items():
        at = topics.get(topic)
        if at is None:
            continue
        homes = tuple(serving[hub] for hub in entry.homes if hub in serving)
        if len(homes) > 1:
            several[at] = Replicas(homes, entry.mode)
        elif homes:
            single[at] = homes[0]
    return single, several


def _last_resort(view: View, members: list[Member], alive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """No hub has a share of the ring: rare and small, so one topic after the other."""
    ring = ring_over(tuple((member.hub, member.weight) for member in members))
    serving = {name for name, at in view.hub_index.items() if alive[at]}
    owners = (ring.owner(topic, serving) for topic in view.topics.names)
    return np.array([NOWHERE if hub is None else view.hub_index[hub] for hub in owners], np.int64)


# --- predicted load ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PlanBasis:
    """The part of a view that is independent of new placements. Made once per round, from the plan in force."""

    # The part of each topic that moves with its home.
    bytes_per_s: Floats
    work: Floats
    # The part that each hub still sends as a relay.
    relay_bytes: Floats
    relay_work: Floats
    # Of replicated topics without a move: the part of its homes' traffic that each home sends.
    shares: dict[int, dict[int, float]]
    # Bandwidth and CPU as they were when loop lag was measured.
    flow_measured: Floats


def standing(
    view: View,
    needs: TopicNeeds,
    capacities: Capacities,
    *,
    home: NDArray[np.int64],
    several: dict[int, Replicas],
    is_moving: NDArray[np.bool_],
) -> PlanBasis:
    """`home` and `several` are the placement by the plan in force; views may show moving topics elsewhere."""
    count = view.hubs.count
    is_relay = _is_relay(view, home, several, is_moving)
    stays = sums(view.carried.topic[is_relay], view.carried.share[is_relay], view.topics.count)
    follows = np.maximum(0.0, 1.0 - stays)
    return PlanBasis(
        bytes_per_s=needs.bytes_per_s * follows,
        work=needs.work * follows,
        relay_bytes=sums(view.carried.hub[is_relay], needs.carried_bytes[is_relay], count),
        relay_work=sums(view.carried.hub[is_relay], needs.carried_work[is_relay], count),
        shares=_measured_shares(view, several, is_moving),
        flow_measured=capacities.flow_ratio(
            sums(view.carried.hub, needs.carried_bytes, count),
            sums(view.carried.hub, needs.carried_work, count),
        ),
    )


class Predicted:
    """Loads of hubs and homes of topics: `home` by index, -1 for those in `several`."""

    def __init__(
        self,
        standing: PlanBasis,
        capacities: Capacities,
        *,
        home: NDArray[np.int64],
        several: dict[int, Replicas],
    ) -> None:
        self.capacities = capacities
        self.home = home
        self.several = several
        self.bytes_per_s, self.work = standing.bytes_per_s, standing.work
        self._standing = standing
        self._add_up()

    def _add_up(self) -> None:
        standing, single = self._standing, self.home >= 0
        count = len(standing.relay_bytes)
        self._bytes = standing.relay_bytes + sums(self.home[single], self.bytes_per_s[single], count)
        self._work = standing.relay_work + sums(self.home[single], self.work[single], count)
        for topic, replicas in self.several.items():
            for hub, share in self.shares_of(topic, replicas).items():
                self._bytes[hub] += share * self.bytes_per_s[topic]
                self._work[hub] += share * self.work[topic]
        self.ratio = self._ratio(self._bytes, self._work)

    def shares_of(self, topic: int, replicas: Replicas) -> dict[int, float]:
        """By the distributor's parts; else as measured if the homes are the measured ones; else equal."""
        if replicas.shares:
            parts = zip(replicas.homes, replicas.shares, strict=True)
            return {hub: part / PARTS for hub, part in parts}
        measured = self._standing.shares.get(topic)
        if measured is not None and measured.keys() == set(replicas.homes):
            return measured
        return dict.fromkeys(replicas.homes, 1.0 / len(replicas.homes))

    def at_hub(self, hub: int) -> NDArray[np.int64]:
        """The topics whose only home it is, the busiest first; equal ones in the view's order."""
        here = np.flatnonzero(self.home == hub)
        return here[np.argsort(-self.reliefs(here, hub), kind="stable")]

    def reliefs(self, topics: NDArray[np.int64], hub: int) -> Floats:
        """The part of each topic in the hub's scarcest resource: a topic of few bytes does not relieve its network."""
        caps = self.capacities
        bandwidth = (caps.base_bytes[hub] + self._bytes[hub]) / caps.bytes_full[hub]
        cpu = (caps.base_cpu[hub] + caps.price[hub] * self._work[hub]) / caps.cpu_full
        relief: Floats
        if bandwidth >= cpu:
            relief = self.bytes_per_s[topics] / caps.bytes_full[hub]
        else:
            relief = self.work[topics] * (caps.price[hub] / caps.cpu_full)
        return relief

    def topic_ratios(self, topics: NDArray[np.int64], hub: int) -> Floats:
        """The load ratio of each topic on a hub that is its only home."""
        return self.capacities.topic_ratio(self.bytes_per_s[topics], self.work[topics], hub)

    def if_added(self, topic: int, share: float = 1.0) -> Floats:
        """The ratio of each hub with this share of the topic added."""
        return self._ratio(
            self._bytes + share * self.bytes_per_s[topic], self._work + share * self.work[topic]
        )

    def if_removed(self, topic: int, share: float = 1.0) -> Floats:
        """The ratio of each hub with this share of the topic removed."""
        return self._ratio(
            self._bytes - share * self.bytes_per_s[topic], self._work - share * self.work[topic]
        )

    def without(self, topics: NDArray[np.int64], hub: int) -> float:
        """The ratio of one hub without these topics, whose only home it is."""
        bytes_per_s, work = self._bytes.copy(), self._work.copy()
        bytes_per_s[hub] = max(0.0, bytes_per_s[hub] - float(self.bytes_per_s[topics].sum()))
        work[hub] = max(0.0, work[hub] - float(self.work[topics].sum()))
        return float(self._ratio(bytes_per_s, work)[hub])

    def average_without_one(self, among: NDArray[np.bool_], hub: int | None = None) -> float:
        """avg + avg/(n − 1) of these hubs and `hub`: the average over the others once they carry all load."""
        counted = among.copy()
        if hub is not None:
            counted[hub] = True
        count = int(counted.sum())
        return float(self.ratio[counted].sum()) / (count - 1) if count > 1 else math.inf

    def room(self, ratio_max: float) -> HubHeadroom:
        """The room of all hubs, for a step that places many topics; a copy."""
        return HubHeadroom(
            self.capacities,
            bytes_per_s=self.bytes_per_s,
            work=self.work,
            on_hubs=(self._bytes, self._work),
            flow_measured=self._standing.flow_measured,
            ratio_max=ratio_max,
        )

    def place(self, topic: int, replicas: Replicas | int) -> None:
        """Set the homes of the topic: one, or several."""
        for hub, share in self._at(topic).items():
            self._bytes[hub] = max(0.0, self._bytes[hub] - share * self.bytes_per_s[topic])
            self._work[hub] = max(0.0, self._work[hub] - share * self.work[topic])
        self.several.pop(topic, None)
        self.home[topic] = NOWHERE
        if isinstance(replicas, Replicas):
            self.several[topic] = replicas
        else:
            self.home[topic] = replicas
        for hub, share in self._at(topic).items():
            self._bytes[hub] += share * self.bytes_per_s[topic]
            self._work[hub] += share * self.work[topic]
        self.ratio = self._ratio(self._bytes, self._work)

    def _at(self, topic: int) -> dict[int, float]:
        replicas = self.several.get(topic)
        if replicas is not None:
            return self.shares_of(topic, replicas)
        home = int(self.home[topic])
        return {} if home == NOWHERE else {home: 1.0}

    def _ratio(self, bytes_per_s: Floats, work: Floats) -> Floats:
        flow = self.capacities.flow_ratio(bytes_per_s, work)
        return np.maximum(flow, self.capacities.lag_after(flow, self._standing.flow_measured))


def _is_relay(
    view: View, home: NDArray[np.int64], several: dict[int, Replicas], is_moving: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """The rows of carried topics at hubs that are not homes, and that stay there."""
    topic, hub = view.carried.topic, view.carried.hub
    is_relay: NDArray[np.bool_] = (home[topic] != hub) & ~is_moving[topic]
    if several:
        rows = np.flatnonzero(np.isin(topic, np.fromiter(several, np.int64)))
        for row in rows.tolist():
            replicas = several[int(topic[row])]
            is_relay[row] &= int(hub[row]) not in replicas.homes
    return is_relay


def _measured_shares(
    view: View, several: dict[int, Replicas], is_moving: NDArray[np.bool_]
) -> dict[int, dict[int, float]]:
    if not several:
        return {}
    rows = np.flatnonzero(np.isin(view.carried.topic, np.fromiter(several, np.int64)))
    found: dict[int, dict[int, float]] = {}
    for row in rows.tolist():
        topic, hub = int(view.carried.topic[row]), int(view.carried.hub[row])
        if not is_moving[topic] and hub in several[topic].homes:
            found.setdefault(topic, {})[hub] = float(view.carried.share[row])
    totals = {topic: sum(shares.values()) for topic, shares in found.items()}
    return {
        topic: {hub: share / totals[topic] for hub, share in shares.items()}
        for topic, shares in found.items()
    }


def home_of_each(
    ring: NDArray[np.int64], single: Mapping[int, int], several: Mapping[int, Replicas]
) -> NDArray[np.int64]:
    """The only home of each topic: by its entry, else by the ring; −1 of those with several."""
    home = ring.copy()
    if single:
        home[np.fromiter(single, np.int64)] = np.fromiter(single.values(), np.int64)
    if several:
        home[np.fromiter(several, np.int64)] = -1
    return home


def moving_topics(view: View, memory: Memory, settings: PlannerSettings, now: float) -> NDArray[np.bool_]:
    """The topics that views may still show at a former hub."""
    count, since_s = view.topics.count, now - settings.settle_s
    if memory.members_s > since_s:
        return np.ones(count, np.bool_)
    moving = np.zeros(count, np.bool_)
    recent = [name for name, at in memory.moved_s.items() if at > since_s]
    recent += [name for name, at in memory.replicated_s.items() if at > since_s]
    recent += memory.arbiter.in_hand
    moving[[view.topic_index[name] for name in recent if name in view.topic_index]] = True
    return moving


def on_ordinary_hub(
    capacities: Capacities, among: NDArray[np.bool_], bytes_per_s: Floats, work: Floats
) -> Floats:
    """The load ratio of topics with these needs on the median hub; 0 without hubs."""
    if not among.any():
        return np.zeros(len(bytes_per_s))
    bandwidth = bytes_per_s / np.median(capacities.bytes_full[among])
    cpu = work * (np.median(capacities.price[among]) / capacities.cpu_full)
    return np.maximum(bandwidth, cpu)
