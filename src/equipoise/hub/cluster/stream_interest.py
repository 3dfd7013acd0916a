"""Filters that a hub needs of one followed stream, and those it has requested at each source. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.content.interest import CoverChanges, InterestSet

if TYPE_CHECKING:
    from equipoise.content.filter import Filter

__all__ = ["NEVER", "LinkInterest", "StreamInterest"]

# Before the clock begins.
NEVER = float("-inf")


class LinkInterest:
    """What one hub has been asked for of one stream. It begins with everything, by ATTACH."""

    __slots__ = ("answers", "confirmed", "is_narrow", "sent", "widened")

    def __init__(self) -> None:
        self.is_narrow = False
        # The filters that it knows, each with the ticket of the question; and the ticket of the last WIDEN.
        self.sent: dict[Filter, int] = {}
        self.widened = 0
        # The last ticket that holds for all that comes; and answers that hold from a later position on.
        self.confirmed = 0
        self.answers: deque[tuple[int, tuple[int, int]]] = deque()

    def is_confirmed(self, ticket: int, position: tuple[int, int]) -> bool:
        while self.answers and position >= self.answers[0][1]:
            self.confirmed = self.answers.popleft()[0]
        return ticket <= self.confirmed


class StreamInterest:
    """What this hub wants of one stream. Made when there is a reason to ask for less than everything."""

    __slots__ = ("asks", "changes", "sent_at", "set", "waiters", "whole_claims")

    def __init__(self) -> None:
        self.set = InterestSet()
        # By hub that is followed, or is attached to.
        self.asks: dict[str, LinkInterest] = {}
        # What has changed in the covering set and has not been sent.
        self.changes: dict[Filter, bool] = {}
        self.sent_at = NEVER
        # Who waits until more is sent, and how many of those, and of those about to subscribe, want everything.
        self.waiters: list[Callable[[], None]] = []
        self.whole_claims = 0

    @property
    def covers(self) -> int:
        """Filters that hubs have been asked for."""
        return sum(len(ask.sent) for ask in self.asks.values())

    def take(self, changes: CoverChanges) -> None:
        for filter in changes.added:
            self.changes[filter] = True
        for filter in changes.removed:
            self.changes[filter] = False

    def is_covered(self, filter: Filter | None, position: tuple[int, int]) -> bool:
        """Whether every hub that is followed sends what the filter matches; None: everything."""
        for ask in self.asks.values():
            if not ask.is_narrow:
                ticket: int | None = ask.widened
            elif filter is None:
                return False
            else:
                cover = self.set.cover_of(filter)
                ticket = None if cover is None else ask.sent.get(cover)
            if ticket is None or not ask.is_confirmed(ticket, position):
                return False
        return True
