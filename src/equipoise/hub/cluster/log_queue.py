"""Commands on one log that wait at a hub, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.hub.data.reply import Reply
from equipoise.hub.logs.log_request import LogRequest

if TYPE_CHECKING:
    from equipoise.hub.logs.live_log import LiveLog

__all__ = ["BATCH_BYTES", "CallQueue", "WaitingCall", "take_batch"]

# Size of a batch; a transaction is never split, and may exceed it.
BATCH_BYTES = 1024 * 1024


class WaitingCall:
    """Commands that are run together: one command of a client of this hub, or a batch of another hub."""

    __slots__ = ("due_at", "is_sent", "is_wanted", "origin", "requests", "tell")

    def __init__(
        self,
        requests: list[LogRequest],
        tell: Callable[[list[bytes] | None], object],
        is_wanted: Callable[[], bool],
        due_at: float,
        origin: str = "",
    ) -> None:
        self.requests = requests
        # Called once, with the replies; None: nothing was run here.
        self.tell = tell
        self.is_wanted = is_wanted
        self.due_at = due_at
        # The hub that sent it; empty: this hub.
        self.origin = origin
        self.is_sent = False

    @property
    def size(self) -> int:
        return sum(request.size for request in self.requests)

    def answer(self, outcomes: list[bytes | Reply]) -> None:
        """Pass the replies of all commands to `tell` once they are complete."""
        owed = [each for each in outcomes if isinstance(each, Reply) and each.pieces is None]
        left = len(owed)

        def completed() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self.tell(
                    [each if isinstance(each, bytes) else b"".join(each.pieces or ()) for each in outcomes]
                )

        for reply in owed:
            reply.owe(completed, 0.0, is_muted=False)
        if not owed:
            completed()


class CallQueue:
    """The commands on one log."""

    __slots__ = ("awaited", "batch", "calls", "is_scheduled", "peer", "ticket")

    def __init__(self) -> None:
        self.calls: deque[WaitingCall] = deque()
        # The batch in flight, its hub and its ticket; ticket 0: none is in flight. Without a hub: the store is asked
        # whether the log exists.
        self.batch: list[WaitingCall] = []
        self.peer = ""
        self.ticket = 0
        self.is_scheduled = False
        # The log that wakes the queue when it is open here, or its owner is known.
        self.awaited: LiveLog | None = None

    def remove(self, call: WaitingCall) -> bool:
        """Remove a call that no other hub has been asked to run; False: there is none such."""
        for calls in (self.calls, [] if self.peer else self.batch):
            if call in calls:
                calls.remove(call)
                return True
        return False


def take_batch(calls: deque[WaitingCall]) -> list[WaitingCall]:
    batch = [calls.popleft()]
    size = batch[0].size
    while calls and (calls[0].requests[0].is_joined or size < BATCH_BYTES):
        batch.append(calls.popleft())
        size += batch[-1].size
    return batch
