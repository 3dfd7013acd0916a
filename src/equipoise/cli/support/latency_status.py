"""Ask the leading controller how a topic stands to its latency limit: it alone has seen the view.

Its pages are asked as anybody asks them: without a token where it lets this machine look, else with the one it was
started with. A controller that cannot be asked is no reason for a command to fail.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Annotated, Any

import typer

from equipoise.errors import DamagedError, SettingsError
from equipoise.model.names import to_id
from equipoise.store.contract import Store
from equipoise.store.records.leader import LeaderStore
from equipoise.store.tree import Tree

# As for hubs: nobody waits longer for an answer.
_PATIENCE_S = 5.0
_ANSWER_BYTES_MAX = 4 * 1024 * 1024
_FACTS = ("latency_s_worst", "latency_s_expected", "latency_limit_ms", "is_held")

TokenFile = Annotated[
    str,
    typer.Option(
        "--token-file",
        envvar="EQUIPOISE_TOKEN_FILE",
        help="File with the controller's token, where it does not let this machine look without.",
    ),
]


async def topic_latency(store: Store, region: str, topic: bytes, token_file: str) -> dict[str, Any] | None:
    """What the leader says of the topic's latency; None if nobody can be asked. Raises SettingsError."""
    token = _token(token_file)
    try:
        leader = await LeaderStore(store, Tree(region)).load()
    except DamagedError:
        return None
    if leader is None or not leader.http:
        return None
    return await asyncio.to_thread(_ask, f"{leader.http}/api/topics/{to_id(topic)}", token)


def latency_words(found: dict[str, Any] | None) -> str:
    """For people; empty if there is nothing to say."""
    if found is None:
        return "no controller can be asked whether that is held"
    worst_s, expected_s, is_held = (
        found[name] for name in ("latency_s_worst", "latency_s_expected", "is_held")
    )
    parts = []
    if worst_s is not None:
        parts.append(f"it takes {1_000 * worst_s:.1f} ms at worst")
    if expected_s is not None:
        parts.append(f"{1_000 * expected_s:.1f} ms are expected where it lives")
    if not parts:
        return "whether that is held is not known: nobody has told where its clients are"
    verdict = "" if is_held is None else ": the limit is held" if is_held else ": the limit is broken"
    return f"{', '.join(parts)}{verdict}"


def _ask(address: str, token: str) -> dict[str, Any] | None:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as response:
            found = json.loads(response.read(_ANSWER_BYTES_MAX))
    except (OSError, ValueError):
        return None
    return {name: found.get(name) for name in _FACTS} if isinstance(found, dict) else None


def _token(path: str) -> str:
    try:
        return Path(path).read_text().strip() if path else ""
    except OSError as problem:
        raise SettingsError(f"cannot read the token file {path}: {problem.strerror}") from problem
