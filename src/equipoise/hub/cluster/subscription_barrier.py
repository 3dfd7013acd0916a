"""Acknowledge a subscription once the hub follows all streams of the topic.

A subscription by name waits until the trunk and all lanes of the topic are established at this hub. A subscription by
pattern waits until every live hub has the pattern, and until the streams of all matching topics with lanes are
established; these are followed as if by name. At a hub that has just joined, subscriptions wait until all other hubs
have sent it their lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.hub.cluster.dependencies import WHOLE
from equipoise.hub.cluster.lane_state import Lane, TopicLanes, lane_push
from equipoise.hub.cluster.latch import Wait
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import State
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.reply import Reply
from equipoise.model import Glob
from equipoise.resp.replies import bulk, integer, push
from equipoise.stream.position import TRUNK

if TYPE_CHECKING:
    from equipoise.content.filter import Filter
    from equipoise.content.parsing import FilterRequest
    from equipoise.hub.cluster.home_positions import HomeAnswer
    from equipoise.hub.cluster.lane_state import Facts
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.other_hubs import LeftOut
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic
    from equipoise.stream.parts import Dependency

__all__ = ["SubscriptionBarrier"]


class PendingSubscription(NamedTuple):
    """A waiting subscription, to all streams but those left out."""

    kind: Kind
    names: Sequence[bytes]
    left_out: LeftOut
    wait: Wait
    # Subscriptions by filter, with their topics.
    filtered: Sequence[FilterRequest]
    # Functions that release the claims for it at other hubs.
    releases: Sequence[Callable[[], None]]


class _Interests(Protocol):
    def hold(self, topic: Topic, filter: Filter | None, wait: Wait) -> Callable[[], None]: ...
    def narrow_topics(self) -> list[Topic]: ...


class _Lanes(Protocol):
    def follow(self, lane: Lane) -> None: ...
    @property
    def known(self) -> dict[bytes, dict[str, Facts]]: ...
    def of(self, topic: Topic) -> list[Lane]: ...


class _Relays(Protocol):
    def follow(self, stream: Stream) -> None: ...


class _Patterns(Protocol):
    def await_fills(self, patterns: Sequence[bytes], wait: Wait) -> None: ...
    def want(self, pattern: bytes, wait: Wait) -> None: ...


class _Dependencies(Protocol):
    def find(self, trunk: Topic, stream: bytes) -> Topic | None: ...
    def marks_of(self, topic: Topic) -> list[Dependency]: ...
    def greet_session(self, topic: Topic, session: Session) -> None: ...


class _HomePositions(Protocol):
    def ask(self, topic: Topic) -> HomeAnswer: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def home_positions(self) -> _HomePositions: ...
    @property
    def interests(self) -> _Interests: ...
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def merging(self) -> _Relays: ...
    @property
    def patterns(self) -> _Patterns: ...
    @property
    def tags(self) -> _Dependencies: ...


class SubscriptionBarrier:
    """Part of one cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Waiting subscriptions of clients: one claim each, because SUBSCRIBE is a fence.
        self._claims: dict[Session, PendingSubscription] = {}
        # Whether every hub that was alive when this one joined has introduced itself; and the callbacks that wait for
        # it.
        self._is_introduced = False
        self._until_introduced: list[Callable[[], None]] = []

    def when_ready(
        self,
        session: Session,
        kind: Kind,
        names: Sequence[bytes],
        subscribe: Callable[[], bytes],
        left_out: LeftOut = lambda topic: (),
        *,
        filtered: Sequence[FilterRequest] = (),
    ) -> bytes | Reply:
        """Call `subscribe` once a subscription would miss no later message; return its reply.

        Streams that are left out need not be established here.
        """
        reply = Reply(abandoned=lambda: self._give_up(session))
        # Positions of homes, queried once for this subscription.
        answers: dict[bytes, HomeAnswer] = {}

        def is_ready() -> bool:
            return self._is_ready(session, kind, names, left_out, later, filtered, answers)

        def again() -> None:
            # A condition that held before may not hold any more.
            if reply.is_wanted and is_ready():
                reply.complete(subscribe())

        def later() -> None:
            # In a turn of its own, not in the middle of the change that made it ready.
            self._cluster.core.shell.call_later(0, again)

        return subscribe() if is_ready() else reply

    def _is_ready(
        self,
        session: Session,
        kind: Kind,
        names: Sequence[bytes],
        left_out: LeftOut,
        later: Callable[[], None],
        filtered: Sequence[FilterRequest],
        answers: dict[bytes, HomeAnswer],
    ) -> bool:
        """Whether the subscription is ready; if not, `later` is called when it may be."""
        wait = Wait(later)
        former = self._claims.pop(session, None)
        releases: list[Callable[[], None]] = []
        if not self._is_introduced:
            wait.join(self._until_introduced)
        else:
            for topic, filter in self._wanted(kind, names, filtered):
                releases.append(self._cluster.interests.hold(topic, filter, wait))
            for pattern in names if kind.is_pattern else ():
                self._cluster.patterns.want(pattern, wait)
            self._cluster.patterns.await_fills(names if kind.is_pattern else (), wait)
            for topic in self._topics_with_lanes(names) if kind.is_pattern else ():
                self._await_streams(topic, wait)
            for name in (*(request.topic for request in filtered), *(() if kind.is_pattern else names)):
                self._await_streams_by_name(session, name, left_out, wait)
                self._await_number(name, wait)
                self._await_home(name, wait, answers)
        if former is not None:
            _call_all(former.releases)
        if wait.is_over_at_once():
            # Release the claims after the subscription itself has replaced them.
            self._cluster.core.shell.call_later(0, _call_all, releases)
            return True
        self._claims[session] = PendingSubscription(kind, names, left_out, wait, filtered, releases)
        return False

    def _wanted(
        self, kind: Kind, names: Sequence[bytes], filtered: Sequence[FilterRequest]
    ) -> Iterator[tuple[Topic, Filter | None]]:
        """Topics that sources may send in part, each with the filter that the subscription needs; None: everything."""
        topics = self._cluster.core.index.topics
        for name, filter in filtered:
            if (topic := topics.get(name)) is not None:
                yield topic, filter
        if not kind.is_pattern:
            yield from ((topics[name], None) for name in names if name in topics)
        elif names:
            globs = [Glob(pattern) for pattern in names]
            for topic in self._cluster.interests.narrow_topics():
                if any(glob.matches(topic.name) for glob in globs):
                    yield topic, None

    def _await_streams_by_name(self, session: Session, name: bytes, left_out: LeftOut, wait: Wait) -> None:
        core = self._cluster.core
        found = core.index.topics.get(name) or core.new_topic(session, name)
        # If this is not permitted, the subscription itself fails later.
        absent = None if isinstance(found, str) else left_out(found)
        if not isinstance(found, str) and absent is not None:
            self._await_streams(found, wait, absent)

    def _await_number(self, name: bytes, wait: Wait) -> None:
        """Wait until the log of a durable topic, if this hub is its home, gives the topic's position."""
        topic = self._cluster.core.index.topics.get(name)
        if topic is not None and topic.log is not None and topic.is_home and not topic.log.may_subscribe:
            wait.join(topic.log.waiters)

    def _await_home(self, name: bytes, wait: Wait, answers: dict[bytes, HomeAnswer]) -> None:
        """For a content or durable topic, wait until this hub has reached the home's position at the subscription.

        Not for other topics: a hub lags while its link to the home is slow or broken, and a subscription would wait as
        long and then fail. So a plain client that reconnects from a hub that was ahead may receive the last messages
        again. Smart clients drop them by their positions.
        """
        topic = self._cluster.core.index.topics.get(name)
        if topic is None or topic.is_home:
            return
        if topic.log is None and not self._cluster.router.is_content(name):
            return
        if name not in answers:
            answers[name] = self._cluster.home_positions.ask(topic)
        if not answers[name].is_there:
            wait.join(answers[name].waiters)

    def _give_up(self, session: Session) -> None:
        """The client has disconnected, or its reply has timed out."""
        claim = self._claims.pop(session, None)
        if claim is not None:
            claim.wait.cancel()
            _call_all(claim.releases)

    def _await_streams(self, topic: Topic, wait: Wait, left_out: Container[bytes] = ()) -> None:
        """Follow the streams of the topic, and wait for those that are not established here yet."""
        self._cluster.news.tell(topic)
        self._note_dependencies(topic, left_out)
        stream = topic.stream
        if TRUNK not in left_out and stream is not None and not stream.is_ready:
            wait.join(stream.waiters)
            self._cluster.merging.follow(stream)
        for lane in self._cluster.lanes.of(topic):
            if lane.lane not in left_out and lane.stream is not None and not lane.stream.is_ready:
                wait.join(lane.stream.waiters)
                self._cluster.lanes.follow(lane)

    def _note_dependencies(self, topic: Topic, left_out: Container[bytes]) -> None:
        """A new subscriber begins behind the dependencies of its streams.

        While no client needed another stream, no message had to wait for it, so that stream may lag behind.
        """
        for stream in (topic, *self._cluster.lanes.of(topic)):
            for mark in () if stream.lane in left_out else self._cluster.tags.marks_of(stream):
                other = None if mark.stream in left_out else self._cluster.tags.find(topic, mark.stream)
                behind = None if other is None else other.stream
                # Pending messages of a dead hub's lane are awaited in any case.
                if mark.n < WHOLE and behind is not None and mark[1:] > behind.position:
                    behind.again = max(behind.again, mark[1:])

    def _topics_with_lanes(self, patterns: Sequence[bytes]) -> list[Topic]:
        names = self._cluster.lanes.known
        globs = [Glob(pattern) for pattern in patterns] if names else []
        matched = [name for name in list(names) if any(glob.matches(name) for glob in globs)]
        made = [self._cluster.core.make_topic(name) for name in matched]
        return [topic for topic in made if topic is not None]

    def keep_streams_of(self, patterns: Sequence[bytes]) -> None:
        """Clients have subscribed to these patterns: keep following the streams of matching topics with lanes."""
        for topic in self._topics_with_lanes(patterns):
            for stream in (topic.stream, *(lane.stream for lane in self._cluster.lanes.of(topic))):
                if stream is not None:
                    stream.is_kept = self.is_kept(stream.topic)

    def introduced(self) -> None:
        """Every live hub has introduced itself."""
        self._is_introduced = True
        waiters, self._until_introduced = self._until_introduced, []
        for proceed in waiters:
            proceed()

    def claimed(self) -> tuple[set[bytes], set[bytes]]:
        """The topics and patterns of waiting subscriptions."""
        claims = list(self._claims.values())
        patterns = {name for claim in claims if claim.kind.is_pattern for name in claim.names}
        topics = {name for claim in claims if not claim.kind.is_pattern for name in claim.names}
        topics.update(request.topic for claim in claims for request in claim.filtered)
        topics.update(topic.name for topic in self._topics_with_lanes(list(patterns)))
        return topics, patterns

    def is_claimed(self, topic: Topic, stream: bytes) -> bool:
        """Whether a waiting subscription includes this stream of the topic."""
        for kind, names, left_out, _, filtered, _ in self._claims.values():
            if any(topic.name == request.topic for request in filtered):
                return True
            if kind.is_pattern:
                if any(Glob(pattern).matches(topic.name) for pattern in names):
                    return True
            elif topic.name in names:
                # A client that receives the stream from another hub orders it itself; waiting here would never end.
                absent = left_out(topic)
                if absent is not None and stream not in absent:
                    return True
        return False

    # Patterns, and followed streams.

    def has_pattern_for(self, name: bytes) -> bool:
        """Whether a client here has a pattern that matches the topic."""
        return next(self._cluster.core.index.patterns.matching(name), None) is not None

    def is_kept(self, topic: Topic) -> bool:
        """Whether the stream is followed even without a subscriber by name.

        That holds for a trunk at homes that subscribers are redirected to, and for all streams of a topic with lanes
        that a client's pattern matches. An ended lane counts while its last messages are pending: they wait for the
        trunk.
        """
        name = topic.name
        if not topic.lane and self._cluster.router.is_follower(name):
            return True
        has_lanes = topic.lane or name in self._cluster.lanes.known or self._cluster.lanes.of(topic)
        return bool(has_lanes) and self.has_pattern_for(name)

    # Subscribers that receive some of a topic's streams from other hubs.

    def own(self, topic: Topic) -> list[Topic]:
        """The streams of the topic that this hub numbers, or is about to."""
        lanes = [lane for lane in self._cluster.lanes.of(topic) if lane.hub == self._cluster.name]
        is_home = topic.stream is None or topic.stream.state is not State.REMOTE
        return [topic, *lanes] if is_home else [*lanes]

    def not_own(self, topic: Topic) -> list[bytes] | None:
        """The streams of the topic that other hubs number; None if this hub numbers none."""
        own = self.own(topic)
        streams = (topic, *self._cluster.lanes.of(topic))
        return [stream.lane for stream in streams if stream not in own] if own else None

    def leave_out(self, session: Session, topic: Topic, names: Collection[bytes]) -> None:
        """From now on the session receives exactly these streams from other hubs."""
        for stream in (topic, *self._cluster.lanes.of(topic)):
            beside = stream.beside = stream.beside or TopicLanes()
            if stream.lane in names:
                beside.absent.add(session)
            else:
                beside.absent.discard(session)
            stream.audience = None

    def left_out(self, session: Session, topic: Topic) -> list[bytes]:
        """The streams that the session receives from other hubs."""
        streams = (topic, *self._cluster.lanes.of(topic))
        return [s.lane for s in streams if s.beside is not None and session in s.beside.absent]

    # Pushes about streams, for subscribers with positions.

    def greet(self, session: Session, topic: Topic, kind: Kind) -> None:
        """After the confirmation of a subscription by name, push the other streams, and the dependencies of each."""
        own = self.own(topic)[:1] if kind is Kind.OWN else [topic]
        for stream in (topic, *self._cluster.lanes.of(topic)):
            if kind is Kind.OWN and stream.beside is not None and session in stream.beside.absent:
                continue
            if stream not in own:
                if isinstance(stream, Lane):
                    if stream.epoch:
                        session.push(lane_push(stream))
                else:
                    words = (bulk(b"eq.trunk"), bulk(stream.name))
                    session.push(push((*words, integer(stream.shown_epoch), integer(stream.n)), 3))
            elif kind is Kind.OWN and stream.beside is not None and stream.beside.opened is not None:
                session.push(
                    push((bulk(b"eq.opened"), bulk(topic.name), *map(integer, stream.beside.opened)), 3)
                )
            self._cluster.tags.greet_session(stream, session)

    def push(self, topic: Topic, frame: bytes) -> None:
        """Push a frame to the subscribers of this stream of the topic, by name or by filter."""
        content = topic.trunk.content
        filtered = None if content is None else content.spans
        absent = () if topic.beside is None else topic.beside.absent
        receivers = [
            session
            for session, kinds in topic.members.items()
            if Kind.POSITIONED_NAME in kinds or (Kind.OWN in kinds and session not in absent)
        ]
        if filtered is not None:
            # First push the positions of the streams: the frame may refer to the next message.
            streams = dict.fromkeys((topic.trunk, *self._cluster.lanes.of(topic.trunk), topic))
            both = [session for session in receivers if session in filtered.sessions]
            receivers = [session for session in receivers if session not in filtered.sessions]
            filtered.announce(streams, frame, both)
        for session in receivers:
            session.write(frame)


def _call_all(releases: Iterable[Callable[[], None]]) -> None:
    for release in releases:
        release()
