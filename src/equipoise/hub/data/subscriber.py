"""The interface of a session to topics, patterns, audiences and backlogs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from equipoise.access import Action, User
    from equipoise.hub.data.held_subscriptions import HeldSubscriptions
    from equipoise.hub.data.ports import Wire

__all__ = ["Subscriber"]


class Subscriber(Protocol):
    """A session, as the code that delivers to it uses it."""

    id: int
    user: User | None
    # RESP version.
    proto: int
    wire: Wire
    # The transport's own write, or a backlog's `hold` while the transport is full.
    write: Callable[[bytes], object]
    is_closing: bool

    @property
    def subscriptions(self) -> HeldSubscriptions[Any] | None: ...
    @property
    def subscriptions_held(self) -> int: ...
    def may(self, action: Action, name: bytes) -> bool: ...
