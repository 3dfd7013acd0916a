"""Open a topic's log: claim the topic, fence the former owner, fold the entries, create a ledger.

In this order, each step after the one before has succeeded:

    claim     set the topic's node, by compare-and-set, to this hub and a higher epoch
    fence     recover the last ledger: from then on its writer is acknowledged nothing more
    fold      read all ledgers of the log
    begin     create a ledger, write a snapshot of the state first into it
    list      put it into the topic's node, by compare-and-set

A ledger that has grown long is followed by another in the same epoch: closed, then the last two steps. Ledgers whose
entries have all been trimmed or deleted leave the list with the same compare-and-set, and are deleted after it.

A hub that loses a compare-and-set, or crashes between two steps, has changed nothing that a later owner could not take
over. The epoch is in the node, above its last and above all that this hub has heard of.

A hub that gives a log away closes its last ledger and takes its name out of the node: then the next home need not wait
until this life of the hub is over. So it does with a claim after which the log could not be opened, or whose reply was
lost: a claim that nobody releases keeps the topic from all other hubs for as long as this one lives.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from equipoise.errors import LedgerError, StoreError, WorldError
from equipoise.hub.logs.durable_topics import DurableTopics
from equipoise.hub.logs.hub_logs import HubLogs
from equipoise.hub.logs.live_log import LiveLog, LogStage
from equipoise.ledger.log import FIRST_ENTRY, Ledgers, OpenLedger
from equipoise.ledger.quorum import Quorum
from equipoise.log.ids import EntryId
from equipoise.log.records import LogSnapshot, decode_run, encode_run
from equipoise.log.topic_log import TopicLog
from equipoise.store.contract import Store
from equipoise.store.records.hubs import HubsStore
from equipoise.store.records.topic_logs import LogLedger, StoredLog, TopicLogsStore
from equipoise.store.tree import Tree

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore

__all__ = ["FoundLog", "LogOpener", "logs_of", "opener_of"]

log = logging.getLogger("equipoise.hub")

T = TypeVar("T")

_RELEASE_AGAIN_S = 0.2
# Ledgers of one log whose first entries are read together. A log that has moved often has many short ones.
_LEDGERS_AT_ONCE = 8
# How long a claim waits for the present owner to release the topic: longer than a move of many topics takes; and how
# often it looks whether the owner is still alive.
_RELEASED_S = 3.0
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class FoundLog:
    """An open log: its state, and the ledger that goes on."""

    log: TopicLog
    ledger: OpenLedger
    epoch: int
    # Those before it.
    closed: tuple[int, ...] = ()


class _OwnedElsewhereError(WorldError):
    """Another hub that is alive owns the topic."""


class LogOpener:
    """Owned by the hub's shell. `open` is given to HubLogs."""

    def __init__(
        self,
        store: Store,
        tree: Tree,
        ledgers: Ledgers,
        *,
        hub: str,
        new_epoch: Callable[[], int],
        incarnation: Callable[[], int],
        is_alive: Callable[[str, int], Awaitable[bool]],
        quorum_of: Callable[[bytes], Quorum],
    ) -> None:
        """`is_alive`: whether that incarnation of a hub is. `new_epoch`: above all that this hub has heard of."""
        self._records = TopicLogsStore(store, tree)
        self._ledgers = ledgers
        self._hub = hub
        self._new_epoch = new_epoch
        self._incarnation = incarnation
        self._is_alive = is_alive
        self._quorum_of = quorum_of
        self._tasks: set[asyncio.Task[None]] = set()
        # Of all claims: a later one is always told from those before it.
        self._last_epoch = 0
        # Whether this hub is to own a log, and who is told when a ledger of one was rolled.
        self.may_open: Callable[[bytes], Awaitable[bool]] | None = None
        self.on_rolled: Callable[[bytes], object] | None = None

    def open(self, live: LiveLog) -> None:
        self._start(self._open(live))

    def release(self, live: LiveLog, ledger: OpenLedger | None, done: Callable[[], None]) -> None:
        """Let another hub claim the topic; `done` once it may, or need not ask."""
        self._start(self._release(live, ledger, self._incarnation(), done))

    def roll(self, live: LiveLog, ledger: OpenLedger, snapshot: LogSnapshot) -> None:
        self._start(self._roll(live, ledger, snapshot))

    def list_names(self, folders: range, tell: Callable[[list[bytes] | None], None]) -> None:
        self._start(self._list_names(folders, tell))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _open(self, live: LiveLog) -> None:
        try:
            if self.may_open is not None and not await self.may_open(live.name):
                raise _OwnedElsewhereError("another hub replaces the home of the topic")
            found = await self.find(live)
        except (StoreError, LedgerError, _OwnedElsewhereError) as problem:
            if live.problem != str(problem):
                log.warning("log of topic %r not opened: %s", live.name, problem)
            if live.is_sealing:
                # It was released before this attempt was over, which may have claimed it again.
                await self._release(live, None, self._incarnation(), lambda: None)
            live.not_opened(str(problem))
        else:
            if live.is_sealing:
                await self._release(live, found.ledger, self._incarnation(), lambda: None)
            live.opened(found)
            # They may be at the site of a former owner.
            self._ledgers.bring_home(found.closed, partial(_is_owned, live, found.epoch))

    async def _release(
        self, live: LiveLog, ledger: OpenLedger | None, incarnation: int, done: Callable[[], None]
    ) -> None:
        topic, last = live.name, -1
        if ledger is not None:
            with suppress(StoreError, LedgerError):
                # Else the next owner recovers it.
                last = await ledger.close()
        while live.claimed and self._incarnation() == incarnation:
            try:
                stored = await self._records.load(topic)
                node = stored.node
                if (node.owner, node.incarnation) != (self._hub, incarnation) or node.epoch > live.claimed:
                    # Another hub has it, or this one wants it again.
                    break
                ledgers = node.ledgers
                if ledger is not None and last >= 0 and ledgers and ledgers[-1].ledger == ledger.ledger:
                    ledgers = (*ledgers[:-1], msgspec.structs.replace(ledgers[-1], last=last))
                given = msgspec.structs.replace(node, owner="", incarnation=0, ledgers=ledgers)
                if await self._records.save(topic, given, stored.version) is not None:
                    break
            except StoreError:
                # Without the store no other hub can claim it either.
                await asyncio.sleep(_RELEASE_AGAIN_S)
        done()

    async def _list_names(self, folders: range, tell: Callable[[list[bytes] | None], None]) -> None:
        try:
            found = await asyncio.gather(*map(self._records.names, folders))
        except StoreError:
            tell(None)
        else:
            tell([name for names in found for name in names])

    async def find(self, live: LiveLog) -> FoundLog:
        """Open the log of a topic. Raises StoreError or LedgerError; DamagedError if what is stored cannot be read."""
        claimed = await self._claim(live)
        topic, node = live.name, claimed.node
        state = TopicLog()
        ledgers: list[LogLedger] = []
        for start in range(0, len(node.ledgers), _LEDGERS_AT_ONCE):
            parts = node.ledgers[start : start + _LEDGERS_AT_ONCE]
            begun = await _all(self._begin_reading(part, is_last=part is node.ledgers[-1]) for part in parts)
            for part, (last, payloads) in zip(parts, begun, strict=True):
                await self._fold(state, topic, part.ledger, last, payloads)
                ledgers.append(_closed(part, last, state.last))
        ledger = await self._begin(topic, claimed, ledgers, state.snapshot())
        return FoundLog(state, ledger, node.epoch, tuple(part.ledger for part in ledgers))

    async def _roll(self, live: LiveLog, former: OpenLedger, snapshot: LogSnapshot) -> None:
        try:
            if not await _settled(live):
                return
            last = await former.close()
            stored = await self._records.load(live.name)
            node = stored.node
            if (node.owner, node.incarnation, node.epoch) != (self._hub, self._incarnation(), live.epoch):
                raise LedgerError(former.ledger, "another hub has claimed the topic meanwhile")
            *before, current = node.ledgers
            closed = [*before, _closed(current, last, snapshot.last)]
            ledger = await self._begin(live.name, stored, closed, snapshot)
        except (StoreError, LedgerError) as problem:
            live.not_rolled(str(problem))
        else:
            live.rolled(ledger)
            self._ledgers.bring_home((former.ledger,), partial(_is_owned, live, live.epoch))
            if self.on_rolled is not None:
                self.on_rolled(live.name)

    async def _claim(self, live: LiveLog) -> StoredLog:
        """Own the topic. An owner that is alive is given some time to release it: in a move it is about to."""
        topic, now = live.name, asyncio.get_running_loop().time
        patient_until = now() + _RELEASED_S
        while True:
            known = await self._records.load(topic)
            node = known.node
            is_own = node.owner == self._hub and node.incarnation == self._incarnation()
            if node.owner and not is_own and await self._is_alive(node.owner, node.incarnation):
                live.owner.found(node.owner)
                if not live.is_sealing and now() < patient_until:
                    await self._records.changed(topic, known.version, _LOOK_S)
                    continue
                raise _OwnedElsewhereError(f"hub {node.owner} owns the topic")
            if live.is_sealing:
                raise _OwnedElsewhereError("another hub is to own the topic")
            live.owner.found("")
            # Noted first: where the reply is lost the claim may stand all the same.
            self._last_epoch = live.claimed = max(node.epoch, self._last_epoch, self._new_epoch() - 1) + 1
            claim = msgspec.structs.replace(
                node, owner=self._hub, incarnation=self._incarnation(), epoch=live.claimed
            )
            saved = await self._records.save(topic, claim, known.version)
            if saved is not None:
                return saved

    async def _begin_reading(self, part: LogLedger, *, is_last: bool) -> tuple[int, list[bytes]]:
        """The last entry of a ledger, which is recovered if it may be open, and its first entries."""
        last = await self._ledgers.recover(part.ledger) if part.last < 0 or is_last else part.last
        return last, await self._ledgers.read(part.ledger, FIRST_ENTRY, last) if last >= FIRST_ENTRY else []

    async def _fold(
        self, state: TopicLog, topic: bytes, ledger: int, last: int, payloads: list[bytes]
    ) -> None:
        """`payloads` are the first entries of the ledger."""
        entry = FIRST_ENTRY
        while entry <= last:
            for payload in payloads:
                state.apply_all(decode_run(payload, f"ledger {ledger}, entry {entry}, of topic {topic!r}"))
                entry += 1
            if entry <= last:
                payloads = await self._ledgers.read(ledger, entry, last)

    async def _begin(
        self, topic: bytes, stored: StoredLog, closed: Sequence[LogLedger], snapshot: LogSnapshot
    ) -> OpenLedger:
        """A new ledger behind the closed ones that are still needed: its snapshot committed, and the node set."""
        node = stored.node
        ledger = await self._create(topic, node.epoch, snapshot)
        needed = [part for part in closed if (part.last_ms, part.last_seq) >= snapshot.first]
        listed = msgspec.structs.replace(node, ledgers=(*needed, LogLedger(ledger.ledger, node.epoch)))
        if await self._records.save(topic, listed, stored.version) is None:
            await self._ledgers.delete(ledger.ledger)
            raise LedgerError(ledger.ledger, "another hub has claimed the topic meanwhile")
        for part in closed:
            if part not in needed:
                await self._ledgers.delete(part.ledger)
        return ledger

    async def _create(self, topic: bytes, epoch: int, snapshot: LogSnapshot) -> OpenLedger:
        """A ledger whose first entry, the snapshot, is committed."""
        ledger = await self._ledgers.create(topic, epoch, self._quorum_of(topic))
        written: asyncio.Future[int | LedgerError] = asyncio.get_running_loop().create_future()

        def complete(outcome: int | LedgerError) -> None:
            # Nothing waits for it any more if the hub has stopped meanwhile.
            if not written.done():
                written.set_result(outcome)

        ledger.append(encode_run([snapshot]), complete)
        outcome = await written
        if isinstance(outcome, LedgerError):
            raise outcome
        return ledger


async def _all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results, once all are there; the first problem, once all have ended."""
    found = await asyncio.gather(*work, return_exceptions=True)
    problems = [each for each in found if isinstance(each, BaseException)]
    if problems:
        raise problems[0]
    return [each for each in found if not isinstance(each, BaseException)]


async def _settled(live: LiveLog) -> bool:
    """Whether all that was appended to the ledger has been committed."""
    settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def settle(is_committed: bool) -> None:
        if not settled.done():
            settled.set_result(is_committed)

    live.when_settled(settle)
    return await settled


def _is_owned(live: LiveLog, epoch: int) -> bool:
    """Whether the log is still open here, in that epoch, and to stay."""
    return live.epoch == epoch and live.stage is LogStage.OPEN and not live.is_sealing


def _closed(part: LogLedger, last: int, last_id: EntryId) -> LogLedger:
    return LogLedger(part.ledger, part.epoch, last, *last_id)


def opener_of(
    core: HubCore, store: Store, tree: Tree, ledgers: Ledgers, quorum: Callable[[], Quorum]
) -> LogOpener:
    """What opens the logs of a hub; `quorum` of logs whose topic has no durable spec."""

    def quorum_of(topic: bytes) -> Quorum:
        spec = core.specs.of_name(topic)
        wanted = None if spec is None else spec.durability
        if wanted is None:
            return quorum()
        return Quorum(wanted.ensemble, wanted.write_quorum, wanted.ack_quorum)

    async def is_alive(hub: str, incarnation: int) -> bool:
        # As the store has it, not as this hub last heard: a needless failover would cost clients their certainty.
        seen = await hubs.look(hub)
        return seen is not None and seen.alive is not None and seen.facts.incarnation == incarnation

    hubs = HubsStore(store, tree)
    return LogOpener(
        store,
        tree,
        ledgers,
        hub=core.settings.name,
        new_epoch=core.new_epoch,
        incarnation=lambda: core.incarnation,
        is_alive=is_alive,
        quorum_of=quorum_of,
    )


def logs_of(core: HubCore, opener: LogOpener, missing: Callable[[], str] = lambda: "") -> HubLogs:
    """The logs of a hub. `missing`: why none can be kept; empty: they can."""
    logs = HubLogs(
        core.shell,
        opener.open,
        may_ack=lambda: core.lease.is_valid(core.now()),
        is_sole=lambda: core.lease.is_sole(core.now()),
        committed=lambda log, records: durable.committed(log, records),
        roll_log=opener.roll,
        release_log=opener.release,
        missing=missing,
        list_names=opener.list_names,
        retention_of=lambda name: None if (spec := core.specs.of_name(name)) is None else spec.retention,
    )
    durable = logs.durable = DurableTopics(core, logs)
    return logs
