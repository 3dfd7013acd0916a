"""One run of several hubs: members, plans, and the order of events.

Hubs find each other through a `Region`, which has a store, or a `Directory`, which has none. The seed determines which
hub each client connects to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from equipoise.hub.cluster.counters import cluster_counters
from equipoise.hub.cluster.stall_watch import CREDIT_NS
from equipoise.hub.core import HubCore
from equipoise.hub.data.losses import Losses
from equipoise.hub.data.topic import Topic
from equipoise.lab.scenarios import AclSync, Client, ClusterScenario, Dialect, Workload
from equipoise.lab.simulation.ablation import replaced
from equipoise.lab.simulation.cluster.directory import Directory
from equipoise.lab.simulation.cluster.durable_topics import SimulatedDurableTopics
from equipoise.lab.simulation.cluster.hub_settings import hub_settings
from equipoise.lab.simulation.cluster.limited_adders import LimitedAdders, watched_adds
from equipoise.lab.simulation.cluster.region import STORE, Region
from equipoise.lab.simulation.cluster.trees import planted
from equipoise.lab.simulation.cpu import CpuSpec
from equipoise.lab.simulation.incarnation import Incarnation
from equipoise.lab.simulation.memory_use import measure_forever
from equipoise.lab.simulation.simulated_hub import PORT, SimulatedHub
from equipoise.lab.simulation.staging import Staging
from equipoise.lab.simulation.world import Simulation
from equipoise.lab.workload import History, HubEndpoint, hurried
from equipoise.lab.workload.history import Admitted, Missed
from equipoise.limits import TOKEN
from equipoise.model import Entry, Member, Mode, Plan, Specs, TopicSpec
from equipoise.store import StoreSettings

__all__ = ["CONTROLLER", "SESSION_S", "ClusterWorld"]

CONTROLLER = "controller"

# Session timeout of hubs: short, so that sessions expire within a run of a few seconds.
SESSION_S = 1.0
START_S, OPENING_S = 5.0, 10.0
SETTLING_S = 20.0
# The share of seeds with filter subscribers, in scenarios that have some.
FILTERED_SHARE = 0.25


class ClusterWorld:
    """The components of one run, and the operations of operators, tests and faults."""

    def __init__(self, sim: Simulation, scenario: ClusterScenario, history: History) -> None:
        self.sim = sim
        self.scenario = scenario
        self.history = history
        self.random = Random(f"cluster {sim.seed}")
        # Separate from `random`, so that filter subscribers do not change the other draws of a seed.
        self.filter_random = Random(f"filters in {sim.seed}")
        is_filtered = self.filter_random.random() < FILTERED_SHARE
        self.filtered = tuple(Workload(clients=scenario.filtered).each()) if is_filtered else ()
        self.staging = Staging(sim, history)
        self.is_healed = False
        self._rules = None if scenario.access is None else scenario.access.rules
        # By hub, the time at which it applies the latest rules.
        self._rules_due: dict[str, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._fired: Counter[str] = Counter()
        # Incarnation of the controller's host at the controller's start.
        self._controlled: Incarnation | None = None
        self.directory: Directory | Region
        if scenario.has_store:
            sessions = StoreSettings(
                session_timeout_s=scenario.session_s, request_timeout_s=scenario.session_s
            )
            self.directory = Region(sim, sessions=sessions)
        else:
            self.directory = Directory(
                sim, self.random.random, lag_s=scenario.lag_s, is_reinstated=self._is_reinstated
            )
        has_logs = scenario.durable or scenario.adds
        self._durable = SimulatedDurableTopics(sim, scenario, history) if has_logs else None
        self._adders = LimitedAdders(sim, scenario.adds, history)
        if self._durable is not None:
            if isinstance(self.directory, Region):
                self.directory.equip = self._durable.equip  # type: ignore[method-assign]  # of this world
            else:
                self.directory.prepare = self._durable.prepare
        for name in scenario.hubs:
            self.add_hub(name)

    @property
    def hubs(self) -> dict[str, SimulatedHub]:
        return self.directory.hubs  # type: ignore[return-value]  # a region's are of a more exact kind

    @property
    def region(self) -> Region:
        """The region of a world with a store."""
        assert isinstance(self.directory, Region)
        return self.directory

    def add_hub(self, name: str) -> SimulatedHub:
        scenario = self.scenario
        cluster = {**scenario.cluster_settings, "filtered_links": name not in scenario.whole_links}
        fields = scenario.hub_limits, cluster, scenario.content_settings
        settings = hub_settings(name, *(tuple(each.items()) for each in fields), session_s=scenario.session_s)
        if name in scenario.write_s:
            self.sim.host(
                name, cpu=CpuSpec(written_chunk_s=scenario.write_s[name]), reads_all=scenario.reads_all
            )
        error_s = self._clock_error_s if scenario.clock_error_s else None
        node = self.directory.add(settings, rules=self._rules, clock_error_s=error_s)
        if self._rules is not None:
            self.history.rules[name] = node.rules_at
        return node

    # The phases of a run; `faults.play` calls them in turn.

    async def start(self) -> None:
        """Start all hubs, commit a plan with them as members, and wait for every subscription."""
        specs = self._specs()
        if self._durable is not None:
            self._durable.start(has_store=self.scenario.has_store)
        if isinstance(self.directory, Region):
            await self.directory.begin()
            await self.directory.put_specs(specs)
            self._attend()
        else:
            self.directory.specs = Specs(specs)
        for node in self.hubs.values():
            node.start()
        if self.scenario.has_controller:
            self.control()
        await self.until(lambda: len(self.directory.alive) == len(self.hubs), START_S)
        members = tuple(Member(name) for name in sorted(self.hubs))
        self.directory.commit(Plan(members=members, entries=planted(self.scenario.planted, self.hubs)))
        for client in self.scenario.workload.each():
            self.seat(_with_attributes(client) if self.filtered else client, self.random)
        for client in self.filtered:
            self.seat(client, self.filter_random)
        if self._durable is not None:
            self._durable.begin(sorted(self.hubs))
            self._adders.begin(sorted(self.hubs))
        await self.until(self.staging.is_everybody_live, OPENING_S)

    def _specs(self) -> list[TopicSpec]:
        kept = [] if self._durable is None else self._durable.specs()
        return kept + [
            TopicSpec(
                pattern=pattern.encode(),
                rate_per_s=rate,
                burst_messages=burst,
                wait_ms=self.scenario.limit_wait_ms,
            )
            for pattern, (rate, burst) in self.scenario.limited.items()
        ]

    def seat(self, client: Client, random: Random) -> None:
        host, hubs = self.sim.host(client.name), sorted(self.hubs)
        at = client.place or hubs[int(random.random() * len(hubs))]
        knows_all = self.scenario.is_routing or client.dialect is Dialect.ROVING or client.is_wandering
        others = tuple(name for name in self.hubs if name != at) if knows_all else ()
        settings = hurried(
            routing=self.scenario.is_routing, group=client.group, **self.scenario.client_settings
        )
        self.staging.seat(
            self.staging.cast(client, HubEndpoint(at, PORT, settings, host.random, others=others))
        )

    def heal(self) -> None:
        """End all faults, restart hubs, and commit a new plan version so that restarted hubs get their share again."""
        self.is_healed = True
        if self._durable is not None:
            self._durable.is_over = self._adders.is_over = True
        for task in self._tasks:
            task.cancel()
        names = [*self.hubs, *(client.name for client in self.staging.clients)]
        if isinstance(self.directory, Region):
            names += [STORE, CONTROLLER] if self.scenario.has_controller else [STORE]
        for number, one in enumerate(names):
            for other in names[number + 1 :]:
                self.sim.heal(one, other)
        if isinstance(self.directory, Region) and not self.directory.host.is_up:
            self.directory.serve()
        if self.scenario.has_controller:
            self.control()
        for node in self.hubs.values():
            node.host.thaw()
            if not node.host.is_up:
                self.directory.expire(node.name)
                node.start()
        self.directory.commit(self.directory.plan)
        if self.scenario.rule_changes[1] and self.scenario.access is not None:
            self.sim.loop.create_task(self.change_rules(self.scenario.access.rules))
        if isinstance(self.directory, Region):
            # Healing cancels all background tasks, the operator's included.
            self._attend()

    async def conclude(self) -> None:
        """Check progress, and with a store that hubs agree on plan and peers."""
        await self.staging.conclude(self.scenario.expectation.progress_s)
        self.staging.note_unfinished()
        if self._durable is not None:
            await self._durable.conclude(self.hubs, self.scenario.expectation.progress_s)
            await self._adders.conclude(self.hubs, self.scenario.expectation.progress_s)
        if isinstance(self.directory, Region):
            await self.until(self.directory.is_settled, SETTLING_S)
            if not self.directory.is_settled():
                self.history.unfinished.append("the hubs do not agree on plan and peers")

    def control(self) -> None:
        """Start the real controller on its own host, unless it is running."""
        # Its views need the pipeline, which loads slowly and which no other world needs.
        from equipoise.lab.simulation.cluster.controller import start_controller

        host = self.sim.host(CONTROLLER)
        if self._controlled is not host.incarnation or not host.is_up:
            start_controller(self.region, host, self.scenario.planner_settings)
            self._controlled = host.incarnation

    def _attend(self) -> None:
        for work in self.region.work():
            self.keep(work)

    # Operations of faults and tests.

    def keep(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine in the background until the world is healed."""
        self._tasks.append(self.sim.loop.create_task(work))

    def measure(self) -> asyncio.Task[None]:
        """Sample the memory use of hubs and clients until cancelled."""
        measuring = measure_forever(self.hubs.values(), self.staging.clients, self.history)
        return self.sim.loop.create_task(measuring)

    async def until(self, is_so: Callable[[], bool], patience_s: float) -> None:
        await self.staging.until(is_so, patience_s)

    def draw(self, among: list[str]) -> str:
        return among[int(self.random.random() * len(among))]

    @contextmanager
    def watched_losses(self) -> Iterator[None]:
        """Record in the history when hubs count messages as lost."""
        count, count_hub = Losses.count, Losses.count_hub

        def watched_count(losses: Losses, topic: bytes, messages: int | None) -> None:
            before = losses.messages, losses.gaps
            count(losses, topic, messages)
            if (losses.messages, losses.gaps) != before:
                self._note_loss(losses, topic, messages)

        def watched_count_hub(losses: Losses) -> None:
            before = losses.hubs
            count_hub(losses)
            if losses.hubs != before:
                self._note_loss(losses, None, None)

        with replaced(Losses, "count", watched_count), replaced(Losses, "count_hub", watched_count_hub):
            yield

    @contextmanager
    def watched_admissions(self) -> Iterator[None]:
        """Record in the history when any hub gives positions to messages, or adds entries, of limited topics."""
        if not self.scenario.limited:
            yield
            return
        publish, specs = HubCore.publish, Specs(self._specs())

        def note(core: HubCore, topic: Topic, count: int) -> None:
            spec = specs.of(topic.name)
            if spec is not None and spec.envelope is not None:
                name = topic.name.decode()
                self.history.envelopes[name] = spec.envelope
                self.history.admissions.setdefault(name, []).extend(
                    Admitted(at, messages, core.settings.name)
                    for at, messages in judged_times(topic, count, self.sim.now)
                )

        def note_add(core: HubCore, name: bytes, count: int) -> None:
            topic = core.make_topic(name)
            if topic is not None:
                note(core, topic, count)

        def watched_publish(core: HubCore, topic: Topic, payloads: Sequence[bytes], first: int = 0) -> int:
            if not first and not topic.is_shard:
                note(core, topic, len(payloads))
            return publish(core, topic, payloads, first)

        with (
            replaced(HubCore, "publish", watched_publish),
            watched_adds(self.scenario.adds, self.hubs, note_add),
        ):
            yield

    def _note_loss(self, losses: Losses, topic: bytes | None, missed: int | None) -> None:
        for name, node in self.hubs.items():
            if node.hub is not None and node.hub.core.losses is losses:
                missed_there = Missed(self.sim.now, None if topic is None else topic.decode(), missed)
                self.history.losses.setdefault(name, []).append(missed_there)

    def count(self, fault: str) -> None:
        self._fired[fault] += 1
        self.sim.note(fault)

    def fired(self) -> Counter[str]:
        """Number of changes and faults of each kind."""
        return self._fired

    @property
    def members(self) -> list[str]:
        return [member.hub for member in self.directory.plan.members]

    def move(self, topic: str, hub: str) -> None:
        self.replicate(topic, (hub,), Mode.SINGLE)

    def replicate(
        self,
        topic: str,
        homes: tuple[str, ...],
        mode: Mode,
        shares: tuple[int, ...] = (),
        depths: tuple[int, ...] = (),
        parents: tuple[int, ...] = (),
    ) -> None:
        plan = self.directory.plan
        entry = Entry(topic.encode(), homes, mode, shares=shares, depths=depths, parents=parents)
        entries = {**plan.entries, topic.encode(): entry}
        self.directory.commit(replace(plan, entries=entries))

    def weigh(self, weights: dict[str, int]) -> None:
        """Change the weights of members; entries stay the same."""
        plan = self.directory.plan
        members = tuple(Member(m.hub, weights.get(m.hub, m.weight), m.site) for m in plan.members)
        self.directory.commit(replace(plan, members=members))

    async def change_rules(self, rules: AclSync) -> None:
        """Change the rules through the store. Without one, each hub applies them after a delay of its own, in order."""
        if isinstance(self.directory, Region):
            await self.directory.change_rules(rules)
            return
        self._rules = rules
        for node in self.hubs.values():
            at = self.sim.now + self.random.random() * self.scenario.lag_s
            at = max(at, self._rules_due.get(node.name, 0.0))
            self._rules_due[node.name] = at + 1e-6
            self.sim.loop.call_at(at, node.change_rules, rules)

    async def empty_store(self) -> None:
        """Delete the data and the sessions of the store."""
        await self.region.empty()
        self._attend()

    def _clock_error_s(self) -> float:
        return (2 * self.random.random() - 1) * self.scenario.clock_error_s

    def _is_reinstated(self) -> bool:
        return self.is_healed or self.random.random() < 0.3

    # Observation.

    def counters(self) -> dict[str, int]:
        """Sums of cluster counters over the running hubs."""
        sums: Counter[str] = Counter()
        for node in self.hubs.values():
            if node.cluster is not None:
                sums.update(cluster_counters(node.cluster))
        return dict(sums)


def _with_attributes(client: Client) -> Client:
    """The same client with JSON payloads, for filter subscribers."""
    return replace(client, publishes=tuple(replace(stream, is_json=True) for stream in client.publishes))


def judged_times(topic: Topic, count: int, now: float) -> list[tuple[float, int]]:
    """Times at which messages that have just taken their tokens count as admitted, with the number at each time.

    After a stall a bucket holds more tokens than its depth. A message then counts at the time when the bucket had
    reached its depth, at most 20 ms ago.
    """
    bucket = None if topic.limit is None else topic.limit.bucket
    if bucket is None or not bucket.rate or bucket._level + count * TOKEN <= bucket.depth:
        return [(now, count)]
    over_ns = [
        max(0, bucket._level + left * TOKEN - bucket.depth) / bucket.rate for left in range(count, 0, -1)
    ]
    return [(now - min(over, CREDIT_NS) / 1e9, 1) for over in over_ns]
