"""Logs that do not exist: commands that create none are answered without a log, and reads wait for one to be created.

A log that is not open here may still exist. So the hub queries the store, once for all waiting commands. In a cluster
`hub/cluster/log_lookup.py` queries it, for its queues; on a single hub the queue is here.

Always true: commands on one log run in their order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from equipoise.hub.data.reply import Reply
from equipoise.hub.logs.log_refusals import not_open
from equipoise.hub.logs.log_request import LogRequest
from equipoise.log.errors import LogCommandError
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.logs.hub_logs import HubLogs

__all__ = ["AbsentLogs", "LookUp", "run_without_log"]

# How often, in seconds, a blocked read looks whether another hub has created the log.
LOOK_S = 1.0

# Queries the store for a log; calls back with None if the store does not reply.
LookUp: TypeAlias = "Callable[[bytes, Callable[[bool | None], None]], None]"


def run_without_log(request: LogRequest, now_ms: int) -> bytes:
    """The reply to a command that creates no log, from a log that does not exist."""
    try:
        return request.run(TopicLog(), now_ms)
    except LogCommandError as problem:
        return error(problem.text)


class AbsentLogs:
    """Owned by HubLogs."""

    def __init__(self, logs: HubLogs, look_up: LookUp) -> None:
        self._logs = logs
        self.look_up = look_up
        # By log with a query in flight, the commands that wait for the reply. Each is called with whether it is absent.
        self._waiting: dict[bytes, list[Callable[[bool], None]]] = {}
        # By log, the reads that wait for it to be created.
        self._readers: dict[bytes, dict[object, Callable[[], None]]] = {}

    def is_asked(self, key: bytes) -> bool:
        return key in self._waiting

    # --- a single hub

    def submit(self, key: bytes, request: LogRequest) -> Reply:
        """Run the command once it is known whether the log exists."""
        logs = self._logs
        outcome: Reply | None = None

        def complete(found: Reply) -> None:
            if whole.is_wanted:
                whole.complete(b"".join(found.pieces or ()))

        def run(is_absent: bool) -> None:
            nonlocal outcome
            if not whole.is_wanted:
                return
            if is_absent and not request.may_create and key not in logs.by_name:
                whole.complete(run_without_log(request, logs.now_ms()))
                return
            found = logs.perform(logs.of(key), request)
            if isinstance(found, bytes):
                whole.complete(found)
                return
            outcome = found
            found.owe(lambda: complete(found), 0.0, is_muted=False)
            if found.pieces is not None:
                complete(found)

        def expired() -> bytes:
            if outcome is None:
                return not_open(key, "")
            outcome.expire()
            return b"".join(outcome.pieces or ())

        whole = Reply(expired=expired, abandoned=lambda: None if outcome is None else outcome.forget())
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append(run)
            return whole
        self._waiting[key] = [run]
        self.look_up(key, lambda exists: self._answered(key, is_absent=exists is False))
        return whole

    def _answered(self, key: bytes, *, is_absent: bool) -> None:
        for run in self._waiting.pop(key, ()):
            run(is_absent)

    # --- blocked reads

    def watch(self, key: bytes, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, when the log is opened here, or may have been created. Returns a function that cancels."""
        reader = object()

        def woken() -> None:
            end()
            wake()

        def end() -> None:
            timer.cancel()
            readers = self._readers.get(key)
            if readers is not None and readers.pop(reader, None) is not None and not readers:
                del self._readers[key]

        timer = self._logs.call_later(LOOK_S, woken)
        self._readers.setdefault(key, {})[reader] = woken
        return end

    def opened(self, key: bytes) -> None:
        """The log is open here, or about to be."""
        for woken in list(self._readers.get(key, {}).values()):
            self._logs.call_later(0, woken)

    def routed(self) -> None:
        """Other hubs may be the homes of the logs."""
        for key in list(self._readers):
            self.opened(key)
