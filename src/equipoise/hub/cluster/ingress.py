"""The way in: messages from clients and other hubs to the hub that gives them their positions.

The home tells everybody who sent it messages when they have their positions. A hub whose topic has a new home sends
nothing there before it has that word about all it sent to the old one, and so no publisher's messages overtake each
other, whichever way they go. What has to wait is held, within a bound for the whole hub.

Lost are messages that were on their way through a hub that died: whether it had passed them on nobody before it can
say, so they are not sent again, and whoever meets them later drops them. What no connection had taken is sent to the
next home.

Always true: once a hub knows that a life of another is over, it numbers and passes on nothing that went through it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from equipoise.hub.cluster.link.codec import decode, encode, runs
from equipoise.hub.cluster.link.frames import IngressFrame, NumberedFrame, Path, RecountFrame, Tag
from equipoise.hub.cluster.streams import Doubt, Held, State, Stream
from equipoise.resp import RequestReader

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.data.topics import Topic

__all__ = ["GONE", "HOPS_MAX", "NOWHERE", "Fresh", "Ingress", "Where", "fresh_messages"]

# Each hop leads to a newer plan, or past a hub that has died, so messages do not go in circles. Three hops are many; at
# this many the message is given up, and counted.
HOPS_MAX = 64
# Stands for how messages came here once the hub that sent them is dead: nobody waits for a word.
GONE: Path = (("", 0),)

# Epoch and n; of a message that was lost, or dropped, nowhere.
Where = tuple[int, int]
NOWHERE: Where = (0, 0)
# Messages that were never sent, by the key of the stream they were for: runs, with their tags.
Fresh = dict[bytes, list[tuple[Sequence[Tag], Sequence[bytes]]]]


class Ingress:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster, pending_bytes_max: int) -> None:
        self._cluster = cluster
        self._held_bytes_max = pending_bytes_max
        self.held_bytes = 0
        # Messages that were dropped: in doubt when a hub died, or for want of room.
        self.lost = 0
        self.dropped = 0

    def give(self, topic: Topic, item: Held) -> bool:
        """Take messages for one stream of a topic, whether or not it is simply open here."""
        stream = topic.stream
        if stream is None:
            if not item.tags:
                self._take(topic, item)
                return True
            # What it comes after may have to come here first.
            stream = self._cluster.handover.new_stream(topic)
            is_taken = self.submit(stream, item)
            if not stream.held:
                topic.stream = None
            return is_taken
        return self.submit(stream, item)

    def reserve(self, size: int) -> bool:
        """Make room for so many bytes that are to be held elsewhere than in a stream; False if there is none."""
        if self.held_bytes + size > self._held_bytes_max:
            return False
        self.held_bytes += size
        return True

    def release(self, size: int) -> None:
        self.held_bytes -= size

    def submit(self, stream: Stream, item: Held) -> bool:
        """Take messages on their way in; False if there is no room for them."""
        path = item.path
        if path in stream.held or self._must_wait(stream, item):
            if self.held_bytes + item.size > self._held_bytes_max:
                if path:
                    self.dropped += len(item.payloads)
                    self._settle(stream.topic, path, len(item.payloads), NOWHERE)
                return False
            stream.held.setdefault(path, deque()).append(item)
            self.held_bytes += item.size
        else:
            self._pass(stream, item)
        return True

    def drain(self, stream: Stream) -> None:
        """Pass on what was held, as far as it may go now."""
        for path, items in list(stream.held.items()):
            while items and not self._must_wait(stream, items[0]):
                item = items.popleft()
                self.held_bytes -= item.size
                self._pass(stream, item)
            if not items:
                stream.held.pop(path, None)

    # Words about what was sent.

    def acknowledge(self, path: Path, key: bytes, count: int, at: Where) -> None:
        """Acknowledge `count` messages to the hub that sent them by `path`; the last has position `at`."""
        self._cluster.tell(path[-1][0], NumberedFrame(key, path[:-1], count, *at))

    def numbered(self, stream: Stream, peer: str, path: Path, count: int, at: Where) -> None:
        """Of the messages that had come here so, the peer has dealt with so many more; the last is at `at`."""
        doubt = stream.doubts.get((peer, path))
        if doubt is not None:
            # These are meant: nothing else has been sent there since.
            if doubt.is_counted:
                self._resolve(stream, peer, path, max(0, doubt.messages - count))
        else:
            for key in [key for key in stream.owed if key[0] == peer]:
                count = self._credit(stream, key, path, count, at)
        self.drain(stream)

    def _credit(self, stream: Stream, key: tuple[str, int], path: Path, count: int, at: Where) -> int:
        """So many messages have been dealt with; how many more than were sent in this term."""
        left: deque[tuple[Path, int]] = deque()
        for came_by, waiting in stream.owed[key]:
            part = min(waiting, count) if came_by == path else 0
            count -= part
            if part < waiting:
                left.append((came_by, waiting - part))
            if part:
                epoch, n = at
                self._settle(stream.topic, path, part, (epoch, n - count) if epoch else NOWHERE)
        if left:
            stream.owed[key] = left
        else:
            del stream.owed[key]
        return count

    def outstanding(self, stream: Stream, path: Path) -> int:
        """Of how many messages that came here so their sender has had no word."""
        held = sum(len(item.payloads) for item in stream.held.get(path, ()))
        doubtful = sum(doubt.messages for (_, came_by), doubt in stream.doubts.items() if came_by == path)
        owed = sum(count for owed in stream.owed.values() for came_by, count in owed if came_by == path)
        return held + doubtful + owed

    def doubt(self, stream: Stream, peer: str) -> None:
        """A link between us and a hub has begun anew: of what we sent it, or of its words, some are lost.

        Nobody can say which messages those were. Nothing that came the same way goes on before the hub has said that it
        is through with all that it did receive, and nobody is told anything else before.
        """
        counts = {path: doubt.messages for (target, path), doubt in stream.doubts.items() if target == peer}
        for key in [key for key in stream.owed if key[0] == peer]:
            for path, count in stream.owed.pop(key):
                counts[path] = counts.get(path, 0) + count
        if not counts:
            return
        self._cluster.ways.unsure(stream.topic)
        ticket = self._cluster.new_ticket()
        for path, count in counts.items():
            stream.doubts[peer, path] = Doubt(ticket, False, count)
            self._cluster.tell(peer, RecountFrame(stream.topic.key, path, ticket))

    def recounted(self, stream: Stream, peer: str, path: Path, ticket: int, count: int) -> None:
        """The peer has yet to deal with this many of those that are in doubt."""
        doubt = stream.doubts.get((peer, path))
        if doubt is not None and doubt.ticket == ticket:
            self._resolve(stream, peer, path, min(count, doubt.messages))
            self.drain(stream)

    def _resolve(self, stream: Stream, peer: str, path: Path, left: int) -> None:
        """All but so many are over, one way or another."""
        doubt = stream.doubts.pop((peer, path))
        if left:
            stream.doubts[peer, path] = Doubt(doubt.ticket, True, left)
        if doubt.messages > left:
            self.lost += doubt.messages - left
            self._settle(stream.topic, path, doubt.messages - left, NOWHERE)

    # Deaths.

    def target_died(
        self, stream: Stream, peer: str, fresh: Sequence[tuple[Sequence[Tag], Sequence[bytes]]]
    ) -> None:
        """A hub that messages went to is dead. It cannot have seen `fresh`, the last of them: they wait again."""
        for target, path in [key for key in stream.doubts if key[0] == peer]:
            self._resolve(stream, target, path, 0)
        keys = [key for key in stream.owed if key[0] == peer]
        entries = [entry for key in keys for entry in stream.owed.pop(key)]
        paths = [path for path, count in entries for _ in range(count)]
        messages = [
            ((payload,), () if number else tags) for tags, run in fresh for number, payload in enumerate(run)
        ]
        # What is in doubt may be among them.
        messages = messages[max(0, len(messages) - len(paths)) :]
        lost = len(paths) - len(messages)
        self.lost += lost
        for path in paths[:lost]:
            self._settle(stream.topic, path, 1, NOWHERE)
        again = [Held(path, 0, *message) for path, message in zip(paths[lost:], messages, strict=True)]
        # The tags of messages that were lost hold for those that follow.
        first = next((number for number, path in enumerate(paths[lost:]) if not path), None)
        if first is not None:
            again[first] = again[first]._replace(tags=self._cluster.ways.tags_of(stream.topic.trunk))
        for item in reversed(again):
            stream.held.setdefault(item.path, deque()).appendleft(item)
            self.held_bytes += item.size

    def origin_died(self, stream: Stream, peer: str) -> None:
        """A hub that messages came from is dead: what comes from its next life must not meet them."""
        for path in [path for path in stream.held if path and path[-1][0] == peer]:
            for item in stream.held.pop(path):
                self.held_bytes -= item.size
                self.lost += len(item.payloads)
        for key, owed in stream.owed.items():
            stream.owed[key] = deque(
                [(GONE if path and path[-1][0] == peer else path, count) for path, count in owed]
            )
        for target, path in list(stream.doubts):
            if path and path[-1][0] == peer:
                del stream.doubts[target, path]

    # Inside.

    def _must_wait(self, stream: Stream, item: Held) -> bool:
        """Whether the home is not certain, or messages that came the same way are still on another one."""
        state = stream.state
        if state.is_home and item.tags and self._cluster.tags.must_wait(stream, item.tags):
            return True
        target = _target(stream)
        if not state.is_home and target not in self._cluster.out:
            return True
        if state is State.REMOTE and item.version > self._cluster.router.version:
            # Its sender knows better where it belongs; soon we shall, too.
            return True
        if any(path == item.path for _, path in stream.doubts):
            return True
        way = None if target is None else (target, stream.term)
        return any(
            key != way and any(path == item.path for path, _ in owed) for key, owed in stream.owed.items()
        )

    def _pass(self, stream: Stream, item: Held) -> None:
        if stream.state.is_home:
            self._take(stream.topic, item)
        elif self._is_void(item):
            self._drop(stream.topic, item)
        elif len(item.path) >= HOPS_MAX:
            self.dropped += len(item.payloads)
            self._settle(stream.topic, item.path, len(item.payloads), NOWHERE)
        else:
            self._send(stream, item)

    def _is_void(self, item: Held) -> bool:
        """Whether a hub that the messages have passed is dead: what was sent after them may be here already."""
        return bool(item.path) and (item.path == GONE or self._cluster.router.has_died(item.path))

    def _drop(self, topic: Topic, item: Held) -> None:
        self.lost += len(item.payloads)
        self._settle(topic, item.path, len(item.payloads), NOWHERE)

    def _take(self, topic: Topic, item: Held) -> None:
        """Give the messages their positions."""
        if self._is_void(item):
            self._drop(topic, item)
            return
        if item.tags:
            self._cluster.tags.mark(topic, item.tags)
        if item.path:
            self._cluster.core.metering.published_elsewhere(topic.trunk)
        self._cluster.core.publish(topic, item.payloads)
        self._settle(topic, item.path, len(item.payloads), (topic.epoch, topic.n))

    def _send(self, stream: Stream, item: Held) -> None:
        cluster, topic = self._cluster, stream.topic
        target = _target(stream)
        assert target is not None, "what goes nowhere waits"
        link, version = cluster.out[target], cluster.router.version
        way = (target, stream.term)
        tags, size = tuple(item.tags), 0
        for _, part in runs(item.payloads, cluster.core.limits.payload_bytes_max):
            frame = encode(IngressFrame(topic.key, version, item.path, tags, part))
            size += len(frame)
            # First: writing it may give up all that is owed.
            stream.owed.setdefault(way, deque()).append((item.path, len(part)))
            link.write(frame)
            tags = ()
        meter = cluster.core.metering.touch(topic)
        if meter is not None:
            meter.note_ingress(len(item.payloads), size)

    def _settle(self, topic: Topic, path: Path, count: int, at: Where) -> None:
        """So many more messages that came so have been dealt with, the last at `at`."""
        if not path:
            self._cluster.receipts.settle(topic, count, at)
        elif path != GONE:
            self.acknowledge(path, topic.key, count, at)


def _target(stream: Stream) -> str | None:
    """Where messages are sent on to: the home, or the hub that still is while it offers the topic to us."""
    if stream.state is State.OPENING and stream.ending is None:
        return stream.preparer
    return stream.peer if stream.state is State.REMOTE else None


def fresh_messages(pieces: Iterable[bytes], reader: RequestReader) -> Fresh:
    """The messages in frames that were never sent."""
    found: Fresh = {}
    for piece in pieces:
        for command in reader.feed(piece):
            frame = decode(command)
            if isinstance(frame, IngressFrame):
                found.setdefault(frame.key, []).append((frame.tags, frame.payloads))
    return found
