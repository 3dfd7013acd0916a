"""The handshake of a link: two commands that turn a session into the receiving end (`LinkSession`).

With the first, the hubs exchange their capabilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.link.capabilities import CONTROL_WORD, PROTOCOL, Announcement
from equipoise.hub.cluster.link.codec import parse_number
from equipoise.hub.cluster.link.incoming import LinkId
from equipoise.hub.cluster.link.link_session import LinkSession

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["capabilities", "hello"]

# Longer than any link id of a client.
_LINK_PREFIX = b"hub".ljust(80)
_CONTROL_PREFIX = b"control".ljust(80)
_NO_LINK = 'NOPERM a link between hubs needs a user with the grant link = ["*"]'
_ALONE = "ERR this hub is standalone: start it with --store to join a cluster"


def capabilities(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """EQ.L.CAPABILITIES: apply the peer's announcement, reply with this hub's."""
    cluster = core.cluster
    if not isinstance(cluster, Cluster):
        return _ALONE
    if not session.may_link:
        return _NO_LINK
    numbers = _numbers(command[2:3])
    if numbers is None:
        return "ERR an incarnation is a number"
    life = (command[1].decode("utf-8", "replace"), numbers[0])
    cluster.greeting.announced(life, Announcement.parse(command[3:]))
    announcement = Announcement.of(core.limits, has_content=core.settings.cluster.filtered_links)
    return b"+%b\r\n" % b" ".join(announcement.words())


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
    is_control = len(command) > 7
    if is_control and command[7:] != [CONTROL_WORD]:
        return "ERR a greeting ends with the incarnation, or with the word control"
    incoming = cluster.greeting.open_link(link, to_incarnation=own, is_control=is_control)
    if isinstance(incoming, str):
        return incoming
    # Cut the previous connection of the link: its frames in flight are resent on this one.
    core.follow(session, (_CONTROL_PREFIX if is_control else _LINK_PREFIX) + command[2])
    incoming.connections += 1
    session.peer = LinkSession(
        core,
        session,
        incoming,
        cluster.control if is_control else cluster,
        cut=lambda reason: core.cut(session, reason),
        end=lambda text: _end(core, session, text),
    )
    return b":%d\r\n" % incoming.resume_at


def _end(core: HubCore, session: Session, text: str) -> None:
    session.write(core.refuse(text))
    core.leave(session)


def _numbers(words: Sequence[bytes]) -> list[int] | None:
    try:
        return [parse_number(word) for word in words]
    except ValueError:
        return None
