"""Shell completion of hub and topic names, from the store and the hubs.

The user is waiting: a request that fails or takes more than a second completes nothing and prints nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import typer

from equipoise.cli.support.hub_connection import CommandConnection, ask_all
from equipoise.cli.support.store_options import local_store_url, opened
from equipoise.errors import EquipoiseError
from equipoise.store.records.hubs import HubSeen

__all__ = ["hub_list", "hub_names", "topic_names"]

_PATIENCE_S = 1.0
_PAGE = b"1000"


def hub_names(context: typer.Context, incomplete: str) -> list[str]:
    async def find(url: str, region: str) -> list[str]:
        async with opened(url, region, patience_s=_PATIENCE_S) as metadata:
            return sorted({*await metadata.hubs.load(), *(await metadata.plans.load()).by_hub})

    return [name for name in _found(context, find) if name.startswith(incomplete)]


def hub_list(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the last of a comma-separated list; names before it are not offered again."""
    before, _, last = incomplete.rpartition(",")
    known = before.split(",") if before else []
    names = [name for name in hub_names(context, last) if name not in known]
    return [",".join([*known, name]) for name in names]


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    """Topics with a plan entry, and one page of topics of one hub."""

    async def find(url: str, region: str) -> list[str]:
        async with opened(url, region, patience_s=_PATIENCE_S) as metadata:
            names = set((await metadata.plans.load()).entries)
            living = list((await metadata.living()).items())[:1]
            return sorted(_texts({*names, *await _at_hub(dict(living), incomplete)}))

    return [name for name in _found(context, find) if name.startswith(incomplete)]


def _found(context: typer.Context, find: Callable[[str, str], Awaitable[list[str]]]) -> list[str]:
    url = context.params.get("store") or os.environ.get("EQUIPOISE_STORE") or local_store_url()
    if not url:
        return []

    async def bounded() -> list[str]:
        async with asyncio.timeout(_PATIENCE_S):
            return await find(url, context.params.get("region") or "default")

    try:
        return asyncio.run(bounded())
    except (EquipoiseError, TimeoutError, OSError):
        return []


async def _at_hub(hubs: dict[str, HubSeen], begin: str) -> set[bytes]:
    async def question(hub: CommandConnection) -> set[bytes]:
        _, rows = await hub.ask(b"EQ.TOPICS", b"0", _PAGE)
        return {row[0] for row in rows if row[0].startswith(begin.encode())}

    answers = await ask_all(hubs, None, question)
    return set().union(*(answer for answer in answers.values() if not isinstance(answer, EquipoiseError)))


def _texts(names: set[bytes]) -> list[str]:
    """The names that are printable text; others cannot be completed."""
    texts = [name.decode("utf-8", "replace") for name in names]
    return [text for text in texts if text.isprintable() and "�" not in text]
