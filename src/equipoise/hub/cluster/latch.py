"""Wait for several things at once, by callbacks."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Wait"]


class Wait:
    """Calls back once when all that was added has happened, unless that was so at once."""

    def __init__(self, proceed: Callable[[], object]) -> None:
        self._proceed = proceed
        self._left = 0
        self._is_armed = False

    def add(self) -> Callable[[], None]:
        """One more thing to wait for; call what is returned when it has happened."""
        self._left += 1
        return self._one_less

    def is_over_at_once(self) -> bool:
        self._is_armed = True
        return self._left == 0

    def _one_less(self) -> None:
        self._left -= 1
        if self._is_armed and self._left == 0:
            self._proceed()
