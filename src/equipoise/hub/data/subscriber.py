"""What topics, patterns, audiences and backlogs need of a session that subscribes: its face towards them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from equipoise.access import Action, User
    from equipoise.hub.data.kinds import Kind
    from equipoise.hub.data.ports import Wire

__all__ = ["Subscriber"]


class Subscriber(Protocol):
    """A session, to what delivers to it."""

    id: int
    user: User | None
    # The version of RESP that it speaks.
    proto: int
    wire: Wire
    # The transport's own write, or a backlog's `hold` while the transport is full.
    write: Callable[[bytes], object]
    is_closing: bool

    @property
    def subscriptions(self) -> Mapping[Kind, Mapping[bytes, object]] | None:
        """Topics and patterns, by kind and name."""

    @property
    def subscriptions_held(self) -> int: ...
    def may(self, action: Action, name: bytes) -> bool: ...
