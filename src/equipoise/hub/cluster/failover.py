"""Resend messages that were sent to a dead home and that no other hub has seen (docs/decisions/0021).

A hub numbers the messages of its clients that it sends to a home, and keeps them until the home acknowledges them. The
home tells the hubs that follow the topic which messages come from whom. When the home dies:

    every hub says to the others which of their messages it has seen of that home (SEEN), then DONE;
    a hub that has heard DONE of its own routing from all sends what none has seen to the next homes, then says RESENT;
    the next home opens the topic once all have said RESENT, and numbers what it was sent first.

A client of the dead home may have got a message that no hub has seen. It comes to another hub as a new subscriber, and
begins behind the messages that were sent again (AGAIN).

Not sent again, but reported by the gap as before: messages of topics with lanes or limits; those that were under way
through two hubs; those to a home that the plan has replaced by then; and those that were under way when a third hub
died, which cannot say what it has seen, or its link began anew. What a hub passes on has no sequence: homes name it by
ANY_SEQUENCE, to those that follow them and, when the hub that passed it on is dead, to the hub that it came from.

A hub that stops following, or becomes the home, says SEEN at once: it is about to forget what it has seen.

Always true: `doubtful` holds exactly the streams whose messages wait for what others have seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import RESEND
from equipoise.hub.cluster.link.failover_frames import ANY_SEQUENCE
from equipoise.hub.cluster.link.frames import AgainFrame, Life, ResentFrame, SeenFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import State
from equipoise.stream.submission import Submission

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.topics import Topic
    from equipoise.stream.submission import Ack, Path, Submission

__all__ = ["Failover"]

# Lives about which this hub says RESENT to hubs that it meets: those of the last minutes.
LIVES_MAX = 100


class _Barrier(Protocol):
    @property
    def is_passed(self) -> bool: ...


class _Handover(Protocol):
    def review_opening(self) -> None: ...


class _Ingress(Protocol):
    lost: int

    def drain(self, stream: Stream) -> None: ...
    def give_up(self, stream: Stream, acks: list[Ack]) -> None: ...
    def is_void(self, item: Submission) -> bool: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def barrier(self) -> _Barrier: ...
    @property
    def handover(self) -> _Handover: ...
    @property
    def ingress(self) -> _Ingress: ...
    def progressed(self) -> None: ...


class Failover:
    """Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # The sequence of the last message of this hub's clients that was sent to a home.
        self.sequence = 0
        # With the home that their messages were sent into.
        self.doubtful: dict[Stream, str] = {}
        # By hub, the sequence when it died last, or when what it had said may have been lost.
        self._doubted: dict[str, int] = {}
        # By a hub, the streams whose messages came through it to this hub, with the hub that each was sent from.
        self._passed: dict[str, set[tuple[bytes, Life]]] = {}
        # Messages that were sent again.
        self.resent = 0
        # Lives that are over: those about which this hub has yet to say RESENT, and those about which it has.
        self._owed: dict[Life, None] = {}
        self._said: dict[Life, None] = {}
        # By such a life, the hubs that have yet to say RESENT; and what each has said.
        self._awaited: dict[Life, set[str]] = {}
        self._heard: dict[str, dict[Life, None]] = {}

    # Messages are numbered.

    def note_passed(self, key: bytes, path: Path) -> None:
        """Messages that another hub passed on are numbered here."""
        if path[1][0] != self._cluster.name:
            self._passed.setdefault(path[1][0], set()).add((key, path[0]))

    # A home dies.

    def may_resend(self, stream: Stream) -> bool:
        """Whether all hubs say what they have seen of the stream."""
        topic = stream.topic
        has_lanes = topic.lane or (topic.beside is not None and (topic.beside.lanes or topic.beside.after))
        is_plain = stream.way is None or not stream.way.after
        is_known = all(link.can(RESEND) for link in self._cluster.out.values())
        return is_known and is_plain and not has_lanes and topic.limit is None

    def ended(self, life: Life) -> None:
        """A life is over. Those who say RESENT of such have to, before its topics are opened elsewhere."""
        self._owed[life] = None
        self._awaited[life] = {
            peer
            for peer, link in self._cluster.out.items()
            if peer != life[0] and link.can(RESEND) and life not in self._heard.get(peer, ())
        }

    def greeted(self, link: OutLink) -> None:
        """The hub has said that it says RESENT, which was not known of it when those lives ended."""
        heard = self._heard.get(link.hub, ())
        if link.can(RESEND):
            for life, awaited in self._awaited.items():
                if life[0] != link.hub and life not in heard:
                    awaited.add(link.hub)

    def report(self, stream: Stream, home: str | None = None) -> None:
        """Say to the hubs whose messages came from a home that is dead which of them this hub has seen.

        Without a home: of all homes, since this hub follows the stream no longer.
        """
        for (by, life), sequence in list(stream.seen.items()):
            link = self._cluster.out.get(life[0])
            is_own = life == (self._cluster.name, self._cluster.core.incarnation)
            is_alive = is_own or (link is not None and link.incarnation == life[1])
            if is_alive and home not in (None, by):
                continue
            del stream.seen[by, life]
            if is_own:
                self.receive_seen(stream, sequence)
            elif is_alive and link is not None:
                link.send(SeenFrame(stream.topic.key, sequence))

    def report_passed(self, hub: str) -> None:
        """The hub is dead. What came through it has its position here: say so to those who sent it into that hub."""
        for key, life in self._passed.pop(hub, ()):
            link = self._cluster.out.get(life[0])
            if link is not None and link.incarnation == life[1]:
                link.send(SeenFrame(key, ANY_SEQUENCE))

    def receive_seen(self, stream: Stream, sequence: int) -> None:
        # What was sent since then cannot be meant.
        stream.admission.seen = max(stream.admission.seen, min(sequence, self.sequence))

    def progressed(self) -> None:
        """Once all have said DONE, send again what none has seen, and say so."""
        if not self._owed or not self._cluster.barrier.is_passed:
            return
        streams, self.doubtful = self.doubtful, {}
        for stream, home in streams.items():
            self._cluster.news.tell(stream.topic)
            self._send_again(stream, home)
        for life in self._owed:
            self._said[life] = None
            for link in self._cluster.out.values():
                link.send(ResentFrame(*life))
        self._owed.clear()
        while len(self._said) > LIVES_MAX:
            del self._said[next(iter(self._said))]

    def _send_again(self, stream: Stream, home: str) -> None:
        admission = stream.admission
        self.receive_seen(stream, max((n for hub, n in self._doubted.items() if hub != home), default=0))
        is_lost = not self._was_home(stream, home)
        self._cluster.ingress.give_up(stream, admission.resolve(is_lost=is_lost))
        before = sum(len(item.payloads) for item in admission.waiting.get((), ()) if item.sequence)
        self._cluster.ingress.drain(stream)
        self.resent += before
        if stream.state is State.REMOTE:
            # What cannot go now would come behind RESENT, and may repeat what new subscribers have got. A loss goes in
            # its place: what was sent again before it is behind the gap of the new epoch.
            lost = sum(ack.messages for ack in admission.resolve(is_lost=True))
            if lost:
                self._cluster.ingress.lost += lost
                admission.put_first(Submission((), 0, (), (), lost, is_doubtful=True))

    def _was_home(self, stream: Stream, hub: str) -> bool:
        """Whether the plan of all hubs would have the topic at the dead hub.

        If not, the topic may have been handed over: the messages may be in the epoch that ended there in order, and the
        next home, which went on behind that end, does not announce repetitions.
        """
        router = self._cluster.router
        homes = router.routing.plan.home_of(stream.topic.name, router.serving | {hub}).homes
        return homes[:1] == (hub,)

    def doubt(self, hub: str) -> None:
        """What the hub has said may be lost: it may have seen anything that was sent to other hubs so far.

        So it is with a hub that dies: its clients come to other hubs with all that they had got from it.
        """
        self._doubted[hub] = self.sequence

    # What others have done.

    @property
    def is_over(self) -> bool:
        """Whether all messages that are sent again have come to their next homes."""
        return not self._owed and not any(self._awaited.values())

    def heard(self, peer: str, life: Life) -> None:
        """The peer has sent again what it had sent into that life."""
        heard = self._heard.setdefault(peer, {})
        heard[life] = None
        while len(heard) > LIVES_MAX:
            del heard[next(iter(heard))]
        self._awaited.get(life, set()).discard(peer)
        self._look()

    def peer_gone(self, peer: str) -> None:
        self.doubt(peer)
        self._heard.pop(peer, None)
        for awaited in self._awaited.values():
            awaited.discard(peer)

    def _look(self) -> None:
        if self.is_over:
            self._awaited.clear()
            self._cluster.progressed()
            self._cluster.handover.review_opening()

    def introduce(self, link: OutLink) -> None:
        """The link begins: what was said over a former one may be lost."""
        for life in self._said:
            link.send(ResentFrame(*life))

    # The next home.

    def name_repeats(self, topic: Topic, links: Iterable[OutLink]) -> None:
        """The topic has been opened here without a known end: what waits is numbered first, and may be a repetition."""
        stream = topic.stream
        waiting = () if stream is None else stream.admission.waiting.values()
        count = sum(self._positions(items) for items in waiting)
        if count and topic.limit is None:
            for link in links:
                link.send(AgainFrame(topic.name, topic.epoch, count))

    def _positions(self, items: Iterable[Submission]) -> int:
        """How many positions messages of one path take. A loss has some only if a message follows it."""
        numbered = losses = 0
        for item in items:
            if not self._cluster.ingress.is_void(item):
                losses += item.lost
                if item.payloads:
                    numbered, losses = numbered + losses + len(item.payloads), 0
        return numbered
