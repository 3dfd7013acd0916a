"""Topics with a durable spec: their channel and their log are one.

PUBLISH, EQ.PUBLISH and XADD append to the log and are answered after the commit. Subscribers get what is committed,
and only that, in the order of the log. A message of PUBLISH is an entry with the one field `payload`; to subscribers an
entry of XADD is the value of that field if it is the only one, else all fields and values as an array in RESP.

In a cluster a message goes to the hub that owns the log, as every command on it does. That hub gives it to the channel
once it is committed, as if a client of its own published it: the channel's home is the same hub, but for moments in
which the topic moves. The log is given to the next owner once the channel has all that this one has committed, so
subscribers get messages in the order of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.data.reply import LATE, Reply
from equipoise.hub.logs.live_log import UNCERTAIN
from equipoise.hub.logs.log_request import PUBLISH, PUBLISH_POSITIONED, LogRequest
from equipoise.log.append import add_entry, payload_body, payload_of
from equipoise.log.errors import LogCommandError
from equipoise.log.records import EntryAdded
from equipoise.resp.replies import array, bulk, error, integer

if TYPE_CHECKING:
    from equipoise.hub.data.audience import Audience
    from equipoise.hub.data.losses import Losses
    from equipoise.hub.data.other_hubs import OtherHubs
    from equipoise.hub.data.topic_specs import TopicSpecs
    from equipoise.hub.data.topics import Topic, TopicIndex
    from equipoise.hub.logs.hub_logs import HubLogs
    from equipoise.hub.logs.live_log import LiveLog
    from equipoise.log.ids import EntryId
    from equipoise.log.records import LogRecord
    from equipoise.log.topic_log import TopicLog

__all__ = ["DurableTopic", "DurableTopics"]

NO_TOPIC_ROOM = "TRYAGAIN the owner of the log has no room for the topic"


def _for_each(outcome: bytes | Reply, count: int) -> bytes | Reply:
    """The outcome of several messages, with an error as often as there are messages."""
    if isinstance(outcome, bytes):
        return outcome * count if outcome[:1] == b"-" else outcome
    whole = Reply(expired=lambda: error(LATE) * count)

    def complete() -> None:
        answer = b"".join(outcome.pieces or ())
        if whole.is_wanted:
            whole.complete(answer * count if answer[:1] == b"-" else answer)

    outcome.owe(complete, 0.0, is_muted=False)
    if outcome.pieces is not None:
        complete()
    return whole


def _receipt(epoch: int, n: int, receivers: int) -> bytes:
    """The answer to EQ.PUBLISH: the trunk, and the position in it; 0 where the channel is still on its way here."""
    return array((bulk(b""), integer(epoch), integer(n), integer(receivers)))


class _Core(Protocol):
    """What durable topics need of the hub."""

    @property
    def specs(self) -> TopicSpecs: ...
    @property
    def cluster(self) -> OtherHubs: ...
    @property
    def index(self) -> TopicIndex: ...
    @property
    def losses(self) -> Losses: ...
    def publish(self, topic: Topic, payloads: Sequence[bytes]) -> int: ...
    def audience_of(self, topic: Topic) -> Audience: ...
    def make_topic(self, name: bytes) -> Topic | None: ...


class DurableTopic:
    """The channel of one topic on its log. `Topic.log` is one for durable topics."""

    def __init__(self, core: _Core, topic: Topic, logs: HubLogs) -> None:
        self._core = core
        self._topic = topic
        self._logs = logs
        # The positions of entries for whose publishers they matter, once they are known.
        self._awaited: dict[EntryId, int] = {}

    def publish(self, payloads: Sequence[bytes]) -> bytes | Reply:
        """The replies to all messages, once they are committed."""
        name, logs = self._topic.name, self._logs
        if logs.elsewhere is None:
            outcome = self.publish_here(logs.of(name), payloads)
        else:
            outcome = logs.elsewhere.submit(name, LogRequest(PUBLISH, [b"publish", name, *payloads]))
        return outcome if len(payloads) == 1 else _for_each(outcome, len(payloads))

    def publish_here(self, live: LiveLog, payloads: Sequence[bytes]) -> bytes | Reply:
        def work(log: TopicLog) -> bytes:
            self._add(log, payloads)
            # At all hubs, as of a second ago, as for every topic.
            return self._core.audience_of(self._topic).common_reply * len(payloads)

        return live.submit(work, sum(map(len, payloads)))

    def publish_positioned(
        self, payloads: Sequence[bytes], receipt: Callable[[int, int, int], bytes]
    ) -> bytes | Reply:
        """`receipt` makes the reply of epoch, position and receivers, once the messages are committed."""
        if self._logs.elsewhere is None:
            return self.publish_positioned_here(self._logs.of(self._topic.name), payloads, receipt)
        name = self._topic.name
        request = LogRequest(PUBLISH_POSITIONED, [b"eq.publish", name, *payloads])
        return self._logs.elsewhere.submit(name, request)

    def publish_positioned_here(
        self, live: LiveLog, payloads: Sequence[bytes], receipt: Callable[[int, int, int], bytes]
    ) -> Reply:
        reply = Reply(expired=lambda: error(LATE))

        def run() -> None:
            if not reply.is_wanted:
                return
            try:
                last = self._add(live.log, payloads)
            except LogCommandError as problem:
                reply.complete(error(problem.text))
                return
            self._awaited[last] = 0
            live.changed()
            live.when_committed(lambda is_committed: finish(last, is_committed))

        def finish(last: EntryId, is_committed: bool) -> None:
            n = self._awaited.pop(last, 0)
            if reply.is_wanted:
                receivers = self._core.audience_of(self._topic).receivers
                done = receipt(self._topic.epoch, n, receivers) if is_committed else error(UNCERTAIN)
                reply.complete(done)

        live.when_open(run)
        return reply

    def _add(self, log: TopicLog, payloads: Sequence[bytes]) -> EntryId:
        now_ms = self._logs.now_ms()
        ids = [add_entry(log, payload_body(payload), now_ms) for payload in payloads]
        return ids[-1]

    def deliver(self, added: Sequence[EntryAdded]) -> None:
        """These entries are committed: subscribers get them."""
        topic, payloads = self._topic, [payload_of(entry.body) for entry in added]
        if topic.stream is None:
            self._core.publish(topic, payloads)
        elif not self._core.cluster.admit(topic, payloads):
            # The log has them; subscribers miss them.
            self._core.losses.count(topic.name, len(payloads))
        if self._awaited and topic.is_home:
            first = topic.n - len(added) + 1
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
            if is_durable:
                # Published before this hub knew: they are not in the log, and have not been acknowledged.
                self._core.cluster.ways.refuse_waiting(topic)

    def follow(self, topics: Iterable[Topic]) -> None:
        """The specs have changed."""
        for topic in topics:
            self.adopt(topic)

    def perform(self, live: LiveLog, request: LogRequest) -> bytes | Reply:
        """Publish for a client of another hub, or of this one, to the log that this hub owns."""
        topic = self._core.make_topic(live.name)
        if topic is None:
            return error(NO_TOPIC_ROOM)
        known = topic.log
        channel = known if isinstance(known, DurableTopic) else DurableTopic(self._core, topic, self._logs)
        if request.name == PUBLISH:
            return channel.publish_here(live, request.words[2:])
        return channel.publish_positioned_here(live, request.words[2:], _receipt)

    def when_delivered(self, name: bytes, call: Callable[[], None]) -> None:
        """Call once the channel has all that is committed in the log: at once where it is no channel."""
        topic = self._core.index.topics.get(name)
        if topic is None or topic.log is None:
            call()
        else:
            self._core.cluster.receipts.when_acked(topic, None, lambda at, is_lost: call())

    def committed(self, live: LiveLog, records: Sequence[LogRecord]) -> None:
        added = [record for record in records if isinstance(record, EntryAdded)]
        spec = self._core.specs.of_name(live.name) if added else None
        if spec is None or spec.durability is None:
            return
        topic = self._core.make_topic(live.name)
        if topic is not None and topic.log is not None:
            topic.log.deliver(added)
