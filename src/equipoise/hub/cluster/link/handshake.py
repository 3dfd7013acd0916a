"""The receiving end of a link's connection: the greeting that makes a session one, and the frames that follow.

    EQ.L.HELLO 1 from incarnation generation to incarnation     :bytes dealt with so far, or an error

Whoever may not operate the hub may not be a hub: a link carries messages that nobody judges again. After the greeting
nothing but frames is read from the connection, and nothing but further counts of bytes is written to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.link.codec import PROTOCOL
from equipoise.hub.cluster.link.link import InLink, LinkId
from equipoise.resp import RequestReader

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["LinkSession", "hello"]

# Acknowledged at once: the sender keeps no more than this for want of a word.
ACKNOWLEDGE_BYTES = 256 * 1024
_DIGITS_MAX = 19
# Longer than any name that a client may give its link.
_LINK_PREFIX = b"hub".ljust(80)


class LinkSession:
    """Reads frames from one connection of a link, and says now and then how far it is."""

    def __init__(self, core: HubCore, cluster: Cluster, session: Session, incoming: InLink) -> None:
        self._core = core
        self._cluster = cluster
        self._session = session
        self._incoming = incoming
        self._reader = RequestReader(core.link_limits)
        self._input_bytes_max = 2 * core.link_limits.payload_bytes_max + ACKNOWLEDGE_BYTES
        self._said = incoming.offset
        self._is_timed = False

    def receive(self, data: bytes) -> None:
        """Do what the frames say. A chunk takes no longer than one of a client's."""
        core, reader, incoming = self._core, self._reader, self._incoming
        core.stats.input_bytes += len(data)
        self._session.last_at = core.now()
        unread = reader.buffered_bytes + len(data)
        try:
            commands = reader.feed(data)
            while True:
                for command in commands:
                    self._cluster.receive(incoming, command)  # type: ignore[arg-type]  # no PUBLISH: see below
                if not reader.has_more:
                    break
                commands = reader.feed(b"")
        except (ProtocolError, TypeError) as problem:
            # TypeError: columns of PUBLISH commands, which are no frames. How far we got is not certain any more.
            if self._cluster.incoming.get(incoming.id.hub) is incoming:
                del self._cluster.incoming[incoming.id.hub]
            core.cut(self._session, f"it broke the protocol of links: {problem}")
            return
        incoming.offset += unread - reader.buffered_bytes
        if reader.error is not None or reader.buffered_bytes > self._input_bytes_max:
            core.cut(self._session, f"it broke the protocol of links: {reader.error or 'a frame too long'}")
        elif incoming.offset - self._said >= ACKNOWLEDGE_BYTES:
            self._acknowledge()
        elif not self._is_timed:
            self._is_timed = True
            core.shell.call_later(core.settings.cluster.ack_interval_s, self._on_timer)

    def _on_timer(self) -> None:
        self._is_timed = False
        self._acknowledge()

    def _acknowledge(self) -> None:
        if self._said != self._incoming.offset and not self._session.is_closing:
            self._said = self._incoming.offset
            self._session.write(b":%d\r\n" % self._said)


def hello(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """EQ.L.HELLO: make this session the connection of a link."""
    cluster = core.cluster
    if not isinstance(cluster, Cluster):
        return "ERR this hub is alone: start it with --store to have it among others"
    if not session.is_operator:
        return 'NOPERM a link between hubs needs a user with the grant operate = ["*"]'
    protocol, hub, *numbers = command[1], command[2], command[3], command[4], command[6]
    if protocol != PROTOCOL:
        return f"ERR links speak protocol {PROTOCOL.decode()} here"
    if not all(word.isdigit() and len(word) <= _DIGITS_MAX for word in numbers):
        return "ERR incarnations and generations are numbers"
    if command[5].decode("utf-8", "replace") != cluster.name:
        return f"STALE this is hub {cluster.name}"
    incarnation, generation, own = map(int, numbers)
    link = LinkId(hub.decode("utf-8", "replace"), incarnation, generation)
    incoming = cluster.greet(link, to_incarnation=own)
    if isinstance(incoming, str):
        return incoming
    # The connection before this one may still bring frames: they will come again on this one.
    core.follow(session, _LINK_PREFIX + hub)
    incoming.connections += 1
    session.peer = LinkSession(core, cluster, session, incoming)
    return b":%d\r\n" % incoming.offset
