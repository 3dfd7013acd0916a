"""Hubs that follow topics of this hub: attach them at once or when the stream is ready.

A home sends its stream to every hub that requests it (ATTACH). If this hub is not the home, requests wait until it is.

Content topics are followed along a tree (JOIN, RENEW): a hub that follows its own parent forwards the stream. Both
requests carry a version of the plan. They are confirmed once this hub has applied that version too, and is the home or
follows its own parent under that version. So every chain of followers ends at the home, whatever plans its hubs have
applied: if A followed B while B still followed A, both would have left the home, and messages would be lost
(docs/decisions/0024).

Always true:
    a hub receives a stream from a hub that numbers it, or that itself receives all that the first hub has requested;
    a request waits only for the home, for a plan, or for the streams that this hub itself has requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from equipoise.hub.cluster.link.frames import (
    AttachedFrame,
    AttachFrame,
    DetachFrame,
    Frame,
    JoinFrame,
    RenewedFrame,
    RenewFrame,
)
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import FollowRequest, State, Stream

if TYPE_CHECKING:
    from equipoise.content.filter import Filter
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.topics import Topic

__all__ = ["Followers"]

# Interval at which a hub without room for topics retries the requests of other hubs; and the most requests it keeps.
ROOM_S = 0.5
ROOMLESS_MAX = 10_000


class _PeerFilters(Protocol):
    def forget(self, topic: Topic, link: OutLink) -> None: ...
    def taken_in(self, topic: Topic, link: OutLink) -> None: ...


class _Dependencies(Protocol):
    def greet(self, topic: Topic, link: OutLink) -> None: ...


class _Handover(Protocol):
    def new_stream(self, topic: Topic) -> Stream: ...
    def review(self, stream: Stream) -> None: ...


class _Ingress(Protocol):
    def drain(self, stream: Stream) -> None: ...


class _Interests(Protocol):
    def is_covered(self, topic: Topic, filters: Iterable[Filter] | None) -> bool: ...
    def review(self, topic: Topic) -> None: ...
    def when_changed(self, topic: Topic, proceed: Callable[[], None]) -> None: ...


class _LaneFollowers(Protocol):
    def receive_detach(self, link: OutLink, key: bytes) -> None: ...


class _Lanes(Protocol):
    @property
    def followers(self) -> _LaneFollowers: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def asked(self) -> _PeerFilters: ...
    @property
    def handover(self) -> _Handover: ...
    @property
    def ingress(self) -> _Ingress: ...
    @property
    def interests(self) -> _Interests: ...
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def tags(self) -> _Dependencies: ...


class Followers:
    """Part of one cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Requests that wait for what this hub itself has requested.
        self._uncovered: set[tuple[Stream, OutLink]] = set()
        # Requests for topics for which there is no room here, by link and topic.
        self._roomless: dict[tuple[OutLink, bytes], AttachFrame | JoinFrame] = {}
        # Tickets of requests that are confirmed once the topic's log is open.
        self._late: dict[tuple[OutLink, bytes], int] = {}
        self._timer: Timer | None = None

    def handlers(
        self, find: Callable[[bytes, bool], Topic | None]
    ) -> dict[type[Frame], Callable[[str, Any], None]]:
        """Handlers by type of frame. `find` returns a topic with all peer events applied, and can create it."""

        def asking(peer: str, frame: AttachFrame | JoinFrame | RenewFrame) -> None:
            topic, link = find(frame.topic, True), self._cluster.out.get(peer)
            if topic is not None and link is not None:
                self._asked(topic, link, frame)
            elif link is not None and not isinstance(frame, RenewFrame):
                self._wait_for_room(link, frame, ask_again)

        def detach(peer: str, frame: DetachFrame) -> None:
            topic, link = find(frame.key, False), self._cluster.out.get(peer)
            if link is not None:
                self._roomless.pop((link, frame.key), None)
                self._cluster.lanes.followers.receive_detach(link, frame.key)
                if topic is not None:
                    self._left(topic, link)

        def ask_again() -> None:
            self._timer = None
            waiting, self._roomless = self._roomless, {}
            for (link, _), frame in waiting.items():
                asking(link.hub, frame)

        return {AttachFrame: asking, JoinFrame: asking, RenewFrame: asking, DetachFrame: detach}

    def link_gone(self, link: OutLink) -> None:
        """The hub is dead, or its link has restarted and it repeats its requests."""
        self._roomless = {key: frame for key, frame in self._roomless.items() if key[0] is not link}
        self._late = {key: ticket for key, ticket in self._late.items() if key[0] is not link}

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait_for_room(
        self, link: OutLink, frame: AttachFrame | JoinFrame, ask_again: Callable[[], None]
    ) -> None:
        """Keep the request and retry it: the hub sends it only once."""
        if len(self._roomless) >= ROOMLESS_MAX:
            del self._roomless[next(iter(self._roomless))]
        self._roomless[link, frame.topic] = frame
        if self._timer is None:
            self._timer = self._cluster.core.shell.call_later(ROOM_S, ask_again)

    # Requests.

    def _asked(self, topic: Topic, link: OutLink, frame: AttachFrame | JoinFrame | RenewFrame) -> None:
        match frame:
            case AttachFrame():
                request = FollowRequest(frame.ticket)
            case JoinFrame():
                request = FollowRequest(frame.ticket, frame.version, needs_home=frame.is_home)
            case RenewFrame():
                request = FollowRequest(0, frame.version, needs_home=frame.is_home)
        if request.ticket:
            self._cluster.asked.forget(topic, link)
        elif not topic.relays or link not in topic.relays:
            # The hub has sent a new ATTACH or JOIN since.
            return
        stream = topic.stream
        if stream is None and request.version > self._cluster.router.version:
            stream = self._cluster.handover.new_stream(topic)
        if stream is None:
            self._answer(topic, link, request)
        else:
            stream.relays_waiting[link] = request
            if not request.needs_home:
                self._cluster.interests.review(topic)
            self._look(stream, link, request)

    def _left(self, topic: Topic, link: OutLink) -> None:
        self._late.pop((link, topic.name), None)
        self._cluster.asked.forget(topic, link)
        if topic.relays and link in topic.relays:
            self._cluster.core.index.remove_relay(topic, link)
        if topic.stream is not None:
            topic.stream.relays_waiting.pop(link, None)

    # Confirmations.

    def answer_waiting(self, stream: Stream) -> None:
        """The stream is established here: confirm waiting requests, and continue waiting subscribers."""
        for link, request in list(stream.relays_waiting.items()):
            self._look(stream, link, request)
        if stream.state.is_home:
            # Before subscribers: messages that were sent to the former home, which may have delivered them already.
            self._cluster.ingress.drain(stream)
        waiters, stream.waiters = stream.waiters, []
        for proceed in waiters:
            proceed()

    def _look(self, stream: Stream, link: OutLink, request: FollowRequest) -> None:
        if self._may_follow(stream, request) and (
            stream.state.is_home or self._is_sent(stream, link, request)
        ):
            stream.relays_waiting.pop(link, None)
            self._answer(stream.topic, link, request)

    def _may_follow(self, stream: Stream, request: FollowRequest) -> bool:
        """Whether the chain of parents ends at the home, under the requested version of the plan or a later one."""
        if stream.state.is_home:
            return request.version <= self._cluster.router.version
        is_following = stream.state is State.REMOTE and stream.is_ready
        return is_following and not request.needs_home and request.version <= stream.under

    def _is_sent(self, stream: Stream, link: OutLink, request: FollowRequest) -> bool:
        """Whether this hub receives all that the other has requested; if not, review the request when that changes."""
        topic = stream.topic
        held = topic.hub_filters
        is_partial = held is not None and held.is_partial(link)
        filters = list(held.links[link].filters) if held is not None and is_partial else None
        if not request.ticket or self._cluster.interests.is_covered(topic, filters):
            return True
        key = stream, link

        def again() -> None:
            self._uncovered.discard(key)
            self._cluster.handover.review(stream)

        if key not in self._uncovered:
            self._uncovered.add(key)
            self._cluster.interests.when_changed(topic, again)
        return False

    def _answer(self, topic: Topic, link: OutLink, request: FollowRequest) -> None:
        if request.ticket:
            self.take_in(topic, link, request.ticket)
        else:
            link.send(RenewedFrame(topic.name, request.version))

    def take_in(self, topic: Topic, link: OutLink, ticket: int) -> None:
        if topic.log is not None and not topic.log.may_begin:
            self._late[link, topic.name] = ticket
            topic.log.waiters.append(lambda: self._take_in_late(topic, link, ticket))
            return
        self._cluster.core.index.add_relay(topic, link)
        self._cluster.asked.taken_in(topic, link)
        link.send(AttachedFrame(topic.key, ticket, topic.epoch, topic.n))
        self._cluster.tags.greet(topic, link)

    def _take_in_late(self, topic: Topic, link: OutLink, ticket: int) -> None:
        if self._late.get((link, topic.name)) != ticket:
            # The hub is dead, has detached, or has sent a new request.
            return
        del self._late[link, topic.name]
        if topic.is_home:
            self.take_in(topic, link, ticket)
        elif topic.stream is not None:
            # Treat it like a request to a hub that is not the home: it waits until this hub is.
            topic.stream.relays_waiting.setdefault(link, FollowRequest(ticket))
