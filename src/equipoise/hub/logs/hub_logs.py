"""The open logs of this hub, and commands over several logs.

A log is opened when it is first asked for, and stays open while its home is here. A hub without a place for logs has
none, and says so. In a cluster every command goes through `elsewhere`, which knows the home of each log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from equipoise.hub.data.reply import REPLY_S, Reply
from equipoise.hub.logs.absent_logs import AbsentLogs, LookUp
from equipoise.hub.logs.live_log import ROLL_BYTES, LiveLog, LogStage, RollLog
from equipoise.hub.logs.log_counters import LogCounters
from equipoise.hub.logs.log_request import PUBLISHES, LogRequest
from equipoise.hub.logs.log_watch import has_news, watch_log
from equipoise.hub.logs.retries import LogRetries
from equipoise.hub.logs.shared_read import SharedRead
from equipoise.hub.logs.trimming import LogTrimming, RetentionOf
from equipoise.hub.logs.waiting_read import WaitingRead
from equipoise.log.errors import LogCommandError
from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell, Timer
    from equipoise.hub.data.topics import Topic
    from equipoise.hub.logs.durable_topic import DurableTopic
    from equipoise.hub.logs.durable_topics import DurableTopics
    from equipoise.hub.logs.limited_adds import LimitedAdds
    from equipoise.ledger.log import OpenLedger
    from equipoise.log.read import LogRead
    from equipoise.log.records import LogRecord

__all__ = ["HubLogs", "ListNames", "OtherLogs", "ReleaseLog", "combined", "for_each"]

_NOT_ALL = (
    f"UNCERTAIN not all of the topics' logs have confirmed within {REPLY_S:.0f} s; what the command changes may or may "
    "not be stored: look before you repeat it"
)

# A log, its last ledger if it has one, and what to call once another hub may claim the topic.
ReleaseLog: TypeAlias = "Callable[[LiveLog, OpenLedger | None, Callable[[], None]], None]"


# Folders of topics, and whom to tell their names; None: the store does not answer.
ListNames: TypeAlias = "Callable[[range, Callable[[list[bytes] | None], None]], None]"


class OtherLogs(Protocol):
    """Logs wherever they are: see hub/cluster/log_calls.py."""

    def submit(self, key: bytes, request: LogRequest) -> bytes | Reply: ...
    def watch(
        self, key: bytes, since: bytes, group: bytes | None, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `wake` once, later, when there may be something to read; what is returned ends that."""
        ...

    def at_hand(self, key: bytes) -> LiveLog | None:
        """The log, if it is open here and no earlier command waits for it."""
        ...

    def open_here(self, key: bytes) -> LiveLog | None:
        """The log, opened if need be, if its home is here."""
        ...

    def request_release(self, key: bytes, hub: str) -> bool:
        """Ask the owner of a log to release it; False: it cannot be asked."""
        ...

    def released(self, key: bytes, version: int, node: bytes) -> None:
        """This hub has released the log: its node as it is now, for the hub that has asked."""
        ...

    def sealed(self, key: bytes) -> None:
        """The log is not open here any more."""
        ...


def _not_released(live: LiveLog, ledger: OpenLedger | None, done: Callable[[], None]) -> None:
    done()


class HubLogs:
    """Owned by HubCore, where the hub has a place for logs."""

    def __init__(
        self,
        shell: Shell,
        open_log: Callable[[LiveLog], None],
        *,
        may_ack: Callable[[], bool],
        committed: Callable[[LiveLog, Sequence[LogRecord]], None],
        is_sole: Callable[[], bool] | None = None,
        roll_log: RollLog | None = None,
        roll_bytes: int = ROLL_BYTES,
        release_log: ReleaseLog = _not_released,
        missing: Callable[[], str] = lambda: "",
        retention_of: RetentionOf = lambda name: None,
        list_names: ListNames = lambda folders, tell: tell([]),
        note_released: Callable[[bytes, int, bytes], None] = lambda key, version, node: None,
        look_up: LookUp = lambda name, tell: tell(True),
    ) -> None:
        """`missing`: what logs need and there is none of, as an error; empty: nothing."""
        self._shell = shell
        self._open_log = open_log
        self._may_ack = may_ack
        self._is_sole = is_sole
        self._committed = committed
        self._roll_log = roll_log
        self.roll_bytes = roll_bytes
        self._release_log = release_log
        self.missing = missing
        self.list_names = list_names
        # The former owner of a log has released it: its node then; empty if it did not.
        self.note_released = note_released
        self.counters = LogCounters()
        self.absent = AbsentLogs(self, look_up)
        self.by_name: dict[bytes, LiveLog] = {}
        # The logs of other hubs; None: this hub runs alone.
        self.elsewhere: OtherLogs | None = None
        # The topics whose channel is on their log; None: none can be.
        self.durable: DurableTopics | None = None
        # Charges XADDs to topics that have a rate limit; None: XADDs are not limited.
        self.limited: LimitedAdds | None = None
        # Of the durable topics, those that lost their home, until they have got here what their logs have.
        self.unfilled: dict[Topic, DurableTopic] = {}
        self._fill_timers: dict[Topic, Timer] = {}
        # Reads that wait, in the order in which they came.
        self.waiting: dict[WaitingRead, None] = {}
        # Those that other sessions may join, by request (`SharedRead.key`).
        self.shared: dict[bytes, SharedRead] = {}
        self._retries = LogRetries(self)
        self._trimming = LogTrimming(self, retention_of)

    def of(self, name: bytes) -> LiveLog:
        """The topic's log, opened if need be."""
        found = self.by_name.get(name)
        if found is None:
            found = LiveLog(
                name,
                self._shell,
                self._open_log,
                may_ack=self._may_ack,
                is_sole=self._is_sole,
                committed=self._committed,
                roll_log=self._roll_log,
                roll_bytes=self.roll_bytes,
                counters=self.counters,
                changed=self._changed,
            )
            self.by_name[name] = found
            found.begin()
            self.absent.opened(name)
        return found

    def _changed(self, live: LiveLog) -> None:
        if live.log.groups:
            self._retries.follow(live)
        self._trimming.follow(live)
        if self.durable is not None:
            self.durable.changed(live)

    def await_fill(self, topic: Topic, log: DurableTopic, patience_s: float) -> None:
        """The topic's home is lost, or is here since: its log may have what has not come here."""
        if (former := self._fill_timers.pop(topic, None)) is not None:
            former.cancel()
        self.unfilled[topic] = log
        self._fill_timers[topic] = self._shell.call_later(patience_s, lambda: self.filled(topic))

    def filled(self, topic: Topic) -> None:
        """The topic has got here what its log has, which the home sends before anything else; or it takes too long."""
        if (found := self.unfilled.pop(topic, None)) is not None:
            self._fill_timers.pop(topic).cancel()
            found.wake()

    def for_adds(self, name: bytes) -> LiveLog | None:
        """The log, if XADDs may be executed on it here and now, and need no tokens."""
        is_limited = self.limited is not None and self.limited.covers(name)
        return None if is_limited else self.at_hand(name)

    def at_hand(self, name: bytes) -> LiveLog | None:
        """The log, if a command may be run on it here and now."""
        if self.elsewhere is not None:
            return self.elsewhere.at_hand(name)
        return None if self.absent.is_asked(name) else self.by_name.get(name)

    def open_here(self, name: bytes) -> LiveLog | None:
        """The log, opened if need be, if its home is here."""
        return self.of(name) if self.elsewhere is None else self.elsewhere.open_here(name)

    def submit(self, key: bytes, request: LogRequest) -> bytes | Reply:
        """Run a command on one log, wherever it is."""
        if self.elsewhere is not None:
            return self.elsewhere.submit(key, request)
        live = self.by_name.get(key)
        if self.absent.is_asked(key) or (live is None and not request.may_create):
            return self.absent.submit(key, request)
        return self.perform(live or self.of(key), request)

    def perform(self, live: LiveLog, request: LogRequest) -> bytes | Reply:
        """Run a command on a log that is open here, or about to be."""
        if request.name in PUBLISHES and self.durable is not None:
            return self.durable.perform(live, request)
        now_ms, limited = self.now_ms(), self.limited
        if request.name == "xadd" and limited is not None and limited.covers(live.name):
            # Charged when it is run: the log may be opening, and the entry is added once it is open.
            return live.submit(
                lambda log: limited.charge(live.name) or request.run(log, now_ms), request.size
            )
        return live.submit(lambda log: request.run(log, now_ms), request.size)

    def read(
        self, read: LogRead, proto: int, is_allowed: Callable[[], str | None], *, may_wait: bool
    ) -> Reply:
        """XREAD or XREADGROUP. `is_allowed`: asked again when access rules change; the refusal, if there is one."""
        waiting = WaitingRead(self, read, proto, is_allowed, may_wait=may_wait)
        waiting.begin()
        return waiting.reply

    def watch(
        self, key: bytes, since: bytes, group: bytes | None, wake: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `wake` once, later, when there may be something to read; what is returned ends that."""
        if self.elsewhere is not None:
            return self.elsewhere.watch(key, since, group, wake)
        live = self.by_name.get(key)
        return (
            self.absent.watch(key, wake) if live is None else watch_log(live, since, group, wake, self._shell)
        )

    def would_wait(self, read: LogRead) -> bool:
        """Whether an XREAD of one log that is open here finds nothing, all that the log has being committed."""
        if read.block_ms is None or len(read.keys) != 1 or read.starts[0] in (b"$", b"+"):
            return False
        live = self.at_hand(read.keys[0])
        if live is None or not live.is_open or not live.is_settled or live.is_sealing:
            return False
        try:
            return not has_news(live.log, read.starts[0], None, self.now_ms())
        except LogCommandError:
            return False

    def begins_to_wait(self, read: WaitingRead) -> None:
        self.waiting[read] = None

    def waits_no_more(self, read: WaitingRead) -> None:
        self.waiting.pop(read, None)

    def seal(self, live: LiveLog) -> None:
        """Give the log up, once all that was appended is committed: another hub is to have it. May be repeated."""
        if live.is_sealing:
            return
        name = live.name

        def released() -> None:
            if self.by_name.get(name) is live:
                del self.by_name[name]
                if self.elsewhere is not None:
                    self.elsewhere.sealed(name)

        live.seal(lambda ledger: self._release_log(live, ledger, released))

    def begin_anew(self) -> None:
        """This life of the hub is over, and with it its claims."""
        self.close()
        self.by_name.clear()
        for waiting in list(self.waiting):
            waiting.reply.forget()
        self.waiting.clear()
        self.shared.clear()

    def append_now(self) -> None:
        """What follows is to be one append: what came before is another."""
        for log in self.by_name.values():
            if log.log.has_changes:
                log.append_now()

    def facts(self) -> dict[str, float]:
        """Of all logs together, for metrics."""
        stages = [log.stage for log in self.by_name.values()]
        entries = [log.log.entries for log in self.by_name.values()]
        return {
            "logs_open": stages.count(LogStage.OPEN),
            "logs_opening": stages.count(LogStage.OPENING),
            "log_entries": sum(each.count for each in entries),
            "log_bytes": sum(each.bytes for each in entries),
            "log_reads_waiting": len(self.waiting) + self._joined,
            "log_commits": self.counters.commits,
            "log_commit_s": self.counters.commit_s,
            "log_failures": self.counters.failures,
        }

    @property
    def is_opening(self) -> bool:
        """Whether any log is being opened, without a failed attempt so far."""
        return any(log.stage is LogStage.OPENING and not log.problem for log in self.by_name.values())

    @property
    def blocked_clients(self) -> int:
        """How many wait for entries."""
        return sum(read.is_blocked for read in self.waiting) + self._joined

    @property
    def _joined(self) -> int:
        """Sessions that wait with the first one of a shared read."""
        return sum(read.sessions - 1 for read in self.shared.values())

    def now(self) -> float:
        return self._shell.now()

    def now_ms(self) -> int:
        return int(self._shell.wall_time() * 1_000)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        return self._shell.call_later(delay_s, callback)

    def reauthorize(self) -> None:
        """Access rules have changed: end the reads that are no longer allowed."""
        for waiting in list(self.waiting):
            waiting.judge()

    def close(self) -> None:
        for log in self.by_name.values():
            log.close()


def combined(
    parts: Sequence[bytes | Reply], now: float, join: Callable[[list[bytes]], bytes]
) -> bytes | Reply:
    """One reply out of several, once all of them are complete. When its time is up, what has not been run never is."""
    owed = [part for part in parts if isinstance(part, Reply) and part.pieces is None]
    left = len(owed)

    def answers() -> list[bytes]:
        return [part if isinstance(part, bytes) else b"".join(part.pieces or ()) for part in parts]

    def expired() -> bytes:
        nonlocal left
        left = 0
        for part in owed:
            part.expire()
        found = answers()
        # Each of them says of itself whether it was run.
        return join(found) if all(answer[:1] == b"-" for answer in found) else error(_NOT_ALL)

    def abandoned() -> None:
        for part in owed:
            part.forget()

    if not owed:
        return join(answers())
    whole = Reply(expired=expired, abandoned=abandoned)

    def completed() -> None:
        nonlocal left
        left -= 1
        if left == 0 and whole.is_wanted:
            whole.complete(join(answers()))

    for part in owed:
        part.owe(completed, now, is_muted=False)
    return whole


def for_each(outcome: bytes | Reply, count: int) -> bytes | Reply:
    """The outcome of several messages, with an error as often as there are messages."""
    if isinstance(outcome, bytes):
        return outcome * count if outcome[:1] == b"-" else outcome

    def answers() -> bytes:
        answer = b"".join(outcome.pieces or ())
        return answer * count if answer[:1] == b"-" else answer

    def expired() -> bytes:
        # What has not been run never is.
        outcome.expire()
        return answers()

    whole = Reply(expired=expired, abandoned=outcome.forget)

    def complete() -> None:
        if whole.is_wanted:
            whole.complete(answers())

    outcome.owe(complete, 0.0, is_muted=False)
    if outcome.pieces is not None:
        complete()
    return whole
