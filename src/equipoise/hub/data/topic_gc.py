"""Forget topics that nobody uses, a few at a time.

Runs while there are topics: once every `topic_idle_s`, in slices, so that nobody waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.backlog import Timer

__all__ = ["Sweeping"]

# Topics looked at in one go: some 0.2 ms.
SLICE = 1_000


class Sweeping:
    """Owned by HubCore."""

    def __init__(self, core: HubCore) -> None:
        self._core = core
        self._timer: Timer | None = None

    def begin(self) -> None:
        """There is a topic to look after."""
        if self._timer is None:
            self._timer = self._core.shell.call_later(self._core.limits.topic_idle_s, self._sweep)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        self._timer = None
        if self._core.index.sweep(SLICE):
            self._timer = self._core.shell.call_later(0, self._sweep)
        elif self._core.index.topics:
            self.begin()
