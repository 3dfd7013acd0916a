"""A token bucket in integers: exact for any arrivals.

The rate is in millionths of a message per second and time in nanoseconds, so that a nanosecond adds exactly `rate`
units and a token is 10^15 of them. Nothing is ever rounded.

A hub that has stalled finds messages that arrived during the stall. They are admitted with the time at which the stall
began (`since`): the bucket counts as full at most at that moment, and tokens from then on are theirs. At the times at
which they would have been admitted without the stall, the envelope is kept.

Always true:
    0 ≤ level ≤ depth, plus the tokens since `since`, for any number of calls during a stall;
    in any interval of t nanoseconds it gives at most (rate·t + depth) / 10^15 tokens, as long as neither grows;
    time does not run backwards: an earlier moment counts as the last one.
"""

from __future__ import annotations

__all__ = ["TOKEN", "Bucket", "nanoseconds"]

# Units of a token: a millionth of a message per second, for a nanosecond, is one.
TOKEN = 10**15


def nanoseconds(seconds: float) -> int:
    """A clock's seconds as a bucket counts them."""
    return int(seconds * 1e9)


class Bucket:
    """One hub's part of one topic's envelope. `rate` in millionths of a message per second, `depth` in units."""

    __slots__ = ("_at", "_level", "depth", "rate")

    def __init__(self, rate: int, depth: int, now: int, *, level: int = 0) -> None:
        self.rate = rate
        self.depth = depth
        self._level = min(level, depth)
        self._at = now

    @property
    def last_level(self) -> int:
        """Units at the time of the last call."""
        return self._level

    def level(self, now: int, since: int = 0) -> int:
        """Units at this moment; `since`: for messages that arrived during a stall that began then."""
        passed = now - self._at
        if passed > 0:
            # The bucket overflows at the beginning of the stall; without a stall, now.
            stood = now - since if since else 0
            self._level = min(self._level + passed * self.rate, self.depth + stood * self.rate)
            self._at = now
        return self._level

    def take(self, count: int, now: int, since: int = 0) -> bool:
        """Take this many tokens, or none if there are fewer."""
        cost = count * TOKEN
        if self.level(now, since) < cost:
            return False
        self._level -= cost
        return True

    def tokens(self, now: int, since: int = 0) -> int:
        """Whole tokens at this moment."""
        return self.level(now, since) // TOKEN

    def is_full(self, now: int) -> bool:
        return self.level(now) >= self.depth

    def wait(self, count: int, now: int) -> int | None:
        """Nanoseconds until the next `count` tokens have arrived, if each is taken at once; None: never."""
        missing = count * TOKEN - self.level(now)
        if missing <= 0:
            return 0
        if self.depth < TOKEN or not self.rate:
            return None
        return -(-missing // self.rate)

    def resize(self, rate: int, depth: int, now: int) -> None:
        """Continue with another rate and depth: added depth is empty, a level above the new depth is cut."""
        self._level = min(self.level(now), depth)
        self.rate, self.depth = rate, depth

    def go_on(self, level: int, at: int) -> None:
        """Continue with the level at a moment: another holder took tokens meanwhile, by this bucket's rules."""
        self._level, self._at = level, at

    def fill(self, level: int) -> None:
        """Set the level, as of the last moment, from another source."""
        self._level = max(0, min(level, self.depth))
