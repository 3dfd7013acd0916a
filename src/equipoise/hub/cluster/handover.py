"""Carry out what the table of `streams` says: the actions, and the events that a change of routing gives rise to."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.frames import (
    CancelFrame,
    CloseFrame,
    OpenedFrame,
    PreparedFrame,
    PrepareFrame,
)
from equipoise.hub.cluster.streams import TABLE, Event, State, Stream

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.data.topics import Topic

__all__ = ["SETTLE_SLICE", "Handover"]

# Streams opened in one go when the barrier has passed: some 5 ms.
SETTLE_SLICE = 500


class Handover:
    """Part of one cluster: the only one to change the state of a stream."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Streams that are opening, whatever they wait for.
        self.opening: dict[Stream, None] = {}
        # Topics that a hub has offered and that there was no room for, with the version: they are not nobody's.
        self._refused: dict[bytes, tuple[str, int]] = {}
        self._settling: Iterator[Stream] | None = None
        self._guest: Stream | None = None

    def adopt(self, topic: Topic) -> None:
        """A topic is new at this hub."""
        cluster = self._cluster
        home = cluster.router.home(topic.name)
        offer = self._refused.pop(topic.name, None)
        if home == cluster.name and cluster.is_barrier_passed and offer is None:
            return
        # Below every epoch there is: whatever comes is later.
        topic.epoch = 0
        state = State.OPENING if home == cluster.name else State.REMOTE
        stream = self.new_stream(topic, state, None if home == cluster.name else home)
        if state is State.OPENING:
            self.opening[stream] = None
        elif stream.is_kept:
            cluster.merging.follow(stream)
        if offer is not None:
            self.asked(stream, *offer)

    def new_stream(self, topic: Topic, state: State = State.OPEN, peer: str | None = None) -> Stream:
        """There is more to know about a topic, or a lane, than that it is open here."""
        stream = topic.stream = Stream(topic, state, peer, self._cluster.ingress.budget)
        stream.is_kept = self._cluster.listening.is_kept(topic)
        return stream

    def evaluate(self, topic: Topic) -> None:
        """Ask the routing again where the topic lives, and do what follows."""
        cluster = self._cluster
        home = cluster.router.home(topic.name)
        stream = topic.stream
        if stream is not None:
            stream.is_kept = cluster.listening.is_kept(topic)
        if stream is not None and stream.since_version > cluster.router.version:
            # Given to us under a plan that we have not heard of yet.
            pass
        elif home == cluster.name:
            if stream is not None:
                self.happen(stream, Event.HOME_HERE, None)
        elif stream is None:
            stream = self.new_stream(topic)
            self.happen(stream, Event.HOME_ELSEWHERE if self._is_heard(topic) else Event.UNHEARD, home)
        elif stream.state is State.OPENING and stream.preparer is not None:
            # Whoever has asked us will cancel, or close; then we ask again.
            pass
        elif stream.peer == home and stream.state is not State.OPENING:
            self.happen(stream, Event.HOME_SAME, home)
        else:
            self.happen(stream, Event.HOME_ELSEWHERE, home)
        if topic.stream is not None:
            self.settle(topic.stream)
        cluster.telling.look(topic)

    def happen(self, stream: Stream, event: Event, peer: str | None) -> None:
        """The one function that applies the table."""
        row = TABLE.get((stream.state, event))
        if row is None:
            return
        state, actions = row
        if state is not stream.state:
            self._move(stream, state)
        for action in actions:
            getattr(self, action.value)(stream, peer)

    # What other hubs say.

    def asked(self, stream: Stream, peer: str, version: int) -> None:
        """A hub wants to give us the topic under its plan.

        If that plan is older than ours, and ours gives the topic to another, the hub will soon find out: to take it
        after we have said DONE would be behind the back of its new home. If somebody has asked us since, it has found
        out already.
        """
        is_promised = stream.preparer is not None or stream.ending is not None
        if is_promised and version < stream.asked_version:
            return
        if stream.state is State.CLOSING:
            stream.suitor = (peer, version)
        elif stream.state is not State.REMOTE or version >= self._cluster.router.version:
            stream.asked_version = version
            stream.since_version = max(stream.since_version, version)
            self.happen(stream, Event.PREPARE, peer)
            self.settle(stream)

    def refuse(self, name: bytes, peer: str, version: int) -> None:
        """There is no room for a topic that a hub wants to give us. It keeps it, and asks again."""
        self._refused[name] = (peer, version)

    def forget_offers(self, peer: str, name: bytes | None = None) -> None:
        """The hub does not offer the topic any more, or none at all."""
        for refused in list(self._refused) if name is None else [name]:
            if self._refused.get(refused, ("", 0))[0] == peer:
                del self._refused[refused]

    def answered(self, stream: Stream, peer: str, version: int) -> None:
        if stream.state is State.CLOSING and stream.peer == peer and stream.asked_version == version:
            self._cluster.moves.answered(stream, peer, version)

    def ended(self, stream: Stream, peer: str, epoch: int, n: int) -> None:
        """The former home has closed its epoch: ours follows, once everything of it is here."""
        if stream.state is State.OPENING:
            stream.ending = (peer, epoch, n)
            self.progressed(stream)
            self._cluster.tags.moved(stream.topic)

    def cancelled(self, stream: Stream, peer: str, version: int) -> None:
        """The hub keeps the topic, or gives it to another: our own plan counts again once it is as new as that."""
        if stream.suitor is not None and stream.suitor[0] == peer:
            stream.suitor = None
        if stream.preparer == peer:
            stream.since_version = version
            self.happen(stream, Event.CANCEL, peer)
            self.evaluate(stream.topic)
            self._cluster.barrier.check()

    def peer_died(self, stream: Stream, peer: str) -> None:
        if stream.suitor is not None and stream.suitor[0] == peer:
            stream.suitor = None
        if stream.preparer == peer and stream.ending is None:
            stream.preparer = None
        if stream.peer == peer:
            # Until the routing has been asked again.
            stream.peer = None

    def progressed(self, stream: Stream) -> None:
        """The stream has come further, or its source has changed."""
        topic = stream.topic
        if stream.state is State.OPENING and stream.ending is not None:
            peer, epoch, n = stream.ending
            is_fed = stream.source in (None, peer) and not self._cluster.merging.is_behind(stream)
            if is_fed or (topic.epoch, topic.n) >= (epoch, n):
                self.happen(stream, Event.CLOSE, peer)
                self.evaluate(topic)
                self._cluster.barrier.check()
                return
        self.settle(stream)

    @property
    def has_guests(self) -> bool:
        """Whether a topic is on its way here that the plan gives to another hub."""
        # The one found last time first: this is asked often while there is one.
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

    def settle_opening(self) -> None:
        """Other hubs have told us more: what we can answer now, or whether a topic is nobody else's."""
        is_running = self._settling is not None
        self._settling = iter(list(self.opening))
        if not is_running:
            self._settle_some()

    def _settle_some(self) -> None:
        assert self._settling is not None, "scheduled only while there are streams left"
        part = list(islice(self._settling, SETTLE_SLICE))
        for stream in part:
            if stream in self.opening:
                self._cluster.news.tell(stream.topic)
                self.settle(stream)
        if len(part) == SETTLE_SLICE:
            self._cluster.core.shell.call_later(0, self._settle_some)
        else:
            self._settling = None

    # The actions of the table.

    def ask_peer(self, stream: Stream, peer: str | None) -> None:
        stream.peer = peer
        stream.asked_version = self._cluster.router.version
        self._cluster.moves.asked(stream)
        if peer is not None:
            self._cluster.tell(peer, PrepareFrame(stream.topic.name, stream.asked_version))

    def cancel_peer(self, stream: Stream, peer: str | None) -> None:
        if stream.peer is not None:
            self._cluster.tell(stream.peer, CancelFrame(stream.topic.name, self._cluster.router.version))
        stream.peer = None

    def agree(self, stream: Stream, peer: str) -> None:
        if stream.state is State.OPENING:
            stream.preparer = peer
            if not self._cluster.barrier.is_introduced:
                stream.suitor = (peer, stream.asked_version)
                return
        self._cluster.tell(peer, PreparedFrame(stream.topic.name, stream.asked_version))

    def withdraw(self, stream: Stream, peer: str) -> None:
        stream.preparer = stream.ending = None

    def follow(self, stream: Stream, peer: str | None) -> None:
        if stream.peer != peer:
            stream.term += 1
        stream.peer = peer
        self._cluster.merging.follow(stream)

    def close(self, stream: Stream, peer: str) -> None:
        """The peer takes over. It hears of our interest before the end, so that its stream reaches us whole."""
        cluster, topic = self._cluster, stream.topic
        topic.audience = None
        stream.admission.numbered_at = (topic.epoch, topic.n)
        cluster.merging.succeed(stream)
        link = cluster.out.get(peer)
        if link is not None:
            cluster.tags.greet(topic, link)
        cluster.tell(peer, CloseFrame(topic.name, topic.epoch, topic.n))

    def open_after(self, stream: Stream, peer: str) -> None:
        assert stream.ending is not None, "an epoch follows one that has ended"
        self._open(stream, stream.ending)

    def open_new(self, stream: Stream, peer: str | None) -> None:
        self._open(stream, ("", 0, 0))

    def _open(self, stream: Stream, after: tuple[str, int, int]) -> None:
        cluster, topic = self._cluster, stream.topic
        hub, epoch, n = after
        stream.preparer = stream.ending = stream.peer = None
        cluster.merging.unfollow(stream)
        cluster.merging.drop_pending(stream)
        opened = cluster.core.new_epoch(max(epoch, topic.epoch))
        cluster.announce(topic, opened, epoch, n)
        topic.epoch, topic.n, topic.audience = opened, 0, None
        if topic.beside is not None:
            topic.beside.opened = (opened, epoch, n)
        frame = encode(OpenedFrame(topic.name, opened, hub, epoch, n))
        hearing = {**dict.fromkeys(topic.relays or ()), **stream.relays_waiting}
        hearing.update(dict.fromkeys(cluster.patterns.links(topic)))
        if hub in cluster.out:
            # Whoever has closed it waits for that, listener or not.
            hearing[cluster.out[hub]] = None
        for link in hearing:
            link.write(frame)
        cluster.tags.moved(topic)

    # Inside.

    def _move(self, stream: Stream, state: State) -> None:
        if stream.state is State.OPENING:
            self.opening.pop(stream, None)
        elif stream.state is State.CLOSING:
            self._cluster.moves.kept(stream)
        stream.state = state
        stream.term += 1
        if state is State.OPENING:
            stream.peer = None
            self.opening[stream] = None
        # Patterns are served by the home only.
        stream.topic.audience = None
        self._cluster.telling.look(stream.topic)

    def settle(self, stream: Stream) -> None:
        """Whatever the present state allows: answer who waits, pass on what is held, forget what is over."""
        cluster, topic = self._cluster, stream.topic
        if topic.stream is not stream:
            return
        is_known = stream.since_version <= cluster.router.version
        is_unasked = stream.preparer is None and stream.ending is None
        if stream.state is State.OPENING and is_known and is_unasked and cluster.is_barrier_passed:
            self.happen(stream, Event.CLEAR, None)
        suitor = stream.suitor
        may_answer = stream.state is State.OPEN or cluster.barrier.is_introduced
        if suitor is not None and stream.state is not State.CLOSING and may_answer:
            stream.suitor = None
            self.asked(stream, *suitor)
            return
        if stream.is_ready:
            cluster.answer_waiting(stream)
        cluster.ingress.drain(stream)
        cluster.ways.progressed(topic.trunk)
        if stream.state is State.OPEN and stream.is_quiet and is_known:
            topic.stream = None

    def _is_heard(self, topic: Topic) -> bool:
        return self._cluster.core.audience_of(topic).is_heard
