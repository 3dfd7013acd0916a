"""Forward commands on logs to the owner of the log, in order, and return the replies.

The home of a topic owns its log, or claims it. Commands of this hub's clients wait in a queue per log. If this hub is
the home and the log is open, they run here; else all waiting commands are sent to the home as one batch, and the next
batch after its reply. So no command overtakes another, whichever path they take, and a pipeline costs two round trips.

A hub that is not the home of a log returns a batch without running any of it; the batch is sent to the next home.

During a move the former home runs commands until it releases the log (`log_giving`). Until then the next home forwards
commands to it, those of its own clients and those of other hubs.

If the home fails with a batch in flight, its reads are run again. Its writes may or may not be stored: UNCERTAIN.

Always true:
    each hub has at most one batch in flight for a log;
    commands on a log that is open or being sealed here are not sent to another hub;
    only the home of a log forwards commands of other hubs, and only to the hub that owns the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from equipoise.hub.cluster.link.capability import LOGS
from equipoise.hub.cluster.link.frame import Frame
from equipoise.hub.cluster.link.log_frames import (
    AnswerFrame,
    CallFrame,
    OfferFrame,
    ReleasedFrame,
    ReleaseFrame,
    UnwatchFrame,
    WatchFrame,
    WokenFrame,
)
from equipoise.hub.cluster.log_giving import LogGiving
from equipoise.hub.cluster.log_lookup import LogLookup
from equipoise.hub.cluster.log_queue import CallQueue, WaitingCall, take_batch
from equipoise.hub.cluster.log_taking import LogTaking
from equipoise.hub.cluster.log_watches import AGAIN_S, LogWatches
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.data.reply import REPLY_S, Reply
from equipoise.hub.logs.live_log import LiveLog, LogStage
from equipoise.hub.logs.log_refusals import not_open, not_reached, owner_late, uncertain
from equipoise.hub.logs.log_request import (
    LogRequest,
    pack_replies,
    pack_requests,
    unpack_replies,
    unpack_requests,
)
from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.logs.hub_logs import HubLogs

__all__ = ["LogCalls"]

# Size of the pieces in which replies are sent.
_PIECE_BYTES = 1024 * 1024
# A hub that cannot run a batch in time replies this long before the sending hub's timeout, in seconds.
_MARGIN_S = 0.5
_OLD_HOME = "ERR hub {} is the home of the topic and runs a release without logs: upgrade it"


class LogCalls:
    """Owned by the cluster. Implements the `elsewhere` of HubLogs."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        self.watches = LogWatches(cluster, self)
        self._giving = LogGiving(cluster)
        self._taking = LogTaking(cluster, self)
        self._lookup = LogLookup(self._looked_up)
        self._queues: dict[bytes, CallQueue] = {}
        # By ticket: the log of a batch in flight, and the pieces of its reply so far.
        self._asked: dict[int, tuple[bytes, list[bytes]]] = {}
        # Whether the hub is stopping and claims no more logs.
        self._is_leaving = False

    @property
    def _logs(self) -> HubLogs | None:
        return self._cluster.core.logs

    @property
    def handlers(self) -> dict[type[Frame], Callable[[str, Any], None]]:
        """Handlers of the frames about logs, by type of frame."""
        return {
            CallFrame: self.called,
            AnswerFrame: self.answered,
            WatchFrame: self.watches.watched,
            UnwatchFrame: self.watches.unwatched,
            WokenFrame: self.watches.woken,
            OfferFrame: self._taking.offered,
            ReleaseFrame: self._giving.requested,
            ReleasedFrame: self._taking.released,
        }

    # For clients of this hub.

    def at_hand(self, key: bytes) -> LiveLog | None:
        """The log, if it is open here and no earlier command waits for it."""
        live = None if self._logs is None else self._logs.by_name.get(key)
        is_free = live is not None and key not in self._queues and self.is_open_here(key, live)
        return live if is_free else None

    def submit(self, key: bytes, request: LogRequest) -> bytes | Reply:
        logs, live = self._logs, self.at_hand(key)
        assert logs is not None, "otherwise the command is refused"
        if live is not None:
            return logs.perform(live, request)

        def expired() -> bytes:
            problem = "" if (known := logs.by_name.get(key)) is None else known.problem
            return owner_late(key) if call.is_sent else not_reached(key, problem)

        reply = Reply(expired=expired)

        def tell(replies: list[bytes] | None) -> None:
            assert replies is not None, "commands of this hub's clients are resent, not returned"
            if reply.is_wanted:
                reply.complete(replies[0])

        call = WaitingCall([request], tell, lambda: reply.is_wanted, self._cluster.core.now() + REPLY_S)
        self._put(key, call)
        return reply

    def open_here(self, key: bytes) -> LiveLog | None:
        """The log, opened if necessary, if this hub is its home; else None."""
        return self._logs.of(key) if self._logs is not None and self.is_home(key) else None

    def watch(
        self, key: bytes, since: bytes, group: bytes | None, wake: Callable[[], None]
    ) -> Callable[[], None]:
        return self.watches.watch(key, since, group, wake)

    # Changes of routing and ownership.

    def routed(self) -> None:
        """The plan, or the hubs that are alive, have changed."""
        if self._logs is None:
            return
        leaving = [
            live
            for live in self._logs.by_name.values()
            if not self.is_home(live.name) and self._home(live.name) is not None
        ]
        self._giving.routed(leaving)
        self._taking.routed()
        self._logs.absent.routed()
        for key in list(self._queues):
            self._schedule(key)

    def request_release(self, key: bytes, hub: str) -> bool:
        return self._taking.request(key, hub)

    def released(self, key: bytes, version: int, node: bytes) -> None:
        self._giving.released(key, version, node)

    def sealed(self, key: bytes) -> None:
        self._giving.sealed(key)
        self._schedule(key)

    def close(self) -> None:
        """This incarnation of the hub has ended, and its clients are disconnected."""
        self._is_leaving = True
        self._giving.close()
        self._taking.close()
        self._queues.clear()
        self._asked.clear()
        self.watches.close()

    def leave(self) -> None:
        """The hub is stopping: seal and release all logs."""
        self._is_leaving = True
        self._giving.close()
        if self._logs is not None:
            for live in list(self._logs.by_name.values()):
                self._logs.seal(live)
        for key in list(self._queues):
            self._schedule(key)

    @property
    def has_left(self) -> bool:
        return self._logs is None or not self._logs.by_name

    def peer_gone(self, peer: str) -> None:
        """The hub is dead, or a restarted link has voided its requests and replies."""
        for key, queue in list(self._queues.items()):
            for call in [call for call in queue.calls if call.origin == peer]:
                queue.calls.remove(call)
            if queue.peer == peer:
                self._asked.pop(queue.ticket, None)
                batch, queue.batch, queue.peer, queue.ticket = queue.batch, [], "", 0
                for call in reversed(batch):
                    if all(request.is_read for request in call.requests):
                        call.is_sent = False
                        queue.calls.appendleft(call)
                    else:
                        call.tell([uncertain(key)] * len(call.requests))
            self._schedule(key)
        self.watches.peer_gone(peer)
        self._taking.peer_gone(peer)

    # Frames.

    def called(self, peer: str, frame: CallFrame) -> None:
        """CALL: a hub requests to run commands. Raises ProtocolError."""
        # Reply over the link of this incarnation: the next one restarts its tickets, and may use the same number.
        link = self._cluster.out.get(peer)
        if link is None:
            return
        requests, tell = unpack_requests(frame.calls), partial(_answer, link, frame.ticket)
        is_here = self.is_home(frame.topic) or self._giving.is_waiting(frame.topic)
        if self._logs is None or not is_here:
            tell(None)
            return
        now, wait_s = self._cluster.core.now(), max(0.0, frame.wait_ms / 1_000 - _MARGIN_S)
        call = WaitingCall(requests, tell, lambda: True, now + wait_s, peer)
        self._put(frame.topic, call)
        self._cluster.core.shell.call_later(wait_s, self._give_up, frame.topic, call)

    def _give_up(self, key: bytes, call: WaitingCall) -> None:
        """The log could not be opened in time: no command was run."""
        queue = self._queues.get(key)
        if queue is not None and queue.remove(call):
            live = None if self._logs is None else self._logs.by_name.get(key)
            refusal = not_open(key, "" if live is None else live.problem)
            call.tell([refusal] * len(call.requests))

    def answered(self, peer: str, frame: AnswerFrame) -> None:
        """Raises ProtocolError."""
        known = self._asked.get(frame.ticket)
        if known is None or self._queues[known[0]].peer != peer:
            return
        key, pieces = known
        pieces += frame.payloads
        if not frame.is_last:
            return
        del self._asked[frame.ticket]
        queue, data = self._queues[key], b"".join(pieces)
        batch, queue.batch, queue.peer, queue.ticket = queue.batch, [], "", 0
        if data:
            replies = iter(unpack_replies(data))
            for call in batch:
                call.tell(list(islice(replies, len(call.requests))))
            self._schedule(key)
            return
        for call in batch:
            call.is_sent = False
        queue.calls.extendleft(reversed(batch))
        live = None if self._logs is None else self._logs.by_name.get(key)
        if live is not None and live.owner.hub:
            # The owner has begun to release the log.
            live.owner.found("")
            self._schedule(key)
        else:
            self._schedule(key, AGAIN_S)

    # Queues.

    def _home(self, key: bytes) -> str | None:
        return self._cluster.router.home(key)

    def is_home(self, key: bytes) -> bool:
        return not self._is_leaving and self._home(key) == self._cluster.name

    def is_open_here(self, key: bytes, live: LiveLog) -> bool:
        is_here = self.is_home(key) or self._giving.is_waiting(key)
        return live.stage is LogStage.OPEN and not live.is_sealing and is_here

    def _put(self, key: bytes, call: WaitingCall) -> None:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = CallQueue()
        queue.calls.append(call)
        self._schedule(key)

    def _schedule(self, key: bytes, delay_s: float = 0.0) -> None:
        queue = self._queues.get(key)
        if queue is not None and not queue.is_scheduled:
            queue.is_scheduled = True
            self._cluster.core.shell.call_later(delay_s, self._drain, key)

    def _drain(self, key: bytes) -> None:
        """Run or send the waiting commands, as far as that is possible."""
        queue, logs = self._queues.get(key), self._logs
        if queue is None:
            return
        queue.is_scheduled = False
        queue.calls = deque(call for call in queue.calls if call.is_wanted())
        if queue.batch:
            return
        if not queue.calls or logs is None:
            del self._queues[key]
            return
        live = logs.by_name.get(key)
        if self.is_home(key) or (live is not None and self.is_open_here(key, live)):
            self._run_here(key, queue, logs)
        elif key in logs.by_name:
            # The log closes once its appends in flight are committed; then `sealed` is called.
            if self._home(key) is not None:
                logs.seal(logs.by_name[key])
            self._schedule(key, AGAIN_S)
        else:
            self._send(key, queue)

    def _looked_up(self, key: bytes, queue: CallQueue, is_known: bool) -> None:
        if self._queues.get(key) is queue:
            self._schedule(key, 0.0 if is_known else AGAIN_S)

    def _run_here(self, key: bytes, queue: CallQueue, logs: HubLogs) -> None:
        if self._lookup.begin(key, queue, logs):
            return
        live = logs.of(key)
        if live.stage is not LogStage.OPEN or live.is_sealing:
            owner = self._cluster.out.get(live.owner.hub)
            if owner is not None and self._takes_calls(owner) and owner.can(LOGS):
                self._send_batch(key, queue, owner)
                return
            self._await(key, queue, live)
            return
        calls = queue.calls
        del self._queues[key]
        live.append_now()
        for call in calls:
            call.answer([logs.perform(live, request) for request in call.requests])

    def _await(self, key: bytes, queue: CallQueue, live: LiveLog) -> None:
        """Wait until the log is open here or its owner is known; `sealed` and `routed` end the wait, too."""
        if queue.awaited is not live:
            queue.awaited = live
            live.owner.when_known(partial(self._wake, key, queue))
        if live.owner.hub:
            # The link to the owner is full, or not connected yet.
            self._schedule(key, AGAIN_S)

    def _wake(self, key: bytes, queue: CallQueue) -> None:
        queue.awaited = None
        self._cluster.core.shell.call_later(0, self._drain, key)

    def _takes_calls(self, link: OutLink) -> bool:
        return link.is_connected and not link.is_full

    def _send(self, key: bytes, queue: CallQueue) -> None:
        """Send the waiting commands to the home; return those of other hubs, which send them there themselves."""
        for call in [call for call in queue.calls if call.origin]:
            queue.calls.remove(call)
            call.tell(None)
        home = self._home(key)
        link = None if home is None else self._cluster.out.get(home)
        if not queue.calls:
            del self._queues[key]
            return
        if link is None or not self._takes_calls(link):
            self._schedule(key, AGAIN_S)
            return
        if not link.can(LOGS):
            for call in queue.calls:
                call.tell([error(_OLD_HOME.format(home))])
            del self._queues[key]
            return
        self._send_batch(key, queue, link)

    def _send_batch(self, key: bytes, queue: CallQueue, link: OutLink) -> None:
        queue.batch = take_batch(queue.calls)
        queue.peer, queue.ticket = link.hub, self._cluster.new_ticket()
        self._asked[queue.ticket] = key, []
        for call in queue.batch:
            call.is_sent = True
        left_s = min(call.due_at for call in queue.batch) - self._cluster.core.now()
        requests = [request for call in queue.batch for request in call.requests]
        link.send(CallFrame(key, queue.ticket, max(0, int(left_s * 1_000)), pack_requests(requests)))


def _answer(link: OutLink, ticket: int, replies: list[bytes] | None) -> None:
    if replies is None:
        link.send(AnswerFrame(ticket, True, [b""]))
        return
    data = pack_replies(replies)
    for start in range(0, len(data), _PIECE_BYTES):
        is_last = start + _PIECE_BYTES >= len(data)
        link.send(AnswerFrame(ticket, is_last, [data[start : start + _PIECE_BYTES]]))
