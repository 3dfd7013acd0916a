"""One XREAD, XREADGROUP or EQ.READGROUP over logs at several hubs; logs may move to other hubs while it blocks.

In a pass the command reads each log once, without blocking. If no log has entries, the command watches the logs, and
starts another pass when one of them may have an entry, moves, or loses its owner. `$` and `+` are resolved before the
first pass: entries added after that are found, whichever hub then owns the log.

Always true: at most one pass is under way, so an entry that was delivered to a group is in the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.data.reply import REPLY_S, Reply
from equipoise.hub.logs.log_request import LAST_ID, LogRequest
from equipoise.log.call import no_group
from equipoise.log.errors import LogCommandError
from equipoise.log.read import WITHIN, LogRead, assemble, group_start
from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.logs.live_log import LiveLog

__all__ = ["WaitingRead"]

# The error texts of Redis.
_NO_LOG = error("UNBLOCKED the stream key no longer exists")
_NO_GROUP = error("NOGROUP the consumer group this client was blocked on no longer exists")


class _Logs(Protocol):
    """What a WaitingRead needs of HubLogs, which sends each request to the owner of the log."""

    def submit(self, key: bytes, request: LogRequest) -> bytes | Reply: ...
    def at_hand(self, key: bytes) -> LiveLog | None: ...
    def watch(
        self, key: bytes, since: bytes, group: bytes | None, wake: Callable[[], None]
    ) -> Callable[[], None]: ...
    def begins_to_wait(self, read: WaitingRead) -> None: ...
    def waits_no_more(self, read: WaitingRead) -> None: ...
    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer: ...


class WaitingRead:
    """One command, from its arrival to its reply. Owned by HubLogs."""

    def __init__(
        self,
        logs: _Logs,
        read: LogRead,
        proto: int,
        is_allowed: Callable[[], str | None],
        *,
        may_wait: bool,
        watched: Callable[[bool], None] = lambda is_watched: None,
    ) -> None:
        """`watched`: called with True when the read begins to watch its logs, and with False when it is woken."""
        self._logs = logs
        self._read = read
        self._proto = proto
        self._is_allowed = is_allowed
        self._may_wait = may_wait and read.block_ms is not None
        self._watched = watched
        # Part of a transaction: the read is complete before the next command runs.
        self._is_joined = not may_wait
        # The id after which the next pass reads each log.
        self._starts = dict(zip(read.keys, read.starts, strict=True))
        # For keys read from `+`: the start from the second pass on.
        self._later: dict[bytes, bytes] = {}
        self._watches: list[Callable[[], None]] = []
        self._timer: Timer | None = None
        # Whether a pass is under way.
        self.is_passing = False
        # Woken at least once.
        self._has_waited = False
        # The block time is over: the result of the pass under way is the reply.
        self._is_late = False
        self.reply = Reply(wait_s=None, abandoned=self._end)

    def begin(self) -> None:
        self._logs.begins_to_wait(self)
        if self._may_wait and self._read.block_ms:
            self._timer = self._logs.call_later(self._read.block_ms / 1_000, self._time_is_up)
        if self._read.group is not None:
            self._check(self._read.group)
            return
        unresolved = [key for key, start in self._starts.items() if start in (b"$", b"+")]
        # A read that does not block finds nothing after `$`; the owner of the log resolves `+`.
        if not unresolved or not self._may_wait:
            self._start_pass()
            return

        def resolved(replies: list[bytes]) -> None:
            for key, reply in zip(unresolved, replies, strict=True):
                last = reply.split(b"\r\n")[1]
                if self._starts[key] == b"$":
                    self._starts[key] = last
                else:
                    self._later[key] = last
            self._start_pass()

        self._gather([(key, LogRequest(LAST_ID, [], self._proto)) for key in unresolved], resolved)

    def begin_watching(self) -> None:
        """Begin without a pass: the caller has checked that it would find nothing. The caller also ends the wait."""
        self._logs.begins_to_wait(self)
        self._watch()

    def _check(self, group: bytes) -> None:
        """Check the group at all logs first, so that a read that fails has delivered nothing to the consumer."""
        at_hand = [self._logs.at_hand(key) for key in self._starts]
        logs = [live.log for live in at_hand if live is not None and live.is_open]
        if len(logs) < len(at_hand):
            if self._is_joined or len(at_hand) == 1:
                self._start_pass()
            else:
                self._check_elsewhere(group)
            return
        for (key, start), log in zip(self._starts.items(), logs, strict=True):
            if group not in log.groups or _problem_of(start) is not None:
                # The error of this log is the reply.
                self._gather([(key, self._request(key))], self._complete_pass)
                return
        self._start_pass()

    def _check_elsewhere(self, group: bytes) -> None:
        def checked(replies: list[bytes]) -> None:
            for (key, start), reply in zip(self._starts.items(), replies, strict=True):
                is_missing = reply.startswith(b"-NOGROUP")
                problem = no_group(key, group, WITHIN) if is_missing else _problem_of(start)
                if problem is not None or reply[:1] == b"-":
                    self._answer(reply if problem is None else error(problem.text))
                    return
            self._start_pass()

        # XPENDING changes nothing, and hubs of every release support it.
        requests = [
            (key, LogRequest("xpending", [b"xpending", key, group], self._proto)) for key in self._starts
        ]
        self._gather(requests, checked, takes_errors=True)

    @property
    def is_blocked(self) -> bool:
        """Whether the read watches its logs for entries."""
        return bool(self._watches)

    # --- passes

    def _start_pass(self) -> None:
        if self.reply.is_wanted:
            self._gather([(key, self._request(key)) for key in self._starts], self._complete_pass)

    def _request(self, key: bytes) -> LogRequest:
        read = self._read
        words = [b"xread" if read.group is None else b"eq.readgroup" if read.is_counted else b"xreadgroup"]
        if read.group is not None:
            words += [b"group", read.group, read.consumer]
        if read.count:
            words += [b"count", b"%d" % read.count]
        if read.is_acked:
            words.append(b"noack")
        words += [b"streams", key, self._starts[key]]
        return LogRequest(words[0].decode(), words, self._proto)

    def _complete_pass(self, replies: list[bytes]) -> None:
        nothing = assemble([], self._proto)
        found = [reply for reply in replies if reply != nothing]
        if found:
            # Each reply is a list, or a map, with one log: combine them.
            mark = found[0][:1]
            self._answer(b"%b%d\r\n%b" % (mark, len(found), b"".join(one[4:] for one in found)))
            return
        if not self._may_wait or self._is_late:
            self._answer(nothing)
            return
        self._starts.update(self._later)
        self._later.clear()
        self._watch()

    def _watch(self) -> None:
        for key, start in self._starts.items():
            self._watches.append(self._logs.watch(key, start, self._read.group, self._woken))
        self._watched(True)

    def _woken(self) -> None:
        if not self.is_passing:
            self._watched(False)
            self._unwatch()
            self._has_waited = True
            self._start_pass()

    def _fail_without_group(self, key: bytes) -> None:
        """The group of the read was deleted, or its whole log: reply with the error of Redis for that case."""

        def checked(replies: list[bytes]) -> None:
            self._answer(_NO_LOG if replies[0] == b":0\r\n" else _NO_GROUP)

        self._gather([(key, LogRequest("exists", [b"exists", key], self._proto))], checked)

    def _gather(
        self,
        requests: list[tuple[bytes, LogRequest]],
        done: Callable[[list[bytes]], None],
        *,
        takes_errors: bool = False,
    ) -> None:
        """Run all requests and call `done` with the replies; unless `takes_errors`, the first error is the reply."""
        self.is_passing = True
        outcomes = [self._logs.submit(key, request) for key, request in requests]
        left = 1 + sum(isinstance(outcome, Reply) and outcome.pieces is None for outcome in outcomes)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if left:
                return
            self.is_passing = False
            replies = [o if isinstance(o, bytes) else b"".join(o.pieces or ()) for o in outcomes]
            problem = next((reply for reply in replies if reply[:1] == b"-"), None)
            if problem is not None and self._has_waited and problem.startswith(b"-NOGROUP"):
                self._has_waited = False
                self._fail_without_group(requests[replies.index(problem)][0])
            elif problem is not None and not takes_errors:
                self._answer(problem)
            elif self.reply.is_wanted:
                done(replies)

        for outcome in outcomes:
            if isinstance(outcome, Reply) and outcome.pieces is None:
                outcome.owe(one_less, 0.0, is_muted=False)
                self._logs.call_later(REPLY_S, outcome.expire)
        one_less()

    # --- the end

    def judge(self) -> None:
        """Access rules have changed: reply with an error if the client may no longer read."""
        problem = self._is_allowed()
        if problem is not None:
            self._answer(b"-%b\r\n" % problem.encode())

    def _time_is_up(self) -> None:
        self._timer = None
        self._is_late = True
        if not self.is_passing:
            self._answer(assemble([], self._proto))

    def _answer(self, answer: bytes) -> None:
        self._end()
        if self.reply.is_wanted:
            self.reply.complete(answer)

    def _unwatch(self) -> None:
        watches, self._watches = self._watches, []
        for end in watches:
            end()

    def _end(self) -> None:
        self._unwatch()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._logs.waits_no_more(self)


def _problem_of(start: bytes) -> LogCommandError | None:
    """The error if `start` is no valid start of a read by a consumer, else None."""
    try:
        group_start(start)
    except LogCommandError as problem:
        return problem
    return None
