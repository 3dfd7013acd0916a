"""Disconnect plain subscribers of topics whose messages are lost (`cluster.disconnect_on_loss`).

They receive no gaps: a disconnect is the only sign of a loss that an application with a Redis client can detect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.data.kinds import Kind

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore

__all__ = ["disconnect_on_loss"]


def disconnect_on_loss(core: HubCore) -> None:
    """From now on, disconnect the plain subscribers that a loss affects.

    The disconnects have a turn of their own, because losses are counted in the middle of deliveries.
    """
    core.losses.on_loss = lambda name: core.shell.call_later(0, _disconnect, core, name)


def _disconnect(core: HubCore, name: bytes | None) -> None:
    """Messages of a topic are lost; None: messages of any topic may be."""
    topic = None if name is None else core.index.topics.get(name)
    patterns = core.index.patterns if name is None else core.index.patterns.matching(name)
    groups = [(pattern.members, Kind.PATTERN) for pattern in patterns]
    if topic is not None:
        groups.append((topic.members, Kind.NAME))
    content = None if topic is None else topic.content
    filtered = frozenset() if content is None else frozenset(content.plain_sessions())
    for session in list(core.sessions.values()):
        if session in filtered or any(kind in members.get(session, ()) for members, kind in groups):
            core.cut(session, "messages of its topics are lost")
