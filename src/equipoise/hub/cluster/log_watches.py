"""Blocking reads of logs at other hubs, and of other hubs at this one.

A blocked read is woken, and reads again by an ordinary command. It is woken too often rather than too rarely: by an
entry that may match, and when the log moves, its owner fails, or a link restarts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import LOGS
from equipoise.hub.cluster.link.log_frames import UnwatchFrame, WatchFrame, WokenFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.logs.log_watch import watch_log

if TYPE_CHECKING:
    from equipoise.hub.logs.live_log import LiveLog

__all__ = ["AGAIN_S", "LogWatches"]

# Delay in seconds before a retry for a log that no live hub has, or whose home returns commands.
AGAIN_S = 0.03


class _Calls(Protocol):
    def is_open_here(self, key: bytes, live: LiveLog) -> bool: ...
    def is_home(self, key: bytes) -> bool: ...


class LogWatches:
    """Owned by LogCalls."""

    def __init__(self, cluster: ClusterPort, calls: _Calls) -> None:
        self._cluster = cluster
        self._calls = calls
        # Reads of this hub that are blocked at others, by ticket: the hub, and the callback that wakes the read.
        self._watching: dict[int, tuple[str, Callable[[], None]]] = {}
        # Reads of other hubs that are blocked here, by hub and ticket: the function that ends the watch.
        self._watched: dict[tuple[str, int], Callable[[], None]] = {}

    def _open_here(self, key: bytes) -> LiveLog | None:
        logs = self._cluster.core.logs
        live = None if logs is None else logs.by_name.get(key)
        return live if live is not None and self._calls.is_open_here(key, live) else None

    def watch(
        self, key: bytes, since: bytes, group: bytes | None, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `wake` once, later, when there may be something to read. Returns a function that cancels the watch."""
        live, home = self._open_here(key), self._cluster.router.home(key)
        if live is not None:
            return watch_log(live, since, group, wake, self._cluster.core.shell)
        absent = self._watch_absent(key, wake)
        if absent is not None:
            return absent
        link = None if home is None else self._cluster.out.get(home)
        if link is None or not link.can(LOGS):
            return self._cluster.core.shell.call_later(AGAIN_S, wake).cancel
        ticket = self._cluster.new_ticket()
        self._watching[ticket] = link.hub, wake
        link.send(WatchFrame(key, ticket, since, group or b""))

        def end() -> None:
            if self._watching.pop(ticket, None) is not None:
                self._cluster.tell(link.hub, UnwatchFrame(ticket))

        return end

    def _watch_absent(self, key: bytes, wake: Callable[[], None]) -> Callable[[], None] | None:
        """Wait until the log is created; None if this hub is not its home, or the log is open here or being opened."""
        logs = self._cluster.core.logs
        if logs is None or key in logs.by_name or not self._calls.is_home(key):
            return None
        return logs.absent.watch(key, wake)

    def watched(self, peer: str, frame: WatchFrame) -> None:
        at = (peer, frame.ticket)

        def wake() -> None:
            self._watched.pop(at, None)
            self._cluster.tell(peer, WokenFrame(frame.ticket))

        live = self._open_here(frame.topic)
        if live is not None:
            shell = self._cluster.core.shell
            self._watched[at] = watch_log(live, frame.since, frame.group or None, wake, shell)
        else:
            absent = self._watch_absent(frame.topic, wake)
            self._watched[at] = absent or self._cluster.core.shell.call_later(AGAIN_S, wake).cancel

    def unwatched(self, peer: str, frame: UnwatchFrame) -> None:
        end = self._watched.pop((peer, frame.ticket), None)
        if end is not None:
            end()

    def woken(self, peer: str, frame: WokenFrame) -> None:
        known = self._watching.pop(frame.ticket, None)
        if known is not None:
            known[1]()

    def close(self) -> None:
        self._watching.clear()
        for end in self._watched.values():
            end()
        self._watched.clear()

    def peer_gone(self, peer: str) -> None:
        """The hub is dead, or a restarted link has voided its requests and replies."""
        for ticket in [ticket for ticket, (hub, _) in self._watching.items() if hub == peer]:
            self._cluster.core.shell.call_later(AGAIN_S, self._watching.pop(ticket)[1])
        for watch in [watch for watch in self._watched if watch[0] == peer]:
            self._watched.pop(watch)()
