"""Execute rate limits at a hub: admit, queue or reject messages.

A message is charged once, by the hub that numbers it. A hub that forwards messages sends the home only as many ahead of
its acknowledgements as the envelope would admit at once (`TopicLimit.window`), and holds the rest per connection, so
publishers are slowed down at whichever hub they are connected. `topic_tokens` decides which messages have a token here,
`limited_clients` keeps the commands of clients that wait for one; this module gives the waiting ones their turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.add_tokens import AddTokens
from equipoise.hub.cluster.due_topics import DueTopics
from equipoise.hub.cluster.limited_clients import LimitedClients
from equipoise.hub.cluster.link.frames import RemainderFrame, Tag, TokensFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.share_keeper import ShareKeeper
from equipoise.hub.cluster.stall_watch import CREDIT_NS
from equipoise.hub.cluster.topic_limit import CLIENTS, TopicLimit
from equipoise.hub.cluster.topic_tokens import LOOK_NS, TopicTokens
from equipoise.hub.data.turns import LongWork
from equipoise.limits import nanoseconds
from equipoise.stream.submission import Budget, Gate, NextHop, Path, Submission, WaitReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from equipoise.hub.cluster.lane_state import Facts
    from equipoise.hub.cluster.publish_route import Acked
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.topic import Topic
    from equipoise.model import TopicSpec

__all__ = ["RateLimits"]

# Topics processed in one step when specs have changed: about 5 ms.
ADOPT_SLICE = 1_000


class _Ingress(Protocol):
    @property
    def budget(self) -> Budget: ...
    def drain(self, stream: Stream) -> None: ...
    def release(self, stream: Stream, path: Path) -> bool: ...


class _Acks(Protocol):
    def when_acked(self, topic: Topic, count: int | None, call: Acked) -> None: ...


class _Routes(Protocol):
    def admit(self, topic: Topic, payloads: Sequence[bytes], after: Sequence[Tag] = ()) -> bool: ...
    def answer(self, topic: Topic, count: int) -> bytes | Reply: ...
    def stream_now(self, trunk: Topic) -> Topic: ...


class _Handover(Protocol):
    def review(self, stream: Stream) -> None: ...


class _Lanes(Protocol):
    @property
    def known(self) -> Mapping[bytes, Mapping[str, Facts]]: ...
    def settle(self) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def handover(self) -> _Handover: ...
    @property
    def ingress(self) -> _Ingress: ...
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def receipts(self) -> _Acks: ...
    @property
    def ways(self) -> _Routes: ...
    @property
    def is_barrier_passed(self) -> bool: ...


class RateLimits:
    """Owned by one cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._core = cluster.core
        self.shares = ShareKeeper(cluster)
        self.tokens = tokens = TopicTokens(cluster.core)
        self.now, self.room, self.spend = tokens.now, tokens.room, tokens.spend
        self.take, self.give_back, self.lend = tokens.take, tokens.give_back, tokens.lend
        self.clients = LimitedClients(cluster, tokens, self)
        self.submit, self.ready = self.clients.submit, self.clients.ready
        self.charge = AddTokens(tokens, self.clients).charge
        self.submit_positioned, self.publish = self.clients.submit_positioned, self.clients.publish
        self._work = LongWork(cluster.core.turns)
        self._due = DueTopics(cluster.core.shell, tokens.now, self.serve)
        # Streams whose share is less than the plan assigns.
        self._growing: dict[Topic, None] = {}

    def close(self) -> None:
        self._work.cancel()
        self.tokens.close()
        self._due.close()

    # Topics with a limit.

    def adopt(self, topic: Topic, spec: TopicSpec | None) -> None:
        """Apply a spec to a topic or lane."""
        envelope = None if spec is None or topic.name.startswith(b"$") else spec.envelope
        limit = topic.limit
        if envelope is None or spec is None:
            if limit is not None:
                self._free(topic, limit)
            return
        if limit is None:
            limit = topic.limit = TopicLimit(
                envelope, nanoseconds(spec.wait_s), self.now, self.tokens.admissions
            )
            topic.gate()
            if topic.stream is not None:
                limit.is_claimed = topic.stream.preparer is not None
                self.guard(topic.stream)
        elif limit.envelope != envelope or limit.wait_ns != nanoseconds(spec.wait_s):
            limit.envelope, limit.wait_ns = envelope, nanoseconds(spec.wait_s)
        self.follow(topic)

    def specs_changed(self, done: Callable[[], object]) -> None:
        """The specs have changed: apply them to all topics, then call `done`."""
        self._work.run(self._adopt_all(), done)

    def _adopt_all(self) -> Iterator[None]:
        index, specs = self._core.index, self._core.specs
        for i, topic in enumerate([*index.topics.values(), *index.lanes.values()], 1):
            self.adopt(topic, specs.of(topic))
            if not i % ADOPT_SLICE:
                yield

    def follow(self, topic: Topic) -> None:
        """The plan, the specs or the state of the stream may have changed."""
        if topic.limit is not None:
            self.shares.follow(topic, topic.limit)
            self.look_at(topic, topic.limit)

    def evaluate(self, topic: Topic) -> None:
        """Evaluate a topic after a change of the plan or of the live hubs, before DONE is sent."""
        if topic.limit is not None:
            for stream in (topic, *(() if topic.beside is None else topic.beside.lanes.values())):
                self.follow(stream)

    def routing_progressed(self) -> None:
        """Other hubs have reported progress on the current routing: shares may have become free."""
        if self._cluster.is_barrier_passed:
            self.shares.passed()
            growing, self._growing = self._growing, {}
            for topic in growing:
                self.serve(topic)

    def guard(self, stream: Stream) -> None:
        """Make the stream's messages pass the gate for tokens, and count them in the budget of limited topics."""
        if stream.topic.limit is not None and stream.admission.tokens is None:
            stream.admission.tokens = self._gate(stream.topic)
            stream.admission.change_budget(self.clients.budget)

    def _gate(self, topic: Topic) -> Gate:
        def gate(item: Submission, route: NextHop) -> WaitReason | None:
            if not route.is_here or item.lost or self.room(topic):
                return None
            return WaitReason.TOKENS

        return gate

    def _free(self, topic: Topic, limit: TopicLimit) -> None:
        """The limit was removed: send all waiting messages."""
        limit.take_back()
        topic.limit = None
        topic.gate()
        stream = topic.stream
        if stream is not None:
            stream.admission.tokens = None
            stream.admission.change_budget(self._cluster.ingress.budget)
            self._cluster.ingress.drain(stream)
            self._cluster.handover.review(stream)
        self.clients.free(topic, limit)

    # Serving waiting messages.

    def line_up(self, topic: Topic, path: Path) -> None:
        """Messages that arrived by a path wait for tokens."""
        limit = topic.limit
        assert limit is not None, "the gate has held them"
        limit.ring.join(path, limit.waiting_at.get(path[-1][0], 1) if path else 1)
        self.look_at(topic, limit)

    def progressed(self, trunk: Topic) -> None:
        """Acknowledgements have arrived, or the stream is established here: serve waiting clients."""
        limit = trunk.limit
        if limit is None:
            return
        self.clients.acked(trunk, limit)
        if limit.queue is not None:
            self.serve(trunk)

    def receive_waiting(self, topic: Topic, hub: str, count: int) -> None:
        """WAITING: `count` connections wait at another hub, which gets as many turns."""
        limit = topic.limit
        if limit is None:
            return
        limit.waiting_at[hub] = count
        for path in [path for path in limit.ring if path and path[-1][0] == hub]:
            limit.ring.join(path, count)

    def offered(self, topic: Topic) -> None:
        """Another hub numbers the topic until it closes it or dies, which the barrier does not cover."""
        if topic.limit is not None:
            topic.limit.is_claimed = True

    def closing(self, topic: Topic, hub: str) -> None:
        """The topic is about to be closed here: send the next home the tokens that it takes over."""
        if topic.limit is not None:
            self.shares.closing(topic, topic.limit, hub)

    def opened(self, topic: Topic, hub: str) -> None:
        """The topic is opened here; `hub`: its former home, empty if unknown."""
        if topic.limit is not None:
            self.shares.opened(topic, topic.limit, hub)
            self.look_at(topic, topic.limit)

    def receive_tokens(self, topic: Topic, hub: str, frame: TokensFrame) -> None:
        if topic.limit is not None:
            self.shares.receive_tokens(topic, topic.limit, hub, frame)

    def lane_ended(self, lane: Topic) -> None:
        """This hub's lane has ended: the trunk takes over the remaining tokens."""
        if lane.limit is not None:
            self.shares.lane_ended(lane, lane.limit)

    def receive_remainder(self, topic: Topic, hub: str, frame: RemainderFrame) -> None:
        if topic.limit is not None:
            self.shares.receive_remainder(topic.limit, hub, frame.version, frame.level)

    def serve(self, topic: Topic, due_at: int = 0) -> None:
        """Admit the waiting messages that may be admitted now, and schedule the next check.

        `due_at`: when the topic should have been served. Waiting messages then get the tokens since that time, even
        above the bucket's depth: the hub was late, as after a stall.
        """
        limit = topic.limit
        if limit is None or limit.is_served:
            return
        before, self.tokens.serving_at = self.tokens.serving_at, self.now()
        limit.is_served = True
        try:
            if due_at and limit.ring:
                limit.bucket.level(self.tokens.serving_at, max(due_at, self.tokens.serving_at - CREDIT_NS))
            self._let_go(topic, limit)
        finally:
            limit.is_served = False
            self.tokens.serving_at = before
        if topic.limit is limit:
            self.look_at(topic, limit)

    def _let_go(self, topic: Topic, limit: TopicLimit) -> None:
        if limit.wanted != limit.share:
            self.shares.grow(topic, limit)
        if limit.queue is not None:
            self.clients.serve(topic, limit, limit.queue)
        has_waited = bool(limit.ring)
        while limit.ring and topic.is_home and topic.limit is limit:
            now = self.now()
            if not self.tokens.holds_lease(now) or limit.bucket.tokens(now) <= self.tokens.kept(limit):
                break
            self._take_turn(topic, limit)
        stream = topic.stream
        if has_waited and stream is not None and not limit.ring and not stream.admission.waiting:
            # The stream may have become idle, and a lane that has to end may end now.
            self._cluster.handover.review(stream)
            if topic.lane:
                self._cluster.lanes.settle()

    def _take_turn(self, topic: Topic, limit: TopicLimit) -> None:
        """Let the first party in the ring have one message numbered."""
        party = limit.ring.first
        assert party is not None, "a client waits"
        limit.granted = 1
        trunk = topic.trunk
        try:
            if party == CLIENTS:
                queue = None if trunk.limit is None else trunk.limit.queue
                has_gone = queue is not None and self.clients.release(trunk, queue)
            else:
                has_gone = topic.stream is not None and self._cluster.ingress.release(topic.stream, party)
        finally:
            limit.granted = 0
        if not has_gone:
            limit.ring.leave(party)
        elif party == limit.ring.first:
            limit.ring.turn_over()
        if party == CLIENTS:
            self.clients.tidy(trunk, limit)

    def look_at(self, topic: Topic, limit: TopicLimit) -> None:
        """Schedule the next `serve` of the topic, if one is needed."""
        now = self.now()
        at: int | None = None
        if limit.ring and self.tokens.holds_lease(now):
            wait_ns = limit.bucket.wait(1 + self.tokens.kept(limit), now)
            at = None if wait_ns is None else now + wait_ns
        if limit.wanted != limit.share:
            self._growing[topic] = None
        if limit.queue is not None or limit.ring or limit.wanted != limit.share:
            at = now + LOOK_NS if at is None else min(at, now + LOOK_NS)
        if at is None or (limit.due_at is not None and limit.due_at <= at):
            return
        limit.due_at = at
        self._due.add(topic, at, now)
