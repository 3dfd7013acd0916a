"""Execute handovers: feed events to the table of stream/handover.py and execute its effects.

The only module that uses both the table and the hub. It makes no decisions: the table defines the events of each state,
their conditions and their effects.

Always true: `opening` holds exactly the streams in the state opening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.frames import (
    CancelFrame,
    CloseFrame,
    OpenedFrame,
    PreparedFrame,
    PrepareFrame,
)
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import State, Stream
from equipoise.hub.data.turns import LongWork
from equipoise.stream.effects import (
    AskPlan,
    AwaitAnswer,
    CloseEpoch,
    Effect,
    Follow,
    Forget,
    HandoverDone,
    OpenEpoch,
    QueueClose,
    Reconsider,
    Resume,
    Review,
    SendCancel,
    SendPrepare,
    SendPrepared,
    StateChanged,
    WakeDependents,
)
from equipoise.stream.handover import apply, first_state
from equipoise.stream.handover_events import HandoverEvent, HubDied, PlanApplied, PrepareReceived, Progressed

if TYPE_CHECKING:
    from equipoise.hub.cluster.epoch_flush import EpochFlush
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.topics import Topic
    from equipoise.stream.submission import Budget

__all__ = ["REVIEW_SLICE", "HandoverEngine"]

# Streams reviewed in one step after the barrier has passed: about 2 ms.
REVIEW_SLICE = 50

AnyEffect = TypeVar("AnyEffect", bound=Effect)


class _Barrier(Protocol):
    def check(self) -> None: ...
    @property
    def is_introduced(self) -> bool: ...


class _Failover(Protocol):
    def report(self, stream: Stream) -> None: ...
    def name_repeats(self, topic: Topic, links: Iterable[OutLink]) -> None: ...


class _Feeders(Protocol):
    def taken_over(self, topic: Topic, former: str) -> None: ...


class _Ingress(Protocol):
    @property
    def budget(self) -> Budget: ...
    def drain(self, stream: Stream) -> None: ...


class _Subscriptions(Protocol):
    def is_kept(self, topic: Topic) -> bool: ...


class _Relays(Protocol):
    def count_loss(self, topic: Topic, epoch: int, n: int) -> None: ...
    def drop_pending(self, stream: Stream) -> None: ...
    def follow(self, stream: Stream) -> None: ...
    def is_behind(self, stream: Stream) -> bool: ...
    def succeed(self, stream: Stream) -> None: ...
    def unfollow(self, stream: Stream) -> None: ...


class _Moves(Protocol):
    def answered(self, stream: Stream, peer: str, version: int) -> None: ...
    def asked(self, stream: Stream) -> None: ...
    def closed(self, stream: Stream) -> None: ...
    def kept(self, stream: Stream) -> None: ...
    def opened(self, stream: Stream) -> None: ...


class _Patterns(Protocol):
    def links(self, topic: bytes) -> list[OutLink]: ...


class _Dependencies(Protocol):
    def greet(self, topic: Topic, link: OutLink) -> None: ...
    def moved(self, topic: Topic) -> None: ...


class _Redirects(Protocol):
    def look(self, topic: Topic) -> None: ...


class _Routes(Protocol):
    def progressed(self, trunk: Topic) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def barrier(self) -> _Barrier: ...
    @property
    def failover(self) -> _Failover: ...
    @property
    def feeders(self) -> _Feeders: ...
    @property
    def flushes(self) -> EpochFlush: ...
    @property
    def ingress(self) -> _Ingress: ...
    @property
    def subscriptions(self) -> _Subscriptions: ...
    @property
    def merging(self) -> _Relays: ...
    @property
    def moves(self) -> _Moves: ...
    @property
    def patterns(self) -> _Patterns: ...
    @property
    def tags(self) -> _Dependencies: ...
    @property
    def redirects(self) -> _Redirects: ...
    @property
    def ways(self) -> _Routes: ...
    def announce(self, topic: Topic, epoch: int, after_epoch: int, after_n: int) -> None: ...
    def answer_waiting(self, stream: Stream) -> None: ...
    @property
    def is_barrier_passed(self) -> bool: ...


class HandoverEngine:
    """Owned by one cluster. Implements HandoverFacts for the table."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self.opening: dict[Stream, None] = {}
        # Topics that a hub has offered and for which there was no room, with hub and version: a topic of that name must
        # not be opened here as if no hub had it.
        self.refused: dict[bytes, tuple[str, int]] = {}
        self._reviewing = LongWork(cluster.core.turns)
        self._guest: Stream | None = None
        # Number of completed handovers to this hub.
        self.taken = 0
        self._executors: dict[type[Any], Callable[[Stream, Any], None]] = {}
        self._register()

    def _register(self) -> None:
        on, cluster = self._on, self._cluster
        on(StateChanged, self._state_changed)
        on(SendPrepare, lambda s, e: cluster.tell(e.hub, PrepareFrame(s.topic.name, e.version)))
        on(SendPrepared, self._send_prepared)
        on(SendCancel, lambda s, e: cluster.tell(e.hub, CancelFrame(s.topic.name, e.version)))
        on(AwaitAnswer, lambda s, e: cluster.moves.asked(s))
        on(QueueClose, lambda s, e: cluster.moves.answered(s, e.hub, e.version))
        on(CloseEpoch, self._close)
        on(OpenEpoch, self._open)
        on(Follow, lambda s, e: cluster.merging.follow(s))
        on(AskPlan, self._ask_plan)
        on(Reconsider, lambda s, e: self.handle(s, PrepareReceived(e.hub, e.version)))
        on(Review, lambda s, e: self.review(s))
        on(Resume, self._resume)
        on(Forget, self._forget)
        on(WakeDependents, lambda s, e: cluster.tags.moved(s.topic))
        on(HandoverDone, self._done)

    def _on(self, effect_type: type[AnyEffect], executor: Callable[[Stream, AnyEffect], None]) -> None:
        self._executors[effect_type] = executor

    # Facts that the table reads.

    @property
    def hub(self) -> str:
        return self._cluster.name

    @property
    def version(self) -> int:
        return self._cluster.router.version

    @property
    def is_introduced(self) -> bool:
        return self._cluster.barrier.is_introduced

    @property
    def is_barrier_passed(self) -> bool:
        return self._cluster.is_barrier_passed

    # Events.

    def handle(self, stream: Stream, event: HandoverEvent) -> None:
        for effect in apply(stream, event, self):
            self._executors[type(effect)](stream, effect)

    def review(self, stream: Stream) -> None:
        """A change that the stream may wait for has happened. Not called for the delivery of messages."""
        if stream.topic.stream is stream:
            self._cluster.flushes.look(stream)
            is_behind = stream.ending is not None and self._cluster.merging.is_behind(stream)
            self.handle(stream, Progressed(is_behind))

    def adopt(self, topic: Topic) -> None:
        """Set the initial state of a topic that was just created at this hub."""
        home = self._cluster.router.home(topic.name)
        offer = self.refused.pop(topic.name, None)
        state = first_state(home, self, is_offered=offer is not None)
        if state is None:
            return
        # Less than every epoch in use, so that any epoch received is later.
        topic.epoch = 0
        stream = self.new_stream(topic, state, home if state is State.REMOTE else None)
        if state is State.OPENING:
            self.opening[stream] = None
        elif stream.is_kept:
            self._cluster.merging.follow(stream)
        if offer is not None:
            self.handle(stream, PrepareReceived(*offer))

    def new_stream(self, topic: Topic, state: State = State.OPEN, peer: str | None = None) -> Stream:
        """Create the Stream of a topic or lane, which has more state than that it is open here."""
        stream = topic.stream = Stream(topic, state, peer, self._cluster.ingress.budget)
        stream.is_kept = self._cluster.subscriptions.is_kept(topic)
        if topic.limit is not None:
            self._cluster.limits.guard(stream)
        return stream

    def evaluate(self, topic: Topic) -> None:
        """Look up the topic's home in the plan, and handle the outcome as an event."""
        cluster = self._cluster
        home = cluster.router.home(topic.name)
        stream = topic.stream
        if stream is not None:
            stream.is_kept = cluster.subscriptions.is_kept(topic)
            self.handle(stream, PlanApplied(home))
        elif home != cluster.name:
            # A topic without a Stream whose home is this hub needs no event: it stays open.
            self.handle(
                self.new_stream(topic),
                # A limited topic is handed over even if unused: its next home needs the level of its token bucket.
                PlanApplied(
                    home, is_unused=topic.limit is None and not cluster.core.audience_of(topic).is_heard
                ),
            )
        if topic.stream is not None:
            self.review(topic.stream)
        cluster.redirects.look(topic)

    def offered(self, topic: Topic, hub: str, version: int) -> None:
        """PREPARE arrived."""
        stream = topic.stream or self.new_stream(topic)
        self._cluster.limits.offered(topic)
        self.handle(stream, PrepareReceived(hub, version))

    def refuse(self, name: bytes, hub: str, version: int) -> None:
        """There is no room for a topic that a hub offers. That hub keeps the topic and repeats the offer."""
        self.refused[name] = (hub, version)

    def forget_offers(self, hub: str, name: bytes | None = None) -> None:
        """The hub has withdrawn its offer of the topic; without `name`, all its offers."""
        for refused in list(self.refused) if name is None else [name]:
            if self.refused.get(refused, ("", 0))[0] == hub:
                del self.refused[refused]

    def hub_died(self, stream: Stream, hub: str) -> None:
        if stream.topic.log is not None and stream.peer == hub and stream.topic.has_followers:
            stream.topic.log.home_lost()
        self.handle(stream, HubDied(hub))

    def review_opening(self) -> None:
        """Other hubs have reported progress: review the streams that may be opened now."""
        self._reviewing.run(self._review_all(list(self.opening)))

    def _review_all(self, streams: Sequence[Stream]) -> Iterator[None]:
        for i, stream in enumerate(streams, 1):
            if stream in self.opening:
                self._cluster.news.tell(stream.topic)
                self.review(stream)
            if not i % REVIEW_SLICE:
                yield

    @property
    def has_guests(self) -> bool:
        """Whether a topic is moving here that the plan assigns to another hub."""
        # Check the stream found last time first: this property is read often while there is one.
        if self._guest is None or not self._is_guest(self._guest):
            self._guest = next(filter(self._is_guest, self.opening), None)
        return self._guest is not None

    def _is_guest(self, stream: Stream) -> bool:
        router = self._cluster.router
        return (
            stream in self.opening
            and (stream.preparer is not None or stream.ending is not None)
            and stream.since_version <= router.version
            and router.home(stream.topic.name) != router.name
        )

    # Execution of effects.

    def _state_changed(self, stream: Stream, effect: StateChanged) -> None:
        if effect.before is State.OPENING:
            self.opening.pop(stream, None)
        elif effect.before is State.CLOSING:
            self._cluster.moves.kept(stream)
        if effect.after is State.OPENING:
            self.opening[stream] = None
        # Patterns are served by the home only.
        stream.topic.audience = None
        self._cluster.redirects.look(stream.topic)

    def _send_prepared(self, stream: Stream, effect: SendPrepared) -> None:
        self._cluster.tell(effect.hub, PreparedFrame(stream.topic.name, effect.version))

    def _close(self, stream: Stream, effect: CloseEpoch) -> None:
        """Follow the new home before it receives CLOSE, so that this hub receives all of its stream."""
        cluster, topic = self._cluster, stream.topic
        if topic.hub_filters is not None:
            topic.hub_filters.account(topic)
        cluster.moves.closed(stream)
        topic.audience = None
        stream.closed_epoch, stream.admission.numbered_at = topic.epoch, (topic.epoch, topic.n)
        cluster.merging.succeed(stream)
        link = cluster.out.get(effect.hub)
        if link is not None:
            cluster.tags.greet(topic, link)
        if topic.limit is not None:
            cluster.limits.closing(topic, effect.hub)
        # A durable topic whose log was never opened here has an unknown end.
        is_known = topic.log is None or topic.log.is_numbered
        cluster.tell(effect.hub, CloseFrame(topic.name, topic.epoch, topic.n if is_known else 0))

    def _open(self, stream: Stream, effect: OpenEpoch) -> None:
        cluster, topic = self._cluster, stream.topic
        hub, epoch, n = effect.after
        cluster.failover.report(stream)
        cluster.merging.unfollow(stream)
        cluster.merging.drop_pending(stream)
        opened = cluster.core.new_epoch(max(epoch, topic.epoch))
        if topic.log is None:
            cluster.announce(topic, opened, epoch, n)
            cluster.merging.count_loss(topic, epoch or opened, n)
        topic.jump(opened, 0 if topic.log is None else topic.log.take_over(n))
        if topic.beside is not None:
            topic.beside.opened = (opened, epoch, n)
        if topic.limit is not None:
            cluster.limits.opened(topic, hub)
        frame = encode(OpenedFrame(topic.name, opened, hub, epoch, n))
        receivers = {**dict.fromkeys(topic.relays or ()), **stream.relays_waiting}
        receivers.update(dict.fromkeys(cluster.patterns.links(topic.name)))
        if hub in cluster.out:
            # The hub that has closed the epoch waits for OPENED, with or without subscribers.
            receivers[cluster.out[hub]] = None
        for link in receivers:
            link.write(frame)
        if not hub:
            cluster.failover.name_repeats(topic, receivers)
        if hub:
            cluster.feeders.taken_over(topic, hub)
        cluster.tags.moved(topic)

    def _ask_plan(self, stream: Stream, effect: AskPlan) -> None:
        self.evaluate(stream.topic)
        self._cluster.barrier.check()

    def _resume(self, stream: Stream, effect: Resume) -> None:
        cluster = self._cluster
        if stream.is_ready:
            cluster.answer_waiting(stream)
        cluster.ingress.drain(stream)
        cluster.ways.progressed(stream.topic.trunk)
        if stream.topic.trunk.limit is not None:
            cluster.limits.progressed(stream.topic.trunk)

    def _forget(self, stream: Stream, effect: Forget) -> None:
        if stream.topic.stream is stream and stream.state is State.OPEN and stream.is_quiet:
            stream.topic.stream = None

    def _done(self, stream: Stream, effect: HandoverDone) -> None:
        if effect.is_taken:
            self.taken += 1
        else:
            self._cluster.moves.opened(stream)
