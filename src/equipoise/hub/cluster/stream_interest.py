"""Filters that a hub needs of one followed stream, and those it has requested at each source. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from equipoise.content.interest import CoverChanges, InterestSet

if TYPE_CHECKING:
    from equipoise.content.filter import Filter

__all__ = ["NEVER", "LinkInterest", "StreamInterest"]

# Earlier than any time of the clock.
NEVER = float("-inf")


class LinkInterest:
    """What this hub has requested of one stream from one source. Initially everything, by ATTACH."""

    __slots__ = ("answers", "is_narrow", "sent", "unanswered", "widened")

    def __init__(self) -> None:
        self.is_narrow = False
        # The filters sent to the source, each with the ticket of its request; and the ticket of the last WIDEN.
        self.sent: dict[Filter, int] = {}
        self.widened = 0
        # Tickets of requests that are not in effect yet; and confirmations that take effect at a later position. A
        # source that is itself a follower confirms when its own source does, so not in the order of the requests.
        self.unanswered: set[int] = set()
        self.answers: deque[tuple[int, tuple[int, int]]] = deque()

    def want(self, filters: Iterable[Filter], ticket: int) -> None:
        """These filters are requested from the source, too."""
        self.sent.update(dict.fromkeys(filters, ticket))
        self.unanswered.add(ticket)

    def narrow(self) -> None:
        """NARROW is sent: the source may stop sending everything."""
        self.is_narrow = True
        self.unanswered.discard(self.widened)

    def widen(self, ticket: int) -> None:
        """Everything is requested from the source."""
        self.is_narrow, self.widened = False, ticket
        self.sent.clear()
        self.unanswered = {ticket}

    def answered(self, ticket: int, position: tuple[int, int]) -> None:
        """The source confirms that it sends what was requested, from this position on."""
        if ticket in self.unanswered:
            self.answers.append((ticket, position))

    def settle(self, position: tuple[int, int]) -> bool:
        """The stream has reached `position`; return whether confirmations have taken effect."""
        has_any = False
        while self.answers and position >= self.answers[0][1]:
            self.unanswered.discard(self.answers.popleft()[0])
            has_any = True
        return has_any


class StreamInterest:
    """What this hub needs of one stream. Created when it is less than everything."""

    __slots__ = ("asks", "changes", "sent_at", "set", "waiters", "whole_claims")

    def __init__(self) -> None:
        self.set = InterestSet()
        # Requests by source, current or joining.
        self.asks: dict[str, LinkInterest] = {}
        # Changes of the covering set that have not been sent: True: added.
        self.changes: dict[Filter, bool] = {}
        self.sent_at = NEVER
        # Callbacks that wait until sources send more; and the number of claims, of these and of clients about to
        # subscribe, that need everything.
        self.waiters: list[Callable[[], None]] = []
        self.whole_claims = 0

    @property
    def covers(self) -> int:
        """Number of filters that are requested from sources."""
        return sum(len(ask.sent) for ask in self.asks.values())

    def take(self, changes: CoverChanges) -> None:
        for filter in changes.added:
            self.changes[filter] = True
        for filter in changes.removed:
            self.changes[filter] = False

    def settle(self, position: tuple[int, int]) -> bool:
        """The stream has reached `position`; return whether coverage may have grown. The caller wakes the waiters."""
        settled = [ask.settle(position) for ask in self.asks.values() if ask.answers]
        return any(settled)

    def is_covered(self, filter: Filter | None) -> bool:
        """Whether every source sends what the filter matches; None: everything."""
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
