"""Ledgers and logs of a run: the replies to their writers and readers, and their content at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["DurableDelivery", "LedgerTrack", "LogTrack", "SubscriberTrack"]


@dataclass(slots=True)
class LedgerTrack:
    """One ledger: the appends of its writer with their replies, and the entries read back after healing."""

    name: str
    ledger: int
    ack_quorum: int
    # Appended entries by number, and the numbers of the acknowledged entries.
    appended: dict[int, bytes] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    # The numbers of the last entry that recoveries found.
    ends: set[int] = field(default_factory=set)
    # By entry, the value that clients read back.
    found: dict[int, bytes] = field(default_factory=dict)
    # By entry, the number of disks with a valid copy; and the number of copies that faults may have destroyed.
    copies: dict[int, int] = field(default_factory=dict)
    copies_lost_max: int = 0
    is_deleted: bool = False
    # Errors of reading the ledger back, as text.
    problems: list[str] = field(default_factory=list)


class DurableDelivery(NamedTuple):
    """One delivery to a process of a durable subscriber."""

    subscriber: str
    life: int
    at: bytes
    value: bytes
    deliveries: int


@dataclass(slots=True)
class SubscriberTrack:
    """Deliveries to a durable subscriber, or to all members of a group, in order, and its acknowledgements."""

    name: str
    is_shared: bool = False
    got: list[DurableDelivery] = field(default_factory=list)
    # By id, the number of deliveries at the time when the acknowledgement was confirmed.
    settled: dict[bytes, int] = field(default_factory=dict)
    # By process, the number of deliveries to all processes at the time when it started.
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
    """One topic's log: the replies to clients in their order, and the content of the log at the end."""

    topic: str
    # Client, number of its entry, and id of each acknowledged append.
    acked: list[tuple[str, int, bytes]] = field(default_factory=list)
    uncertain: int = 0
    # The same and the position for smart publishers, which resend unanswered messages; and their uncertain messages.
    receipts: list[tuple[str, int, bytes, int]] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    # Ids of trim requests, which delete the entries before the id, and whether each was acknowledged.
    trimmed: list[tuple[bytes, bool]] = field(default_factory=list)
    # Results of XRANGE from the beginning, each with the number of appends acknowledged before the request.
    shown: list[tuple[int, list[bytes]]] = field(default_factory=list)
    # Last ids that read-only clients received, each with the number of appends acknowledged before the request.
    looks: list[tuple[int, bytes]] = field(default_factory=list)
    # By reader, the id behind which it began, and the entries it read with XREAD, in order.
    read: dict[str, tuple[bytes, list[tuple[bytes, bytes]]]] = field(default_factory=dict)
    # By subscriber to the channel of a durable topic, the received values, one list per connection.
    heard: dict[str, list[list[bytes]]] = field(default_factory=dict)
    # Owner, incarnation and epoch in the topic's node at each change.
    owners: list[tuple[str, int, int]] = field(default_factory=list)
    # At the end: the epochs of its ledgers, and id and value of each entry.
    epochs: list[int] = field(default_factory=list)
    final: list[tuple[bytes, bytes]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    # Durable subscribers or groups by name; value and reason of each entry of the dead-letter topic at the end.
    subscribers: dict[str, SubscriberTrack] = field(default_factory=dict)
    dead: list[tuple[bytes, bytes]] = field(default_factory=list)
    # Values that every subscriber rejects; and whether entries are trimmed once all subscribers have acknowledged them.
    poison: set[bytes] = field(default_factory=set)
    is_consumed: bool = False
    # Clients of hubs of a release without logs, which resend messages that their home may have stored.
    resent: set[str] = field(default_factory=set)
