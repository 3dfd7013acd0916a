"""A world without messages: topics with rates, hubs with capacities, and a plan with the placement.

Each second every topic has its noisy rate and every hub what the plan of that second gives it; views are windows over
the last seconds, as the pipeline makes them; plans take effect after a handover; servers that are wanted come after a
while, and released ones go. Enough to see what a policy does over an hour in a second or two.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from equipoise.model import Plan, Specs, apply
from equipoise.plan import Decision, Memory, Planner, Policy
from equipoise.plan.predicted import by_entries, ring_homes, topic_positions
from equipoise.view import HubView, View
from equipoise.view.view import Carried, HubColumns, TopicColumns

Floats = NDArray[np.float64]

DELIVERY_US, PUBLICATION_US = 0.3, 2.0
BOOT_CPU = 0.02


@dataclass
class Topics:
    """The true rates, which a test may change at any time."""

    names: list[bytes]
    publications_per_s: Floats
    subscribers: Floats
    publishers: Floats
    size_bytes: float = 200.0

    @classmethod
    def like(cls, deliveries_per_s: Floats, *, fan_out: float = 20.0, size_bytes: float = 200.0) -> Topics:
        """Topics that differ in their rates only."""
        count = len(deliveries_per_s)
        return cls(
            [b"topic/%d" % at for at in range(count)],
            np.array(deliveries_per_s, np.float64) / fan_out,
            np.full(count, fan_out),
            np.full(count, fan_out),
            size_bytes,
        )


@dataclass
class _Second:
    publications: Floats
    out_bytes: Floats
    # What each hub carries of each topic, in parts.
    shares: NDArray[np.float32]
    hub_bytes: Floats
    hub_cpu: Floats


@dataclass
class Event:
    at_s: float
    decision: Decision
    # Topics whose homes became others by this decision, ring and entries together.
    moved: int


@dataclass
class World:
    topics: Topics
    hubs: list[HubView]
    policy: Policy = field(default_factory=Planner)
    specs: Specs = field(default_factory=Specs)
    seed: int = 1
    # Standard deviation of a topic's rate from second to second, and of all together, in parts.
    noise: float = 0.1
    noise_together: float = 0.01
    window_s: int = 10
    period_s: int = 5
    handover_retry_s: int = 1
    boot_s: int = 4
    # Which hubs the provisioner may start, in order, and whether it starts and stops any.
    spare: list[HubView] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now = 0.0
        self.random = np.random.default_rng(self.seed)
        self.plan = Plan()
        self.memory = Memory()
        self.events: list[Event] = []
        self._applied = Plan()
        self._underway: list[tuple[float, Plan]] = []
        self._starting: list[tuple[float, HubView]] = []
        self._seconds: deque[_Second] = deque(maxlen=self.window_s)
        self._is_pressing = False
        self._known: deque[tuple[Plan, list[HubView], Floats]] = deque(maxlen=3)

    # --- what happens ---

    def run(self, seconds: float) -> None:
        """Let time pass; the planner decides every period, or with every view while something presses."""
        until = self.now + seconds
        while self.now < until:
            self._second()
            is_period = self.now % self.period_s == 0
            if is_period or self._is_pressing or self._wakes():
                self._plan()

    def add_hub(self, hub: HubView) -> None:
        self.hubs = [*self.hubs, hub]
        self._seconds.clear()

    def kill(self, name: str) -> None:
        self.hubs = [replace(hub, is_alive=False) if hub.name == name else hub for hub in self.hubs]

    def view(self) -> View:
        """The last seconds, as the pipeline would aggregate them."""
        seconds = list(self._seconds)
        publications = np.array([second.publications for second in seconds])
        out_bytes = np.array([second.out_bytes for second in seconds])
        hub_bytes = np.array([second.hub_bytes for second in seconds])
        hub_cpu = np.array([second.hub_cpu for second in seconds])
        weights = np.array([second.out_bytes[:, None] * second.shares for second in seconds]).sum(axis=0)
        totals = weights.sum(axis=1, keepdims=True)
        shares = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
        topic, hub = np.nonzero(shares > 0)
        return View(
            self.now,
            self._topic_columns(publications, out_bytes),
            self._hub_columns(hub_bytes, hub_cpu),
            Carried(topic=topic, hub=hub, share=np.minimum(1.0, shares[topic, hub].astype(np.float64))),
            float(max(len(seconds), 1)),
        )

    # --- what a test asks ---

    def ratios(self) -> dict[str, float]:
        """The true load ratio of each live member by bandwidth and CPU, without noise, under the plan as decided."""
        truth = self._load_of(self.topics.publications_per_s, self._shares(self.plan))
        names = [hub.name for hub in self.hubs]
        return {
            name: float(truth[at])
            for at, name in enumerate(names)
            if name in self.plan.by_hub and self._is_up(at)
        }

    def moves_between(self, start_s: float, end_s: float) -> int:
        return sum(event.moved for event in self.events if start_s <= event.at_s < end_s)

    def homes(self, topic: bytes) -> tuple[str, ...]:
        return self.plan.home_of(topic, {hub.name for hub in self.hubs if hub.is_alive}).homes

    # --- inside ---

    def _second(self) -> None:
        self.now += 1.0
        self._come_and_go()
        for at_s, plan in list(self._underway):
            if at_s <= self.now:
                self._applied = plan
                self._underway.remove((at_s, plan))
        topics, count = self.topics, len(self.topics.names)
        wobble = np.exp(self.random.normal(0, self.noise, count) - self.noise**2 / 2)
        together = np.exp(self.random.normal(0, self.noise_together))
        publications = topics.publications_per_s * wobble * together
        shares = self._shares(self._applied)
        out_bytes = publications * topics.subscribers * topics.size_bytes
        work = self._work(publications)
        self._seconds.append(
            _Second(
                publications,
                out_bytes,
                shares.astype(np.float32),
                out_bytes @ shares,
                BOOT_CPU + work @ shares,
            )
        )

    def _wakes(self) -> bool:
        """Whether the policy is woken by the view of this second: by its hubs, which is all that it looks at."""
        hub_bytes = np.array([second.hub_bytes for second in self._seconds])
        hub_cpu = np.array([second.hub_cpu for second in self._seconds])
        bare = View.of(self.now, window_s=float(len(hub_bytes)))
        seen = replace(bare, hubs=self._hub_columns(hub_bytes, hub_cpu))
        return self.policy.wakes(seen, self.specs, self.memory)

    def _plan(self) -> None:
        view = self.view()
        before = self._shares(self.plan)
        decision = self.policy.decide(view, self.plan, self.specs, self.now, self.memory)
        self.memory = decision.memory
        self._is_pressing = decision.is_pressing
        if not decision.change.is_empty:
            self.plan = apply(self.plan, decision.change)
            self._underway.append((self.now + self.handover_retry_s, self.plan))
        after = self._shares(self.plan)
        moved = int(((before != after).any(axis=1) & before.any(axis=1)).sum())
        self.events.append(Event(self.now, decision, moved))
        self._provide(decision)

    def _provide(self, decision: Decision) -> None:
        here = [hub for hub in self.hubs if hub.is_alive and hub.name not in decision.releasable]
        while self.spare and len(here) + len(self._starting) < decision.servers_wanted:
            self._starting.append((self.now + self.boot_s, self.spare.pop(0)))
        for name in decision.releasable:
            stopped = next((hub for hub in self.hubs if hub.name == name and hub.is_alive), None)
            if stopped is not None and self._applied.version >= self.plan.version:
                self.kill(name)
                self.spare.append(replace(stopped, incarnation=stopped.incarnation + 1, is_alive=True))

    def _come_and_go(self) -> None:
        for at_s, hub in list(self._starting):
            if at_s <= self.now:
                self._starting.remove((at_s, hub))
                self.hubs = [other for other in self.hubs if other.name != hub.name]
                self.add_hub(hub)

    def _is_up(self, at: int) -> bool:
        return self.hubs[at].is_alive

    def _bare(self) -> View:
        """Names only: enough to ask where topics are."""
        if getattr(self, "_bare_key", None) != self.hubs:
            zeros = np.zeros((1, len(self.topics.names)))
            hub_zeros = np.zeros((1, len(self.hubs)))
            none = np.zeros(0, np.int64)
            carried = Carried(topic=none, hub=none, share=np.zeros(0))
            self._bare_key = self.hubs
            self._bare_view = View(
                0.0, self._topic_columns(zeros, zeros), self._hub_columns(hub_zeros, hub_zeros), carried
            )
            self._positions = topic_positions(self._bare_view)
        return self._bare_view

    def _shares(self, plan: Plan) -> Floats:
        """What part of each topic each hub carries under a plan."""
        if not any(plan is known and self.hubs is hubs_then for known, hubs_then, _ in self._known):
            self._known.append((plan, self.hubs, self._find_shares(plan)))
        return next(shares for known, then, shares in self._known if plan is known and self.hubs is then)

    def _find_shares(self, plan: Plan) -> Floats:
        view = self._bare()
        alive = np.array([hub.is_alive for hub in self.hubs], np.bool_)
        shares = np.zeros((len(self.topics.names), len(self.hubs)))
        ring = ring_homes(view, self._positions, plan.members, alive)
        single, several = by_entries(view, plan.entries, alive)
        for topic, home in single.items():
            ring[topic] = home
        rows = np.flatnonzero(ring >= 0)
        shares[rows, ring[rows]] = 1.0
        for topic, replicas in several.items():
            shares[topic] = 0.0
            shares[topic, list(replicas.homes)] = 1.0 / len(replicas.homes)
        return shares

    def _work(self, publications: Floats) -> Floats:
        deliveries = publications * self.topics.subscribers
        work: Floats = (deliveries * DELIVERY_US + publications * PUBLICATION_US) * 1e-6
        return work

    def _load_of(self, publications: Floats, shares: Floats) -> Floats:
        out_bytes = (publications * self.topics.subscribers * self.topics.size_bytes) @ shares
        cpu = self._work(publications) @ shares + BOOT_CPU
        full = np.array([hub.out_bytes_per_s_max or np.inf for hub in self.hubs])
        ratio: Floats = np.maximum(out_bytes / full, cpu / 0.875)
        return ratio

    def _topic_columns(self, publications: Floats, out_bytes: Floats) -> TopicColumns:
        topics = self.topics
        mean = publications.mean(axis=0)
        size, count = out_bytes.mean(axis=0), len(topics.names)
        unknown = np.full(count, np.nan)
        return TopicColumns(
            names=topics.names,
            publications_per_s=mean,
            deliveries_per_s=mean * topics.subscribers,
            in_bytes_per_s=mean * topics.size_bytes,
            out_bytes_per_s=size,
            publishers=topics.publishers.copy(),
            subscribers=topics.subscribers.copy(),
            publications_per_s_max=publications.max(axis=0),
            out_bytes_per_s_max=out_bytes.max(axis=0),
            backlog_bytes_max=np.zeros(count),
            throttle_delay_s=np.zeros(count),
            queue_delay_s=np.zeros(count),
            out_bytes_trend=slope(out_bytes),
            latency_s_worst=unknown,
            deviation_s=unknown.copy(),
        )

    def _hub_columns(self, hub_bytes: Floats, hub_cpu: Floats) -> HubColumns:
        hubs, count = self.hubs, len(self.hubs)
        out, cpu = hub_bytes.mean(axis=0), hub_cpu.mean(axis=0)
        full = np.array([hub.out_bytes_per_s_max for hub in hubs])
        use = np.minimum(0.99, np.maximum(cpu, out / np.where(full > 0, full, np.inf)))
        return HubColumns(
            names=[hub.name for hub in hubs],
            site=[hub.site for hub in hubs],
            rack=[hub.rack for hub in hubs],
            is_alive=np.array([hub.is_alive for hub in hubs]),
            is_draining=np.array([hub.is_draining for hub in hubs]),
            is_releasable=np.array([hub.is_releasable for hub in hubs]),
            carries_content=np.ones(len(hubs), np.bool_),
            bookies=np.array([hub.bookies for hub in hubs], np.int64),
            commit_s=np.array([hub.commit_s for hub in hubs], np.float64),
            incarnation=np.array([hub.incarnation for hub in hubs], np.int64),
            plan_version=np.full(count, self._applied.version, np.int64),
            cpu_ratio=cpu,
            loop_lag_s=np.minimum(0.5, 0.001 * use / (1 - use)),
            memory_bytes=np.array([hub.memory_bytes for hub in hubs], np.float64),
            memory_bytes_max=np.array([hub.memory_bytes_max for hub in hubs], np.float64),
            out_bytes_per_s=out,
            out_bytes_per_s_max=full.astype(np.float64),
            publications_per_s=np.zeros(count),
            deliveries_per_s=np.zeros(count),
            connections=np.zeros(count),
            topics=np.zeros(count),
            out_bytes_trend=slope(hub_bytes),
            cpu_trend=slope(hub_cpu),
        )


def slope(samples: Floats) -> Floats:
    """Least squares over the rows, per second."""
    count = len(samples)
    if count < 2:
        return np.zeros(samples.shape[1])
    at = np.arange(count) - (count - 1) / 2
    found: Floats = at @ samples / (at @ at)
    return found


def hubs(count: int, *, mb_per_s: float = 100.0, first: int = 0, site: str = "") -> list[HubView]:
    """Hubs of equal bandwidth."""
    return [
        HubView(name=f"h{at:02d}", site=site, out_bytes_per_s_max=mb_per_s * 1e6, incarnation=1)
        for at in range(first, first + count)
    ]


def zipf(count: int, total: float, *, exponent: float = 0.8, seed: int = 1) -> Floats:
    """Rates of topics from many small to few large, in random order, that sum to the total."""
    sizes = 1.0 / np.arange(1, count + 1) ** exponent
    np.random.default_rng(seed).shuffle(sizes)
    rates: Floats = sizes * (total / sizes.sum())
    return rates
