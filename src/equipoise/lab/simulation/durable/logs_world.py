"""Hubs that own logs, on bookies and a store, under clients that append and read through any hub.

All components are real except network, disks and time. Clients append entries, one or several in a pipeline, each
once; some read from the beginning, some wait for the next entry, each at a random hub. After healing every hub must
answer and return the same log.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from equipoise.errors import StoreError
from equipoise.hub import Hub, HubSettings
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.lab.scenarios.durable import LogScenario
from equipoise.lab.simulation.cluster.old_release import without_logs
from equipoise.lab.simulation.cluster.region import TREE, Region, membership_settings
from equipoise.lab.simulation.durable.live_subscribers import LiveSubscribers
from equipoise.lab.simulation.durable.log_client import LogClient
from equipoise.lab.simulation.durable.log_faults import SESSION_S, LogFaults
from equipoise.lab.simulation.durable.publishers import NumberedPublishers
from equipoise.lab.simulation.durable.sites import LastSite, site_of
from equipoise.lab.simulation.durable.subscribers import DEAD_LETTER, Subscribers, is_poison
from equipoise.lab.simulation.durable.unled import Spreading
from equipoise.lab.simulation.durable.world import CLIENT_SETTINGS, keep_bookie
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.simulation.world import Simulation
from equipoise.lab.workload.history import History
from equipoise.lab.workload.log_history import LogTrack
from equipoise.ledger.quorum import Quorum
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.model import Durability, Entry, Member, Retention, TopicSpec
from equipoise.store import RemoteMemoryStore, StoreSettings
from equipoise.store.records.topic_logs import TopicLogsStore

__all__ = ["LogsWorld"]

SESSIONS = StoreSettings(session_timeout_s=SESSION_S, request_timeout_s=SESSION_S)
HEALING_S = 60.0
PAUSE_S = 0.05


class _LogRegion(Region):
    """Hubs with bookies."""

    def __init__(self, sim: Simulation, scenario: LogScenario) -> None:
        super().__init__(sim, sessions=SESSIONS)
        self.is_one_machine = scenario.is_one_machine
        self._quorum = Quorum(*scenario.quorum)
        self._roll_bytes = scenario.roll_bytes
        self._scenario = scenario
        # The name of a full hub; empty: none.
        self.busy = ""

    def load_of(self, hub: Hub) -> float:
        if not self._scenario.is_unled or hub.core.logs is None:
            return 0.0
        return 1.0 if hub.settings.name == self.busy else len(hub.core.logs.by_name) / self._scenario.topics

    async def equip(self, hub: Hub, store: RemoteMemoryStore, host: Host) -> None:
        if hub.settings.name.startswith("o"):
            return
        site = hub.settings.membership.site
        ledgers = BookieLedgers(store, TREE, host.random, site=site, settings=CLIENT_SETTINGS)
        while True:
            try:
                await ledgers.start()
                break
            except StoreError:
                await asyncio.sleep(0.1)
        hub.use_logs(store, TREE, ledgers, lambda: self._quorum)
        if self._roll_bytes and hub.core.logs is not None:
            hub.core.logs.roll_bytes = self._roll_bytes


class LogsWorld:
    """The components of one run."""

    def __init__(self, sim: Simulation, scenario: LogScenario, history: History) -> None:
        self.sim = sim
        self.scenario = scenario
        self.history = history
        self.random = sim.random
        self.region = _LogRegion(sim, scenario)
        self.names = [f"h{number}" for number in range(1, scenario.hubs + 1)]
        self.busy = self.region.busy = self.random.choice(self.names[1:]) if scenario.is_unled else ""
        self.old_names = [f"o{number}" for number in range(1, scenario.old_hubs + 1)]
        self.bookies = {f"b{number}": sim.host(f"b{number}") for number in range(1, scenario.bookies + 1)}
        self.tracks = [LogTrack(f"t{number}") for number in range(1, scenario.topics + 1)]
        history.logs = self.tracks
        self._fired: Counter[str] = Counter()
        self._judged: Counter[str] = Counter()
        self._refused: dict[str, str] = {}
        self._is_over = False
        self._booted: set[str] = set()
        self.subscribers = Subscribers(self, self.tracks[0])
        self.publishers = NumberedPublishers(self, self.tracks[0])
        # Hubs with a current fault.
        self.down: set[str] = set()

    def fired(self) -> Counter[str]:
        return Counter(self._fired)

    def count(self, fault: str) -> None:
        self._fired[fault] += 1

    @property
    def _has_smart(self) -> bool:
        """Whether a smart subscriber runs: not with trimming of consumed entries, of which it may miss some."""
        return self.scenario.is_durable and not self.scenario.is_consumed

    def _site(self, name: str) -> str:
        return site_of(name, self.scenario.sites)

    # The programs.

    def boot(self, name: str) -> None:
        """Start the bookie, unless it is running."""
        host = self.bookies[name]
        if host.is_up and name in self._booted:
            return
        if not host.is_up:
            host.restart()
        self._booted.add(name)
        host.disk.sync_s_min, host.disk.sync_s_max = 0.0005, 0.008
        host.spawn(keep_bookie(name, host, self._refused, self.count, self._site(name)), name=name)

    def serve_store(self) -> None:
        """Start the store, unless it is running."""
        if not self.region.host.is_up:
            self.region.serve()

    async def _client(self, name: str) -> None:
        connection, number = LogClient(self._any_hub), 0
        while not self._is_over:
            await asyncio.sleep(self.random.random() * PAUSE_S)
            track = self.random.choice(self.tracks)
            count = self.random.choice((1, 1, 3))
            values = [f"{name}.{number + i}" for i in range(count)]
            if self.scenario.is_durable and track is self.tracks[0] and self.random.random() < 0.5:
                # Published messages of a durable topic are also in its log.
                commands: list[tuple[object, ...]] = [("PUBLISH", track.topic, value) for value in values]
            else:
                commands = [("XADD", track.topic, "*", "payload", value) for value in values]
            replies = await connection.ask(*commands)
            for i, reply in enumerate(replies):
                if isinstance(reply, bytes | int):
                    track.acked.append((name, number + i, b"" if isinstance(reply, int) else reply))
            track.uncertain += count - sum(isinstance(reply, bytes | int) for reply in replies)
            number += count
            if self.random.random() < 0.15:
                before = len(track.acked)
                shown = await connection.ask(("XRANGE", track.topic, "-", "+"))
                if shown and isinstance(shown[0], list):
                    track.shown.append((before, [fields[1] for _, fields in shown[0]]))
            if self.random.random() < 0.1:
                connection.close()
        connection.close()

    async def _reader(self, name: str, track: LogTrack) -> None:
        """Read the log at any hub with blocking reads."""
        connection = LogClient(self._any_hub)
        last = b"0-0"
        got: list[tuple[bytes, bytes]] = []
        track.read[name] = (last, got)
        is_shared = False
        while not self._is_over:
            # Alternately a read of its own, and a read that the hub shares with others behind the same id.
            is_shared = not is_shared
            streams = (track.topic, last) if is_shared else (track.topic, "none", last, "$")
            replies = await connection.ask(("XREAD", "BLOCK", 700, "STREAMS", *streams))
            if replies and isinstance(replies[0], list):
                for key, entries in replies[0]:
                    if key == track.topic.encode():
                        got += [(at, fields[1]) for at, fields in entries]
                        last = got[-1][0]
            elif not replies or replies[0] is not None:
                connection.close()
                await asyncio.sleep(PAUSE_S)
        connection.close()

    async def trim(self, track: LogTrack, at: bytes) -> None:
        """Remove all entries before this id."""
        connection = LogClient(self._any_hub)
        replies = await connection.ask(("XTRIM", track.topic, "MINID", at))
        track.trimmed.append((at, bool(replies) and isinstance(replies[0], int)))
        connection.close()

    async def _look(self, hub: str) -> None:
        """Read the last entries at one hub repeatedly."""
        connection = LogClient(lambda: hub)
        while not self._is_over:
            await asyncio.sleep(self.random.random() * PAUSE_S)
            track = self.random.choice(self.tracks)
            before = len(track.acked)
            replies = await connection.ask(("XREVRANGE", track.topic, "+", "-", "COUNT", 1))
            if replies and isinstance(replies[0], list):
                track.looks.append((before, replies[0][0][0] if replies[0] else b"0-0"))
        connection.close()

    async def _observe(self, track: LogTrack) -> None:
        """Record the owners of the log with a local store session. A check every 5 ms reads only after a change."""
        records = TopicLogsStore(await self.region.beside(), TREE)
        path, last = TREE.topic(track.topic.encode()), None
        while True:
            found = self.region.tree.find(path)
            if found != last:
                last = found
                node = (await records.load(track.topic.encode())).node
                seen = node.owner, node.incarnation, node.epoch
                if node.epoch and (not track.owners or track.owners[-1] != seen):
                    track.owners.append(seen)
                track.epochs = [part.epoch for part in node.ledgers]
            await asyncio.sleep(0.005)

    def _any_hub(self) -> str:
        return self.random.choice(self.names)

    # The run.

    async def begin(self) -> list[asyncio.Task[None]]:
        """Start all programs except the clients. Returns the observer tasks, which the caller cancels at the end."""
        sim, region = self.sim, self.region
        await region.begin()
        if self.scenario.is_durable:
            durable = Durability(*self.scenario.quorum)
            retention = Retention(until_consumed=True) if self.scenario.is_consumed else None
            self.tracks[0].is_consumed = self.scenario.is_consumed
            pattern = self.tracks[0].topic.encode()
            await region.put_specs([TopicSpec(pattern=pattern, durability=durable, retention=retention)])
        for name in self.bookies:
            self.boot(name)
        for name in [*self.names, *self.old_names]:
            region.add(_settings(name, self._site(name))).start()
        watching = [asyncio.create_task(work) for work in region.work()]
        watching += [asyncio.create_task(self._observe(track)) for track in self.tracks]
        await sim.until(lambda: len(region.alive) == len(region.hubs), 30.0)
        members = tuple(Member(name) for name in region.hubs)
        at_first = [track.topic.encode() for track in self.tracks] if self.scenario.is_unled else []
        entries = {topic: Entry(topic, (self.names[0],)) for topic in at_first}
        region.commit(replace(region.plan, members=members, entries=entries))
        await sim.until(region.is_settled, 30.0)
        return watching

    async def play(self) -> None:
        with without_logs(self.old_names):
            await self._play()

    async def _play(self) -> None:
        sim = self.sim
        watching = await self.begin()
        if self.scenario.is_consumed:
            # Before the first entry, so that no entry is trimmed before all subscribers are registered.
            await sim.host("judge").spawn(self.subscribers.register(), name="register")
        live = LiveSubscribers(sim, self.names, self.tracks[0], lambda: self._is_over)
        clients = [f"c{number}" for number in range(1, self.scenario.clients + 1)]
        work = [sim.host(name).spawn(self._client(name), name=name) for name in clients]
        for number, track in enumerate(self.tracks):
            work.append(sim.host(f"r{number}").spawn(self._reader(f"r{number}", track)))
        for hub in self.names:
            work.append(sim.host(f"look-{hub}").spawn(self._look(hub)))
            if self.scenario.is_durable:
                work.append(live.start(hub))
        if self._has_smart:
            live.start_smart("smart")
        self.subscribers.start()
        work += self.publishers.start(lambda: self._is_over)
        await LogFaults(self).play()
        await self._heal()
        self._is_over = True
        await asyncio.wait(work)
        if self.scenario.is_unled:
            await self._as_judge(Spreading(self).check())
        await self._finish_at_one_site() if self.scenario.sites > 1 else await self._finish()
        if self._has_smart:
            await self._finish_smart(self.tracks[0])
        if self.scenario.subscribers:
            await self._finish_subscribers(self.tracks[0])
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)

    async def _heal(self) -> None:
        region = self.region
        for name in [*self.names, *self.bookies]:
            self.sim.rejoin(name)
        self.serve_store()
        for name in self.bookies:
            self.boot(name)
        for node in region.hubs.values():
            if not node.host.is_up or node.name in self.down:
                node.start()
        self.down.clear()
        await self.sim.until(region.is_settled, HEALING_S)

    async def _finish(self) -> None:
        """Check that every hub accepts an entry and returns the same log."""
        host = self.sim.host("judge")
        await asyncio.wait([host.spawn(self._judge(track), name=track.topic) for track in self.tracks])

    async def _as_judge(self, work: Coroutine[Any, Any, None]) -> None:
        await asyncio.wait([self.sim.host("judge").spawn(work, name="judge")])

    def judged(self, track: LogTrack) -> int:
        """The number of the next entry of the judge."""
        self._judged[track.topic] += 1
        return self._judged[track.topic] - 1

    async def _finish_at_one_site(self) -> None:
        last = LastSite(self)
        await last.move()
        await self._finish()
        await last.gather()
        await self._finish()

    async def _finish_smart(self, track: LogTrack) -> None:
        """Check that the smart subscriber receives the last entry of the log."""
        (heard,), last = track.heard["smart"], track.final[-1:]
        if not await self.sim.until(lambda: [value for _, value in last] == heard[-1:], HEALING_S):
            track.problems.append(
                f"the smart subscriber ends with {heard[-1:]} after healing, not with {last}"
            )
        self.sim.host("smart").crash()

    async def _finish_subscribers(self, track: LogTrack) -> None:
        """Wait until each entry of the log is delivered or is in the dead-letter topic."""
        if self.scenario.is_retried:
            track.poison = {value for _, value in track.final if is_poison(value)}
        collecting = self.sim.host("judge").spawn(self._collect_dead(track), name="dead")
        await self.subscribers.drain(HEALING_S)
        collecting.cancel()
        await asyncio.wait([collecting])

    async def _collect_dead(self, track: LogTrack) -> None:
        connection = LogClient(self._any_hub)
        try:
            while True:
                shown = await connection.ask(("XRANGE", DEAD_LETTER, "-", "+"))
                if shown and isinstance(shown[0], list):
                    rows = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in shown[0]]
                    track.dead = [(row[b"payload"], row[b"dead-letter-reason"]) for row in rows]
                await asyncio.sleep(0.2)
        finally:
            connection.close()

    async def _judge(self, track: LogTrack) -> None:
        for hub in self.names:
            connection = LogClient(partial(str, hub))
            replies: list[Any] = []
            deadline = self.sim.now + HEALING_S
            # An uncertain append is not retried: each attempt appends a new entry.
            while self.sim.now < deadline and not (replies and isinstance(replies[0], bytes)):
                number = self.judged(track)
                replies = await connection.ask(("XADD", track.topic, "*", "payload", f"judge.{number}"))
                if replies and isinstance(replies[0], bytes):
                    track.acked.append(("judge", number, replies[0]))
                else:
                    await asyncio.sleep(0.2)
            shown = await connection.ask(("XRANGE", track.topic, "-", "+"))
            # A hub whose session expired in the last cut detects it now, and closes the connection.
            while self.sim.now < deadline and not (shown and isinstance(shown[0], list)):
                await asyncio.sleep(0.2)
                shown = await connection.ask(("XRANGE", track.topic, "-", "+"))
            if not replies or not shown or not isinstance(shown[0], list):
                track.problems.append(f"hub {hub} does not serve after healing: {replies} {shown}"[:300])
            else:
                track.final = [(at, fields[1]) for at, fields in shown[0]]
                track.shown.append((0, [value for _, value in track.final]))
            connection.close()


def _settings(name: str, site: str) -> HubSettings:
    return HubSettings(
        name=name,
        host="0.0.0.0",
        port=PORT,
        insecure=True,
        cluster=ClusterSettings(unsubscribe_delay_s=1.0),
        membership=msgspec.structs.replace(membership_settings(SESSION_S), site=site, giving_interval_s=1.0),
    )
