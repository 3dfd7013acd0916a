"""Open a topic's log: claim the topic, fence the former owner, fold the entries, create a ledger.

The steps, in order, each after the success of the previous one:

    claim     set the topic's node, by compare-and-set, to this hub and a greater epoch
    fence     recover the last ledger: from then on its writer gets no more acknowledgements
    fold      read all ledgers of the log
    begin     create a ledger, with a snapshot of the state as its first entry
    list      add it to the topic's node, by compare-and-set

A topic that its owner has released needs no separate claim: no hub writes to its ledgers, so the list is written
together with the claim. During a move most of the work is done before the release (`log_claims`).

A long ledger is replaced by another one in the same epoch: it is closed, then the last two steps follow. Ledgers whose
entries have all been trimmed or deleted are removed from the list with the same compare-and-set, and deleted after it.

If a hub loses a compare-and-set, or crashes between two steps, a later owner can still take over. The epoch in the node
is greater than the node's previous one and than all epochs that this hub has received.

A hub that hands a log over closes its last ledger and removes its name from the node, so that the next home need not
wait for the end of this incarnation. It does the same with a claim after which the log could not be opened, or whose
reply was lost: an unreleased claim keeps all other hubs from the topic while this hub is alive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from equipoise.errors import DamagedError, LedgerError, StoreError
from equipoise.hub.logs.durable_topics import DurableTopics
from equipoise.hub.logs.hub_logs import HubLogs
from equipoise.hub.logs.limited_adds import LimitedAdds
from equipoise.hub.logs.live_log import LiveLog, LogStage
from equipoise.hub.shell.log_claims import LogClaims, OwnedElsewhereError, Taking
from equipoise.hub.shell.log_fold import LogFold, closed_ledger
from equipoise.ledger.log import Ledgers, OpenLedger
from equipoise.ledger.quorum import Quorum
from equipoise.log.records import LogSnapshot, encode_run
from equipoise.log.topic_log import TopicLog
from equipoise.store.contract import Store
from equipoise.store.records.hubs import HubsStore
from equipoise.store.records.topic_logs import (
    LogLedger,
    StoredLog,
    TopicLogsStore,
    pack_node,
    unpack_node,
)
from equipoise.store.tree import Tree

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore

__all__ = ["FoundLog", "LogOpener", "logs_of", "opener_of"]

log = logging.getLogger("equipoise.hub")


@dataclass(frozen=True, slots=True)
class FoundLog:
    """An open log: its state, and the ledger for further entries."""

    log: TopicLog
    ledger: OpenLedger
    epoch: int
    # The ledgers before it.
    closed: tuple[int, ...] = ()
    sent: int = -1


class LogOpener:
    """Owned by the hub's shell. HubLogs calls `open`."""

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
        """`is_alive`: whether an incarnation of a hub is alive. `new_epoch`: an epoch greater than all known ones."""
        self._records = TopicLogsStore(store, tree)
        self._ledgers = ledgers
        self._hub = hub
        self._incarnation = incarnation
        self._quorum_of = quorum_of
        self.claims = LogClaims(
            self._records,
            ledgers,
            hub=hub,
            new_epoch=new_epoch,
            incarnation=incarnation,
            is_alive=is_alive,
            quorum_of=quorum_of,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        # Whether this hub may own a log; and the call after a ledger of a log has rolled.
        self.may_open: Callable[[bytes], Awaitable[bool]] | None = None
        self.on_rolled: Callable[[bytes], object] | None = None

    def open(self, live: LiveLog) -> None:
        self._start(self._open(live))

    def release(self, live: LiveLog, ledger: OpenLedger | None, done: Callable[[], None]) -> None:
        """Release the topic, so that another hub can claim it; then call `done`."""
        self.claims.hurry(live)
        self._start(self._release(live, ledger, done))

    def roll(self, live: LiveLog, ledger: OpenLedger, snapshot: LogSnapshot) -> None:
        self._start(self._roll(live, ledger, snapshot))

    def note_released(self, topic: bytes, version: int, node: bytes) -> None:
        """The former owner has replied to the release request; an empty node: it does not own the log."""
        found = unpack_node(node)
        self.claims.released(topic, None if found is None else StoredLog(found, version))

    def look_up(self, topic: bytes, tell: Callable[[bool | None], None]) -> None:
        """Tell whether the topic has a log; None: the store does not answer."""
        self._start(self._look_up(topic, tell))

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
                raise OwnedElsewhereError("another hub replaces the home of the topic")
            found = await self.find(live)
        except (StoreError, LedgerError, OwnedElsewhereError) as problem:
            if live.problem != str(problem):
                log.warning("log of topic %r not opened: %s", live.name, problem)
            if live.is_sealing:
                # The log was released during this attempt, which may have claimed it again.
                await self.claims.release(live, None, self._incarnation())
            live.not_opened(str(problem))
        else:
            if live.is_sealing:
                await self.claims.release(live, found.ledger, self._incarnation())
            live.opened(found)
            # The closed ledgers may be at the site of a former owner.
            self._ledgers.relocate(found.closed, partial(_is_owned, live, found.epoch))

    async def _release(self, live: LiveLog, ledger: OpenLedger | None, done: Callable[[], None]) -> None:
        await self.claims.release(live, ledger, self._incarnation())
        done()

    async def _look_up(self, topic: bytes, tell: Callable[[bool | None], None]) -> None:
        try:
            found = await self._records.exists(topic)
        except DamagedError:
            # Opening the log says why it cannot be read.
            tell(True)
        except StoreError:
            tell(None)
        else:
            tell(found)

    async def _list_names(self, folders: range, tell: Callable[[list[bytes] | None], None]) -> None:
        try:
            found = await asyncio.gather(*map(self._records.names, folders))
        except StoreError:
            tell(None)
        else:
            tell([name for names in found for name in names])

    async def find(self, live: LiveLog) -> FoundLog:
        """Open the log of a topic. Raises StoreError or LedgerError; DamagedError if stored data cannot be read."""
        async with AsyncExitStack() as turn:
            taking = Taking(turn, LogFold(self._ledgers, live.name))
            try:
                return await self._take(live, taking)
            finally:
                if taking.spare is not None:
                    # Delete the prepared ledger, which no topic lists: its only entry is the header.
                    with suppress(StoreError, LedgerError):
                        await self._ledgers.delete(taking.spare.ledger)

    async def _take(self, live: LiveLog, taking: Taking) -> FoundLog:
        claimed = await self.claims.claim(live, taking)
        node = claimed.node
        if not taking.fold.is_start_of(node.ledgers):
            taking.fold = LogFold(self._ledgers, live.name)
        fold = taking.fold
        await fold.complete(node.ledgers, is_closed=taking.is_closed)
        snapshot, spare = fold.state.snapshot(), taking.take_spare(node.epoch)
        ledger = await self._begin(live.name, claimed, fold.closed, snapshot, spare)
        closed = tuple(part.ledger for part in fold.closed)
        return FoundLog(fold.state, ledger, node.epoch, closed, node.sent)

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
            closed = [*before, closed_ledger(current, last, snapshot.last)]
            ledger = await self._begin(live.name, stored, closed, snapshot)
        except (StoreError, LedgerError) as problem:
            live.not_rolled(str(problem))
        else:
            live.rolled(ledger)
            self._ledgers.relocate((former.ledger,), partial(_is_owned, live, live.epoch))
            if self.on_rolled is not None:
                self.on_rolled(live.name)

    async def _begin(
        self,
        topic: bytes,
        stored: StoredLog,
        closed: Sequence[LogLedger],
        snapshot: LogSnapshot,
        spare: OpenLedger | None = None,
    ) -> OpenLedger:
        """Create a ledger after the closed ones that are still needed: commit its snapshot, and write the node."""
        node = stored.node
        ledger = spare or await self._ledgers.create(topic, node.epoch, self._quorum_of(topic))
        await _append(ledger, snapshot)
        needed = [part for part in closed if (part.last_ms, part.last_seq) >= snapshot.first]
        listed = msgspec.structs.replace(node, ledgers=(*needed, LogLedger(ledger.ledger, node.epoch)))
        saved = await self._records.save(topic, listed, stored.version)
        if saved is None:
            await self._ledgers.delete(ledger.ledger)
            raise LedgerError(ledger.ledger, "another hub has claimed the topic meanwhile")
        self.claims.listed[topic] = saved
        for part in closed:
            if part not in needed:
                await self._ledgers.delete(part.ledger)
        return ledger


async def _append(ledger: OpenLedger, snapshot: LogSnapshot) -> None:
    """Write the first entry, and wait until it is committed. Raises LedgerError."""
    written: asyncio.Future[int | LedgerError] = asyncio.get_running_loop().create_future()

    def complete(outcome: int | LedgerError) -> None:
        # The future is cancelled if the hub has stopped meanwhile.
        if not written.done():
            written.set_result(outcome)

    ledger.append(encode_run([snapshot]), complete)
    outcome = await written
    if isinstance(outcome, LedgerError):
        raise outcome


async def _settled(live: LiveLog) -> bool:
    """Wait for all appends to the ledger; return whether all were committed."""
    settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def settle(is_committed: bool) -> None:
        if not settled.done():
            settled.set_result(is_committed)

    live.when_settled(settle)
    return await settled


def _is_owned(live: LiveLog, epoch: int) -> bool:
    """Whether the log is still open here in that epoch, and is not being sealed."""
    return live.epoch == epoch and live.stage is LogStage.OPEN and not live.is_sealing


def opener_of(
    core: HubCore, store: Store, tree: Tree, ledgers: Ledgers, quorum: Callable[[], Quorum]
) -> LogOpener:
    """The LogOpener of a hub. `quorum`: for logs whose topic has no durable spec."""

    def quorum_of(topic: bytes) -> Quorum:
        spec = core.specs.of_name(topic)
        wanted = None if spec is None else spec.durability
        if wanted is None:
            return quorum()
        return Quorum(wanted.ensemble, wanted.write_quorum, wanted.ack_quorum)

    async def is_alive(hub: str, incarnation: int) -> bool:
        # Read from the store, not from this hub's view: a needless failover would make clients' writes UNCERTAIN.
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
    """The logs of a hub. `missing`: the reason why there is no storage; empty: there is."""
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
        note_released=opener.note_released,
        look_up=opener.look_up,
        retention_of=lambda name: None if (spec := core.specs.of_name(name)) is None else spec.retention,
    )
    durable = logs.durable = DurableTopics(core, logs)
    logs.limited = LimitedAdds(core)

    def request_release(topic: bytes, hub: str) -> bool:
        return logs.elsewhere is not None and logs.elsewhere.request_release(topic, hub)

    def tell_released(topic: bytes, released: StoredLog) -> None:
        if logs.elsewhere is not None and released.version is not None:
            logs.elsewhere.released(topic, released.version, pack_node(released.node))

    opener.claims.request_release, opener.claims.on_released = request_release, tell_released
    return logs
