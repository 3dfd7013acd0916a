"""A plain client of logs that sends commands and returns the replies; and the timeouts of smart clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis

import equipoise
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.resp.replies import spell

__all__ = ["PATIENCE_S", "SMART_SETTINGS", "LogClient"]

# Timeout of a reply, after which the client reconnects: a hub answers within five seconds.
PATIENCE_S = 8.0
SMART_SETTINGS = equipoise.ClientSettings(
    coordinate_enabled=False,
    request_timeout_s=3.0,
    connect_timeout_s=1.0,
    reconnect_max_s=0.5,
    close_timeout_s=0.5,
    first_connect_timeout_s=60.0,
)


class LogClient:
    """Sends commands to one hub at a time; connects when needed."""

    def __init__(self, pick: Callable[[], str]) -> None:
        self._pick = pick
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._parser = hiredis.Reader()

    async def ask(self, *commands: tuple[object, ...]) -> list[Any]:
        """Returns the replies received; closes a connection that is lost or silent."""
        replies: list[Any] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                if self._streams is None:
                    self._parser = hiredis.Reader()
                    self._streams = await asyncio.open_connection(self._pick(), PORT)
                reader, writer = self._streams
                words = [
                    [str(word).encode() if not isinstance(word, bytes) else word for word in c]
                    for c in commands
                ]
                writer.write(b"".join(map(spell, words)))
                while len(replies) < len(commands):
                    reply = self._parser.gets()
                    if reply is False:
                        data = await reader.read(65536)
                        if not data:
                            raise ConnectionError("closed")
                        self._parser.feed(data)
                    else:
                        replies.append(reply)
        except (OSError, TimeoutError):
            self.close()
        return replies

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
