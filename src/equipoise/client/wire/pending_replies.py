"""Remember what the peer still owes an answer to, in the order it was asked.

A connection answers in order. Most requests get one reply; a subscription request gets one push instead, or
an error as a reply. So one queue serves both: a reply always belongs to its head, and so does the push that
confirms a subscription.

Always true: `messages` and `bytes` are those of the publishes in the queue.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol, TypeAlias

from equipoise.client.wire.requests import NowaitLosses, Request
from equipoise.client.wire.round_trip import Probe
from equipoise.errors import EquipoiseError, ProtocolError, RefusedError, UncertainError


class NameRequest(Protocol):
    """A subscription request. Confirmed by a push, refused by a reply."""

    @property
    def verb(self) -> bytes:
        """The first word of the push that confirms it."""

    @property
    def name(self) -> bytes: ...

    def refuse(self, error: RefusedError) -> None: ...


class _Ignored:
    """The answer matters to nobody: a ping, a courtesy."""


IGNORED = _Ignored()

_Entry: TypeAlias = int | Request | NameRequest | Probe | _Ignored


class Owed:
    """Owned by one connection."""

    __slots__ = ("_entries", "_losses", "bytes", "messages")

    def __init__(self, losses: NowaitLosses) -> None:
        # A bare int is a publish without receipt, and its size: nothing else need be kept.
        self._entries: deque[_Entry] = deque()
        self._losses = losses
        self.messages = 0
        self.bytes = 0

    def add_nowait(self, size: int) -> None:
        self._entries.append(size)
        self.messages += 1
        self.bytes += size

    def add_publish(self, request: Request) -> None:
        self._entries.append(request)
        self.messages += 1
        self.bytes += request.size

    def add(self, entry: NameRequest | Probe | _Ignored) -> None:
        self._entries.append(entry)

    def reply(self, reply: object) -> None:
        """Raises ProtocolError if nothing can have asked for it."""
        if not self._entries:
            raise ProtocolError("a reply came that nobody asked for")
        entry = self._entries.popleft()
        if isinstance(entry, int):
            self.messages -= 1
            self.bytes -= entry
            if isinstance(reply, EquipoiseError):
                self._losses.add(reply)
        elif isinstance(entry, Request):
            self.messages -= 1
            self.bytes -= entry.size
            entry.settle(reply)
        elif isinstance(entry, Probe):
            entry.settle(reply)
        elif not isinstance(entry, _Ignored):
            if not isinstance(reply, RefusedError):
                raise ProtocolError("a subscription was answered by a reply instead of a push")
            entry.refuse(reply)

    def confirm(self, verb: bytes, name: object) -> NameRequest | None:
        """The request that this push confirms, now off the queue; None if the peer pushed it by itself."""
        head = self._entries[0] if self._entries else None
        if head is None or isinstance(head, int | Request | Probe | _Ignored):
            return None
        if head.verb != verb or head.name != name:
            return None
        self._entries.popleft()
        return head

    def fail(self, reason: str) -> None:
        """The connection is gone: every message under way is uncertain."""
        entries, self._entries = self._entries, deque()
        self.messages = self.bytes = 0
        nowait = 0
        for entry in entries:
            if isinstance(entry, int):
                nowait += 1
            elif isinstance(entry, Request):
                entry.fail(_uncertain(reason))
            elif isinstance(entry, Probe):
                entry.fail()
        if nowait:
            self._losses.add(_uncertain(reason), nowait)


def _uncertain(reason: str) -> UncertainError:
    return UncertainError(
        f"the connection was lost before the receipt came ({reason}); the message may or may not have been "
        "delivered: publish it again only if a duplicate does no harm"
    )
