"""Bind a session to a user, and apply changed rules to its subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.access import User, Users
from equipoise.hub.data.subscribe import reauthorize

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["certified_user", "reauthorize_all"]


def certified_user(core: HubCore, session: Session) -> User | None:
    """The user of the client's certificate, if it presented one and there is one."""
    found = filter(None, map(core.users.by_certificate, session.certificate))
    return next(found, None)


def reauthorize_all(core: HubCore, users: Users) -> None:
    """Apply the new rules to all connected clients at once."""
    if users.version == core.users.version:
        return
    core.users = users
    for session in list(core.sessions.values()):
        _judge(core, session)
    if core.logs is not None:
        core.logs.reauthorize()


def _judge(core: HubCore, session: Session) -> None:
    former = session.user
    if former is None:
        return
    user = certified_user(core, session) if session.is_certified else core.users.successor_of(former)
    if user is None or user.name != former.name:
        core.cut(session, f"user {former.name!r} was removed, or has another login")
        return
    session.user = user
    core.stats.revoked += reauthorize(core, session)
