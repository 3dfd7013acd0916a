"""Hubs that take over a topic's log from each other as often as possible, under clients that append and read.

The worst that can happen to ownership: no hub ever counts another as alive, so each claims the topic whenever a client
asks it, and the former owner goes on until its ledger is fenced. Store and ledgers answer after a while of their own,
hubs crash and come back, and of appends without an acknowledgement a recovery finds any number.

What must hold all the same rests on the ledger and on compare-and-set alone:

    kept        an entry whose XADD was answered with its id is in the log at the end, once, in the order of the answers
    prefixes    what a read showed is the beginning of the log at the end
    epochs      the entries of the log come from ledgers whose epochs rise
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from equipoise.hub.data.reply import Reply
from equipoise.hub.logs.hub_logs import HubLogs
from equipoise.hub.shell.log_opener import LogOpener
from equipoise.lab.simulation.world import Simulation
from equipoise.ledger.log import READ_BYTES_MAX, OpenLedger
from equipoise.ledger.memory import MemoryLedgers
from equipoise.ledger.metadata import LedgerMetadata
from equipoise.ledger.quorum import Quorum
from equipoise.log.call import LogCall
from equipoise.log.commands import LOG_COMMANDS
from equipoise.store.backends.memory import MemoryStore
from equipoise.store.backends.memory_tree import MemoryTree
from equipoise.store.records.topic_logs import TopicLogsStore
from equipoise.store.tree import Tree

TOPIC = b"t"
HUBS = 3
APPENDS = 40
PAUSE_S = 0.02
SETTLE_S = 20.0


@dataclass
class LogHistory:
    """What clients were answered, in the order of the answers."""

    # (client, number of its entry, id) of each XADD that was acknowledged.
    acked: list[tuple[int, int, bytes]] = field(default_factory=list)
    # The entries that each XRANGE showed.
    shown: list[list[bytes]] = field(default_factory=list)
    uncertain: int = 0
    claims: int = 0
    final: list[tuple[bytes, bytes]] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)


class SlowLedgers:
    """Ledgers that take their time, before and after."""

    def __init__(self, ledgers: MemoryLedgers, rng: Random) -> None:
        self._ledgers = ledgers
        self._rng = rng

    async def create(self, topic: bytes, epoch: int, quorum: Quorum) -> OpenLedger:
        await self._pause()
        made = await self._ledgers.create(topic, epoch, quorum)
        await self._pause()
        return made

    async def recover(self, ledger: int) -> int:
        await self._pause()
        last = await self._ledgers.recover(ledger)
        await self._pause()
        return last

    async def confirmed(self, ledger: int) -> int:
        await self._pause()
        return await self._ledgers.confirmed(ledger)

    async def read(
        self, ledger: int, first: int, last: int, *, bytes_max: int = READ_BYTES_MAX
    ) -> list[bytes]:
        await self._pause()
        return await self._ledgers.read(ledger, first, last, bytes_max=bytes_max)

    async def metadata(self, ledger: int) -> LedgerMetadata:
        return await self._ledgers.metadata(ledger)

    async def delete(self, ledger: int) -> None:
        await self._pause()
        await self._ledgers.delete(ledger)

    def relocate(self, ledgers: Sequence[int], is_wanted: Callable[[], bool]) -> None:
        self._ledgers.relocate(ledgers, is_wanted)

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.random() * PAUSE_S)


class InOrder:
    """Runs calls later and in order."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._due = 0.0

    def __call__(self, call: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._due = max(self._due, loop.time() + self._rng.random() * PAUSE_S)
        loop.call_at(self._due, call)


class LoopTime:
    """The shell that logs need of a hub."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = self.fine_now = loop.time
        self.call_later = loop.call_later

    def wall_time(self) -> float:
        return 1_700_000_000 + self.now()


async def _never_alive(hub: str, incarnation: int) -> bool:
    return False


class OwnerHub:
    """One incarnation of a hub: its logs and what opens them."""

    def __init__(self, world: OwnersWorld, name: str, incarnation: int) -> None:
        epochs = iter(range(10_000))
        self._opener = LogOpener(
            world.store,
            Tree(),
            world.ledgers,
            hub=name,
            new_epoch=lambda: next(epochs),
            incarnation=lambda: incarnation,
            is_alive=_never_alive,
            quorum_of=lambda topic: Quorum(1, 1, 1),
        )
        self.logs = HubLogs(
            LoopTime(asyncio.get_running_loop()),  # type: ignore[arg-type]  # what logs use of a shell
            self._opener.open,
            may_ack=lambda: True,
            committed=lambda log, records: None,
            roll_log=self._opener.roll,
            roll_bytes=world.roll_bytes,
        )

    async def crash(self) -> None:
        self.logs.close()
        await self._opener.stop()


class OwnersWorld:
    def __init__(self, seed: int) -> None:
        self.rng = Random(f"owners {seed}")
        self.history = LogHistory()
        self.ledgers: SlowLedgers
        self.store: MemoryStore
        self.hubs: list[OwnerHub] = []
        self._lives = 0
        # In some worlds ledgers are rolled after every few entries.
        self.roll_bytes = self.rng.choice((50, 200, 1_000_000))

    async def play(self) -> None:
        loop, rng = asyncio.get_running_loop(), self.rng
        self.ledgers = SlowLedgers(
            MemoryLedgers(InOrder(rng), keep=lambda unacknowledged: rng.randint(0, unacknowledged)), rng
        )
        self.store = await MemoryStore(MemoryTree(loop.time)).open()
        self.hubs = [self._start(f"h{number}") for number in range(HUBS)]
        clients = [asyncio.create_task(self._append(client)) for client in range(HUBS)]
        crashing = asyncio.create_task(self._crash())
        await asyncio.gather(*clients)
        crashing.cancel()
        await asyncio.gather(crashing, return_exceptions=True)
        await self._finish()
        await self.store.close()

    def _start(self, name: str) -> OwnerHub:
        self._lives += 1
        return OwnerHub(self, name, self._lives)

    async def _crash(self) -> None:
        while True:
            await asyncio.sleep(self.rng.uniform(0.1, 0.6))
            number = self.rng.randrange(HUBS)
            await self.hubs[number].crash()
            self.hubs[number] = self._start(f"h{number}")

    async def _append(self, client: int) -> None:
        """Append entries, each once, at any hub, and read between."""
        rng = self.rng
        for number in range(APPENDS):
            await asyncio.sleep(rng.random() * PAUSE_S)
            reply = await self._ask(rng.choice(self.hubs), "XADD", "t", "*", "n", f"{client}.{number}")
            if reply[:1] == b"$":
                self.history.acked.append((client, number, reply.split(b"\r\n")[1]))
            else:
                self.history.uncertain += 1
            if rng.random() < 0.3:
                shown = await self._ask(rng.choice(self.hubs), "XRANGE", "t", "-", "+")
                if shown[:1] == b"*":
                    self.history.shown.append(_values(shown))

    async def _ask(self, hub: OwnerHub, *words: str) -> bytes:
        """One command; empty if it has no answer in time, as when the hub has crashed."""
        call = LogCall([word.encode() for word in words], hub.logs.now_ms())
        run = LOG_COMMANDS[words[0].lower()]
        outcome = hub.logs.of(TOPIC).submit(lambda log: run(log, call))
        if isinstance(outcome, bytes):
            return outcome
        return await answered(outcome)

    async def _finish(self) -> None:
        """One hub alone: what it finds is what there is."""
        for hub in self.hubs:
            await hub.crash()
        last = self._start("last")
        reply = await self._ask(last, "XRANGE", "t", "-", "+")
        assert reply[:1] == b"*", f"the log cannot be opened in the end: {reply!r}"
        self.history.final = list(zip(_ids(reply), _values(reply), strict=True))
        node = (await TopicLogsStore(self.store, Tree()).load(TOPIC)).node
        self.history.epochs = [part.epoch for part in node.ledgers]
        self.history.claims = node.epoch
        await last.crash()


async def answered(reply: Reply) -> bytes:
    done = asyncio.Event()
    reply.owe(done.set, 0.0, is_muted=False)
    if reply.pieces is None:
        try:
            async with asyncio.timeout(SETTLE_S):
                await done.wait()
        except TimeoutError:
            reply.forget()
            return b""
    return b"".join(reply.pieces or ())


def _lines(reply: bytes) -> list[bytes]:
    return reply.split(b"\r\n")


def _ids(reply: bytes) -> list[bytes]:
    """Of entries with one field each: an entry is eight lines behind the first, and its id the third of them."""
    return _lines(reply)[3::8][: int(_lines(reply)[0][1:])]


def _values(reply: bytes) -> list[bytes]:
    return _lines(reply)[8::8][: int(_lines(reply)[0][1:])]


def check_owners(history: LogHistory) -> list[str]:
    """What is wrong; nothing if all promises were kept."""
    problems: list[str] = []
    order = {at: number for number, (at, _) in enumerate(history.final)}
    values = [value for _, value in history.final]
    if len(set(values)) != len(values):
        problems.append("kept: an entry is in the log twice")
    for client, number, at in history.acked:
        value = f"{client}.{number}".encode()
        if at not in order or values[order[at]] != value:
            problems.append(f"kept: entry {value!r} was acknowledged as {at!r} and is not there")
    for client in range(HUBS):
        own = [order[at] for who, _, at in history.acked if who == client and at in order]
        if own != sorted(own):
            problems.append(f"kept: the entries of client {client} are not in the order of their answers")
    for shown in history.shown:
        if shown != values[: len(shown)]:
            problems.append(
                f"prefixes: a read showed {len(shown)} entries that are not the beginning of the log"
            )
            break
    if history.epochs != sorted(history.epochs):
        problems.append(f"epochs: ledgers of the log have the epochs {history.epochs}")
    return problems


def play_owners(seed: int) -> LogHistory:
    world = OwnersWorld(seed)
    with Simulation(seed) as sim:
        sim.run(world.play())
    return world.history
