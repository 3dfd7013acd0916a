"""The workload of a world: publishers, subscribers, and their dialects.

Values only. `equipoise.lab.workload` drives real clients by them, on whatever loop is running.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Client", "Dialect", "PublishedStream", "Subscribing", "Workload"]


class Dialect(StrEnum):
    """How a client talks to a hub."""

    SMART = "smart"
    "The Equipoise client: it tracks positions, reports gaps and reconnects."
    RESP2 = "resp2"
    RESP3 = "resp3"
    "A plain Redis subscriber that reconnects when its connection is lost."
    POSITIONED = "positioned"
    "A subscriber that decodes positions from the wire, from one hub, and asserts the guarantees of "
    "the protocol."
    LANES = "lanes"
    "A subscriber on the wire protocol that reads each lane of its topics from the hub that numbers it."
    ROVING = "roving"
    "A publisher on the wire protocol that sends each message to a different hub than the previous one."


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStream:
    """A stream of messages from one client. Each topic gets them in turn, numbered from 0."""

    topics: tuple[str, ...]
    # Messages in all, over all topics; None goes on until the world ends.
    count: int | None
    # Messages sent in one go: drawn between the two for each burst.
    burst: tuple[int, int] = (1, 1)
    # Between two bursts: drawn between half and one and a half of this.
    interval_s: float = 0.1
    payload_bytes: tuple[int, int] = (32, 64)
    # The share of bursts in which each message waits for the receipt of the one before it. The others are sent
    # without receipt and then flushed together.
    receipts: float = 0.0
    # Whether payloads are JSON objects with attributes, for subscribers with filters.
    is_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribing:
    """One subscription of one client."""

    names: tuple[str, ...]
    is_pattern: bool = False
    # The filter by which a plain client asks for some messages of its one topic; empty: it gets all.
    where: str = ""
    # What the program does with each message, in seconds; 0 takes them as they come.
    taking_s: float = 0.0
    # A smart client leaves after so long and subscribes again: drawn between half and one and a half of this. None
    # stays. After healing all stay.
    stays_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One program on one machine. Smart clients, and roving ones, may publish."""

    name: str
    dialect: Dialect = Dialect.SMART
    publishes: tuple[PublishedStream, ...] = ()
    subscribes: tuple[Subscribing, ...] = ()
    # The user it logs in as; the password is the name. Empty: none.
    user: str = ""
    # Where the topology puts it; empty: a place of its own. Among several hubs: the hub that it connects to; empty: one
    # drawn from the seed.
    place: str = ""
    # The group that a smart publisher states.
    group: str = ""
    # So many of the same kind, each on a machine of its own.
    copies: int = 1
    # A plain client that connects to another hub each time.
    is_wandering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All clients of a world."""

    clients: tuple[Client, ...]

    def each(self) -> Iterator[Client]:
        """Every single client, copies numbered from 1."""
        for client in self.clients:
            if client.copies == 1:
                yield client
            else:
                for number in range(1, client.copies + 1):
                    yield replace(client, name=f"{client.name}-{number}", copies=1)
