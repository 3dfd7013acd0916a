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

from equipoise.hub.cluster.frames import Verb, decode, encode, runs, spell_path
from equipoise.hub.cluster.streams import Doubt, Held, State, Stream
from equipoise.resp import RequestReader

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.cluster.router import Path

__all__ = ["GONE", "HOPS_MAX", "NOWHERE", "Ingress", "Where", "fresh_messages"]

# Each hop leads to a newer plan, or past a hub that has died, so messages do not go in circles. Three hops are many; at
# this many the message is given up, and counted.
HOPS_MAX = 64
# Stands for how messages came here once the hub that sent them is dead: nobody waits for a word.
GONE: Path = (("", 0),)

# Epoch and n; of a message that was lost, or dropped, nowhere.
Where = tuple[int, int]
NOWHERE: Where = (0, 0)


class Ingress:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster, held_bytes_max: int) -> None:
        self._cluster = cluster
        self._held_bytes_max = held_bytes_max
        self.held_bytes = 0
        # Messages that were dropped: in doubt when a hub died, or for want of room.
        self.lost = 0
        self.dropped = 0

    def submit(self, stream: Stream, item: Held) -> bool:
        """Take messages on their way in; False if there is no room for them."""
        path = item.path
        if path in stream.held or self._must_wait(stream, item):
            if self.held_bytes + item.size > self._held_bytes_max:
                if path:
                    self.dropped += len(item.payloads)
                    self._settle(stream, path, len(item.payloads), NOWHERE)
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

    def numbered(self, stream: Stream, peer: str, path: Path, count: int, at: Where) -> None:
        """Of the messages that had come here so, the peer has dealt with so many more; the last is at `at`."""
        doubt = stream.doubts.get((peer, path))
        if doubt is not None:
            # These are meant: nothing else has been sent there since.
            if doubt.left is not None:
                self._resolve(stream, peer, path, doubt._replace(left=max(0, doubt.left - count)))
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
                self._settle(stream, path, part, (epoch, n - count) if epoch else NOWHERE)
        if left:
            stream.owed[key] = left
        else:
            del stream.owed[key]
        return count

    def outstanding(self, stream: Stream, path: Path) -> int:
        """Of how many messages that came here so their sender has had no word."""
        held = sum(len(item.payloads) for item in stream.held.get(path, ()))
        return held + sum(
            count for owed in stream.owed.values() for came_by, count in owed if came_by == path
        )

    def doubt(self, stream: Stream, peer: str) -> None:
        """A link between us and a hub has begun anew: of what we sent it, or of its words, some are lost.

        Nobody can say which messages those were. Nothing that came the same way goes on before the hub has said that it
        is through with all that it did receive.
        """
        paths = {path for (target, _), owed in stream.owed.items() if target == peer for path, _ in owed}
        paths.update(path for target, path in stream.doubts if target == peer)
        if not paths:
            return
        self.target_died(stream, peer, ())
        ticket = self._cluster.new_ticket()
        for path in paths:
            stream.doubts[peer, path] = Doubt(ticket)
            self._cluster.tell(peer, Verb.RECOUNT, stream.topic.name, spell_path(path), ticket)

    def recounted(self, stream: Stream, peer: str, path: Path, ticket: int, count: int) -> None:
        """The peer has yet to deal with this many of those that are in doubt."""
        doubt = stream.doubts.get((peer, path))
        if doubt is not None and doubt.ticket == ticket:
            self._resolve(stream, peer, path, doubt._replace(left=count))
            self.drain(stream)

    def _resolve(self, stream: Stream, peer: str, path: Path, doubt: Doubt) -> None:
        if doubt.left:
            stream.doubts[peer, path] = doubt
        else:
            del stream.doubts[peer, path]

    # Deaths.

    def target_died(self, stream: Stream, peer: str, fresh: Sequence[bytes]) -> None:
        """A hub that messages went to is dead. It cannot have seen `fresh`, the last of them: they wait again."""
        for key in [key for key in stream.doubts if key[0] == peer]:
            del stream.doubts[key]
        keys = [key for key in stream.owed if key[0] == peer]
        entries = [entry for key in keys for entry in stream.owed.pop(key)]
        paths = [path for path, count in entries for _ in range(count)]
        # What is in doubt may be among them.
        fresh = fresh[max(0, len(fresh) - len(paths)) :]
        lost = len(paths) - len(fresh)
        self.lost += lost
        for path in paths[:lost]:
            self._settle(stream, path, 1, NOWHERE)
        for path, payload in reversed(list(zip(paths[lost:], fresh, strict=True))):
            item = Held(path, 0, (payload,))
            stream.held.setdefault(path, deque()).appendleft(item)
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

    # Inside.

    def _must_wait(self, stream: Stream, item: Held) -> bool:
        """Whether the home is not certain, or messages that came the same way are still on another one."""
        state = stream.state
        if state is State.OPENING or (state is State.REMOTE and stream.peer not in self._cluster.out):
            return True
        if state is State.REMOTE and item.version > self._cluster.router.version:
            # Its sender knows better where it belongs; soon we shall, too.
            return True
        if any(path == item.path for _, path in stream.doubts):
            return True
        way = (stream.peer, stream.term) if state is State.REMOTE else None
        return any(
            key != way and any(path == item.path for path, _ in owed) for key, owed in stream.owed.items()
        )

    def _pass(self, stream: Stream, item: Held) -> None:
        cluster, topic = self._cluster, stream.topic
        path, payloads = item.path, item.payloads
        if cluster.router.has_died(path) or path == GONE:
            self.lost += len(payloads)
            self._settle(stream, path, len(payloads), NOWHERE)
        elif stream.state.is_home:
            cluster.core.publish(topic, payloads)
            self._settle(stream, path, len(payloads), (topic.epoch, topic.n))
        elif len(path) >= HOPS_MAX:
            self.dropped += len(payloads)
            self._settle(stream, path, len(payloads), NOWHERE)
        else:
            self._send(stream, item)

    def _send(self, stream: Stream, item: Held) -> None:
        cluster, topic = self._cluster, stream.topic
        assert stream.peer is not None, "a remote stream without a home waits"
        link, version, path = cluster.out[stream.peer], cluster.router.version, spell_path(item.path)
        way = (stream.peer, stream.term)
        cluster.core.metering.touch(topic)
        topic.ingress_messages += len(item.payloads)
        for _, part in runs(item.payloads, cluster.core.limits.payload_bytes_max):
            frame = encode(Verb.INGRESS, topic.name, version, path, payloads=part)
            topic.ingress_bytes += len(frame)
            # First: writing it may give up all that is owed.
            stream.owed.setdefault(way, deque()).append((item.path, len(part)))
            link.write(frame)

    def _settle(self, stream: Stream, path: Path, count: int, at: Where) -> None:
        """So many more messages that came so have been dealt with, the last at `at`."""
        if path and path != GONE:
            self._cluster.tell_numbered(path, stream.topic.name, count, at)


def fresh_messages(pieces: Iterable[bytes], reader: RequestReader) -> dict[bytes, list[bytes]]:
    """The messages in frames that were never sent, by topic."""
    found: dict[bytes, list[bytes]] = {}
    for piece in pieces:
        for command in reader.feed(piece):
            verb, fields, payloads = decode(command)
            if verb is Verb.INGRESS:
                found.setdefault(bytes(fields[0]), []).extend(payloads)
    return found
