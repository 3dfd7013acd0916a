"""One connection of a store: requests and replies, no retries.

A channel belongs to one session and ends when its connection does; `connected` handles time-outs, uncertain outcomes
and sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from equipoise.store.contract import Answer, Node, Read, WatchKind

__all__ = ["ChannelGoneError", "StoreChannel"]


class ChannelGoneError(Exception):
    """The connection is lost. The request may or may not have been executed. Never leaves this folder."""


class StoreChannel(Protocol):
    """Every method raises ChannelGoneError, SessionLostError if the server knows that the session has ended, and the
    errors of its contract."""

    @property
    def session(self) -> int: ...

    async def create(self, path: str, data: bytes, ephemeral: bool) -> Node: ...

    async def get(self, path: str) -> Node: ...

    async def set(self, path: str, data: bytes, version: int | None) -> Node: ...

    async def delete(self, path: str, version: int | None) -> None: ...

    async def children(self, path: str) -> tuple[str, ...]: ...

    async def arm(self, path: str, kind: WatchKind) -> None:
        """Watch for the next change, once. No change after this has returned is missed."""
        ...

    async def read(self, reads: Sequence[Read], watch: Read | None = None) -> tuple[Answer, ...]:
        """Arm `watch`, if there is one, and read, in this order and without waiting in between."""
        ...

    async def ping(self) -> None: ...

    async def sync(self) -> None: ...
