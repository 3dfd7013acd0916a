"""Claims of logs: which hub owns a topic's log, by compare-and-set on the topic's node; and releases.

During a move the next owner prepares while the former one serves: it waits for its turn, creates the next ledger, and
folds the acknowledged entries. Then it requests the release. The former owner replies over their link as soon as the
store has the release, so neither polls the store. If the request cannot be sent, the next owner watches the node.

Always true: a log whose owner is alive is not claimed. A claim that is not released keeps other hubs from the topic.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from equipoise.clock import done_within
from equipoise.errors import LedgerError, StoreError, WorldError
from equipoise.hub.logs.live_log import LiveLog
from equipoise.hub.shell.log_fold import LogFold
from equipoise.hub.shell.log_turns import LogTurns
from equipoise.ledger.log import Ledgers, OpenLedger
from equipoise.ledger.quorum import Quorum
from equipoise.store.records.topic_logs import LogNode, StoredLog, TopicLogsStore

__all__ = ["LogClaims", "OwnedElsewhereError", "Taking"]

_RELEASE_AGAIN_S = 0.2
# How long a claim waits for the current owner to release the topic after the request, in seconds; and the interval of
# the check whether the owner is still alive.
_RELEASED_S = 3.0
_LOOK_S = 0.5


class OwnedElsewhereError(WorldError):
    """Another hub that is alive owns the topic."""


@dataclass(slots=True)
class Taking:
    """One attempt to open a log: its turn, and its preparation while another hub still owns the log."""

    turn: AsyncExitStack
    fold: LogFold
    is_prepared: bool = False
    # The next ledger, and its epoch.
    spare: OpenLedger | None = None
    epoch: int = 0
    # Whether the former owner has closed its last ledger.
    is_closed: bool = False
    patient_until: float = math.inf

    def take_spare(self, epoch: int) -> OpenLedger | None:
        """The prepared ledger, if it was created for this epoch."""
        if self.epoch != epoch:
            return None
        spare, self.spare = self.spare, None
        return spare


class LogClaims:
    """Owned by LogOpener."""

    def __init__(
        self,
        records: TopicLogsStore,
        ledgers: Ledgers,
        *,
        hub: str,
        new_epoch: Callable[[], int],
        incarnation: Callable[[], int],
        is_alive: Callable[[str, int], Awaitable[bool]],
        quorum_of: Callable[[bytes], Quorum],
    ) -> None:
        self._records = records
        self._ledgers = ledgers
        self._hub = hub
        self._new_epoch = new_epoch
        self._incarnation = incarnation
        self._is_alive = is_alive
        self._quorum_of = quorum_of
        # The greatest epoch of all claims: each claim has a greater one than those before it.
        self._last_epoch = 0
        # The nodes of the logs that are open here, as they were last written.
        self.listed: dict[bytes, StoredLog] = {}
        self._turns = LogTurns()
        # By log with a pending release request, the future of the reply.
        self._awaited: dict[bytes, asyncio.Future[StoredLog | None]] = {}
        # Requests a hub to release a log; False: the request cannot be sent. And the call after a release here.
        self.request_release: Callable[[bytes, str], bool] = lambda topic, hub: False
        self.on_released: Callable[[bytes, StoredLog], object] | None = None

    async def claim(self, live: LiveLog, taking: Taking) -> StoredLog:
        """Claim the topic. If no hub owns it, the claim is written later, together with the list of its ledgers.

        A live owner gets some time to release the topic, as it does during a move.
        """
        known: StoredLog | None = None
        while True:
            known = known or await self._records.load(live.name)
            node = known.node
            is_own = node.owner == self._hub and node.incarnation == self._incarnation()
            if node.owner and not is_own and await self._is_alive(node.owner, node.incarnation):
                known = await self._await_release(live, known, taking)
                continue
            if live.is_sealing:
                raise OwnedElsewhereError("another hub is to own the topic")
            live.owner.found("")
            # Recorded first: if the reply is lost, the claim may have succeeded.
            live.claimed = taking.epoch if taking.epoch > node.epoch else self._next_epoch(node)
            claim = msgspec.structs.replace(
                node,
                owner=self._hub,
                incarnation=self._incarnation(),
                epoch=live.claimed,
                # A former owner that has not released the log may have sent more than its node says.
                sent=_sent(live, node) if is_own or not node.owner else -1,
            )
            if not node.owner:
                return StoredLog(claim, known.version)
            saved = await self._records.save(live.name, claim, known.version)
            if saved is not None:
                return saved
            known = None

    def _next_epoch(self, node: LogNode) -> int:
        self._last_epoch = max(node.epoch, self._last_epoch, self._new_epoch() - 1) + 1
        return self._last_epoch

    async def _await_release(self, live: LiveLog, known: StoredLog, taking: Taking) -> StoredLog | None:
        """The node that the owner has released; None: load the node again."""
        topic, owner, now = live.name, known.node.owner, asyncio.get_running_loop().time()
        live.owner.found(owner)
        if live.is_sealing or now >= taking.patient_until:
            raise OwnedElsewhereError(f"hub {owner} owns the topic")
        if not taking.is_prepared:
            live.owner.on_lost = partial(self._turns.hurry, live)
            await taking.turn.enter_async_context(self._turns.turn(live))
            taking.is_prepared = True
            taking.patient_until = asyncio.get_running_loop().time() + _RELEASED_S
            if live.is_sealing:
                raise OwnedElsewhereError("another hub is to own the topic")
            if live.owner.hub:
                await self._prepare(live, known, taking)
        told: asyncio.Future[StoredLog | None] = asyncio.get_running_loop().create_future()
        self._awaited[topic] = told
        try:
            if not self.request_release(topic, owner):
                await self._records.changed(topic, known.version, _LOOK_S)
                return None
            await done_within(told, _LOOK_S)
        finally:
            # The log may have been released and requested again meanwhile.
            if self._awaited.get(topic) is told:
                del self._awaited[topic]
        released = told.result() if told.done() else None
        if released is None:
            return None
        taking.is_closed = bool(released.node.ledgers) and released.node.ledgers[-1].last >= 0
        return released

    async def _prepare(self, live: LiveLog, known: StoredLog, taking: Taking) -> None:
        """Prepare while the owner still serves: create the next ledger, and do most of the fold. Raises LedgerError."""
        epoch = self._next_epoch(known.node)
        create = self._ledgers.create(live.name, epoch, self._quorum_of(live.name))
        ahead = taking.fold.read_ahead(known.node.ledgers)
        spare, problem = await asyncio.gather(create, ahead, return_exceptions=True)
        if isinstance(problem, WorldError):
            # The owner may have changed its list. If not, the complete fold raises the problem again.
            taking.fold = LogFold(self._ledgers, live.name)
        elif problem is not None:
            raise problem
        if isinstance(spare, BaseException):
            raise spare
        taking.spare, taking.epoch = spare, epoch

    def hurry(self, live: LiveLog) -> None:
        """The log is no longer needed here: its attempt need not wait for a turn."""
        self._turns.hurry(live)

    def released(self, topic: bytes, released: StoredLog | None) -> None:
        """The former owner has released the topic. Its last ledger is closed if it has an end. None: load the node."""
        told = self._awaited.get(topic)
        if told is not None and not told.done():
            told.set_result(released)

    async def release(self, live: LiveLog, ledger: OpenLedger | None, incarnation: int) -> None:
        """Close the ledger and release the topic. Retries until that has succeeded or is not necessary."""
        topic, last, released = live.name, -1, None
        listed, closing = self.listed.pop(topic, None), None
        if ledger is not None:
            closing = asyncio.create_task(_close(ledger))
            # The store executes requests in order: a hub that reads the release also reads the ledger as closed.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        if listed is not None and live.claimed and self._incarnation() == incarnation:
            with suppress(StoreError):
                released = await self._save_released(live, listed, incarnation)
        if closing is not None:
            last = await closing
        while released is None and live.claimed and self._incarnation() == incarnation:
            try:
                stored = await self._records.load(topic)
                if not self._is_mine(stored.node, live, incarnation):
                    # Another hub owns the topic, or this hub has claimed it again.
                    break
                released = await self._save_released(live, stored, incarnation)
            except StoreError:
                # Without the store no other hub can claim it either.
                await asyncio.sleep(_RELEASE_AGAIN_S)
        if released is not None and self.on_released is not None:
            self.on_released(topic, _with_end(released, ledger, last))

    def _is_mine(self, node: LogNode, live: LiveLog, incarnation: int) -> bool:
        return (node.owner, node.incarnation) == (self._hub, incarnation) and node.epoch <= live.claimed

    async def _save_released(self, live: LiveLog, stored: StoredLog, incarnation: int) -> StoredLog | None:
        if not self._is_mine(stored.node, live, incarnation):
            return None
        given = msgspec.structs.replace(stored.node, owner="", incarnation=0, sent=_sent(live, stored.node))
        return await self._records.save(live.name, given, stored.version)


def _sent(live: LiveLog, node: LogNode) -> int:
    """The last entry sent to subscribers: as known here if the log was open here under this claim, else by the node."""
    return live.sent_number if node.epoch == live.epoch else node.sent


async def _close(ledger: OpenLedger) -> int:
    """Close a ledger; return its last entry, -1 if the close is uncertain: the next owner then recovers it."""
    try:
        return await ledger.close()
    except (StoreError, LedgerError):
        return -1


def _with_end(released: StoredLog, ledger: OpenLedger | None, last: int) -> StoredLog:
    """The node with the end of the last ledger, which the next owner then need not query."""
    ledgers = released.node.ledgers
    if ledger is None or last < 0 or not ledgers or ledgers[-1].ledger != ledger.ledger:
        return released
    ended = (*ledgers[:-1], msgspec.structs.replace(ledgers[-1], last=last))
    return StoredLog(msgspec.structs.replace(released.node, ledgers=ended), released.version)
