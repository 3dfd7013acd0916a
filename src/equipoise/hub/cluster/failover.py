"""Resend messages that were sent to a dead home and that no other hub has received (docs/decisions/0021).

A hub gives a sequence to the messages of its clients that it sends to a home, and keeps them until the home
acknowledges them. The home sends the hubs that follow the topic the origin and sequence of the messages. When the home
dies:

    every hub sends the others the sequence of their last message that it has received from that home (SEEN), then DONE;
    a hub that has received DONE with its own stamp from all hubs sends its messages that no hub has received to the
    next homes, then sends RESENT;
    the next home opens the topic once all hubs have sent RESENT, and numbers the resent messages first.

A client of the dead home may have received a message that no hub has. It reconnects to another hub as a new subscriber,
and its subscription begins behind the resent messages (AGAIN).

Not resent, but reported by a gap: messages of topics with lanes or limits; messages in flight through two hubs;
messages to a home that the plan has replaced by then; and messages in flight when a third hub died, which cannot report
what it has received, or when its link restarted. Messages that a hub forwards for another hub have no sequence: homes
identify them by ANY_SEQUENCE, to their followers and, if the forwarding hub is dead, to the hub that they came from.

A hub that stops following, or becomes the home, sends SEEN at once, because it is about to discard that state.

Always true: `doubtful` holds exactly the streams whose messages wait for SEEN of other hubs.
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

# Ended incarnations for which this hub sends RESENT on new links: those of the last minutes.
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
        # By stream, the dead home that its messages were sent to.
        self.doubtful: dict[Stream, str] = {}
        # By hub, this hub's sequence when the hub last died, or when frames of it may have been lost.
        self._doubted: dict[str, int] = {}
        # By forwarding hub, the streams whose messages it forwarded to this hub, each with the originating hub.
        self._passed: dict[str, set[tuple[bytes, Life]]] = {}
        # Number of messages resent.
        self.resent = 0
        # Ended incarnations for which this hub has yet to send RESENT, and those for which it has sent it.
        self._to_send: dict[Life, None] = {}
        self._sent: dict[Life, None] = {}
        # By ended incarnation, the hubs whose RESENT is outstanding; and by hub, the RESENTs received.
        self._awaited: dict[Life, set[str]] = {}
        self._resent_by: dict[str, dict[Life, None]] = {}

    # When messages are numbered.

    def note_passed(self, key: bytes, path: Path) -> None:
        """Messages that another hub forwarded are numbered here."""
        if path[1][0] != self._cluster.name:
            self._passed.setdefault(path[1][0], set()).add((key, path[0]))

    # When a home dies.

    def may_resend(self, stream: Stream) -> bool:
        """Whether all hubs report what they have received of the stream, so that its messages may be resent."""
        topic = stream.topic
        has_lanes = topic.lane or (topic.beside is not None and (topic.beside.lanes or topic.beside.after))
        is_plain = stream.way is None or not stream.way.after
        is_known = all(link.can(RESEND) for link in self._cluster.out.values())
        return is_known and is_plain and not has_lanes and topic.limit is None

    def ended(self, life: Life) -> None:
        """An incarnation has ended: await RESENT from all capable hubs before its topics are opened elsewhere."""
        self._to_send[life] = None
        self._awaited[life] = {
            peer
            for peer, link in self._cluster.out.items()
            if peer != life[0] and link.can(RESEND) and life not in self._resent_by.get(peer, ())
        }

    def greeted(self, link: OutLink) -> None:
        """The hub has announced the capability of RESENT: await it for the incarnations that ended before, too."""
        resent = self._resent_by.get(link.hub, ())
        if link.can(RESEND):
            for life, awaited in self._awaited.items():
                if life[0] != link.hub and life not in resent:
                    awaited.add(link.hub)

    def report(self, stream: Stream, home: str | None = None) -> None:
        """Send SEEN to the hubs of which this hub has received messages through a dead home.

        Without `home`: through any home, because this hub no longer follows the stream.
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
        """The forwarding hub is dead, and messages through it are numbered here: send SEEN to their origins."""
        for key, life in self._passed.pop(hub, ()):
            link = self._cluster.out.get(life[0])
            if link is not None and link.incarnation == life[1]:
                link.send(SeenFrame(key, ANY_SEQUENCE))

    def receive_seen(self, stream: Stream, sequence: int) -> None:
        # Not beyond what this hub has sent: ANY_SEQUENCE covers all messages so far.
        stream.admission.seen = max(stream.admission.seen, min(sequence, self.sequence))

    def progressed(self) -> None:
        """Once the barrier is passed, resend the messages that no hub has received, then send RESENT."""
        if not self._to_send or not self._cluster.barrier.is_passed:
            return
        streams, self.doubtful = self.doubtful, {}
        for stream, home in streams.items():
            self._cluster.news.tell(stream.topic)
            self._resend(stream, home)
        for life in self._to_send:
            self._sent[life] = None
            for link in self._cluster.out.values():
                link.send(ResentFrame(*life))
        self._to_send.clear()
        while len(self._sent) > LIVES_MAX:
            del self._sent[next(iter(self._sent))]

    def _resend(self, stream: Stream, home: str) -> None:
        admission = stream.admission
        self.receive_seen(stream, max((n for hub, n in self._doubted.items() if hub != home), default=0))
        is_lost = not self._was_home(stream, home)
        self._cluster.ingress.give_up(stream, admission.resolve(is_lost=is_lost))
        before = sum(len(item.payloads) for item in admission.waiting.get((), ()) if item.sequence)
        self._cluster.ingress.drain(stream)
        self.resent += before
        if stream.state is State.REMOTE:
            # Messages that cannot be sent now would arrive behind RESENT, and might repeat what new subscribers have
            # received. Send a loss in their place: the messages resent before it follow the gap of the new epoch.
            lost = sum(ack.messages for ack in admission.resolve(is_lost=True))
            if lost:
                self._cluster.ingress.lost += lost
                admission.put_first(Submission((), 0, (), (), lost, is_doubtful=True))

    def _was_home(self, stream: Stream, hub: str) -> bool:
        """Whether the topic's home would still be the dead hub by the current plan.

        If not, the topic may have been handed over: the messages may be in the epoch that was closed in order, and the
        next home, which continued after that end, does not announce repetitions.
        """
        router = self._cluster.router
        homes = router.routing.plan.home_of(stream.topic.name, router.serving | {hub}).homes
        return homes[:1] == (hub,)

    def doubt(self, hub: str) -> None:
        """Frames of the hub may be lost: assume that it has received all messages that were sent to homes so far.

        The same holds for a hub that dies: its clients reconnect elsewhere with all messages that it delivered.
        """
        self._doubted[hub] = self.sequence

    # Progress of other hubs.

    @property
    def is_over(self) -> bool:
        """Whether all resent messages have arrived at their next homes."""
        return not self._to_send and not any(self._awaited.values())

    def receive_resent(self, peer: str, life: Life) -> None:
        """RESENT arrived: the peer has resent its messages to that incarnation."""
        resent = self._resent_by.setdefault(peer, {})
        resent[life] = None
        while len(resent) > LIVES_MAX:
            del resent[next(iter(resent))]
        self._awaited.get(life, set()).discard(peer)
        self._check()

    def peer_gone(self, peer: str) -> None:
        self.doubt(peer)
        self._resent_by.pop(peer, None)
        for awaited in self._awaited.values():
            awaited.discard(peer)

    def _check(self) -> None:
        if self.is_over:
            self._awaited.clear()
            self._cluster.progressed()
            self._cluster.handover.review_opening()

    def introduce(self, link: OutLink) -> None:
        """A link begins: send RESENT again, as frames of a previous link may be lost."""
        for life in self._sent:
            link.send(ResentFrame(*life))

    # The next home.

    def name_repeats(self, topic: Topic, links: Iterable[OutLink]) -> None:
        """The topic was opened without a known end: send AGAIN, as the waiting messages may be repetitions."""
        stream = topic.stream
        waiting = () if stream is None else stream.admission.waiting.values()
        count = sum(self._positions(items) for items in waiting)
        if count and topic.limit is None:
            for link in links:
                link.send(AgainFrame(topic.name, topic.epoch, count))

    def _positions(self, items: Iterable[Submission]) -> int:
        """Number of positions that the messages of one path take. A loss takes some only if a message follows it."""
        numbered = losses = 0
        for item in items:
            if not self._cluster.ingress.is_void(item):
                losses += item.lost
                if item.payloads:
                    numbered, losses = numbered + losses + len(item.payloads), 0
        return numbered
