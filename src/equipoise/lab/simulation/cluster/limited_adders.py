"""XADDs to rate-limited topics in a world of several hubs: the clients, and the record of what hubs add.

An entry counts against the envelope of its topic when a hub adds it to the log. The run records that where logs add
entries and not where hubs take tokens, so that the checker also detects a path around the limit. At the end each log
must contain each acknowledged entry once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from equipoise.hub.core import HubCore
from equipoise.hub.logs.live_log import LiveLog, LogStage
from equipoise.lab.simulation.ablation import replaced
from equipoise.lab.simulation.durable.log_client import LogClient
from equipoise.lab.workload.log_history import LogTrack
from equipoise.log.entries import body_of, payload_of
from equipoise.log.ids import spell_id
from equipoise.log.records import EntryAdded, LogRecord
from equipoise.log.topic_log import TopicLog

if TYPE_CHECKING:
    from equipoise.lab.simulation.simulated_hub import SimulatedHub
    from equipoise.lab.simulation.world import Simulation
    from equipoise.lab.workload.history import History

__all__ = ["LimitedAdders", "watched_adds"]

# Clients for each topic.
ADDERS = 3
PAUSE_S = 0.15
BURST_MAX = 4

# Notes entries that a hub has added to the log of a limited topic.
Note = Callable[[HubCore, bytes, int], None]


class LimitedAdders:
    """Some clients for each topic, which add entries at any hub."""

    def __init__(self, sim: Simulation, topics: tuple[str, ...], history: History) -> None:
        self._sim = sim
        self._tracks = {topic: LogTrack(topic) for topic in topics}
        history.logs += self._tracks.values()
        self.is_over = False

    def begin(self, hubs: list[str]) -> None:
        for topic in self._tracks:
            for number in range(ADDERS):
                host = self._sim.host(f"adder{number}-{topic}")
                host.spawn(self._add(f"adder{number}", topic, hubs, host.random), name=host.name)

    async def _add(self, name: str, topic: str, hubs: list[str], rng: random.Random) -> None:
        """Add entries, several in a pipeline, each once. Hubs reject some of them."""
        connection, number, acked = LogClient(lambda: rng.choice(hubs)), 0, self._tracks[topic].acked
        while not self.is_over:
            await asyncio.sleep(rng.random() * PAUSE_S)
            burst = range(number, number + rng.randint(1, BURST_MAX))
            number = burst.stop
            words = [("XADD", topic, "*", "payload", f"{name}.{each}") for each in burst]
            replies = await connection.ask(*words)
            acked += [
                (name, each, reply)
                for each, reply in zip(burst, replies, strict=False)
                if isinstance(reply, bytes)
            ]
            if len(replies) < len(burst) or rng.random() < 0.1:
                # Another hub from now on.
                connection.close()
        connection.close()

    async def conclude(self, hubs: Mapping[str, SimulatedHub], patience_s: float) -> None:
        """Note the entries of each log that has acknowledged any, at its owner."""
        for topic, track in self._tracks.items():
            if not track.acked:
                continue
            connection = LogClient(lambda: min(hubs))

            def log(topic: str = topic) -> LiveLog | None:
                return _log_of(topic, hubs)

            # A log is opened by the first command after a crash of its owner.
            asking = self._sim.host(f"adder0-{topic}").spawn(_ask_until(connection, topic, log))
            await self._sim.until(lambda log=log: log() is not None, patience_s)  # type: ignore[misc]  # bound now
            asking.cancel()
            found = log()
            if found is None:
                track.problems.append("no hub has the log open after healing")
            else:
                track.final = [
                    (spell_id(at), payload_of(body_of(piece))) for at, piece in found.log.entries.range()
                ]


async def _ask_until(connection: LogClient, topic: str, log: Callable[[], LiveLog | None]) -> None:
    while log() is None:
        await connection.ask(("XLEN", topic))
        await asyncio.sleep(0.2)
    connection.close()


def _log_of(topic: str, hubs: Mapping[str, SimulatedHub]) -> LiveLog | None:
    """The open log at its owner, the hub with the latest epoch; None: there is none, or a hub opens the log."""
    cores = [node.hub.core for node in hubs.values() if node.hub is not None]
    found = [core.logs.by_name.get(topic.encode()) for core in cores if core.logs is not None]
    logs = [log for log in found if log is not None]
    if not logs or any(log.stage is LogStage.OPENING for log in logs):
        return None
    return max(logs, key=lambda log: log.epoch)


@contextmanager
def watched_adds(topics: tuple[str, ...], hubs: Mapping[str, SimulatedHub], note: Note) -> Iterator[None]:
    """Call `note` when a hub adds entries to the logs of these topics."""
    names = [topic.encode() for topic in topics]
    change, change_all = TopicLog.change, TopicLog.change_all

    def added(log: TopicLog, count: int) -> None:
        for node in hubs.values():
            logs = None if node.hub is None else node.hub.core.logs
            for name in names:
                live = None if logs is None else logs.by_name.get(name)
                if live is not None and live.log is log and node.hub is not None:
                    note(node.hub.core, name, count)

    def watched_change(log: TopicLog, record: LogRecord) -> None:
        if isinstance(record, EntryAdded):
            added(log, 1)
        change(log, record)

    def watched_change_all(log: TopicLog, ms: int, seq: int, bodies: list[bytes]) -> list[bytes]:
        added(log, len(bodies))
        return change_all(log, ms, seq, bodies)

    if not names:
        yield
        return
    with (
        replaced(TopicLog, "change", watched_change),
        replaced(TopicLog, "change_all", watched_change_all),
    ):
        yield
