"""Give up the logs of topics with another home, a few at a time, so that publishers of other topics do not wait.

A log that waits for its turn stays open here and takes commands of every hub. The next home passes on what it is asked
meanwhile (`log_calls`).

Always true: at most SEALED_MAX logs are being sealed because of a plan, but for those that take longer than SLOT_S.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.logs.live_log import LogStage

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.logs.live_log import LiveLog

__all__ = ["LogGiving"]

# A log is sealed, released and opened elsewhere in some tens of milliseconds, most of them the store's.
SEALED_MAX = 4
# A log whose appends are not committed, or whose release the store does not answer, holds up the others no longer.
SLOT_S = 1.0


class LogGiving:
    """Owned by LogCalls."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        # Those that wait for their turn, in order; and when the slots of those being sealed end.
        self._waiting: dict[bytes, None] = {}
        self._slots: dict[bytes, Timer] = {}

    def is_waiting(self, key: bytes) -> bool:
        """Whether the log is open here though its home is elsewhere."""
        return key in self._waiting

    def routed(self, leaving: Iterable[LiveLog]) -> None:
        """These logs, and no others, have their homes elsewhere."""
        logs = self._cluster.core.logs
        assert logs is not None, "it has logs"
        self._waiting = {}
        for live in leaving:
            if live.stage is LogStage.OPEN and not live.is_sealing:
                self._waiting[live.name] = None
            else:
                logs.seal(live)
        self._pump()

    def sealed(self, key: bytes) -> None:
        """The log is not open here any more."""
        self._waiting.pop(key, None)
        timer = self._slots.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._pump()

    def close(self) -> None:
        for timer in self._slots.values():
            timer.cancel()
        self._waiting.clear()
        self._slots.clear()

    def _end_slot(self, key: bytes) -> None:
        self._slots.pop(key, None)
        self._pump()

    def _pump(self) -> None:
        logs = self._cluster.core.logs
        if logs is None:
            return
        while self._waiting and len(self._slots) < SEALED_MAX:
            key = next(iter(self._waiting))
            del self._waiting[key]
            live = logs.by_name.get(key)
            if live is not None:
                self._slots[key] = self._cluster.core.shell.call_later(SLOT_S, self._end_slot, key)
                logs.seal(live)
