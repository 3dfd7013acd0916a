"""Durable topics in a world of several hubs: their storage and their checks.

The metadata of logs is in the hubs' store, or in a store of its own in worlds without one. Entries are on three
bookies, which do not fail here; they fail in `durable-*` worlds. A real durable subscriber and a plain publisher per
topic run beside the clients of the scenario. At the end the log must contain each acknowledged message once, and the
durable subscriber must have received all entries.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import equipoise
from equipoise.client import DurableMessage
from equipoise.errors import EquipoiseError, StoreError
from equipoise.hub import Hub
from equipoise.hub.logs.live_log import LogStage
from equipoise.lab.simulation.durable.log_client import SMART_SETTINGS, LogClient
from equipoise.lab.simulation.durable.world import (
    CLIENT_SETTINGS,
    STORE,
    STORE_PORT,
    TREE,
    keep_bookie,
    open_store,
)
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.workload.history import History, PublishOutcome
from equipoise.lab.workload.log_history import LogTrack
from equipoise.lab.workload.payload import decode_payload, encode_json, encode_payload
from equipoise.ledger.quorum import Quorum
from equipoise.ledger_client.ledgers import BookieLedgers
from equipoise.log.entries import body_of, payload_of
from equipoise.model import Durability, TopicSpec
from equipoise.store import MemoryStoreServer, MemoryTree, RemoteMemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from equipoise.lab.scenarios import ClusterScenario
    from equipoise.lab.simulation.simulated_hub import SimulatedHub
    from equipoise.lab.simulation.world import Simulation

__all__ = ["SimulatedDurableTopics"]

QUORUM = (3, 3, 2)
# The users of durable subscribers and plain publishers, in worlds with users.
USER, PUBLISHER = "dora", "pip"
RETRY_S, PAUSE_S = 0.1, 0.1


class SimulatedDurableTopics:
    """The durable topics of one run."""

    def __init__(self, sim: Simulation, scenario: ClusterScenario, history: History) -> None:
        # Filter subscribers need messages with attributes.
        is_json = any(each.is_json for client in scenario.workload.clients for each in client.publishes)
        self._encode = encode_json if is_json else encode_payload
        self._sim = sim
        self._topics = topics = scenario.durable
        self._history = history
        self._login = f"{USER}:{USER}@" if scenario.access is not None else ""
        # Whether plain publishers stop.
        self.is_over = False
        # By topic, the payloads that its durable subscriber has received.
        self._received: dict[str, set[bytes]] = {topic: set() for topic in topics}

    def specs(self) -> list[TopicSpec]:
        return [TopicSpec(pattern=topic.encode(), durability=Durability(*QUORUM)) for topic in self._topics]

    def start(self, *, has_store: bool) -> None:
        """Start the bookies, and a store for the metadata of logs unless the hubs have one."""
        if not has_store:
            tree = MemoryTree(self._sim.loop.time)
            self._sim.host(STORE).spawn(MemoryStoreServer(tree, host="0.0.0.0", port=STORE_PORT).start())
        for number in range(1, QUORUM[0] + 1):
            host = self._sim.host(f"b{number}")
            host.disk.sync_s_min, host.disk.sync_s_max = 0.0005, 0.008
            host.spawn(keep_bookie(host.name, host, {}, lambda fault: None), name=host.name)

    async def prepare(self, host: Host) -> Callable[[Hub], None]:
        """Open a store session and ledgers on the host; the returned function gives a hub its logs."""
        store = await open_store()
        ledgers = await _open_ledgers(store, host)
        return lambda hub: hub.use_logs(store, TREE, ledgers, lambda: Quorum(*QUORUM))

    async def equip(self, hub: Hub, store: RemoteMemoryStore, host: Host) -> None:
        """Give logs to a hub that has a session with the region's store."""
        ledgers = await _open_ledgers(store, host)
        hub.use_logs(store, TREE, ledgers, lambda: Quorum(*QUORUM))

    def begin(self, hubs: list[str]) -> None:
        """Start the durable subscribers and the plain publishers."""
        for topic in self._topics:
            host = self._sim.host(f"durable-{topic}")
            host.spawn(self._subscribe(topic, hubs, host.random), name=host.name)
            host = self._sim.host(f"plain-{topic}")
            host.spawn(self._publish(topic, hubs, host.random), name=host.name)

    async def _publish(self, topic: str, hubs: list[str], rng: random.Random) -> None:
        """Publish with plain commands at any hub. After a failure hubs see a new publisher."""
        history, connection, lives = self._history, LogClient(lambda: rng.choice(hubs)), 0
        login = [("AUTH", PUBLISHER, PUBLISHER)] if self._login else []
        if self._login:
            history.users[PUBLISHER] = PUBLISHER
        while not self.is_over:
            await asyncio.sleep(rng.random() * PAUSE_S)
            sequence = history.next_sequence(PUBLISHER, topic)
            payload = self._encode(PUBLISHER, sequence, 32)
            words = ("PUBLISH", topic) if rng.random() < 0.5 else ("XADD", topic, "*", "payload")
            sent = history.begin(PUBLISHER, topic, self._sim.now, lives)
            replies = await connection.ask(*login, (*words, payload))
            if len(replies) > len(login) and isinstance(replies[-1], int | bytes):
                sent.outcome, sent.answered_at = PublishOutcome.ACKNOWLEDGED, self._sim.now
            else:
                connection.close()
                lives += 1
        connection.close()

    async def _subscribe(self, topic: str, hubs: list[str], rng: random.Random) -> None:
        while True:
            url = f"equipoise://{self._login}" + ",".join(f"{hub}:{PORT}" for hub in rng.sample(hubs, 2))
            try:
                async with (
                    equipoise.connect(url, settings=SMART_SETTINGS, rng=random.Random(rng.random())) as bus,
                    bus.subscribe(topic, durable=USER, start="beginning") as subscription,
                ):
                    async for event in subscription:
                        if isinstance(event, DurableMessage):
                            self._received[topic].add(event.payload)
                            await subscription.ack(event)
            except EquipoiseError:
                await asyncio.sleep(RETRY_S)

    # The end.

    async def conclude(self, hubs: Mapping[str, SimulatedHub], patience_s: float) -> None:
        """Compare the logs with the acknowledged messages, and the durable subscribers with the logs."""
        for topic in self._topics:
            track = LogTrack(topic)
            self._history.logs.append(track)
            # A new owner may still be reading the log.
            await self._sim.until(lambda name=topic: self._entries(name, hubs) is not None, patience_s)  # type: ignore[misc]  # bound now
            entries = self._entries(topic, hubs)
            if entries is None:
                track.problems.append("no hub has the log open after healing")
                continue
            sent = Counter(decode_payload(payload)[:2] for payload in entries)
            twice = [name for name, count in sent.items() if count > 1]
            if twice:
                track.problems.append(f"{twice[0]} is in the log twice")
            for (publisher, name), messages in self._history.sent.items():
                acked = [i for i, one in enumerate(messages) if one.outcome is PublishOutcome.ACKNOWLEDGED]
                lost = [i for i in acked if name == topic and (publisher, i) not in sent]
                if lost:
                    track.problems.append(f"{publisher}.{lost[0]} was acknowledged but is not in the log")
            seen = self._received[topic]
            if not await self._sim.until(lambda seen=seen, all=set(entries): all <= seen, patience_s):  # type: ignore[misc]  # bound now
                missing = len(set(entries) - seen)
                track.problems.append(f"the durable subscriber misses {missing} of {len(entries)} entries")
            self._sim.host(f"durable-{topic}").crash()

    @staticmethod
    def _entries(topic: str, hubs: Mapping[str, SimulatedHub]) -> list[bytes] | None:
        """The entries of the log at its owner, the hub with the latest epoch; None while a hub opens the log."""
        cores = [node.hub.core for node in hubs.values() if node.hub is not None]
        found = [core.logs.by_name.get(topic.encode()) for core in cores if core.logs is not None]
        live = max((log for log in found if log is not None), key=lambda log: log.epoch, default=None)
        if live is None or any(log is not None and log.stage is LogStage.OPENING for log in found):
            return None
        return [payload_of(body_of(piece)) for _, piece in live.log.entries.behind(0)]


async def _open_ledgers(store: RemoteMemoryStore, host: Host) -> BookieLedgers:
    ledgers = BookieLedgers(store, TREE, host.random, settings=CLIENT_SETTINGS)
    while True:
        try:
            await ledgers.start()
            return ledgers
        except StoreError:
            await asyncio.sleep(RETRY_S)
