"""Rate limit and edges of a topic, as `equipoise topics show` prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equipoise.cli.support.hub_connection import CommandConnection
from equipoise.model import Placement

__all__ = ["EDGE_HEADERS", "edge_facts", "edge_row", "limit_facts", "limit_row"]

EDGE_HEADERS = (
    "HUB",
    "FOLLOWS",
    "EDGE",
    "SUBSCRIPTIONS",
    "INPUT/OUTPUT/DELAY",
    "SESSIONS",
    "ESTIMATED",
    "REALISED",
)
_PREFIX = "eq_content_"


def limit_facts(row: list[bytes]) -> dict[str, float]:
    return {name.decode(): float(number) for name, number in zip(row[::2], row[1::2], strict=True)}


def limit_row(row: Mapping[str, Any]) -> list[Any]:
    """A rate limit at one hub: its share, its messages, and their mean delay."""
    limit = row.get("limit")
    if limit is None:
        return [row["hub"], *[None] * 5]
    share = (
        f"{limit['share_rate_per_s']:g}/s, {limit['share_burst']:g}" if limit["share_rate_per_s"] else None
    )
    # A hub that is not the home admits no messages, but still delays its own publishers.
    delay_ms = 1e3 * limit["delay_s"] / max(1.0, limit["admitted"], limit["delayed"])
    counts = [int(limit[name]) for name in ("admitted", "waiting", "refused")]
    return [row["hub"], share, *counts, f"{delay_ms:.1f} ms"]


async def edge_facts(connection: CommandConnection) -> dict[str, Any]:
    """The state of a hub as an edge of content topics: INFO's `eq_content_…`. Empty `state`: it is none."""
    lines = (await connection.ask(b"INFO", b"stats")).decode().splitlines()
    found = dict(line[len(_PREFIX) :].split(":", 1) for line in lines if line.startswith(_PREFIX))
    return {name: value if name.endswith("state") else float(value) for name, value in found.items()}


def edge_row(hub: str, placement: Placement, facts: Mapping[str, Any]) -> list[Any]:
    """One home of a content topic, heads without numbers. Subscriptions are those of all content topics there."""
    followed = placement.followed.get(hub)
    if not facts.get("state"):
        state = _head_state(facts) if hub not in placement.edges else None
        return [hub, followed, state, *[None] * 5]
    counts = int(facts["subscriptions"]), _ratios(facts, ""), int(facts["sessions"])
    is_compared = facts["realised_delay_s"] > 0
    outcome = [_ratios(facts, when) if is_compared else None for when in ("estimated_", "realised_")]
    return [hub, followed, facts["state"], *counts, *outcome]


def _head_state(facts: Mapping[str, Any]) -> str:
    """With the number of publishers that it has transferred to other heads, if there are any."""
    state, moved = f"head {facts.get('cluster_state', '')}".rstrip(), int(facts.get("publishers_moved", 0))
    return f"{state}, {moved} publishers moved" if moved else state


def _ratios(facts: Mapping[str, Any], when: str) -> str:
    inward, outward, delay_s = (facts[f"{when}{name}"] for name in ("input_ratio", "output_ratio", "delay_s"))
    return f"{inward:.2f}/{outward:.2f}/{1e3 * delay_s:.2f} ms"
