"""A token reserved for a publisher that was rejected.

A party is rejected if no token arrives within its maximum wait. If tokens arrive less often than that, a party that
always comes just after one, while others come just before the next, would be rejected every time. So the next token
behind those of the waiting parties is reserved for it. The error has the time to retry; a party that retries too early
keeps its reservation. Other parties that are rejected meanwhile are queued: the next reservation is for the first of
them, not for the party that has just had one and is rejected again.

A party has to retry within a token's time of the moment in the error; else it loses its place, and is queued last if it
is rejected later. So no tokens are reserved for parties that have given up, for any length of the queue.

Always true:
    at most one token is reserved, for one party, and until a known moment;
    after an unused reservation at least one token is free for all: at least half of the rate is used;
    at most `LINE_MAX` parties are queued, and a reservation is never for a party that has given up.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from equipoise.limits.bucket import TOKEN, Bucket

__all__ = ["TokenReserve"]

Party = TypeVar("Party")
# Further parties are queued once others have left the queue: 64 tokens at one per second are a minute.
LINE_MAX = 64


class TokenReserve(Generic[Party]):
    """Owned by the owner of the bucket."""

    __slots__ = ("_ahead", "_line", "_until", "party")

    def __init__(self) -> None:
        # The party of the reservation; None: no token is reserved.
        self.party: Party | None = None
        # Tokens for others before it, and the end of the reservation.
        self._ahead = 0
        self._until = 0
        # Parties that were rejected during another party's reservation, in order, and the latest time for each to
        # retry.
        self._line: dict[Party, int] = {}

    def keep(self, party: Party, ahead: int, bucket: Bucket, now: int, patience_ns: int) -> None:
        """Reserve the token behind the next `ahead`, for the time of one more token: for the first of the queue.

        That is the party itself if the queue is empty. No reservation if parties may wait longer than a token takes:
        then the turns of `TurnRing` are enough.
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
        """This many tokens have been taken."""
        self._ahead -= count

    def kept(self, now: int) -> int:
        """Reserved tokens at this moment."""
        if self.party is not None and now >= self._until:
            self.party = None
        return int(self.party is not None and self._ahead <= 0)

    def wait(self, bucket: Bucket, turns: int, party: Party, now: int) -> int | None:
        """As `Bucket.wait`, behind the token reserved for another party, or until that reservation ends."""
        self.kept(now)
        wait_ns = bucket.wait(turns, now)
        if wait_ns is None or self.party in (None, party):
            return wait_ns
        behind_ns, until_ns = bucket.wait(turns + 1, now), max(wait_ns, self._until - now)
        return until_ns if behind_ns is None else min(behind_ns, until_ns)

    def leave(self, party: Party) -> None:
        """The party waits for its turn: it needs neither a reservation nor a place in the queue."""
        self._line.pop(party, None)
        if party == self.party:
            self.party = None

    def end(self) -> None:
        """The party has taken its token, or has gone."""
        self.party = None
