"""Ledgers and logs of a run: what their writers and readers were answered, and what they hold in the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Got", "LedgerTrack", "LogTrack", "SubscriberTrack"]


@dataclass(slots=True)
class LedgerTrack:
    """One ledger: what its writer appended and heard, and what was read back when everything was healed."""

    name: str
    ledger: int
    ack_quorum: int
    # By entry: what was appended, and which of it was acknowledged.
    appended: dict[int, bytes] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    # Its last entry, as each recovery found it.
    ends: set[int] = field(default_factory=set)
    # By entry, what clients read back.
    found: dict[int, bytes] = field(default_factory=dict)
    # By entry, on how many disks a valid copy lies; and how many copies a fault may have taken.
    copies: dict[int, int] = field(default_factory=dict)
    copies_lost_max: int = 0
    is_deleted: bool = False
    # What went wrong while it was read back, in words.
    problems: list[str] = field(default_factory=list)


class Got(NamedTuple):
    """One message that a durable subscriber got: which process of it, and what."""

    subscriber: str
    life: int
    at: bytes
    value: bytes
    deliveries: int


@dataclass(slots=True)
class SubscriberTrack:
    """What a durable subscriber, or all that share a group, got, in this order, and what was acknowledged."""

    name: str
    is_shared: bool = False
    got: list[Got] = field(default_factory=list)
    # By id, how many messages had been got when it was known to be acknowledged.
    settled: dict[bytes, int] = field(default_factory=dict)
    # By process, how many messages had been got, by all of them, when it was started.
    born: dict[tuple[str, int], int] = field(default_factory=dict)
    gaps: list[int | None] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def values(self) -> set[bytes]:
        return {got.value for got in self.got}

    def settle(self, ids: Iterable[bytes]) -> None:
        for at in ids:
            self.settled.setdefault(at, len(self.got))


@dataclass(slots=True)
class LogTrack:
    """One topic's log: what clients were answered, in the order of the answers, and what it held in the end."""

    topic: str
    # Client, number of its entry, and id, of each append that was acknowledged.
    acked: list[tuple[str, int, bytes]] = field(default_factory=list)
    uncertain: int = 0
    # Of smart publishers, which send again what is not answered: the same and the position; and who was left in doubt.
    receipts: list[tuple[str, int, bytes, int]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    # Ids before which entries were to be trimmed, and whether that was acknowledged.
    trimmed: list[tuple[bytes, bool]] = field(default_factory=list)
    # What each XRANGE showed, from the beginning on, and how many appends had been acknowledged when it was asked for.
    shown: list[tuple[int, list[bytes]]] = field(default_factory=list)
    # The last id, as clients that only look were shown it, and how many appends had been acknowledged before.
    looks: list[tuple[int, bytes]] = field(default_factory=list)
    # By reader, the id behind which it began, and what it got by XREAD, one entry after the other.
    read: dict[str, tuple[bytes, list[tuple[bytes, bytes]]]] = field(default_factory=dict)
    # By subscriber to the channel of a durable topic, what it got, a list for each of its connections.
    heard: dict[str, list[list[bytes]]] = field(default_factory=dict)
    # Owner, incarnation and epoch in the topic's node, each time they had changed.
    owners: list[tuple[str, int, int]] = field(default_factory=list)
    # In the end: the epochs of its ledgers, and id and value of each entry.
    epochs: list[int] = field(default_factory=list)
    final: list[tuple[bytes, bytes]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    # Durable subscribers, or groups of them, by name; value and reason of what their dead-letter topic has in the end.
    subscribers: dict[str, SubscriberTrack] = field(default_factory=dict)
    dead: list[tuple[bytes, bytes]] = field(default_factory=list)
    # What no subscriber can deal with; and whether entries are trimmed.
    poison: set[bytes] = field(default_factory=set)
    is_consumed: bool = False
    # Clients of hubs of a release without logs, which send messages again that their home may have stored.
    resent: set[str] = field(default_factory=set)
