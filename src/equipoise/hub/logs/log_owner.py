"""The hub that owns a log while this hub opens it: in a move it runs commands until it gives the log up."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["LogOwner"]


class LogOwner:
    """Part of one LiveLog."""

    __slots__ = ("_asking", "hub", "on_lost")

    def __init__(self) -> None:
        # Empty: no other hub owns the log, or it is not known which.
        self.hub = ""
        self._asking: list[Callable[[], None]] = []
        # Called when that hub does not run commands on the log any more.
        self.on_lost: Callable[[], None] = lambda: None

    def when_known(self, call: Callable[[], None]) -> None:
        """Call once, when another hub is found to own the log, or the log is open here."""
        self._asking.append(call)

    def found(self, hub: str) -> None:
        """Another hub owns the log; empty: none does any more."""
        is_other, self.hub = hub != self.hub, hub
        if hub and is_other:
            self._tell()
        elif is_other:
            self.on_lost()

    def opened(self) -> None:
        """The log is open here."""
        self.hub = ""
        self._tell()

    def _tell(self) -> None:
        asking, self._asking = self._asking, []
        for call in asking:
            call()
