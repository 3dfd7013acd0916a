"""The way in: messages from clients and other hubs to the hub that gives them their positions.

The home tells everybody who sent it messages when they have their positions. A hub whose topic has a new home sends
nothing there before it has that word about all it sent to the old one, and so no publisher's messages overtake each
other, whichever way they go. What has to wait is held, within a bound for the whole hub.

Lost are messages that were on their way to a hub that died: whether it had numbered them nobody can say, so they are
not sent again. What no connection had taken is sent to the next home.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from equipoise.hub.cluster.frames import Verb, decode, encode, runs
from equipoise.hub.cluster.streams import Held, State, Stream
from equipoise.hub.cluster.tags import Tag, parse_tags, spell_tags
from equipoise.resp import RequestReader

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.topics import Topic

__all__ = ["HOPS_MAX", "Ingress"]

# Each hop leads to a newer plan, so messages do not go in circles; only hubs that differ about who is alive could pass
# them to and fro, until they have heard of it. Three hops are many; at this many the message is given up, and counted.
HOPS_MAX = 16

# Epoch and n; of a message that was lost, or dropped, nowhere.
Where = tuple[int, int]
NOWHERE: Where = (0, 0)
# Messages that were never sent, by the key of the stream they were for: runs, with their tags.
Fresh = dict[bytes, list[tuple[Sequence[Tag], Sequence[bytes]]]]


class Ingress:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster, held_bytes_max: int) -> None:
        self._cluster = cluster
        self._held_bytes_max = held_bytes_max
        self.held_bytes = 0
        # Messages that were dropped: in doubt when a hub died, or for want of room.
        self.lost = 0
        self.dropped = 0

    def give(self, topic: Topic, item: Held) -> bool:
        """Take messages for one stream of a topic, whether or not it is simply open here."""
        stream = topic.stream
        if stream is None:
            if not item.tags:
                self._number(topic, item)
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
        origin = item.origin
        if origin in stream.held or self._must_wait(stream, item):
            if self.held_bytes + item.size > self._held_bytes_max:
                if origin is not None:
                    self.dropped += len(item.payloads)
                    self._settle(stream.topic, origin, len(item.payloads), NOWHERE)
                return False
            stream.held.setdefault(origin, deque()).append(item)
            self.held_bytes += item.size
        else:
            self._pass(stream, item)
        return True

    def numbered(self, stream: Stream, peer: str, count: int, at: Where) -> None:
        """The peer has dealt with so many more of the messages that we sent it; the last is at `at`."""
        for key in [key for key in stream.owed if key[0] == peer]:
            count = self._credit(stream, key, count, at)
        self.drain(stream)

    def _credit(self, stream: Stream, key: tuple[str, int], count: int, at: Where) -> int:
        """So many messages have been dealt with; how many more than were sent in this term."""
        owed = stream.owed[key]
        while count and owed:
            origin, waiting = owed.popleft()
            part = min(waiting, count)
            count -= part
            if part < waiting:
                owed.appendleft((origin, waiting - part))
            epoch, n = at
            self._settle(stream.topic, origin, part, (epoch, n - count) if epoch else NOWHERE)
        if not owed:
            del stream.owed[key]
        return count

    def drain(self, stream: Stream) -> None:
        """Pass on what was held, as far as it may go now."""
        for origin, items in list(stream.held.items()):
            while items and not self._must_wait(stream, items[0]):
                item = items.popleft()
                self.held_bytes -= item.size
                self._pass(stream, item)
            if not items:
                stream.held.pop(origin, None)

    def target_died(
        self, stream: Stream, peer: str, fresh: Sequence[tuple[Sequence[Tag], Sequence[bytes]]]
    ) -> None:
        """A hub that messages went to is dead. `fresh` are those that it cannot have seen: they wait again."""
        keys = [key for key in stream.owed if key[0] == peer]
        entries = [entry for key in keys for entry in stream.owed.pop(key)]
        origins = [origin for origin, count in entries for _ in range(count)]
        messages = [
            ((payload,), () if number else tags) for tags, run in fresh for number, payload in enumerate(run)
        ]
        lost = len(origins) - len(messages)
        self.lost += lost
        for origin in origins[:lost]:
            self._settle(stream.topic, origin, 1, NOWHERE)
        again = [
            Held(origin, 0, 0, *message) for origin, message in zip(origins[lost:], messages, strict=True)
        ]
        # The tags of messages that were lost hold for those that follow.
        first = next((number for number, origin in enumerate(origins[lost:]) if origin is None), None)
        if first is not None:
            again[first] = again[first]._replace(tags=self._cluster.ways.tags_of(stream.topic.trunk))
        for item in reversed(again):
            stream.held.setdefault(item.origin, deque()).appendleft(item)
            self.held_bytes += item.size

    def _must_wait(self, stream: Stream, item: Held) -> bool:
        """Whether the home is not certain, or messages of the same origin are still on another way."""
        state = stream.state
        if state.is_home and item.tags and self._cluster.tags.must_wait(stream, item.tags):
            return True
        if state is State.OPENING or (state is State.REMOTE and stream.peer not in self._cluster.out):
            return True
        if state is State.REMOTE and item.version > self._cluster.router.version:
            # Its sender knows better where it belongs; soon we shall, too.
            return True
        way = (stream.peer, stream.term) if state is State.REMOTE else None
        # What was sent back to its origin returns from there in order.
        return any(
            key != way and key[0] != item.origin and any(origin == item.origin for origin, _ in owed)
            for key, owed in stream.owed.items()
        )

    def _pass(self, stream: Stream, item: Held) -> None:
        cluster, topic = self._cluster, stream.topic
        origin, payloads = item.origin, item.payloads
        if stream.state.is_home:
            self._number(topic, item)
            return
        if item.hops >= HOPS_MAX:
            self.dropped += len(payloads)
            self._settle(topic, origin, len(payloads), NOWHERE)
            return
        assert stream.peer is not None, "a remote stream without a home waits"
        link, version = cluster.out[stream.peer], cluster.router.version
        way = (stream.peer, stream.term)
        stream.owed.setdefault(way, deque()).append((origin, len(payloads)))
        tags, size = spell_tags(item.tags), 0
        for _, part in runs(payloads, cluster.core.limits.payload_bytes_max):
            frame = encode(Verb.INGRESS, topic.key, version, item.hops, tags, payloads=part)
            size += len(frame)
            link.write(frame)
            tags = b""
        meter = cluster.core.metering.touch(topic)
        if meter is not None:
            meter.note_ingress(len(payloads), size)

    def _number(self, topic: Topic, item: Held) -> None:
        if item.tags:
            self._cluster.tags.mark(topic, item.tags)
        if item.origin is not None:
            self._cluster.core.metering.published_elsewhere(topic.trunk)
        self._cluster.core.publish(topic, item.payloads)
        self._settle(topic, item.origin, len(item.payloads), (topic.epoch, topic.n))

    def _settle(self, topic: Topic, origin: str | None, count: int, at: Where) -> None:
        """So many more messages of an origin have been dealt with, the last at `at`."""
        if origin is None:
            self._cluster.receipts.settle(topic, count, at)
        else:
            self._cluster.tell(origin, Verb.NUMBERED, topic.key, count, *at)


def fresh_messages(pieces: Iterable[bytes], reader: RequestReader) -> Fresh:
    """The messages in frames that were never sent."""
    found: Fresh = {}
    for piece in pieces:
        for command in reader.feed(piece):
            verb, fields, payloads = decode(command)
            if verb is Verb.INGRESS:
                found.setdefault(bytes(fields[0]), []).append((parse_tags(bytes(fields[3])), payloads))
    return found
