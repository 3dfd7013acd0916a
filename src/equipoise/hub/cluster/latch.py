"""A countdown latch by callbacks."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Wait"]


class Wait:
    """Calls back once when all that was added has happened, unless that was so at once, or it was cancelled."""

    def __init__(self, proceed: Callable[[], object]) -> None:
        self._proceed = proceed
        self._left = 0
        self._is_armed = False
        self._joined: list[list[Callable[[], None]]] = []

    def join(self, waiters: list[Callable[[], None]]) -> None:
        """One more event to wait for: that the waiters in the list are called."""
        self._left += 1
        self._joined.append(waiters)
        waiters.append(self._one_less)

    def is_over_at_once(self) -> bool:
        self._is_armed = True
        return self._left == 0

    def cancel(self) -> None:
        """Leave no trace where it was to be called."""
        self._is_armed = False
        for waiters in self._joined:
            if self._one_less in waiters:
                waiters.remove(self._one_less)

    def _one_less(self) -> None:
        self._left -= 1
        if self._is_armed and self._left == 0:
            self._proceed()
