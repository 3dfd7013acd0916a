"""Ask the store whether a log exists before it is opened for commands that create none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from equipoise.hub.cluster.log_queue import CallQueue, WaitingCall
from equipoise.hub.logs.absent_logs import run_without_log

if TYPE_CHECKING:
    from equipoise.hub.logs.hub_logs import HubLogs

__all__ = ["LogLookup"]


class LogLookup:
    """Owned by LogCalls. `again`: called with a queue without a batch, and with whether the store has answered."""

    def __init__(self, again: Callable[[bytes, CallQueue, bool], None]) -> None:
        self._again = again

    def begin(self, key: bytes, queue: CallQueue, logs: HubLogs) -> bool:
        """Ask, if the first waiting commands leave an absent log as it is; they are the queue's batch meanwhile."""
        if key in logs.by_name or _may_create(queue.calls[0]):
            return False
        while queue.calls and not _may_create(queue.calls[0]):
            queue.batch.append(queue.calls.popleft())
        logs.absent.look_up(key, partial(self._answered, key, queue, logs))
        return True

    def _answered(self, key: bytes, queue: CallQueue, logs: HubLogs, exists: bool | None) -> None:
        batch, queue.batch = queue.batch, []
        if exists is False and key not in logs.by_name:
            now_ms = logs.now_ms()
            for call in batch:
                call.tell([run_without_log(request, now_ms) for request in call.requests])
        else:
            queue.calls.extendleft(reversed(batch))
            if exists:
                # Open it, if its home is still here.
                logs.open_here(key)
        self._again(key, queue, exists is not None)


def _may_create(call: WaitingCall) -> bool:
    return any(request.may_create for request in call.requests)
