"""One connection of a store: requests in, answers out, no retries.

A channel belongs to one session and ends for good when its connection does; patience, doubt and sessions are the
business of `connected`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from equipoise.store.contract import Answer, Node, Read, WatchKind

__all__ = ["ChannelGoneError", "StoreChannel"]


class ChannelGoneError(Exception):
    """The connection went. The request may or may not have been carried out. Never leaves this folder."""


class StoreChannel(Protocol):
    """Every method raises ChannelGoneError, SessionLostError if the server knows the session has ended, and what the
    contract names for it."""

    @property
    def session(self) -> int: ...

    async def create(self, path: str, data: bytes, ephemeral: bool) -> Node: ...

    async def get(self, path: str) -> Node: ...

    async def set(self, path: str, data: bytes, version: int | None) -> Node: ...

    async def delete(self, path: str, version: int | None) -> None: ...

    async def children(self, path: str) -> tuple[str, ...]: ...

    async def arm(self, path: str, kind: WatchKind) -> None:
        """Watch for the next change, once. Changes after this has returned are not missed."""
        ...

    async def read(self, reads: Sequence[Read], watch: Read | None = None) -> tuple[Answer, ...]:
        """Arm `watch`, if there is one, and read, in this order and without waiting in between."""
        ...

    async def ping(self) -> None: ...
