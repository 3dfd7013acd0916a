"""The state of the demo at one moment, read from the API's replies. Pure.

The numbers come from the dashboard's API. Players measure latency and lost messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "HubLine",
    "PlanEvent",
    "Scene",
    "SwarmLine",
    "TopicLine",
    "changes_of",
    "hub_lines",
    "percentile",
    "topic_lines",
]

Json = Mapping[str, Any]
# Of a change with more parts, only the number of the others is shown.
PARTS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class HubLine:
    """A live hub. `load` is None until it is measured; `weight` is None while the hub is drained."""

    name: str
    load: float | None
    out_bytes_per_s: float | None
    connections: float | None
    weight: int | None
    site: str = ""


@dataclass(frozen=True, slots=True)
class TopicLine:
    name: str
    out_bytes_per_s: float
    subscribers: float
    mode: str
    homes: Sequence[str]


@dataclass(frozen=True, slots=True)
class SwarmLine:
    """A flying swarm. `latency_ms` as measured by the drones; None without recent messages."""

    site: str
    latency_ms: float | None
    limit_ms: float
    # The home of its topic and the site of that hub.
    home: str
    home_site: str

    @property
    def is_held(self) -> bool | None:
        return None if self.latency_ms is None else self.latency_ms <= self.limit_ms


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """One change of the plan, or a part of it, as text."""

    version: int
    at_s: float
    what: str
    reason: str
    numbers: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The state at one time. Times count from the beginning of the demo."""

    at_s: float
    act: str
    words: str
    players: int
    hubs: Sequence[HubLine] = ()
    topics: Sequence[TopicLine] = ()
    changes: Sequence[PlanEvent] = ()
    published_per_s: float = 0.0
    delivered_per_s: float = 0.0
    latency_ms_p50: float | None = None
    latency_ms_p99: float | None = None
    swarm: SwarmLine | None = None
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0


def hub_lines(rows: Sequence[Json]) -> list[HubLine]:
    """The live hubs from /api/hubs."""
    return [
        HubLine(
            row["hub"],
            row["load"],
            row["out_bytes_per_s"],
            row["connections"],
            row["weight"],
            row["site"] or "",
        )
        for row in rows
        if row["is_alive"]
    ]


def topic_lines(answer: Json) -> list[TopicLine]:
    """The topics from /api/topics."""
    return [
        TopicLine(
            row["topic"], row["out_bytes_per_s"] or 0.0, row["subscribers"] or 0.0, row["mode"], row["homes"]
        )
        for row in answer["topics"]
    ]


def changes_of(change: Json) -> list[PlanEvent]:
    """The parts of one element of /api/plans."""
    parts = [_entry_event(part) for part in change["entries"][:PARTS_SHOWN]]
    left = change["moves"] - len(parts)
    if left > 0:
        parts.append((f"{left} more topics", change["entries"][0]["reason"], ""))
    parts += [_member_event(part) for part in change["members"]]
    return [PlanEvent(change["version"], change["at_s"], *part) for part in parts]


def _entry_event(part: Json) -> tuple[str, str, str]:
    homes = part["homes"]
    where = f"→ {', '.join(homes)}" if homes else "→ by the ring"
    mode = f" ({part['mode']})" if len(homes) > 1 else ""
    return f"{part['topic']} {where}{mode}", part["reason"], _numbers(part["numbers"])


def _member_event(part: Json) -> tuple[str, str, str]:
    if part["weight"] is None:
        what = f"{part['hub']} is out"
    elif part["weight"] == 0:
        what = f"{part['hub']} is being emptied"
    else:
        what = f"{part['hub']} takes part with weight {part['weight']}"
    return what, part["reason"], _numbers(part["numbers"])


def _numbers(numbers: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in numbers.items())


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """The value that `share` of the values do not exceed (nearest rank)."""
    if not ascending:
        return None
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]
