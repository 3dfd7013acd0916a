"""The receiving end of a link's connection: the greeting that makes a session one, and the frames that follow.

After the greeting nothing but frames is read from the connection, and nothing but further counts of executed bytes is
written to it.

Any error voids the generation of the link. The bytes of a chunk count as executed only if all of its frames were, and
where an error stopped it that number is not known. So the sender is told an offset that it cannot have reached
(`VOID_OFFSET`), begins the next generation, and both hubs ask each other again for what they need. That way losses are
counted and told as gaps, and nothing is executed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.link.capabilities import PROTOCOL, Announcement
from equipoise.hub.cluster.link.codec import parse_number
from equipoise.hub.cluster.link.link import InLink, LinkId
from equipoise.resp import Publishes, RequestReader

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["LinkSession", "capabilities", "hello"]

# Acknowledged at once: the sender keeps no more than this for want of an ack.
ACKNOWLEDGE_BYTES = 256 * 1024
# Longer than any name that a client may give its link.
_LINK_PREFIX = b"hub".ljust(80)
_NO_LINK = 'NOPERM a link between hubs needs a user with the grant link = ["*"]'
_ALONE = "ERR this hub is alone: start it with --store to have it among others"


def capabilities(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """EQ.L.CAPABILITIES: note what the peer announces, answer with what this hub does."""
    cluster = core.cluster
    if not isinstance(cluster, Cluster):
        return _ALONE
    if not session.may_link:
        return _NO_LINK
    numbers = _numbers(command[2:3])
    if numbers is None:
        return "ERR an incarnation is a number"
    life = (command[1].decode("utf-8", "replace"), numbers[0])
    cluster.announced(life, Announcement.parse(command[3:]))
    return b"+%b\r\n" % b" ".join(Announcement.of(core.limits).words())


def hello(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """EQ.L.HELLO: make this session the connection of a link."""
    cluster = core.cluster
    if not isinstance(cluster, Cluster):
        return _ALONE
    if not session.may_link:
        return _NO_LINK
    if command[1] != PROTOCOL:
        return f"ERR links speak protocol {PROTOCOL.decode()} here"
    numbers = _numbers((command[3], command[4], command[6]))
    if numbers is None:
        return "ERR incarnations and generations are numbers"
    if command[5].decode("utf-8", "replace") != cluster.name:
        return f"STALE this is hub {cluster.name}"
    incarnation, generation, own = numbers
    link = LinkId(command[2].decode("utf-8", "replace"), incarnation, generation)
    incoming = cluster.greet(link, to_incarnation=own)
    if isinstance(incoming, str):
        return incoming
    # The connection before this one may still bring frames: they will come again on this one.
    core.follow(session, _LINK_PREFIX + command[2])
    incoming.connections += 1
    session.peer = LinkSession(core, cluster, session, incoming)
    return b":%d\r\n" % incoming.resume_at


def _numbers(words: Sequence[bytes]) -> list[int] | None:
    try:
        return [parse_number(word) for word in words]
    except ValueError:
        return None


class LinkSession:
    """One connection of a link that another hub has dialled."""

    def __init__(self, core: HubCore, cluster: Cluster, session: Session, incoming: InLink) -> None:
        self._core = core
        self._cluster = cluster
        self._session = session
        self._incoming = incoming
        self._reader = RequestReader(core.link_limits)
        self._input_bytes_max = 2 * core.link_limits.payload_bytes_max + ACKNOWLEDGE_BYTES
        self._acknowledged = incoming.offset
        self._is_timed = False

    def receive(self, data: bytes) -> None:
        """Execute the frames that are complete. A chunk takes no longer than one of a client's."""
        core, incoming = self._core, self._incoming
        core.stats.input_bytes += len(data)
        self._session.last_at = core.now()
        if incoming.is_void or not self._cluster.hears(incoming):
            core.cut(self._session, f"the link from {incoming.id.hub} has begun anew")
            return
        unread = self._reader.buffered_bytes + len(data)
        try:
            self._execute(data)
        except ProtocolError as problem:
            incoming.is_void = True
            core.cut(self._session, f"{incoming.id.hub} broke the protocol of links: {problem}")
            return
        except Exception:
            # A fault of this hub. The frames before it must not come again, so the link begins anew here, too.
            incoming.is_void = True
            raise
        incoming.offset += unread - self._reader.buffered_bytes
        if incoming.offset - self._acknowledged >= ACKNOWLEDGE_BYTES:
            self._acknowledge()
        elif not self._is_timed:
            self._is_timed = True
            core.shell.call_later(core.settings.cluster.ack_interval_s, self._on_timer)

    def _execute(self, data: bytes) -> None:
        """Raises ProtocolError for anything but frames that this hub can read."""
        reader = self._reader
        commands = reader.feed(data)
        while True:
            if isinstance(commands, Publishes):
                raise ProtocolError("PUBLISH is no frame of a link")
            for command in commands:
                self._cluster.receive(self._incoming, command)
            if not reader.has_more:
                break
            commands = reader.feed(b"")
        if reader.error is not None:
            raise ProtocolError(reader.error)
        if reader.buffered_bytes > self._input_bytes_max:
            raise ProtocolError("a frame is too long")

    def _on_timer(self) -> None:
        self._is_timed = False
        self._acknowledge()

    def _acknowledge(self) -> None:
        if self._acknowledged != self._incoming.offset and not self._session.is_closing:
            self._acknowledged = self._incoming.offset
            self._session.write(b":%d\r\n" % self._acknowledged)
