"""One run of several hubs: who is there, what is asked of the plan, and the order in which things happen.

Hubs meet in a `Region`, with a store, or in a `Directory`, without. Clients are spread over them as the seed draws.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import cache
from random import Random

from equipoise.hub import HubSettings, Limits
from equipoise.hub.cluster.counters import cluster_counters
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.lab.scenarios import Client, ClusterScenario, Dialect
from equipoise.lab.simulation.cluster.directory import Directory
from equipoise.lab.simulation.cluster.region import STORE, Region, membership_settings
from equipoise.lab.simulation.memory_use import measure_forever
from equipoise.lab.simulation.simulated_hub import PORT, SimulatedHub
from equipoise.lab.simulation.staging import Staging
from equipoise.lab.simulation.world import Simulation
from equipoise.lab.workload import History, HubEndpoint, PublishOutcome, hurried
from equipoise.lab.workload.history import Received, Sent
from equipoise.model import Entry, Member, Mode, Plan
from equipoise.store import StoreSettings

__all__ = ["SESSION_S", "ClusterWorld"]

# Of hubs with the store: as short as a run of a few seconds needs it.
SESSION_S = 1.0
# Links that notice silence and dial again within a run.
QUICK: dict[str, int | float | str] = {
    "link_timeout_s": 0.7,
    "reconnect_interval_s_max": 0.2,
    "unsubscribe_delay_s": 0.5,
    "ack_interval_s": 0.05,
}
START_S, OPENING_S = 5.0, 10.0
SETTLING_S = 20.0


class ClusterWorld:
    """The parts of one run, and what an operator, a test or a fault may do to them."""

    def __init__(self, sim: Simulation, scenario: ClusterScenario, history: History) -> None:
        self.sim = sim
        self.scenario = scenario
        self.history = history
        self.random = Random(f"cluster {sim.seed}")
        self.staging = Staging(sim, history)
        self.is_healed = False
        self._rules = None if scenario.access is None else scenario.access.rules
        self._tasks: list[asyncio.Task[None]] = []
        self._fired: Counter[str] = Counter()
        # When messages may be lost without a word: (from, until); and those that were on their way when a hub died.
        self._excused: list[tuple[float, float]] = []
        self._under_way: list[Sent] = []
        self.directory: Directory | Region
        if scenario.has_store:
            sessions = StoreSettings(session_timeout_s=SESSION_S, request_timeout_s=SESSION_S)
            self.directory = Region(sim, sessions=sessions)
        else:
            self.directory = Directory(
                sim, self.random.random, lag_s=scenario.lag_s, is_reinstated=self._is_reinstated
            )
        for name in scenario.hubs:
            self.add_hub(name)

    @property
    def hubs(self) -> dict[str, SimulatedHub]:
        return self.directory.hubs  # type: ignore[return-value]  # a region's are of a more exact kind

    @property
    def region(self) -> Region:
        """Of a world with a store."""
        assert isinstance(self.directory, Region)
        return self.directory

    def add_hub(self, name: str) -> SimulatedHub:
        scenario = self.scenario
        settings = _settings(
            name, tuple(scenario.hub_limits.items()), tuple(scenario.cluster_settings.items())
        )
        error_s = self._clock_error_s if scenario.clock_error_s else None
        node = self.directory.add(settings, rules=self._rules, clock_error_s=error_s)
        if self._rules is not None:
            self.history.rules[name] = node.rules_at
        return node

    # The order of things; `play` in `run` calls these in turn.

    async def start(self) -> None:
        """Start all hubs under a plan that has them as members, and wait for every subscription."""
        if isinstance(self.directory, Region):
            await self.directory.begin()
            self._attend()
        for node in self.hubs.values():
            node.start()
        await self.until(lambda: len(self.directory.alive) == len(self.hubs), START_S)
        self.directory.commit(Plan(members=tuple(Member(name) for name in sorted(self.hubs))))
        for client in self.scenario.workload.each():
            self._seat(client)
        await self.until(self.staging.is_everybody_live, OPENING_S)

    def _seat(self, client: Client) -> None:
        host = self.sim.host(client.name)
        at = client.place or self.draw(sorted(self.hubs))
        is_told = self.scenario.is_routing or client.dialect is Dialect.ROVING
        others = tuple(name for name in self.hubs if name != at) if is_told else ()
        settings = hurried(routing=self.scenario.is_routing, **self.scenario.client_settings)
        self.staging.seat(
            self.staging.cast(client, HubEndpoint(at, PORT, settings, host.random, others=others))
        )

    def heal(self) -> None:
        """Undo whatever is wrong, and give each hub that has come back its share again."""
        self.is_healed = True
        for task in self._tasks:
            task.cancel()
        names = [*self.hubs, *(client.name for client in self.staging.clients)]
        if isinstance(self.directory, Region):
            names.append(STORE)
        for number, one in enumerate(names):
            for other in names[number + 1 :]:
                self.sim.heal(one, other)
        if isinstance(self.directory, Region) and not self.directory.host.is_up:
            self.directory.serve()
        for node in self.hubs.values():
            node.host.thaw()
            if not node.host.is_up:
                self.directory.expire(node.name)
                node.start()
        self.directory.commit(self.directory.plan)
        if isinstance(self.directory, Region):
            # Healing ends all work beside the run, the operator's included.
            self._attend()

    async def conclude(self) -> None:
        """Demand progress, and of hubs with a store that they agree."""
        await self.staging.conclude(self.scenario.expectation.progress_s)
        self.staging.note_unfinished()
        if isinstance(self.directory, Region):
            await self.until(self.directory.is_settled, SETTLING_S)
            if not self.directory.is_settled():
                self.history.unfinished.append("the hubs do not agree on plan and peers")
        self.forgive()

    def _attend(self) -> None:
        for work in self.region.work():
            self.keep(work)

    # What faults and tests do.

    def keep(self, work: Coroutine[object, object, None]) -> None:
        """Let something go on beside the rest until everything is healed."""
        self._tasks.append(self.sim.loop.create_task(work))

    def measure(self) -> asyncio.Task[None]:
        """Look at what hubs and clients hold, until cancelled."""
        measuring = measure_forever(self.hubs.values(), self.staging.clients, self.history)
        return self.sim.loop.create_task(measuring)

    async def until(self, is_so: Callable[[], bool], patience_s: float) -> None:
        await self.staging.until(is_so, patience_s)

    def draw(self, among: list[str]) -> str:
        return among[int(self.random.random() * len(among))]

    def count(self, fault: str) -> None:
        self._fired[fault] += 1
        self.sim.note(fault)

    def fired(self) -> Counter[str]:
        """How often each kind of change and fault happened."""
        return self._fired

    @property
    def members(self) -> list[str]:
        return [member.hub for member in self.directory.plan.members]

    def move(self, topic: str, hub: str) -> None:
        self.replicate(topic, (hub,), Mode.SINGLE)

    def replicate(self, topic: str, homes: tuple[str, ...], mode: Mode) -> None:
        plan = self.directory.plan
        entries = {**plan.entries, topic.encode(): Entry(topic.encode(), homes, mode)}
        self.directory.commit(replace(plan, entries=entries))

    def weigh(self, weights: dict[str, int]) -> None:
        """Give members other weights; entries stay."""
        plan = self.directory.plan
        members = tuple(Member(m.hub, weights.get(m.hub, m.weight), m.site) for m in plan.members)
        self.directory.commit(replace(plan, members=members))

    def _clock_error_s(self) -> float:
        return (2 * self.random.random() - 1) * self.scenario.clock_error_s

    def _is_reinstated(self) -> bool:
        return self.is_healed or self.random.random() < 0.3

    # What is forgiven around a death.

    def excuse(self) -> None:
        """A hub dies now: what is on its way may be in it, and so may what comes until all hubs are back."""
        now = self.sim.now
        if self.scenario.has_store:
            self._excused.append((now - 2.0, now + 2.5 * SESSION_S + 2.5))
            return
        self._excused.append((now, now + 2.5 + self.scenario.lag_s))
        received = [
            (track, {event[1:] for event in track.events if type(event) is Received})
            for track in self.history.tracks
        ]
        for (publisher, topic), messages in self.history.sent.items():
            for sequence, message in enumerate(messages):
                facts = (topic, publisher, sequence)
                if any(track.wants(topic) and facts not in seen for track, seen in received):
                    self._under_way.append(message)

    def forgive(self) -> None:
        """What was in a hub that died may be lost: the promise leaves it out."""
        late = [
            message
            for sent in self.history.sent.values()
            for message in sent
            if any(since <= message.began_at <= until for since, until in self._excused)
        ]
        for message in (*late, *self._under_way):
            if message.outcome is PublishOutcome.ACKNOWLEDGED:
                message.outcome = PublishOutcome.UNCERTAIN

    # Seen from outside.

    def counters(self) -> dict[str, int]:
        """Sums over the hubs that serve."""
        sums: Counter[str] = Counter()
        for node in self.hubs.values():
            if node.cluster is not None:
                sums.update(cluster_counters(node.cluster))
        return dict(sums)


@cache
def _settings(
    name: str,
    limits: tuple[tuple[str, int | float], ...],
    cluster: tuple[tuple[str, int | float | str], ...],
) -> HubSettings:
    """Settings are made once per process: making them takes longer than it should in a run of a tenth of a second."""
    return HubSettings(
        name=name,
        host="0.0.0.0",
        port=PORT,
        insecure=True,
        limits=Limits(**dict(limits)),  # type: ignore[arg-type]  # fields by name, some of them int
        cluster=ClusterSettings(**{**QUICK, **dict(cluster)}),  # type: ignore[arg-type]  # fields by name
        membership=membership_settings(SESSION_S),
    )
