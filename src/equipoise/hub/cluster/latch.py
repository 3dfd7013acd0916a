"""A countdown latch by callbacks."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Wait"]


class Wait:
    """Calls `proceed` once when all joined events have happened, unless none was pending, or it was cancelled."""

    def __init__(self, proceed: Callable[[], object]) -> None:
        self._proceed = proceed
        self._left = 0
        self._is_armed = False
        self._joined: list[list[Callable[[], None]]] = []

    def join(self, waiters: list[Callable[[], None]]) -> None:
        """Add an event to wait for: the call of the waiters in the list."""
        self._left += 1
        self._joined.append(waiters)
        waiters.append(self._one_less)

    def is_over_at_once(self) -> bool:
        self._is_armed = True
        return self._left == 0

    def cancel(self) -> None:
        """Cancel the wait, and remove its callbacks from all lists of waiters."""
        self._is_armed = False
        for waiters in self._joined:
            if self._one_less in waiters:
                waiters.remove(self._one_less)

    def _one_less(self) -> None:
        self._left -= 1
        if self._is_armed and self._left == 0:
            self._proceed()
