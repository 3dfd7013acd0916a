"""Send gaps to pattern subscribers, which receive no positions of topics without messages.

Smart subscribers receive a push. Plain subscribers cannot: for them the loss is counted.

A hub without room for another topic can neither number its messages nor follow its stream. Its publishers may have
received replies already, so the pattern subscribers at every hub receive a gap; there are no subscribers by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.data.kinds import Kind
from equipoise.resp.replies import bulk, null, push

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.patterns import Pattern
    from equipoise.hub.data.topics import Topic

__all__ = ["send_hub_gap", "send_name_gap", "send_topic_gap"]


def send_hub_gap(core: HubCore) -> None:
    """A hub is dead, or its frames are void: messages of any topic may be missing."""
    core.losses.count_hub()
    for pattern in core.index.patterns:
        sessions = [session for session, kinds in pattern.members.items() if _is_told(kinds)]
        if sessions:
            frame = _gap_push(pattern, None)
            for session in sessions:
                session.write(frame)


def send_topic_gap(core: HubCore, topic: Topic) -> None:
    """Send a gap of the topic to its pattern subscribers here; count the loss for plain ones."""
    if not topic.trunk.has_subscribers and core.audience_of(topic).receivers:
        core.losses.count(topic.trunk.name, None)
    _send_members_gap(core, topic.name)


def send_name_gap(core: HubCore, name: bytes) -> None:
    """Messages of a topic that this hub has no room for are lost."""
    if next(core.index.patterns.matching(name), None) is not None:
        core.losses.count(name, None)
        _send_members_gap(core, name)


def _send_members_gap(core: HubCore, name: bytes) -> None:
    for pattern in core.index.patterns.matching(name):
        for session, kinds in pattern.members.items():
            if _is_told(kinds) and session.may(Action.SUBSCRIBE, name):
                session.write(_gap_push(pattern, name))


def _is_told(kinds: Sequence[Kind]) -> bool:
    return Kind.POSITIONED_PATTERN in kinds


def _gap_push(pattern: Pattern, name: bytes | None) -> bytes:
    """The push for an unknown number of missing messages, of the topic or of any topic that the pattern matches."""
    return push((bulk(b"eq.gap"), bulk(pattern.glob.pattern), null(3) if name is None else bulk(name)), 3)
