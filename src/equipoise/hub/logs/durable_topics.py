"""Topics with a durable spec: their channel and their log are one.

PUBLISH, EQ.PUBLISH and XADD append to the log and are answered after the commit. Subscribers get what is committed,
and only that, in the order of the log. A message of PUBLISH is an entry with the one field `payload`; to subscribers an
entry of XADD is the value of that field if it is the only one, else all fields and values as an array in RESP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.data.reply import LATE, Reply
from equipoise.hub.logs.live_log import UNCERTAIN
from equipoise.log.append import add_entry, payload_body, payload_of
from equipoise.log.errors import LogCommandError
from equipoise.log.records import EntryAdded
from equipoise.resp.replies import error, integer

if TYPE_CHECKING:
    from equipoise.hub.data.audience import Audience
    from equipoise.hub.data.topic import Topic
    from equipoise.hub.data.topic_specs import TopicSpecs
    from equipoise.hub.logs.hub_logs import HubLogs
    from equipoise.hub.logs.live_log import LiveLog
    from equipoise.log.ids import EntryId
    from equipoise.log.records import LogRecord
    from equipoise.log.topic_log import TopicLog

__all__ = ["DurableTopic", "DurableTopics"]


class _Core(Protocol):
    """What durable topics need of the hub."""

    @property
    def specs(self) -> TopicSpecs: ...
    def publish(self, topic: Topic, payloads: Sequence[bytes]) -> int: ...
    def audience_of(self, topic: Topic) -> Audience: ...
    def make_topic(self, name: bytes) -> Topic | None: ...


class DurableTopic:
    """The channel of one topic on its log. `Topic.log` is one for durable topics."""

    def __init__(self, core: _Core, topic: Topic, logs: HubLogs) -> None:
        self._core = core
        self._topic = topic
        self._logs = logs
        self._live: LiveLog = logs.of(topic.name)
        # The positions of entries for whose publishers they matter, once they are known.
        self._awaited: dict[EntryId, int] = {}

    def publish(self, payloads: Sequence[bytes]) -> bytes | Reply:
        """The replies to all messages, once they are committed."""

        def work(log: TopicLog) -> bytes:
            self._add(log, payloads)
            return integer(self._core.audience_of(self._topic).receivers) * len(payloads)

        return self._live.submit(work, sum(map(len, payloads)))

    def publish_positioned(
        self, payloads: Sequence[bytes], receipt: Callable[[int, int, int], bytes]
    ) -> Reply:
        """`receipt` makes the reply of epoch, position and receivers, once the messages are committed."""
        reply = Reply(expired=lambda: error(LATE))

        def run() -> None:
            if not reply.is_wanted:
                return
            try:
                last = self._add(self._live.log, payloads)
            except LogCommandError as problem:
                reply.complete(error(problem.text))
                return
            self._awaited[last] = 0
            self._live.changed()
            self._live.when_committed(lambda is_committed: finish(last, is_committed))

        def finish(last: EntryId, is_committed: bool) -> None:
            n = self._awaited.pop(last, 0)
            if reply.is_wanted:
                receivers = self._core.audience_of(self._topic).receivers
                done = receipt(self._topic.epoch, n, receivers) if is_committed else error(UNCERTAIN)
                reply.complete(done)

        self._live.when_open(run)
        return reply

    def _add(self, log: TopicLog, payloads: Sequence[bytes]) -> EntryId:
        now_ms = self._logs.now_ms()
        ids = [add_entry(log, payload_body(payload), now_ms) for payload in payloads]
        return ids[-1]

    def deliver(self, added: Sequence[EntryAdded]) -> None:
        """These entries are committed: subscribers get them."""
        first = self._topic.n + 1
        self._core.publish(self._topic, [payload_of(entry.body) for entry in added])
        if self._awaited:
            for n, entry in enumerate(added, first):
                at = (entry.ms, entry.seq)
                if at in self._awaited:
                    self._awaited[at] = n


class DurableTopics:
    """Owned by HubLogs: which topics of this hub are durable."""

    def __init__(self, core: _Core, logs: HubLogs) -> None:
        self._core = core
        self._logs = logs

    def adopt(self, topic: Topic) -> None:
        """A topic is new at this hub, or the specs have changed."""
        spec = self._core.specs.of(topic)
        is_durable = spec is not None and spec.durability is not None and not topic.is_shard
        if is_durable != (topic.log is not None):
            topic.log = DurableTopic(self._core, topic, self._logs) if is_durable else None
            topic.gate()

    def follow(self, topics: Iterable[Topic]) -> None:
        """The specs have changed."""
        for topic in topics:
            self.adopt(topic)

    def committed(self, live: LiveLog, records: Sequence[LogRecord]) -> None:
        added = [record for record in records if isinstance(record, EntryAdded)]
        spec = self._core.specs.of_name(live.name) if added else None
        if spec is None or spec.durability is None:
            return
        topic = self._core.make_topic(live.name)
        if topic is not None and topic.log is not None:
            topic.log.deliver(added)
