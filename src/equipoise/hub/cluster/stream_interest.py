"""Filters that a hub needs of one followed stream, and those it has requested at each source. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from equipoise.content.interest import CoverChanges, InterestSet

if TYPE_CHECKING:
    from equipoise.content.filter import Filter

__all__ = ["NEVER", "LinkInterest", "StreamInterest"]

# Before the clock begins.
NEVER = float("-inf")


class LinkInterest:
    """What one hub has been asked for of one stream. It begins with everything, by ATTACH."""

    __slots__ = ("answers", "is_narrow", "sent", "unanswered", "widened")

    def __init__(self) -> None:
        self.is_narrow = False
        # The filters that it knows, each with the ticket of the question; and the ticket of the last WIDEN.
        self.sent: dict[Filter, int] = {}
        self.widened = 0
        # Tickets of questions whose answers do not hold for all that comes yet; and answers that hold from a later
        # position on. A hub that follows another answers as it is answered itself: not in the order of the questions.
        self.unanswered: set[int] = set()
        self.answers: deque[tuple[int, tuple[int, int]]] = deque()

    def want(self, filters: Iterable[Filter], ticket: int) -> None:
        """The hub is asked for these filters, too."""
        self.sent.update(dict.fromkeys(filters, ticket))
        self.unanswered.add(ticket)

    def narrow(self) -> None:
        """The hub is told that the filters are all that is needed: it may never send everything."""
        self.is_narrow = True
        self.unanswered.discard(self.widened)

    def widen(self, ticket: int) -> None:
        """The hub is asked for everything."""
        self.is_narrow, self.widened = False, ticket
        self.sent.clear()
        self.unanswered = {ticket}

    def answered(self, ticket: int, position: tuple[int, int]) -> None:
        """The hub sends from this position on what the question was for."""
        if ticket in self.unanswered:
            self.answers.append((ticket, position))

    def settle(self, position: tuple[int, int]) -> bool:
        """The stream is here: whether answers hold from now on."""
        has_any = False
        while self.answers and position >= self.answers[0][1]:
            self.unanswered.discard(self.answers.popleft()[0])
            has_any = True
        return has_any


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

    def settle(self, position: tuple[int, int]) -> bool:
        """The stream is here: whether it may be covered what was not. The caller wakes those who wait."""
        settled = [ask.settle(position) for ask in self.asks.values() if ask.answers]
        return any(settled)

    def is_covered(self, filter: Filter | None) -> bool:
        """Whether every hub that is followed sends what the filter matches; None: everything."""
        for ask in self.asks.values():
            if not ask.is_narrow:
                ticket: int | None = ask.widened
            elif filter is None:
                return False
            else:
                cover = self.set.cover_of(filter)
                ticket = None if cover is None else ask.sent.get(cover)
            if ticket is None or ticket in ask.unanswered:
                return False
        return True
