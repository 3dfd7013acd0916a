"""A token reserved for a publisher that was rejected.

A party is refused when no token comes within the time that it may wait. Where a token takes longer to come than that,
a party that always comes a moment behind one, while others come just ahead of the next, would be refused every time. So
behind those that wait already, the next token is kept for it until it comes back. The error says when to do that; a
party that comes back too early keeps its token.
Other parties that are refused meanwhile stand in line: the next token that is kept is for the first of them, not for
the party that has just had one and is refused again.

A party has to try again within a token's time of the moment that the error names, else it loses its place, and is the
last in line if it is refused later. So no tokens are kept for parties that have given up, however many stood in line.

Always true:
    one token at most is kept, for one party, and until a moment that is known;
    behind a token that no party came for, at least one is free for all: half of the rate is used at worst;
    at most `LINE_MAX` parties stand in line, and none for which the next token is kept has given up.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from equipoise.limits.bucket import TOKEN, Bucket

__all__ = ["TokenReserve"]

Party = TypeVar("Party")
# Parties beyond that are in line once others have left it: 64 tokens that take a second each are a minute.
LINE_MAX = 64


class TokenReserve(Generic[Party]):
    """Owned by whoever owns the bucket."""

    __slots__ = ("_ahead", "_line", "_until", "party")

    def __init__(self) -> None:
        # Whom a token is kept for; None: no token is.
        self.party: Party | None = None
        # Tokens that go to others before it, and until when it is kept.
        self._ahead = 0
        self._until = 0
        # Parties that were refused while a token was kept for another, in the order in which they were, and until when
        # each has to try again.
        self._line: dict[Party, int] = {}

    def keep(self, party: Party, ahead: int, bucket: Bucket, now: int, patience_ns: int) -> None:
        """Keep the token behind the next `ahead`, for as long as the one after it takes to come: for the first in line.

        That is the party, unless others are before it. Not where parties may wait for longer than a token takes: then
        their turns do.
        """
        wait_ns = self.wait(bucket, ahead + 1, party, now)
        if party == self.party or wait_ns is None or patience_ns * bucket.rate >= TOKEN or not bucket.rate:
            return
        until = now + wait_ns + TOKEN // bucket.rate
        if self.party is None or len(self._line) >= LINE_MAX:
            self._line = {other: at for other, at in self._line.items() if at > now}
        if party in self._line or len(self._line) < LINE_MAX:
            self._line[party] = until
        if self.party is None:
            self.party, self._ahead, self._until = next(iter(self._line)), ahead, until
            del self._line[self.party]

    def passed(self, count: int) -> None:
        """So many tokens have been taken."""
        self._ahead -= count

    def kept(self, now: int) -> int:
        """Tokens that are kept at this moment."""
        if self.party is not None and now >= self._until:
            self.party = None
        return int(self.party is not None and self._ahead <= 0)

    def wait(self, bucket: Bucket, turns: int, party: Party, now: int) -> int | None:
        """As `Bucket.wait`, behind the token that is kept for another party, or until that is kept no longer."""
        self.kept(now)
        wait_ns = bucket.wait(turns, now)
        if wait_ns is None or self.party in (None, party):
            return wait_ns
        behind_ns, until_ns = bucket.wait(turns + 1, now), max(wait_ns, self._until - now)
        return until_ns if behind_ns is None else min(behind_ns, until_ns)

    def leave(self, party: Party) -> None:
        """The party waits: no token need be kept for it, and it need not stand in line."""
        self._line.pop(party, None)
        if party == self.party:
            self.party = None

    def end(self) -> None:
        """The party has had its token, or has gone."""
        self.party = None
