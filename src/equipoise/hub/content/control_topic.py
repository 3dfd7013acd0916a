"""Control messages between hubs about content topics, published to `$at/HUB/content` at each hub.

They are ordinary pub/sub messages: an operator can subscribe to any hub's, and messages to a dead hub are lost. Only
the link is a separate one (`control_links`), so that a hub with a long backlog of messages receives these in its next
turn.

Always true: anything but a message of a hub that shares a content topic with this one is counted, and ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import hiredis

from equipoise.content.balancing.messages import ControlMessage, LoadWanted, decode, encode
from equipoise.hub.cluster.link.frames import ControlFrame
from equipoise.hub.data.kinds import Kind
from equipoise.model.plan import AT_PREFIX

if TYPE_CHECKING:
    from equipoise.hub.cluster.ports import ClusterPort
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topic import Topic

__all__ = ["ControlTopic", "control_name"]


def control_name(hub: str) -> bytes:
    return b"%b%b/content" % (AT_PREFIX, hub.encode())


class ControlTopic:
    """Owned by a ContentEdge. `handle` is called in a turn of its own for each message of a hub in `peers`."""

    def __init__(self, cluster: ClusterPort, handle: Callable[[ControlMessage], None]) -> None:
        self._cluster = cluster
        self._handle = handle
        self._reader = hiredis.Reader()
        self._inside: tuple[Topic, Session] | None = None
        # Hubs whose messages are accepted. Any serving hub may request the load of this one.
        self.peers: frozenset[str] = frozenset()
        # Messages sent and received; and invalid ones.
        self.sent = self.received = self.invalid = 0

    def open(self) -> None:
        """Subscribe to this hub's control topic, if it is not yet, by a session without a connection."""
        core = self._cluster.core
        topic = None if self._inside is not None else core.make_topic(control_name(self._cluster.name))
        if topic is not None:
            session = core.open_session()
            session.write = self._receive
            core.index.add_member(topic, session, Kind.NAME)
            self._inside = topic, session

    def close(self) -> None:
        if self._inside is not None:
            topic, session = self._inside
            self._inside = None
            self._cluster.core.index.remove_member(topic, session, Kind.NAME)
            self._cluster.control.end()

    def send(self, hub: str, message: ControlMessage) -> None:
        """Send a message to a serving hub; lost messages are not resent."""
        if hub not in self._cluster.router.serving:
            return
        frame = ControlFrame(control_name(hub), [encode(message)])
        if self._cluster.control.send(hub, frame) or self._submit(frame):
            self.sent += 1

    def publish(self, frame: ControlFrame) -> None:
        """Another hub publishes to a control topic whose home is this hub."""
        if self._cluster.router.home(frame.topic) != self._cluster.name or not self._submit(frame):
            self.invalid += 1

    def _submit(self, frame: ControlFrame) -> bool:
        core = self._cluster.core
        topic = core.make_topic(frame.topic)
        if topic is not None:
            core.submit(topic, list(frame.payloads))
        return topic is not None

    def _receive(self, data: bytes) -> None:
        """The `write` of the session: decode the frames that the hub writes to a subscriber."""
        self._reader.feed(data)
        while (frame := self._reader.gets()) is not False:
            payload = frame[-1] if isinstance(frame, list) else b""
            message = decode(payload) if isinstance(payload, bytes) else None
            if message is None or not self._is_peer(message):
                self.invalid += 1
            else:
                self.received += 1
                self._cluster.core.shell.call_later(0, self._handle, message)

    def _is_peer(self, message: ControlMessage) -> bool:
        known = self._cluster.router.serving if isinstance(message, LoadWanted) else self.peers
        return message.hub in known
