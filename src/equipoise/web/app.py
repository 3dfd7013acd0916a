"""The server of pages, API and metrics: thin handlers around `facts` and `actions`.

Always true: every request has passed `guard` before a handler; pages load resources only from this server.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from equipoise.access.signed_requests import is_signed
from equipoise.errors import MisuseError, PlanError, StoreError
from equipoise.model.names import from_id
from equipoise.web import metrics
from equipoise.web.actions import Actions, Drain, Move, SpecChange, Weigh
from equipoise.web.auth import AuthVerdict, judge
from equipoise.web.durable_status import DurableStatus
from equipoise.web.facts import PAGE_MAX, SORTS, TOPICS_NOTED, ClusterFacts
from equipoise.web.history import KEPT_MAX
from equipoise.web.peer_slots import PeerSlots
from equipoise.web.routes import ROUTES, describe
from equipoise.web.settings import WebSettings

__all__ = ["make_app"]

STATIC = Path(__file__).parent / "static"
BODY_BYTES_MAX = 64 * 1024
# Time-out of a request body.
BODY_S = 10.0
# Pages open at once, in all and from one address.
STREAMS_MAX = 64
STREAMS_PER_PEER_MAX = 16
# An encoded overview is shared for this part of a period, so that each page gets a new one every time.
EVENT_SHARED = 0.9
# The page loads nothing from elsewhere, runs no inline script and may not be framed.
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
Handler = Callable[[Request], Awaitable[Response]]


def make_app(facts: ClusterFacts, actions: Actions, settings: WebSettings) -> Starlette:
    """Everything under one address."""
    pages = _Pages(facts, actions, settings)
    routes: list[Any] = [
        Route(
            one.path,
            pages.guarded(getattr(pages, one.handler), is_change=one.method == "POST"),
            methods=[one.method],
        )
        for one in ROUTES
    ]
    routes += [
        Route("/api/openapi.json", pages.guarded(pages.openapi)),
        Route("/metrics", pages.guarded(pages.metrics)),
        Route("/healthz", pages.health),
        Route("/", pages.index),
        # The files of the page contain no data: only the API requires the token.
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown})


class _Pages:
    """One handler for each route."""

    def __init__(self, facts: ClusterFacts, actions: Actions, settings: WebSettings) -> None:
        self._facts = facts
        self._actions = actions
        self._settings = settings
        self._durable = DurableStatus(actions.store, actions.tree, facts.clock)
        self._streams = PeerSlots(STREAMS_MAX, STREAMS_PER_PEER_MAX)
        # The encoded overview for all open pages, and its expiry.
        self._event: bytes | None = None
        self._event_until = 0.0

    def guarded(self, handler: Handler, *, is_change: bool = False) -> Handler:
        async def guard(request: Request) -> Response:
            verdict = judge(
                token=self._settings.token,
                shown=_token(request),
                peer=request.client.host if request.client else "",
                host=request.headers.get("host", ""),
                is_change=is_change,
                is_loopback_free=self._settings.loopback_reads_allowed,
            )
            if verdict is not AuthVerdict.ALLOWED and (is_change or not self._is_signed(request)):
                return _json({"error": verdict.value}, 401)
            try:
                return await handler(request)
            except TimeoutError:
                return _json({"error": f"the request body did not arrive within {BODY_S:g} s"}, 408)
            except (MisuseError, PlanError, msgspec.DecodeError, ValueError) as problem:
                return _json({"error": str(problem)}, 400)
            except StoreError as problem:
                return _json({"error": f"the store does not reply: {problem}"}, 503)

        return guard

    def _is_signed(self, request: Request) -> bool:
        return is_signed(
            request.headers.get("authorization", ""),
            token=self._settings.token,
            address=urlsplit(self._facts.address).netloc,
            path=request.url.path,
            time_s=self._facts.clock(),
        )

    async def index(self, request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers=_HEADERS)

    async def health(self, request: Request) -> Response:
        """200 as long as the process works: a restart does not bring the store back."""
        problem = self._facts.controller.store_health.problem
        return Response(f"store: {problem}\n" if problem else "ok\n", media_type="text/plain")

    async def openapi(self, request: Request) -> Response:
        return _json(describe())

    async def durable(self, request: Request) -> Response:
        return _json(self._facts.durable(await self._durable.look()))

    async def metrics(self, request: Request) -> Response:
        try:
            durable = await self._durable.look()
        except StoreError:
            # The other metrics need no store.
            durable = None
        text = metrics.render(self._facts, self._settings.metrics_topics_max, durable)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def overview(self, request: Request) -> Response:
        return _json(self._facts.overview())

    async def curves(self, request: Request) -> Response:
        return _json(self._facts.curves(_seconds(request.query_params.get("since_s", "0"))))

    async def hubs(self, request: Request) -> Response:
        return _json(self._facts.hubs())

    async def topics(self, request: Request) -> Response:
        query = request.query_params
        sort = query.get("sort", "out_bytes_per_s")
        if sort not in SORTS:
            raise ValueError(f"sort by one of {', '.join(SORTS)}")
        return _json(
            self._facts.topics(
                search=query.get("search", "")[:256],
                sort=sort,
                offset=_number(query.get("offset", "0"), 0, 10_000_000),
                limit=_number(query.get("limit", "100"), 1, PAGE_MAX),
            )
        )

    async def topic(self, request: Request) -> Response:
        return _json(self._facts.topic(_topic(request)))

    async def map(self, request: Request) -> Response:
        limit = _number(request.query_params.get("limit", str(TOPICS_NOTED)), 1, PAGE_MAX)
        return _json(self._facts.map(limit))

    async def topic_plans(self, request: Request) -> Response:
        committed = await self._actions.history(KEPT_MAX, self._facts.plan_version)
        limit = _number(request.query_params.get("limit", "100"), 1, PAGE_MAX)
        return _json(self._facts.plans(committed, topic=_topic(request))[:limit])

    async def plans(self, request: Request) -> Response:
        limit = _number(request.query_params.get("limit", "50"), 1, PAGE_MAX)
        return _json(self._facts.plans(await self._actions.history(limit, self._facts.plan_version)))

    async def events(self, request: Request) -> Response:
        peer = request.client.host if request.client else ""
        if not self._streams.take(peer):
            return _json({"error": "too many pages are open: close some"}, 503)
        return StreamingResponse(
            self._pushes(peer), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def move(self, request: Request) -> Response:
        return _json(await self._actions.move(await _body(request, Move)))

    async def drain(self, request: Request) -> Response:
        return _json(await self._actions.drain(await _body(request, Drain)))

    async def weigh(self, request: Request) -> Response:
        return _json(await self._actions.weigh(await _body(request, Weigh)))

    async def specs(self, request: Request) -> Response:
        return _json(self._facts.specs())

    async def limits(self, request: Request) -> Response:
        return _json(await self._actions.limit(await _body(request, SpecChange)))

    async def _pushes(self, peer: str) -> AsyncIterator[bytes]:
        """An overview at once and after each period; the page requests further data when it needs them."""
        try:
            while True:
                yield self._overview_event()
                await asyncio.sleep(self._settings.refresh_interval_s)
        finally:
            self._streams.give_back(peer)

    def _overview_event(self) -> bytes:
        """Encoded once a period, for any number of open pages."""
        now = asyncio.get_running_loop().time()
        if self._event is None or now >= self._event_until:
            data = msgspec.json.encode(self._facts.overview())
            self._event = b"event: overview\ndata: " + data + b"\n\n"
            self._event_until = now + EVENT_SHARED * self._settings.refresh_interval_s
        return self._event


async def _unknown(request: Request, problem: Exception) -> Response:
    """No such address, or not by this method."""
    status = problem.status_code if isinstance(problem, HTTPException) else 404
    words = "no such address" if status == 404 else f"not by {request.method}"
    return _json({"error": f"{words}: see /api/openapi.json"}, status)


def _token(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _topic(request: Request) -> bytes:
    return from_id(str(request.path_params["topic"]))


def _number(text: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12 and low <= int(text) <= high):
        raise ValueError(f"a number between {low} and {high} was expected")
    return int(text)


def _seconds(text: str) -> float:
    """A time that is not negative."""
    try:
        value = float(text) if len(text) < 32 and text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e10:
        raise ValueError("a time in seconds was expected")
    return value


async def _body(request: Request, kind: type[Any]) -> Any:
    """The body as one of the structs. Raises ValueError and msgspec's errors."""
    body = b""
    async with asyncio.timeout(BODY_S):
        async for piece in request.stream():
            body += piece
            if len(body) > BODY_BYTES_MAX:
                raise ValueError(f"more than {BODY_BYTES_MAX} bytes")
    return msgspec.json.decode(body, type=kind)


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json", headers=_HEADERS)
