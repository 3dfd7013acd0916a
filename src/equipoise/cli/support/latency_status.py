"""Query the leading controller whether a topic meets its latency limit: only the controller has the view.

Uses the controller's HTTP API. Its address comes from the store, so the token is not sent there: the token signs the
request. If no controller replies, the latency is unknown and the command continues.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import urllib.request
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from equipoise.access.signed_requests import signed
from equipoise.errors import DamagedError, SettingsError
from equipoise.model.names import to_id
from equipoise.store.contract import Store
from equipoise.store.records.leader import LeaderStore
from equipoise.store.tree import Tree

# As for hubs: the operator is waiting.
_PATIENCE_S = 5.0
_ANSWER_BYTES_MAX = 4 * 1024 * 1024
_QUANTILES = ("p50", "p90", "p99", "max")
_FACTS = (
    *(f"latency_s_{level}" for level in _QUANTILES),
    *("latency_s_worst", "latency_s_expected", "latency_limit_ms", "latency_quantile", "is_held"),
)

TokenFile = Annotated[
    str,
    typer.Option(
        "--token-file",
        envvar="EQUIPOISE_TOKEN_FILE",
        help="File with the controller's token, if the controller requires one to read.",
    ),
]


PagesCa = Annotated[
    str,
    typer.Option(
        "--tls-ca",
        envvar="EQUIPOISE_TLS_CA",
        help="CA of the controller's certificate (PEM), if its pages are served over HTTPS. Empty: the system's CAs.",
    ),
]


async def topic_latency(
    store: Store, region: str, topic: bytes, token_file: str, tls_ca: str = ""
) -> dict[str, Any] | None:
    """The topic's latency from the leading controller; None if none replies. Raises SettingsError."""
    token = _token(token_file)
    try:
        leader = await LeaderStore(store, Tree(region)).load()
    except DamagedError:
        return None
    if leader is None or not leader.http:
        return None
    context = _context(tls_ca) if leader.http.startswith("https:") else None
    return await asyncio.to_thread(_ask, leader.http, f"/api/topics/{to_id(topic)}", token, context)


def latency_words(found: dict[str, Any] | None) -> str:
    """One line of text."""
    if found is None:
        return "latency unknown: no controller answers"
    measured = [
        f"{level} {1_000 * value_s:.1f} ms"
        for level in _QUANTILES
        if (value_s := found.get(f"latency_s_{level}")) is not None
    ]
    estimates = [
        f"{1_000 * value_s:.1f} ms {what}"
        for name, what in (("latency_s_worst", "worst"), ("latency_s_expected", "at its home"))
        if (value_s := found.get(name)) is not None
    ]
    parts = [f"measured {', '.join(measured)}"] if measured else []
    if estimates:
        parts.append(f"estimated by coordinates {', '.join(estimates)}")
    if not parts:
        return "latency unknown: no round trip of a publisher and a subscriber has been measured"
    is_held, quantile = found.get("is_held"), found.get("latency_quantile")
    judged = "" if quantile is None else f" at quantile {quantile:g}"
    verdict = "" if is_held is None else f": limit{judged} met" if is_held else f": limit{judged} broken"
    return f"latency {'; '.join(parts)}{verdict}"


def _context(tls_ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=tls_ca or None)
    except (OSError, ssl.SSLError) as problem:
        raise SettingsError(f"--tls-ca {tls_ca} cannot be used: {problem}") from problem


def _ask(page: str, path: str, token: str, context: ssl.SSLContext | None) -> dict[str, Any] | None:
    shown = {"Authorization": signed(token, urlsplit(page).netloc, path, time.time())} if token else {}
    request = urllib.request.Request(page + path, headers=shown)
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S, context=context) as response:
            found = json.loads(response.read(_ANSWER_BYTES_MAX))
    except (OSError, ValueError):
        return None
    return {name: found.get(name) for name in _FACTS} if isinstance(found, dict) else None


def _token(path: str) -> str:
    try:
        return Path(path).read_text().strip() if path else ""
    except OSError as problem:
        raise SettingsError(f"cannot read the token file {path}: {problem.strerror}") from problem
