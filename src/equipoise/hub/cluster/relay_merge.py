"""The way out, at a hub where a topic does not live: follow its stream and give it to whoever listens here.

A hub follows one source at a time. What that sends is in order and complete. When the topic gets a new home the hub
attaches there as well, which says from which position on it sends (`join_at`); until the old source has brought the hub
that far, what the new one sends waits. Then the old one is left. So a move is not noticed by anybody who listens.
Only a home takes others in: whoever begins to follow is then never behind anybody who has followed before.

Without a source the hub hears the homes of topics that match its clients' patterns. Two homes speak over two links with
no order between them. The new home says whose end its epoch follows (OPENED). Unless the hub has come to that end, it
asks the old home to say when all of the old epoch is on its way (FLUSH), and the new epoch waits for that word (ENDED),
or for the death of the hub that would have to give it. Epochs are taken in their order, so this holds for chains of
moves too.

A topic's lanes are followed in the same way, each at the hub that numbers it. What comes behind a mark waits for
another of the topic's streams (`tags`).

Always true:
    positions are passed on as the home gave them, each once, in rising order;
    what waits is there because of its own hub's word, of a lower epoch that waits, or of a mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.hub.cluster.lane_state import Lane
from equipoise.hub.cluster.link.codec import Verb, encode
from equipoise.hub.cluster.streams import Pending, State, Stream

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.cluster.dependencies import Tag

__all__ = ["Merging"]


class Merging:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster, pending_bytes_max: int) -> None:
        self._cluster = cluster
        self._pending_bytes_max = pending_bytes_max
        self.pending_bytes = 0
        # Streams whose waiting parts had to be given up for want of room.
        self.overflows = 0

    # What arrives.

    def egress(self, stream: Stream, origin: str, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
        self._arrive(stream, Pending(origin, epoch, first, payloads))

    def opened(self, stream: Stream, origin: str, epoch: int, after: tuple[str, int, int]) -> None:
        self._arrive(stream, Pending(origin, epoch, 0, (), after))

    def marked(self, stream: Stream, origin: str, epoch: int, mark: Tag) -> None:
        """What this hub sends of the epoch from here on comes after that position of another stream."""
        self._arrive(stream, Pending(origin, epoch, 0, (), mark=mark))

    def over(self, stream: Stream, origin: str, epoch: int, n: int) -> None:
        """The lane has ended, or there is none."""
        self._arrive(stream, Pending(origin, epoch, n, (), is_end=True))

    def _arrive(self, stream: Stream, item: Pending) -> None:
        is_taken = not stream.pending and self._may(stream, item)
        if is_taken:
            self._take(stream, item)
        else:
            self._wait(stream, item)
        self._advance(stream, has_moved=is_taken)

    def attached(self, stream: Stream, origin: str, epoch: int, n: int) -> None:
        """A home, or a hub that follows it, has taken us in after (epoch, n)."""
        if isinstance(stream.topic, Lane):
            self._arrive(stream, Pending(origin, epoch, n, (), is_start=True))
            return
        if origin == stream.source:
            self._jump(stream, epoch, n)
        elif origin == stream.joining:
            stream.join_at = (epoch, n)
        self._advance(stream, has_moved=True)

    def ended(self, stream: Stream, origin: str, epoch: int) -> None:
        """All that the hub had to send of the epoch is here."""
        if (origin, epoch) in stream.flushes:
            stream.flushes[origin, epoch] = True
            self._advance(stream)

    # What changes.

    def follow(self, stream: Stream) -> None:
        """Attach to where the stream lives, if anybody here wants it and we have not."""
        home = stream.peer
        if stream.state is not State.REMOTE or home is None or not stream.is_wanted:
            return
        if stream.joining not in (None, home):
            self._leave(stream, stream.joining)
            stream.joining = stream.join_at = None
        if stream.source != home and stream.joining is None:
            stream.joining = home
            self._ask(stream)

    def succeed(self, stream: Stream) -> None:
        """The home, which was here, is about to be another's: what that sends from its beginning continues our own."""
        if stream.is_wanted:
            stream.joining = stream.peer
            self._ask(stream)
            stream.source, stream.joining = stream.peer, None

    def unfollow(self, stream: Stream) -> None:
        """Nobody listens any more, or the stream lives here."""
        for hub in (stream.source, stream.joining):
            self._leave(stream, hub)
        stream.source = stream.joining = stream.join_at = None

    def peer_gone(self, stream: Stream, hub: str) -> None:
        """The hub is dead, or its link began anew and nothing is known of it: what it had not sent never comes."""
        for key in stream.flushes:
            if key[0] == hub:
                stream.flushes[key] = True
        if stream.joining == hub:
            stream.joining = stream.join_at = None
        if stream.source == hub:
            stream.source = None
        self._advance(stream)

    def detached(self, stream: Stream, hub: str) -> None:
        """What we had asked of the hub, it has not heard: it is asked again."""
        stream.flushes = {
            key: is_ended for key, is_ended in stream.flushes.items() if is_ended or key[0] != hub
        }
        if stream.joining == hub:
            stream.joining = stream.join_at = None
        if stream.source == hub:
            stream.source = None
        self._advance(stream)

    def is_behind(self, stream: Stream) -> bool:
        """Whether somebody here hears the topic, by a pattern, and a part that is to come before others is missing."""
        if not stream.pending:
            return False
        is_marked = any(item.mark is not None for item in stream.pending)
        return is_marked or self._cluster.core.audience_of(stream.topic).receivers > 0

    def drop_pending(self, stream: Stream) -> None:
        self.pending_bytes -= sum(item.size for item in stream.pending)
        stream.pending.clear()
        stream.flushes.clear()

    # Inside.

    def _ask(self, stream: Stream) -> None:
        assert stream.joining is not None, "somebody is asked"
        stream.ticket = self._cluster.new_ticket()
        self._cluster.tell(stream.joining, Verb.ATTACH, stream.topic.name, stream.ticket)

    def _may(self, stream: Stream, item: Pending) -> bool:
        if item.mark is not None:
            return not self._cluster.tags.must_wait(stream, (item.mark,))
        if item.payloads:
            return self._may_take(stream, item)
        return item.is_start or item.is_end or self._may_open(stream, item)

    def _take(self, stream: Stream, item: Pending) -> None:
        if item.payloads:
            self._deliver(stream, item)
        elif item.mark is not None:
            self._cluster.tags.mark(stream.topic, (item.mark,))
        elif item.is_start:
            stream.source, stream.joining = item.origin, None
            self._jump(stream, item.epoch, item.first)
            self._cluster.lanes.began(stream)
        elif item.is_end:
            self._cluster.lanes.ended(stream, item.epoch, item.first)
        else:
            self._open(stream, item)

    def _may_take(self, stream: Stream, item: Pending) -> bool:
        topic = stream.topic
        if item.origin == stream.source or stream.source is None:
            return True
        # Another source than the one we follow: only what continues where we are.
        return item.epoch < topic.epoch or (item.epoch == topic.epoch and item.first <= topic.n + 1)

    def _may_open(self, stream: Stream, item: Pending) -> bool:
        topic = stream.topic
        hub, epoch, n = item.after
        if item.epoch <= topic.epoch or item.origin == stream.source:
            return True
        if topic.epoch == epoch and topic.n >= n:
            return True
        if stream.source is not None:
            return False
        if epoch < topic.epoch or hub == self._cluster.name or hub not in self._cluster.out:
            return True
        is_ended = stream.flushes.get((hub, epoch))
        if is_ended is None:
            stream.flushes[hub, epoch] = False
            self._cluster.tell(hub, Verb.FLUSH, topic.name, epoch)
        return bool(is_ended)

    def wake(self, stream: Stream) -> None:
        """Another of the topic's streams has come further."""
        self._cluster.news.tell(stream.topic)
        self._advance(stream)

    def _advance(self, stream: Stream, *, has_moved: bool = False) -> None:
        """Do whatever has become possible: take what waits, change the source, answer who waits."""
        while self._take_pending(stream) or self._switch(stream):
            has_moved = True
        self._cluster.handover.progressed(stream)
        if has_moved:
            self._cluster.tags.moved(stream.topic)

    def _take_pending(self, stream: Stream) -> bool:
        """Take what may be taken, lower epochs first, each hub's part in its order; whether there was any."""
        if not stream.pending:
            return False
        waiting = sorted(stream.pending, key=lambda item: item.epoch)
        stream.pending.clear()
        blocked: set[str] = set()
        # Unless there is a source that brings everything in order, an epoch waits for those before it.
        epoch_max: float = float("inf")
        for item in waiting:
            is_early = stream.source is None and item.epoch > epoch_max
            if is_early or item.origin in blocked or not self._may(stream, item):
                blocked.add(item.origin)
                epoch_max = min(epoch_max, item.epoch)
                stream.pending.append(item)
                continue
            self.pending_bytes -= item.size
            self._take(stream, item)
        if not stream.pending:
            stream.flushes.clear()
        return len(stream.pending) < len(waiting)

    def _switch(self, stream: Stream) -> bool:
        """Follow the new source once the old one, if any, has brought us to where it took us in."""
        topic, join_at = stream.topic, stream.join_at
        if join_at is None:
            return False
        if stream.source is None:
            if self.is_behind(stream):
                return False
            self._jump(stream, *join_at)
        elif (topic.epoch, topic.n) < join_at:
            return False
        else:
            self._leave(stream, stream.source)
        stream.source, stream.joining, stream.join_at = stream.joining, None, None
        return True

    def _wait(self, stream: Stream, item: Pending) -> None:
        stream.pending.append(item)
        self.pending_bytes += item.size
        if self.pending_bytes > self._pending_bytes_max:
            # Give up the old source of this stream: whoever listens learns of the hole by its positions.
            self.overflows += 1
            if self._cluster.tags.skip(stream):
                return
            self._leave(stream, stream.source)
            stream.source = None

    def _deliver(self, stream: Stream, item: Pending) -> None:
        topic, epoch, first, payloads = stream.topic, item.epoch, item.first, item.payloads
        if epoch < topic.epoch:
            return
        if epoch == topic.epoch:
            seen = topic.n + 1 - first
            if seen >= len(payloads):
                return
            if seen > 0:
                first, payloads = first + seen, payloads[seen:]
        else:
            topic.epoch = epoch
            topic.audience = None
        self._cluster.core.relay(topic, first, payloads)

    def _open(self, stream: Stream, item: Pending) -> None:
        topic = stream.topic
        if item.epoch <= topic.epoch:
            return
        hub, epoch, n = item.after
        frame = encode(Verb.OPENED, topic.name, item.epoch, hub.encode(), epoch, n)
        for link in topic.relays or ():
            link.write(frame)
        self._cluster.announce(topic, item.epoch, epoch, n)
        topic.epoch, topic.n, topic.audience = item.epoch, 0, None

    def jump(self, stream: Stream, epoch: int, n: int) -> None:
        """Leave out what the stream still has up to this position."""
        self._jump(stream, epoch, n)
        self._advance(stream, has_moved=True)

    def _jump(self, stream: Stream, epoch: int, n: int) -> None:
        """Nothing before this position will come any more."""
        topic = stream.topic
        if (epoch, n) > (topic.epoch, topic.n):
            if epoch != topic.epoch:
                topic.audience = None
            topic.epoch, topic.n = epoch, n

    def _leave(self, stream: Stream, hub: str | None) -> None:
        if hub is not None:
            self._cluster.tell(hub, Verb.DETACH, stream.topic.key)
