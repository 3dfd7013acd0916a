"""One token, kept for a party that was refused.

A party is refused when no token comes within the time that it may wait. Where a token takes longer to come than that,
a party that always comes a moment behind one, while others come just ahead of the next, would be refused for ever. So
behind those that wait already, the next token is kept for it until it comes back. The error says when to do that.
A party that comes again and is refused again, while the token is kept for another, has the token after that one.

Always true:
    one token at most is kept, for one party, and until a moment that is known;
    a party that has not come for its token is passed over once;
    of two parties that are refused again and again, neither has a second token kept before the other has had one.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from equipoise.limits.bucket import TOKEN, Bucket

__all__ = ["TokenReserve"]

Party = TypeVar("Party")

# Parties that are remembered: more of them come by chance, and the first ones have most tokens ahead of them.
REFUSED_MAX = 64


class _Refused(NamedTuple):
    """How often a party was refused while a token was kept for another, and until when one would be kept for it."""

    times: int
    until: int


class TokenReserve(Generic[Party]):
    """Owned by whoever owns the bucket."""

    __slots__ = ("_ahead", "_missed", "_refused", "_until", "party")

    def __init__(self) -> None:
        # Whom a token is kept for; None: no token is.
        self.party: Party | None = None
        # Tokens that go to others before it, and until when it is kept.
        self._ahead = 0
        self._until = 0
        # The last party that has not come in time.
        self._missed: Party | None = None
        # In the order in which they were refused first.
        self._refused: dict[Party, _Refused] = {}

    def keep(self, party: Party, ahead: int, bucket: Bucket, now: int, patience_ns: int) -> None:
        """Keep the token behind the next `ahead` for the party, for as long as the one after it takes to come.

        Not if one is kept already, nor where parties may wait for longer than a token takes: then their turns do.
        """
        wait_ns = bucket.wait(ahead + 1, now)
        if party == self.party or wait_ns is None or patience_ns * bucket.rate >= TOKEN:
            return
        interval_ns = TOKEN // bucket.rate if bucket.rate else 0
        if self.party is not None:
            self._remember(party, now + wait_ns + 2 * interval_ns, now)
        elif party == self._missed:
            self._missed = None
        elif interval_ns:
            self.party, self._ahead = party, ahead
            self._until = now + wait_ns + interval_ns
            self._refused.pop(party, None)

    def _remember(self, party: Party, until: int, now: int) -> None:
        known = self._refused.get(party)
        if known is None and len(self._refused) >= REFUSED_MAX:
            self._refused = {one: seen for one, seen in self._refused.items() if seen.until > now}
        if known is not None or len(self._refused) < REFUSED_MAX:
            self._refused[party] = _Refused(known.times + 1 if known is not None else 1, until)

    def passed(self, count: int) -> None:
        """So many tokens have been taken."""
        self._ahead -= count

    def kept(self, now: int) -> int:
        """Tokens that are kept at this moment."""
        if self.party is not None and now >= self._until:
            self._missed = self.party
            self._pass_on(now)
        return int(self.party is not None and self._ahead <= 0)

    def wait(self, bucket: Bucket, turns: int, party: Party, now: int) -> int | None:
        """As `Bucket.wait`, behind the token that is kept for another party, or until that is kept no longer."""
        self.kept(now)
        wait_ns = bucket.wait(turns, now)
        if wait_ns is None or self.party in (None, party):
            return wait_ns
        behind_ns, until_ns = bucket.wait(turns + 1, now), max(wait_ns, self._until - now)
        return until_ns if behind_ns is None else min(behind_ns, until_ns)

    def end(self, now: int) -> None:
        """The party has had its token, or has gone: the next one is kept for who was refused meanwhile."""
        self._missed = None
        self._pass_on(now)

    def _pass_on(self, now: int) -> None:
        """To the first that has come back at least once and been refused again: others may never come."""
        self._refused = {one: seen for one, seen in self._refused.items() if seen.until > now}
        self.party = next((one for one, seen in self._refused.items() if seen.times > 1), None)
        if self.party is not None:
            self._ahead, self._until = 0, self._refused.pop(self.party).until

    def clear(self) -> None:
        """No token is kept, and no party is known."""
        self.party = self._missed = None
        self._refused = {}
