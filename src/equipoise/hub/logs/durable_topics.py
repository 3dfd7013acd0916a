"""The durable topics of this hub, according to their specs, and publishes to the logs that this hub owns.

Always true: a topic has a DurableTopic while its spec makes it durable, and none otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from equipoise.hub.logs.durable_topic import DurableCore, DurableTopic
from equipoise.hub.logs.log_refusals import no_topic_room
from equipoise.hub.logs.log_request import PUBLISH, PUBLISH_NUMBERED, LogRequest
from equipoise.log.records import EntryAdded
from equipoise.resp.replies import array, bulk, integer

if TYPE_CHECKING:
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.topics import Topic
    from equipoise.hub.logs.hub_logs import HubLogs
    from equipoise.hub.logs.live_log import LiveLog
    from equipoise.log.records import LogRecord

__all__ = ["DurableTopics"]


def _receipt(epoch: int, n: int, receivers: int) -> bytes:
    """The reply to EQ.PUBLISH: the stream (empty: the trunk), epoch, position and receivers."""
    return array((bulk(b""), integer(epoch), integer(n), integer(receivers)))


class DurableTopics:
    """Owned by HubLogs: which topics of this hub are durable."""

    def __init__(self, core: DurableCore, logs: HubLogs) -> None:
        self._core = core
        self._logs = logs

    def adopt(self, topic: Topic) -> None:
        """A topic is new at this hub, or the specs have changed: add or remove its DurableTopic."""
        spec = self._core.specs.of(topic)
        is_durable = spec is not None and spec.durability is not None and not topic.is_shard
        if is_durable != (topic.log is not None):
            topic.log = DurableTopic(self._core, topic, self._logs) if is_durable else None
            topic.gate()
            topic.audience = None
            for subscriber, kinds in list(topic.members.items()):
                if any(kind.is_positioned for kind in kinds):
                    # Its positions are no longer valid: it reconnects, and receives new ones.
                    reason = "durability of its topic has changed"
                    self._core.cut_subscriber(subscriber, reason, is_slow=False)
            if is_durable:
                # Messages published before this hub received the spec are not in the log, and not yet acknowledged.
                self._core.cluster.ways.refuse_waiting(topic)
            elif topic.is_home:
                topic.jump(self._core.new_epoch(), 0)

    def follow(self, topics: Iterable[Topic]) -> None:
        """The specs have changed: apply them to these topics, and notify smart clients."""
        for topic in topics:
            self.adopt(topic)
        for session in list(self._core.links.values()):
            self._core.specs.tell_durable(session.proto, session.write)

    def perform(self, live: LiveLog, request: LogRequest) -> bytes | Reply:
        """Publish to a log that this hub owns, for a client of this hub or another."""
        topic = self._core.make_topic(live.name)
        if topic is None:
            return no_topic_room(live.name)
        known = topic.log
        channel = known if isinstance(known, DurableTopic) else DurableTopic(self._core, topic, self._logs)
        if request.name == PUBLISH:
            return channel.publish_here(live, request.words[2:])
        if request.name == PUBLISH_NUMBERED:
            return channel.publish_numbered_here(live, request.words[2:])
        return channel.publish_positioned_here(live, request.words[2:], _receipt)

    def changed(self, live: LiveLog) -> None:
        """The log was opened here, or appended to."""
        topic = self._core.index.topics.get(live.name)
        if topic is not None and isinstance(topic.log, DurableTopic):
            topic.log.align(live)

    def committed(self, live: LiveLog, records: Sequence[LogRecord]) -> None:
        """These records of the log were committed: deliver their entries to subscribers."""
        spec = self._core.specs.of_name(live.name)
        if spec is None or spec.durability is None:
            # Not for the channel, if the topic becomes durable later.
            live.sent_number = -1
            return
        added = [record for record in records if isinstance(record, EntryAdded)]
        topic = self._core.make_topic(live.name) if added else None
        if topic is not None and isinstance(topic.log, DurableTopic):
            topic.log.deliver(live, added)
