"""Ask the hub that numbers a stream how far it is.

A client may say that its next message comes after a position in another stream. Everybody would wait for that
position, so it has to be one that was given: whatever the client says, no more is believed than the hub of that stream
confirms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.hub.cluster.link.frames import AskFrame, AtFrame

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.topics import Topic

__all__ = ["Asking"]

# A hub that was asked though the stream does not live there any more, or is dead: the plan will say who is next.
AGAIN_S = 0.05
# Told epoch and n; epoch 0 if the stream is over.
Tell = Callable[[int, int], object]


class Asking:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # By hub and key, who waits for an answer: the trunk, the stream, whom to tell. Each has asked by itself, since
        # an answer to a question of before may be older than what a client knows; answers come in order.
        self._asked: dict[tuple[str, bytes], deque[tuple[Topic, bytes, Tell]]] = {}

    def position(self, trunk: Topic, stream: bytes, tell: Tell) -> None:
        """Tell how far a stream of a topic is: at once if it is numbered here, or over."""
        found = self._cluster.tags.find(trunk, stream)
        if found is None:
            tell(0, 0)
        elif found.stream is None or found.stream.state.is_home:
            tell(found.epoch, found.n)
        elif found.stream.peer is None or found.stream.peer not in self._cluster.out:
            self._again(trunk, stream, tell)
        else:
            peer = found.stream.peer
            self._asked.setdefault((peer, found.key), deque()).append((trunk, stream, tell))
            self._cluster.tell(peer, AskFrame(found.key))

    def asked(self, peer: str, key: bytes, topic: Topic | None) -> None:
        """A hub wants to know. It asks again if the stream does not live here."""
        is_here = topic is not None and topic.is_home
        at = (topic.epoch, topic.n) if topic is not None else (0, 0)
        self._cluster.tell(peer, AtFrame(key, *at, is_here))

    def answered(self, peer: str, key: bytes, at: tuple[int, int], *, is_there: bool) -> None:
        waiting = self._asked.get((peer, key))
        if not waiting:
            return
        trunk, stream, tell = waiting.popleft()
        if not waiting:
            del self._asked[peer, key]
        if is_there:
            tell(*at)
        else:
            self._again(trunk, stream, tell)

    def peer_gone(self, peer: str) -> None:
        """What the hub was to answer never comes."""
        for asked in [asked for asked in self._asked if asked[0] == peer]:
            for waiting in self._asked.pop(asked):
                self._again(*waiting)

    def introduce(self, link: OutLink) -> None:
        """The link begins anew: what was asked is void."""
        for (hub, key), waiting in self._asked.items():
            if hub == link.hub:
                for _ in waiting:
                    link.send(AskFrame(key))

    def _again(self, trunk: Topic, stream: bytes, tell: Tell) -> None:
        self._cluster.core.shell.call_later(AGAIN_S, self.position, trunk, stream, tell)
