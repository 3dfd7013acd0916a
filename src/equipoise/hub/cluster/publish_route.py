"""Publish for clients to the current stream of a topic, and track the acknowledgements.

`route_changes` chooses the stream and changes it. Messages that arrive during a change wait until it is complete.

Acknowledgements arrive in the order in which messages of one hub's clients to one topic were accepted, whichever of its
streams they are sent to, so two counters per topic suffice. Clients can wait for them (EQ.PUBLISH, EQ.SETTLE).

Always true:
    messages that wait for a change of stream are sent in order, before later ones;
    a topic has an account exactly while messages of clients are not acknowledged, or a call waits for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.cluster.route_changes import RouteChanges, RoutedCluster
from equipoise.hub.cluster.streams import PublishRoute, Stream
from equipoise.hub.data.reply import LATE, LOST, NO_ROOM, Reply
from equipoise.hub.data.topic import own_replies
from equipoise.resp.replies import error
from equipoise.stream.submission import NOWHERE, Ack, Submission

if TYPE_CHECKING:
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

__all__ = ["AckWaiter", "Acked", "ClientAcks", "PublishRouting", "TopicAcks"]


class _Ingress(Protocol):
    def is_vouched(self, stream: Stream) -> bool: ...
    def submit(self, topic: Topic, item: Submission) -> bool: ...
    def give_up(self, stream: Stream, acks: Sequence[Ack]) -> None: ...


class _Cluster(RoutedCluster, Protocol):
    @property
    def ingress(self) -> _Ingress: ...
    @property
    def receipts(self) -> ClientAcks: ...
    @property
    def ways(self) -> PublishRouting: ...


class PublishRouting:
    """Sends the publishes of clients to the current stream of each topic. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        changes = RouteChanges(cluster, self)
        self._changes = changes
        self.retarget, self.lane_gone, self.unsure = changes.retarget, changes.lane_gone, changes.unsure

    def publish(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        """Publish for a client: the reply to each message, empty where `own_replies` has them; or a pending one to all.

        At a hub other than the home, the reply counts the receivers at all hubs, as of a second ago, and the matching
        filters of this hub. The reply is pending if a message waits at a gate, or if its loss would not be reported.
        """
        if (content := topic.content) is not None:
            content.counts = []
        if not self.admit(topic, payloads):
            return error(NO_ROOM)
        if content is not None:
            content.count(payloads)
        return self.answer(topic, len(payloads), is_filtered=content is not None)

    def answer(self, topic: Topic, count: int, *, is_filtered: bool = False) -> bytes | Reply:
        """The reply to each of the messages that were just admitted, or a pending reply to all."""
        audience = self._cluster.core.audience_of(topic)
        each = b"" if is_filtered else audience.common_reply
        if self._may_answer(topic):
            return each
        reply, replies = Reply(expired=lambda: error(LATE) * count), each * count or own_replies(topic)
        self._cluster.receipts.when_acked(
            topic, count, lambda at, is_lost: reply.complete(error(LOST) * count if is_lost else replies)
        )
        return reply

    def _may_answer(self, topic: Topic) -> bool:
        """Whether a message that was just admitted may be acknowledged at once."""
        stream = topic.stream
        if stream is None:
            return True
        if stream.admission.routing or (stream.admission.gates and () in stream.admission.waiting):
            return False
        found = topic if stream.way is None else self._cluster.tags.find(topic, stream.way.now) or topic
        return found.stream is None or self._cluster.ingress.is_vouched(found.stream)

    def admit(self, topic: Topic, payloads: Sequence[bytes], after: Sequence[Tag] = ()) -> bool:
        """Accept messages of a client of this hub, to be numbered; False if there is no room."""
        if topic.news != self._cluster.news.latest:
            self._cluster.news.tell(topic)
        stream = topic.stream
        item = Submission((), 0, payloads, after)
        self._cluster.receipts.take(topic, len(payloads))
        if stream is None or stream.way is None:
            is_taken = self._cluster.ingress.submit(topic, item)
        else:
            is_taken = self._choose(stream, stream.way, item)
        if not is_taken:
            self._cluster.receipts.take(topic, -len(payloads))
        return is_taken

    def refuse_waiting(self, topic: Topic) -> None:
        """The topic has become durable: fail the messages that wait here, whose clients have no reply yet."""
        if topic.stream is not None:
            waiting = topic.stream.admission.drop_waiting(())
            self._cluster.ingress.give_up(
                topic.stream, [Ack((), item.messages, *NOWHERE) for item in waiting]
            )

    def _choose(self, stream: Stream, way: PublishRoute, item: Submission) -> bool:
        """Send messages of clients to the current stream, or hold them during a change; False if there is no room."""
        if way.is_settled and not stream.admission.routing:
            return self.send(stream, way, item)
        if not stream.admission.has_room(item):
            return False
        stream.admission.put_routing(item)
        return True

    def progressed(self, trunk: Topic) -> None:
        """Acknowledgements arrived, or the topic's state has changed: complete a pending change of stream."""
        if (stream := trunk.stream) is not None and stream.way is not None:
            self._changes.progressed(trunk, stream, stream.way)

    def stream_now(self, trunk: Topic) -> Topic:
        """The stream that this hub's clients publish to; the trunk if there is no other."""
        way = None if trunk.stream is None else trunk.stream.way
        return trunk if way is None else self._cluster.tags.find(trunk, way.now) or trunk

    def position(self, trunk: Topic) -> Tag:
        """The position of the last message of this hub's clients, in the stream that it was sent to."""
        way = None if trunk.stream is None else trunk.stream.way
        if way is not None and way.is_unused and way.after:
            name = next(reversed(way.after))
            return Tag(name, *way.after[name])
        found = self.stream_now(trunk)
        return Tag(found.lane, *self.reached(found))

    def after(self, trunk: Topic) -> tuple[Tag, ...]:
        """Dependencies of this hub's next messages on streams that it used before."""
        way = None if trunk.stream is None else trunk.stream.way
        return () if way is None else tuple(Tag(name, *at) for name, at in way.after.items())

    # Inside.

    def send(self, stream: Stream, way: PublishRoute, item: Submission) -> bool:
        if way.is_due:
            way.is_due = False
            item = item._replace(after=(*item.after, *self.after(stream.topic)))
        way.is_unused = False
        return self._cluster.ingress.submit(self.stream_now(stream.topic), item)

    def reached(self, topic: Topic) -> tuple[int, int]:
        """The position that this hub's next message follows: the stream's last one if it is numbered here."""
        stream = topic.stream
        if stream is None or stream.state.is_home:
            return topic.epoch, topic.n
        return max(stream.admission.numbered_at, stream.confirmed)


# Links in an account above which those without messages in flight are removed.
_LINKS_MAX = 64
# Called with the position of the last numbered message, and whether any of the awaited messages was lost.
Acked = Callable[[Tag, bool], object]


class AckWaiter:
    """Waits for the messages of one topic from `since` to `until`, by the account's count."""

    __slots__ = ("call", "is_lost", "since", "until")

    def __init__(self, since: int, until: int, call: Acked) -> None:
        self.since = since
        self.until = until
        self.call = call
        # Whether some of them were lost.
        self.is_lost = False


class TopicAcks:
    """The account of one topic: its messages of clients that are not acknowledged."""

    __slots__ = ("acked", "at", "links", "taken", "waiting")

    def __init__(self, at: Tag) -> None:
        self.taken = 0
        self.acked = 0
        # The position of the last numbered message.
        self.at = at
        # Ordered by `until`.
        self.waiting: deque[AckWaiter] = deque()
        # By link of a client, `taken` after its last message.
        self.links: dict[bytes, int] = {}

    def note_link(self, link: bytes) -> None:
        if len(self.links) > _LINKS_MAX:
            self.links = {one: until for one, until in self.links.items() if until > self.acked}
        self.links[link] = self.taken

    def wait(self, waiter: AckWaiter) -> None:
        """Insert a waiter, ordered by `until`."""
        later: list[AckWaiter] = []
        while self.waiting and self.waiting[-1].until > waiter.until:
            later.append(self.waiting.pop())
        self.waiting.append(waiter)
        self.waiting.extend(reversed(later))


class ClientAcks:
    """The accounts of all topics. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self.accounts: dict[Topic, TopicAcks] = {}
        # By session, the number of its pending `when_acked` calls; no entry of 0.
        self.pending: dict[Session, int] = {}

    def take(self, topic: Topic, count: int) -> None:
        """`count` messages of clients are about to be submitted to the topic; negative: they were rejected."""
        account = self.accounts.get(topic)
        if account is None:
            account = self.accounts[topic] = TopicAcks(self._cluster.ways.position(topic))
        account.taken += count
        # The core has set the publisher.
        publisher = self._cluster.core.sessions.get(topic.publisher or 0)
        if publisher is not None and publisher.link is not None and count > 0:
            account.note_link(publisher.link)
        self._close_if_empty(topic, account)

    def acked(self, topic: Topic, count: int, at: tuple[int, int]) -> None:
        """`count` more messages of a topic's stream are acknowledged, the last at `at`; epoch 0: without a position."""
        if at[0] and topic.stream is not None:
            topic.stream.admission.numbered_at = at
        account = self.accounts.get(topic.trunk)
        if account is None:
            return
        before = account.acked
        account.acked += count
        if at[0]:
            account.at = Tag(topic.lane, *at)
        else:
            for one in account.waiting:
                one.is_lost = one.is_lost or (one.since < account.acked and one.until > before)
        while account.waiting and account.waiting[0].until <= account.acked:
            one = account.waiting.popleft()
            one.call(account.at, one.is_lost)
        self._close_if_empty(topic.trunk, account)

    def when_acked(self, topic: Topic, count: int | None, call: Acked) -> None:
        """Call once the last `count` messages of clients to the topic, or all, are acknowledged."""
        account = self.accounts.get(topic)
        if account is None:
            call(self._cluster.ways.position(topic), False)
            return
        since = 0 if count is None else account.taken - count
        account.wait(AckWaiter(since, account.taken, call))

    @property
    def is_settled(self) -> bool:
        """Whether no message of a client is unacknowledged."""
        return not self.accounts

    def _close_if_empty(self, topic: Topic, account: TopicAcks) -> None:
        if account.acked >= account.taken and not account.waiting:
            self.accounts.pop(topic, None)
