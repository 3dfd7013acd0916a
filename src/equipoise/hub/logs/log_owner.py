"""The hub that owns a log while this hub opens it: in a move the owner runs commands until it releases the log."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["LogOwner"]


class LogOwner:
    """Part of one LiveLog."""

    __slots__ = ("_waiters", "hub", "on_lost")

    def __init__(self) -> None:
        # Empty: no other hub owns the log, or the owner is unknown.
        self.hub = ""
        self._waiters: list[Callable[[], None]] = []
        # Called when the other hub no longer runs commands on the log.
        self.on_lost: Callable[[], None] = lambda: None

    def when_known(self, call: Callable[[], None]) -> None:
        """Call `call` once, when another hub is found to own the log, or the log is open here."""
        self._waiters.append(call)

    def found(self, hub: str) -> None:
        """`hub` owns the log; empty: no other hub does any more."""
        is_other, self.hub = hub != self.hub, hub
        if hub and is_other:
            self._call_waiters()
        elif is_other:
            self.on_lost()

    def opened(self) -> None:
        """The log is open here."""
        self.hub = ""
        self._call_waiters()

    def _call_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for call in waiters:
            call()
