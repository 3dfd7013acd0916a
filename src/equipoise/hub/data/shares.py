"""How much of the hub's time each user or address has used lately, and who has used more than a share.

A hub serves all clients in one thread, so a client waits for the piece of work that is in progress. While an owner (a
user, or an address without one) is over its share, its input is read in short pieces, after the input of all others
(`_sockets.c`, `MeteredInput`), and its turns are short (`turns.py`). So a client within its share waits for one short
piece, whatever the others send. An owner over its share loses little: while no other client has input, pieces follow
each other.

The measure is a leaky bucket: use adds to its level, and a fixed share of the time drains it.

Pure: time and timers come from the shell.

Always true:
    an owner is over its share from the moment its level exceeds `OVER_S` until a check finds it below `UNDER_S`;
    the timer runs exactly while a level is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell, Timer

__all__ = ["NOTED_S", "PIECE_BYTES", "PIECE_S", "MeteredInput", "Shares", "next_piece_bytes"]

# The share of the hub's time that an owner may use without being over it.
FREE_SHARE = 0.05
# An owner is over its share above the first level, in seconds, and no longer below the second one. No level exceeds
# the third, so an owner that pauses is within its share after a tenth of a second.
OVER_S = 0.002
UNDER_S = 0.001
LEVEL_S_MAX = 0.005
# Interval of the check for owners that are within their share again.
CHECK_S = 0.05
# Use is noted in amounts of at least this: the time of most clients is never noted. As NOTED_NS of _sockets.c.
NOTED_S = 0.00025
# How long one piece of input of an owner over its share should take. As PIECE_NS of _sockets.c.
PIECE_S = 0.00006
# Its size at first, at least and at most, in bytes. As LIMITED_READ_BYTES and kin of _sockets.c.
PIECE_BYTES = 512
PIECE_BYTES_MIN = 64
PIECE_BYTES_MAX = 64 * 1024


def next_piece_bytes(size: int, took_s: float) -> int:
    """The size of the next piece, after one of this size has taken this time. As `next_read_bytes` of _sockets.c."""
    if took_s > PIECE_S:
        return max(PIECE_BYTES_MIN, size // 2)
    return min(PIECE_BYTES_MAX, 2 * size) if took_s < PIECE_S / 4 else size


class _Use:
    __slots__ = ("at", "level_s")

    def __init__(self, at: float) -> None:
        self.at = at
        self.level_s = 0.0

    def drain(self, now: float) -> float:
        self.level_s = max(0.0, self.level_s - FREE_SHARE * (now - self.at))
        self.at = now
        return self.level_s


class Shares:
    """Owned by `Turns`."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._uses: dict[str, _Use] = {}
        self._numbers = count(1)
        # The owners over their share, each with a number that is unique since the hub started.
        self.limited: dict[str, int] = {}
        self._timer: Timer | None = None
        self._is_stopped = False

    def note(self, owner: str, used_s: float) -> int:
        """The owner has used this much time; return its number if it is over its share, else 0."""
        if self._is_stopped:
            return 0
        now = self._shell.now()
        use = self._uses.get(owner)
        if use is None:
            use = self._uses[owner] = _Use(now)
        use.level_s = min(LEVEL_S_MAX, use.drain(now) + used_s)
        if self._timer is None:
            self._timer = self._shell.call_later(CHECK_S, self._check)
        if use.level_s > OVER_S and owner not in self.limited:
            self.limited[owner] = next(self._numbers)
            self._shell.turns.renew_shares()
        return self.limited.get(owner, 0)

    def stop(self) -> None:
        """The hub closes."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = self._shell.now()
        was_limited = len(self.limited)
        for owner, use in list(self._uses.items()):
            level_s = use.drain(now)
            if level_s < UNDER_S:
                self.limited.pop(owner, None)
            if not level_s:
                del self._uses[owner]
        if len(self.limited) != was_limited:
            self._shell.turns.renew_shares()
        self._timer = self._shell.call_later(CHECK_S, self._check) if self._uses else None


class _Client(Protocol):
    """A session whose input is metered."""

    @property
    def peer(self) -> object: ...
    @property
    def owner(self) -> str: ...
    def receive(self, data: bytes) -> None: ...
    def queue_up(self) -> None: ...


class MeteredInput:
    """Passes a transport's input to its session, and notes the time that this takes.

    Input of an owner over its share waits for a turn instead. Links between hubs are not metered.
    """

    __slots__ = ("_client", "_clock", "_shares", "_used_s")

    def __init__(self, shares: Shares, clock: Callable[[], float], client: _Client) -> None:
        self._shares = shares
        self._clock = clock
        self._client = client
        self._used_s = 0.0

    def __call__(self, data: bytes) -> None:
        client, shares = self._client, self._shares
        if client.peer is not None:
            client.receive(data)
            return
        if shares.limited and client.owner in shares.limited:
            client.queue_up()
            client.receive(data)
            return
        began_at = self._clock()
        client.receive(data)
        self._used_s += self._clock() - began_at
        if self._used_s >= NOTED_S:
            shares.note(client.owner, self._used_s)
            self._used_s = 0.0
