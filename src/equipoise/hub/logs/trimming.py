"""Trim the logs that this hub owns by their specs, after growth and with time.

Only the owner of a log trims it, by a record, as XTRIM does: the next owner reads trims and acknowledgements in their
order. A log that no hub has open is trimmed when it is opened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.logs.live_log import LiveLog, LogStage
from equipoise.log.retention import RetentionLimits, trim_log

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Timer

__all__ = ["LogTrimming", "RetentionOf"]

# The retention of a topic's log by its spec; None: entries are kept until a client removes them.
RetentionOf = Callable[[bytes], RetentionLimits | None]

# How long entries over the limits wait for more of them, in seconds: one record removes them together.
_SOON_S = 1.0
# The interval of checks for age, in seconds, of a log that does not change.
_LATER_S = 30.0


class _Logs(Protocol):
    """What LogTrimming needs of HubLogs."""

    @property
    def by_name(self) -> dict[bytes, LiveLog]: ...
    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer: ...
    def now_ms(self) -> int: ...


class LogTrimming:
    """Owned by HubLogs."""

    def __init__(self, logs: _Logs, retention_of: RetentionOf) -> None:
        self._logs = logs
        self._retention_of = retention_of
        # By log: whether its next check is one for age (_LATER_S), and the timer.
        self._timers: dict[bytes, tuple[bool, Timer]] = {}

    def follow(self, live: LiveLog) -> None:
        """The log was opened, or has changed: check it soon."""
        known = self._timers.get(live.name)
        if known is not None and not known[0]:
            return
        if self._retention_of(live.name) is not None:
            if known is not None:
                known[1].cancel()
            self._check_in(live.name, _SOON_S)

    def _check_in(self, name: bytes, delay_s: float) -> None:
        timer = self._logs.call_later(delay_s, partial(self._check, name))
        self._timers[name] = delay_s > _SOON_S, timer

    def _check(self, name: bytes) -> None:
        del self._timers[name]
        live, limits = self._logs.by_name.get(name), self._retention_of(name)
        if live is None or limits is None or live.stage is not LogStage.OPEN or live.is_sealing:
            return
        if trim_log(live.log, limits, self._logs.now_ms()):
            live.changed()
        if limits.age_s is not None and name not in self._timers:
            self._check_in(name, _LATER_S)
