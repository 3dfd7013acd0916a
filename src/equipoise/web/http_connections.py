"""HTTP connections, bounded: in all, per peer, and in the time that one may take to say what it wants.

A connection without a whole request head ends after `REQUEST_S`, whether it is new or has been served before: silence
holds no place that another could use.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from equipoise.web.peer_slots import PeerSlots

__all__ = ["CONNECTIONS_MAX", "PER_PEER_MAX", "bounded"]

# A browser opens six, and a stream of events; scripts and scrapers one or two.
CONNECTIONS_MAX = 200
PER_PEER_MAX = 48
# From the first byte, or the connection, to the end of a request's head.
REQUEST_S = 2.0


def bounded(slots: PeerSlots) -> type[H11Protocol]:
    """uvicorn's protocol for connections that share these slots."""

    class BoundedProtocol(H11Protocol):
        _peer: str | None = None
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            name = transport.get_extra_info("peername")
            peer = str(name[0]) if isinstance(name, tuple) else ""
            super().connection_made(transport)
            if not slots.take(peer):
                transport.abort()
                return
            self._peer = peer
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._peer is not None:
                slots.give_back(self._peer)
                self._peer = None
            self._stop_watching()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_watching()
            else:
                self._watch()

        def _watch(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(REQUEST_S, self._give_up)

        def _stop_watching(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _give_up(self) -> None:
            self._deadline = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()

    return BoundedProtocol
