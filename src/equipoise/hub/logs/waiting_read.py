"""One XREAD, XREADGROUP or EQ.READGROUP over logs at several hubs, which may move while it waits.

It asks each log once, without waiting (a pass). If none has anything it has itself woken when one of them may have, and
asks again. A log that moves, or whose owner is lost, wakes it too. `$` and `+` are resolved before the first pass: what
is added after that is found, wherever the log is by then.

Always true: at most one pass is under way, so an entry that a group was given is in the answer.
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

# In Redis's words.
_NO_LOG = error("UNBLOCKED the stream key no longer exists")
_NO_GROUP = error("NOGROUP the consumer group this client was blocked on no longer exists")


class _Logs(Protocol):
    """What it needs of HubLogs, which finds each log wherever it is."""

    def submit(self, key: bytes, request: LogRequest) -> bytes | Reply: ...
    def at_hand(self, key: bytes) -> LiveLog | None: ...
    def watch(
        self, key: bytes, since: bytes, group: bytes | None, wake: Callable[[], None]
    ) -> Callable[[], None]: ...
    def begins_to_wait(self, read: WaitingRead) -> None: ...
    def waits_no_more(self, read: WaitingRead) -> None: ...
    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer: ...


class WaitingRead:
    """From when the command came to when it is answered. Owned by HubLogs."""

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
        """`watched`: called when it begins to wait for a wake-up, and when it is woken."""
        self._logs = logs
        self._read = read
        self._proto = proto
        self._is_allowed = is_allowed
        self._may_wait = may_wait and read.block_ms is not None
        self._watched = watched
        # Part of a transaction: it is run before what follows.
        self._is_joined = not may_wait
        # From where on each log is read, as it is asked for next.
        self._starts = dict(zip(read.keys, read.starts, strict=True))
        # Those to begin with from the second pass on.
        self._later: dict[bytes, bytes] = {}
        self._watches: list[Callable[[], None]] = []
        self._timer: Timer | None = None
        # Whether a pass is under way.
        self.is_asking = False
        # Woken at least once.
        self._has_waited = False
        # The time to wait is over: what the pass under way brings is the answer.
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
        # Who does not wait gets nothing behind `$`, and what `+` means when the log is asked.
        if not unresolved or not self._may_wait:
            self._ask()
            return

        def resolved(replies: list[bytes]) -> None:
            for key, reply in zip(unresolved, replies, strict=True):
                last = reply.split(b"\r\n")[1]
                if self._starts[key] == b"$":
                    self._starts[key] = last
                else:
                    self._later[key] = last
            self._ask()

        self._gather([(key, LogRequest(LAST_ID, [], self._proto)) for key in unresolved], resolved)

    def begin_watching(self) -> None:
        """Begin without a pass: the caller knows that it would find nothing. The caller ends the wait, too."""
        self._logs.begins_to_wait(self)
        self._watch()

    def _check(self, group: bytes) -> None:
        """Refuse a read of several logs before one of them has delivered anything to the consumer."""
        at_hand = [self._logs.at_hand(key) for key in self._starts]
        logs = [live.log for live in at_hand if live is not None and live.is_open]
        if len(logs) < len(at_hand):
            if self._is_joined or len(at_hand) == 1:
                self._ask()
            else:
                self._check_elsewhere(group)
            return
        for (key, start), log in zip(self._starts.items(), logs, strict=True):
            if group not in log.groups or _problem_of(start) is not None:
                # Its error is the answer.
                self._gather([(key, self._request(key))], self._asked)
                return
        self._ask()

    def _check_elsewhere(self, group: bytes) -> None:
        def checked(replies: list[bytes]) -> None:
            for (key, start), reply in zip(self._starts.items(), replies, strict=True):
                is_missing = reply.startswith(b"-NOGROUP")
                problem = no_group(key, group, WITHIN) if is_missing else _problem_of(start)
                if problem is not None or reply[:1] == b"-":
                    self._answer(reply if problem is None else error(problem.text))
                    return
            self._ask()

        # Changes nothing, and every release of hubs knows it.
        requests = [
            (key, LogRequest("xpending", [b"xpending", key, group], self._proto)) for key in self._starts
        ]
        self._gather(requests, checked, takes_errors=True)

    @property
    def is_blocked(self) -> bool:
        """Whether it waits for entries."""
        return bool(self._watches)

    # Passes.

    def _ask(self) -> None:
        if self.reply.is_wanted:
            self._gather([(key, self._request(key)) for key in self._starts], self._asked)

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

    def _asked(self, replies: list[bytes]) -> None:
        nothing = assemble([], self._proto)
        found = [reply for reply in replies if reply != nothing]
        if found:
            # Each is a list, or a map, of one log.
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
        if not self.is_asking:
            self._watched(False)
            self._unwatch()
            self._has_waited = True
            self._ask()

    def _ended(self, key: bytes) -> None:
        """The group is gone that the client waited with, and perhaps the log: say which."""

        def looked(replies: list[bytes]) -> None:
            self._answer(_NO_LOG if replies[0] == b":0\r\n" else _NO_GROUP)

        self._gather([(key, LogRequest("exists", [b"exists", key], self._proto))], looked)

    def _gather(
        self,
        requests: list[tuple[bytes, LogRequest]],
        done: Callable[[list[bytes]], None],
        *,
        takes_errors: bool = False,
    ) -> None:
        """Run all of them; `done` with the replies, unless one is an error that is not taken: then it is the answer."""
        self.is_asking = True
        outcomes = [self._logs.submit(key, request) for key, request in requests]
        left = 1 + sum(isinstance(outcome, Reply) and outcome.pieces is None for outcome in outcomes)

        def one_less() -> None:
            nonlocal left
            left -= 1
            if left:
                return
            self.is_asking = False
            replies = [o if isinstance(o, bytes) else b"".join(o.pieces or ()) for o in outcomes]
            problem = next((reply for reply in replies if reply[:1] == b"-"), None)
            if problem is not None and self._has_waited and problem.startswith(b"-NOGROUP"):
                self._has_waited = False
                self._ended(requests[replies.index(problem)][0])
            elif problem is not None and not takes_errors:
                self._answer(problem)
            elif self.reply.is_wanted:
                done(replies)

        for outcome in outcomes:
            if isinstance(outcome, Reply) and outcome.pieces is None:
                outcome.owe(one_less, 0.0, is_muted=False)
                self._logs.call_later(REPLY_S, outcome.expire)
        one_less()

    # The end.

    def judge(self) -> None:
        """Access rules have changed."""
        problem = self._is_allowed()
        if problem is not None:
            self._answer(b"-%b\r\n" % problem.encode())

    def _time_is_up(self) -> None:
        self._timer = None
        self._is_late = True
        if not self.is_asking:
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
    """What is wrong with where a consumer is to read from."""
    try:
        group_start(start)
    except LogCommandError as problem:
        return problem
    return None
