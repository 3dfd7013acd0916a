"""The hub address and timeouts of a client, and a connection that reads pushes from the wire."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import hiredis

from equipoise.client import ClientSettings
from equipoise.client.wire.codec import encode_request
from equipoise.clock import done_within

__all__ = ["HubEndpoint", "PushConnection", "hurried"]


@dataclass(frozen=True, slots=True)
class HubEndpoint:
    """The inputs of a driven client beside its description. No other client draws from `rng`."""

    host: str
    port: int
    settings: ClientSettings
    rng: random.Random
    # Delay after a rejected connection (plain clients) or subscription.
    retry_s: float = 0.2
    # Other hosts, with the same port, that a smart client tries when the first does not answer.
    others: tuple[str, ...] = ()

    def url(self, user: str) -> str:
        login = f"{user}:{user}@" if user else ""
        hosts = ",".join(f"{host}:{self.port}" for host in (self.host, *self.others))
        return f"equipoise://{login}{hosts}"


@cache
def hurried(**changes: int | float | str) -> ClientSettings:
    """Settings for a world of a few seconds: short timeouts for lost hubs."""
    values: dict[str, int | float | str] = {
        "connect_timeout_s": 1.0,
        "first_connect_timeout_s": 60.0,
        "request_timeout_s": 2.0,
        "reconnect_first_s": 0.05,
        "reconnect_max_s": 0.5,
        "ping_interval_s": 0.7,
        **changes,
    }
    return ClientSettings(**values)  # type: ignore[arg-type]  # fields by name, some of them int


class PushConnection(asyncio.Protocol):
    """One connection to a hub until it is lost or silent. A push `eq.word` calls `on_push` with the word and fields."""

    transport: asyncio.Transport

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._reader = hiredis.Reader(notEnoughData=...)
        self._is_heard = False
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def watch(self) -> None:
        """Ping the hub until the connection is lost, or several pings are unanswered."""
        unanswered = 0
        while not self._lost.done():
            await done_within(self._lost, self._settings.ping_interval_s)
            unanswered = 0 if self._is_heard else unanswered + 1
            if unanswered > self._settings.pings_unanswered_max:
                return
            self._is_heard = False
            self.transport.write(encode_request(b"PING"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream's transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._lost.done():
            self._lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._is_heard = True
        self._reader.feed(data)
        while (item := self._reader.gets()) is not ...:
            if isinstance(item, Exception):
                self.on_error(item)
            elif isinstance(item, list) and item[0].startswith(b"eq."):
                self.on_push(item[0][3:].decode(), item[1:])

    def on_push(self, word: str, fields: Sequence[Any]) -> None:
        raise NotImplementedError

    def on_error(self, error: Exception) -> None:
        """The hub rejected a request."""
