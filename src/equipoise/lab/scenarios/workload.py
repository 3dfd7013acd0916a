"""The workload of a world: publishers, subscribers, and their dialects.

Values only. `equipoise.lab.workload` runs real clients with them on the current event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["Client", "Dialect", "PublishedStream", "Subscribing", "Workload"]


class Dialect(StrEnum):
    """Kind of client: its protocol and behaviour towards hubs."""

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
    """A stream of messages from one client. Topics take turns; messages are numbered from 0."""

    topics: tuple[str, ...]
    # Number of messages over all topics; None: until the world ends.
    count: int | None
    # Messages of one burst: drawn between the two for each burst.
    burst: tuple[int, int] = (1, 1)
    # Time between two bursts: drawn between 0.5 and 1.5 times this.
    interval_s: float = 0.1
    payload_bytes: tuple[int, int] = (32, 64)
    # The share of bursts in which each message waits for the receipt of the previous message. The messages of other
    # bursts are sent without receipts and then flushed together.
    receipts: float = 0.0
    # Whether payloads are JSON objects with attributes, for subscribers with filters.
    is_json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribing:
    """One subscription of one client."""

    names: tuple[str, ...]
    is_pattern: bool = False
    # Filter of a subscription to one topic; empty: all messages.
    where: str = ""
    # Processing time of each message.
    taking_s: float = 0.0
    # A smart client unsubscribes after this time and subscribes again: drawn between 0.5 and 1.5 times this. None: it
    # stays subscribed. After healing all clients stay subscribed.
    stays_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client on one machine. Smart and roving clients may publish."""

    name: str
    dialect: Dialect = Dialect.SMART
    publishes: tuple[PublishedStream, ...] = ()
    subscribes: tuple[Subscribing, ...] = ()
    # User that the client logs in as; the password is the name. Empty: no login.
    user: str = ""
    # With one hub: site of the client; empty: a site of its own. With several hubs: the hub that the client connects
    # to; empty: a hub drawn from the seed.
    place: str = ""
    # The group that a smart publisher states.
    group: str = ""
    # Number of equal clients, each on a machine of its own.
    copies: int = 1
    # Whether a plain client connects to another hub each time.
    is_wandering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All clients of a world."""

    clients: tuple[Client, ...]

    def each(self) -> Iterator[Client]:
        """All clients, with copies numbered from 1."""
        for client in self.clients:
            if client.copies == 1:
                yield client
            else:
                for number in range(1, client.copies + 1):
                    yield replace(client, name=f"{client.name}-{number}", copies=1)
