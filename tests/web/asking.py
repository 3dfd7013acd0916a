"""Ask an application without sockets: one request in, the whole answer out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette

__all__ = ["Answer", "ask"]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def media(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


async def ask(
    app: Starlette,
    method: str,
    target: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes = b"",
    bytes_max: int | None = None,
) -> Answer:
    """`target` is percent-encoded. With `bytes_max` the client leaves once it has read so many: for endless answers."""
    path, _, query = target.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in ({"host": "127.0.0.1"} | (headers or {})).items()
        ],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 80),
    }
    sent = [{"type": "http.request", "body": body, "more_body": False}]
    gone = asyncio.Event()
    begun: dict[str, Any] = {}
    pieces: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if sent:
            return sent.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            begun.update(message)
        else:
            pieces.append(message.get("body", b""))
            if bytes_max is not None and sum(map(len, pieces)) >= bytes_max:
                gone.set()

    await app(scope, receive, send)
    named = {name.decode().lower(): value.decode("latin-1") for name, value in begun["headers"]}
    return Answer(begun["status"], named, b"".join(pieces))
