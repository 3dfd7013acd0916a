"""A hub core with logs in memory: appends are confirmed, and logs opened, when the test says so."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from equipoise.hub.logs.durable_topics import DurableTopics
from equipoise.hub.logs.hub_logs import HubLogs
from equipoise.hub.logs.live_log import LiveLog
from equipoise.hub.shell.log_opener import FoundLog
from equipoise.ledger.log import FIRST_ENTRY, OpenLedger
from equipoise.ledger.memory import MemoryLedgers
from equipoise.ledger.quorum import Quorum
from equipoise.log.records import LogRecord, decode_run
from equipoise.log.topic_log import TopicLog
from hub.world import FakeClient, World, users


class LogWorld(World):
    """A hub whose appends are confirmed when the test says so."""

    def __init__(self, **grants: str) -> None:
        super().__init__(users(**grants) if grants else None)
        self._confirmations: deque[Callable[[], None]] = deque()
        self.ledgers = MemoryLedgers(self._confirmations.append)
        self.opened: dict[bytes, list[OpenLedger]] = {}
        self.is_leased = True
        # Whether the store says so; else it is by the word of other hubs.
        self.is_sole = True
        # Whether logs are opened as soon as they are asked for.
        self.opens = True
        self.to_open: list[LiveLog] = []
        # The last entry that the former owner of a log has sent to subscribers.
        self._sent = -1
        self.core.logs = HubLogs(
            self.shell,
            self._open,
            may_ack=lambda: self.is_leased,
            is_sole=lambda: self.is_leased and self.is_sole,
            committed=lambda log, records: self.durable.committed(log, records),
        )
        self.durable = self.core.logs.durable = DurableTopics(self.core, self.core.logs)

    def _open(self, live: LiveLog) -> None:
        self.to_open.append(live)
        if self.opens:
            self.open_logs()

    def open_logs(self) -> None:
        """As the opener does: recover the last ledger, fold all, go on in a new one."""
        waiting, self.to_open = self.to_open, []
        for live in waiting:
            asyncio.run(self._open_one(live))

    def reopen(self, name: bytes, sent: int) -> None:
        """Another hub owns the log from here on, and this is that hub: its channel knows nothing of before."""
        assert self.core.logs is not None, "it has logs"
        self.core.logs.by_name.pop(name).close()
        self._sent = sent
        topic = self.core.index.topics[name]
        topic.log = None
        self.durable.adopt(topic)
        self.core.logs.of(name)

    async def _open_one(self, live: LiveLog) -> None:
        before = self.opened.setdefault(live.name, [])
        state = TopicLog()
        for ledger in before:
            last = await self.ledgers.recover(ledger.ledger)
            if last >= FIRST_ENTRY:
                for data in await self.ledgers.read(ledger.ledger, FIRST_ENTRY, last):
                    state.apply_all(decode_run(data, "test"))
        before.append(await self.ledgers.create(live.name, len(before), Quorum(1, 1, 1)))
        found = FoundLog(state, before[-1], len(before), sent=self._sent)
        self.shell.call_later(0, live.opened, found)
        self.advance()

    def confirm_one(self) -> None:
        """The oldest append that is not confirmed."""
        self._confirmations.popleft()()
        self.advance()

    def confirm(self) -> None:
        """All appends so far."""
        self.advance()
        while self._confirmations:
            self._confirmations.popleft()()
        self.advance()

    def runs(self, topic: bytes) -> list[list[LogRecord]]:
        """What was appended to the last ledger of a topic."""
        self.confirm()
        ledger = self.opened[topic][-1]
        if ledger.confirmed < FIRST_ENTRY:
            return []
        found = asyncio.run(self.ledgers.read(ledger.ledger, FIRST_ENTRY, ledger.confirmed))
        return [decode_run(data, "test") for data in found]

    def do(self, client: FakeClient, *words: str) -> object:
        client.send(*words)
        self.confirm()
        (reply,) = client.read()
        return reply
