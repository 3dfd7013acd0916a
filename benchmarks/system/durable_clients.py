"""Clients of durable topics on live hubs, and the tally of the topics' content at the end.

Plain writers append entries with XADD and never retry: an entry without a reply is uncertain. Smart publishers resend
unanswered messages. Plain readers use XREAD BLOCK; smart subscribers and durable subscribers, which acknowledge, follow
each topic. At the end XRANGE reads each topic through every hub, and `tally` compares the results.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import hiredis

import equipoise
from equipoise.client import Gap
from equipoise.errors import EquipoiseError
from equipoise.lab.simulation.checkers import CHECKERS
from equipoise.lab.workload import History, RunPhases
from equipoise.lab.workload.log_history import DurableDelivery, LogTrack, SubscriberTrack
from equipoise.resp.replies import spell

HOST = "127.0.0.1"
DURABLE = tuple(f"kept.{n}" for n in range(4))
# Logs of topics without a durable spec: XADD alone writes to them.
STREAMS = ("stream.0", "stream.1")
WRITERS = 3
PUBLISHERS = 2
BURST_MAX = 8
WRITE_EVERY_S = (0.01, 0.06)
# A hub answers within five seconds, if necessary with an error.
REPLY_S = 10.0
# Longer than the longest pause of a hub.
RECEIPT_S = 120.0
PAGE = 2_000
SETTINGS = equipoise.ClientSettings(
    coordinate_enabled=False, connect_timeout_s=1.0, reconnect_max_s=0.5, first_connect_timeout_s=90.0
)


class Connection:
    """Sends commands to one hub; after a lost connection it connects to the next hub."""

    def __init__(self, ports: tuple[int, ...]) -> None:
        self._ports = ports
        self._made = 0
        self._parser = hiredis.Reader()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, *commands: tuple[object, ...], patience_s: float = REPLY_S) -> list[Any]:
        """Returns the replies received; errors are values."""
        replies: list[Any] = []
        try:
            async with asyncio.timeout(patience_s):
                reader, writer = self._streams or await self._connect()
                words = [
                    [word if isinstance(word, bytes) else str(word).encode() for word in each]
                    for each in commands
                ]
                writer.write(b"".join(map(spell, words)))
                while len(replies) < len(commands):
                    reply = self._parser.gets()
                    if reply is not False:
                        replies.append(reply)
                        continue
                    data = await reader.read(1 << 20)
                    if not data:
                        raise ConnectionError("closed")
                    self._parser.feed(data)
        except (OSError, TimeoutError):
            self.close()
        return replies

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._parser = hiredis.Reader()
        port = self._ports[self._made % len(self._ports)]
        self._made += 1
        self._streams = await asyncio.open_connection(HOST, port, limit=1 << 20)
        return self._streams

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


class DurableClients:
    """All clients of all durable topics of one run. `run` returns after `stage.stop`."""

    def __init__(self, ports: tuple[int, ...], seed: int, stage: RunPhases) -> None:
        self._ports = ports
        self._seed = seed
        self._stage = stage
        self.tracks = {topic: LogTrack(topic) for topic in DURABLE + STREAMS}
        # Values whose append was rejected, and values without a reply or with the reply UNCERTAIN.
        self.refused: set[bytes] = set()
        self.uncertain: set[bytes] = set()
        self.refusals: Counter[str] = Counter()
        self._listening = 0

    @property
    def is_ready(self) -> bool:
        """Whether all subscribers are subscribed."""
        return self._listening == 2 * len(DURABLE)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(self._write(f"w{number}", number))
            for number in range(PUBLISHERS):
                group.create_task(self._publish(f"p{number}", number))
            for number, topic in enumerate(DURABLE + STREAMS):
                group.create_task(self._read(topic, number))
            for number, topic in enumerate(DURABLE):
                group.create_task(self._listen(topic, number))
                group.create_task(self._follow(topic, number))

    def _from(self, number: int) -> tuple[int, ...]:
        count = len(self._ports)
        return tuple(self._ports[(number + i) % count] for i in range(count))

    def _url(self, number: int) -> str:
        return "equipoise://" + ",".join(f"{HOST}:{port}" for port in self._from(number))

    # Publishers.

    async def _write(self, name: str, number: int) -> None:
        rng, connection, count = random.Random(f"{name} {self._seed}"), Connection(self._from(number)), 0
        await self._stage.begin.wait()
        while not self._stage.conclude.is_set():
            await asyncio.sleep(rng.uniform(*WRITE_EVERY_S))
            burst = range(count, count + rng.randint(1, BURST_MAX))
            count = burst.stop
            topics = [rng.choice(DURABLE + STREAMS) for _ in burst]
            commands = [
                ("XADD", topic, "*", "payload", f"{name}.{each}")
                for topic, each in zip(topics, burst, strict=True)
            ]
            replies = await connection.ask(*commands)
            for place, (topic, each) in enumerate(zip(topics, burst, strict=True)):
                self._note(topic, name, each, replies[place] if place < len(replies) else None)
        connection.close()

    def _note(self, topic: str, name: str, number: int, reply: object) -> None:
        value = f"{name}.{number}".encode()
        if isinstance(reply, bytes):
            self.tracks[topic].acked.append((name, number, reply))
        elif reply is None or str(reply).startswith("UNCERTAIN"):
            self.uncertain.add(value)
        else:
            self.refused.add(value)
            self.refusals[str(reply).split(" ")[0]] += 1

    async def _publish(self, name: str, number: int) -> None:
        rng, count = random.Random(f"{name} {self._seed}"), 0
        async with equipoise.connect(self._url(number), settings=SETTINGS, rng=rng) as bus:
            await self._stage.begin.wait()
            while not self._stage.conclude.is_set():
                await asyncio.sleep(rng.uniform(*WRITE_EVERY_S))
                burst = range(count, count + rng.randint(1, BURST_MAX))
                count = burst.stop
                await asyncio.gather(*(self._one(bus, name, each, rng.choice(DURABLE)) for each in burst))

    async def _one(self, bus: equipoise.Bus, name: str, number: int, topic: str) -> None:
        track = self.tracks[topic]
        try:
            receipt = await bus.publish(topic, f"{name}.{number}", timeout_s=RECEIPT_S)
        except EquipoiseError as error:
            track.doubts.append(f"{name}.{number}: {error}")
            self.uncertain.add(f"{name}.{number}".encode())
            return
        track.acked.append((name, number, (receipt.id or "").encode()))

    # Readers.

    async def _read(self, topic: str, number: int) -> None:
        connection, last = Connection(self._from(number)), b"0"
        _, got = self.tracks[topic].read.setdefault("XREAD", (b"0", []))
        while not self._stage.stop.is_set():
            words = ("XREAD", "COUNT", 500, "BLOCK", 1_000, "STREAMS", topic, last)
            reply = next(iter(await connection.ask(words)), None)
            if isinstance(reply, list):
                got += [(at, fields[1]) for at, fields in reply[0][1]]
                last = got[-1][0]
            else:
                await asyncio.sleep(0.1)
        connection.close()

    async def _listen(self, topic: str, number: int) -> None:
        heard = self.tracks[topic].heard.setdefault("smart", [[]])
        async with (
            equipoise.connect(self._url(number), settings=SETTINGS) as bus,
            bus.subscribe(topic) as subscription,
        ):
            self._listening += 1
            async for event in self._until_stopped(subscription):
                if isinstance(event, Gap):
                    # What follows is another unbroken part.
                    heard.append([])
                else:
                    heard[-1].append(event.payload)

    async def _follow(self, topic: str, number: int) -> None:
        story = SubscriberTrack("billing")
        self.tracks[topic].subscribers["billing"] = story
        while not self._stage.stop.is_set():
            life = len(story.born) + 1
            story.born["billing", life] = len(story.got)
            try:
                async with (
                    equipoise.connect(self._url(number + 1), settings=SETTINGS) as bus,
                    bus.subscribe(topic, durable="billing", start="beginning") as subscription,
                ):
                    self._listening += life == 1
                    async for event in self._until_stopped(subscription):
                        if isinstance(event, Gap):
                            story.gaps.append(event.missed)
                            continue
                        story.got.append(
                            DurableDelivery(
                                "billing", life, event.id.encode(), event.payload, event.deliveries
                            )
                        )
                        await subscription.ack(event, timeout_s=RECEIPT_S)
                        story.settle([event.id.encode()])
            except EquipoiseError as problem:
                story.troubles.append(repr(problem))
                await asyncio.sleep(0.2)

    async def _until_stopped(self, subscription: Any) -> Any:
        stopped = asyncio.ensure_future(self._stage.stop.wait())
        try:
            while True:
                event = asyncio.ensure_future(anext(subscription))
                await asyncio.wait([event, stopped], return_when=asyncio.FIRST_COMPLETED)
                if not event.done():
                    event.cancel()
                    await asyncio.wait([event])
                    return
                yield event.result()
        finally:
            stopped.cancel()

    # The end.

    async def read_back(self, patience_s: float) -> None:
        """Read every topic through every hub, then wait until the readers have got all of it."""
        for topic, track in self.tracks.items():
            seen = [await self._whole(topic, port, patience_s) for port in self._ports]
            track.final = seen[0]
            if any(each != seen[0] for each in seen):
                track.problems.append(f"hubs show {sorted({len(each) for each in seen})} entries")
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and not all(map(self._is_read, self.tracks.values())):  # noqa: ASYNC110
            await asyncio.sleep(0.2)

    async def _whole(self, topic: str, port: int, patience_s: float) -> list[tuple[bytes, bytes]]:
        connection, found, since = Connection((port,)), list[tuple[bytes, bytes]](), b"-"
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            reply = next(iter(await connection.ask(("XRANGE", topic, since, "+", "COUNT", PAGE))), None)
            if not isinstance(reply, list):
                await asyncio.sleep(0.2)
                continue
            found += [(at, fields[1]) for at, fields in reply]
            if len(reply) < PAGE:
                connection.close()
                return found
            since = b"(" + found[-1][0]
        raise SystemExit(f"the log of {topic} could not be read back in {patience_s:.0f} s")

    def _is_read(self, track: LogTrack) -> bool:
        values = {value for _, value in track.final}
        stories: list[set[bytes]] = [{value for _, value in got} for _, got in track.read.values()]
        stories += [story.values for story in track.subscribers.values()]
        # Who got a gap does not get all.
        stories += [set(parts[0]) for parts in track.heard.values() if len(parts) == 1]
        return all(values <= each for each in stories)

    def tally(self) -> dict[str, object]:
        """What is promised, as numbers that must be 0, and how much there was of everything."""
        tracks = list(self.tracks.values())
        history = History()
        history.logs = tracks
        broken = [str(each) for name in ("kept", "prefixes", "marks") for each in CHECKERS[name](history)]
        stored = {value for track in tracks for _, value in track.final}
        by = Counter(
            "by smart publishers" if name.startswith("p") else "by XADD"
            for track in tracks
            for name, _, _ in track.acked
        )
        return {
            "acknowledged": by.total(),
            **{f"acknowledged {who}": count for who, count in sorted(by.items())},
            "uncertain": len(self.uncertain),
            "uncertain and stored": len(self.uncertain & stored),
            "refused": dict(self.refusals),
            "smart publishers in doubt": sum(len(track.doubts) for track in tracks),
            "gaps of smart subscribers": sum(
                len(parts) - 1 for track in tracks for parts in track.heard.values()
            ),
            "acknowledged and lost": _count(tracks, _lost),
            "stored twice": _count(tracks, _twice),
            "out of order": _count(tracks, _disorder),
            "refused and stored": len(self.refused & stored),
            "broken promises of readers": len(broken),
            "first of them": broken[:5],
        }


ZEROS = (
    "acknowledged and lost",
    "stored twice",
    "out of order",
    "refused and stored",
    "broken promises of readers",
)


def _count(tracks: list[LogTrack], of: Callable[[LogTrack], int]) -> int:
    return sum(map(of, tracks))


def _lost(track: LogTrack) -> int:
    final = dict(track.final)
    return sum(final.get(at) != f"{name}.{number}".encode() for name, number, at in track.acked)


def _twice(track: LogTrack) -> int:
    values = Counter(value for _, value in track.final)
    return sum(count - 1 for count in values.values())


def _disorder(track: LogTrack) -> int:
    """Acknowledged entries that are behind a later one of the same client."""
    acked = {f"{name}.{number}".encode() for name, number, _ in track.acked}
    latest: dict[bytes, int] = {}
    wrong = 0
    for value in (value for _, value in track.final if value in acked):
        name, _, number = value.partition(b".")
        wrong += int(number) < latest.get(name, -1)
        latest[name] = max(latest.get(name, -1), int(number))
    return wrong
