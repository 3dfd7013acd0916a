"""One topic's log at its owner: commands in, runs of records out, replies after the commit.

Commands run on a state that is ahead of what is committed. Every reply, of a read as of a write, is held until all that
its command could see is committed. What the commands of one turn changed is one append, so that pipelined XADDs are
one sync. Reads that wait are served at the end of a turn, before the append, in the order in which they came.

Another hub may have gone on with the log, and have fenced the ledger, unless the store says otherwise (`is_sole`). Then
a reply waits for an append that is made after its command came, if need be of an empty run.

Always true:
    a reply that was given rests on committed records alone;
    while a ledger is rolled nothing is appended: its snapshot shows exactly what the ledgers before it hold;
    after a failed append nothing more is answered from that state: it is thrown away, and folded anew from the ledgers;
    once it is sealed nothing is in flight: its ledger may be closed, and the topic be given to another hub.

Finding the ledgers, claiming the topic and fencing the former owner is up to `open_log`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from equipoise.errors import LedgerError, LimitError
from equipoise.hub.data.reply import Reply
from equipoise.hub.logs.log_counters import LogCounters
from equipoise.hub.logs.log_owner import LogOwner
from equipoise.hub.logs.log_refusals import late, not_open, uncertain
from equipoise.log.errors import LogCommandError
from equipoise.log.records import LogRecord, encode_run
from equipoise.log.topic_log import TopicLog
from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Shell
    from equipoise.hub.logs.opened_log import OpenedLog
    from equipoise.ledger.log import OpenLedger
    from equipoise.log.records import LogSnapshot

__all__ = [
    "ROLL_BYTES",
    "RUN_BYTES",
    "LiveLog",
    "LogStage",
    "RollLog",
    "Work",
]

# What is gathered for one append: a fifth of what fits into a ledger entry, so that one command more always does.
RUN_BYTES = 1024 * 1024
# A ledger of this size is followed by the next: the unit in which trimmed entries free the disk.
ROLL_BYTES = 64 * 1024 * 1024
# How soon opening is tried again, in seconds.
_RETRY_S = 0.1
_RETRY_S_MAX = 1.0
# How often a lapsed lease is looked at while acknowledgements wait for it, in seconds.
_LEASE_S = 0.05

# A command on the log: the reply that is due once its changes are committed. Raises LogCommandError.
Work = Callable[[TopicLog], bytes]
# The log, the ledger to follow, and what the next one begins with.
RollLog: TypeAlias = "Callable[[LiveLog, OpenLedger, LogSnapshot], None]"


class LogStage(Enum):
    # Claimed, fenced, recovered; commands wait.
    OPENING = "opening"
    OPEN = "open"
    # Nothing is taken any more.
    CLOSED = "closed"


class LiveLog:
    """Owned by HubLogs."""

    def __init__(
        self,
        name: bytes,
        shell: Shell,
        open_log: Callable[[LiveLog], None],
        *,
        may_ack: Callable[[], bool],
        committed: Callable[[LiveLog, Sequence[LogRecord]], None],
        is_sole: Callable[[], bool] | None = None,
        roll_log: RollLog | None = None,
        roll_bytes: int = ROLL_BYTES,
        counters: LogCounters | None = None,
        changed: Callable[[LiveLog], None] = lambda live: None,
    ) -> None:
        """`open_log` finds the log and calls `opened` or `not_opened` later, never from within.

        `is_sole`: whether no other hub can have claimed the log; None: as `may_ack`.
        `roll_log` goes on in a new ledger and calls `rolled` or `not_rolled` later; None: ledgers are not rolled.
        `changed` is called when the log was opened, and each time it was appended to.
        """
        self.name = name
        self.stage = LogStage.OPENING
        self.epoch = 0
        # The highest epoch in which this hub has claimed the topic, or has tried to: released with the log.
        self.claimed = 0
        self.problem = ""  # Why it could not be opened the last time.
        self.owner = LogOwner()
        self.log = TopicLog()
        self._ledger: OpenLedger | None = None
        self._shell = shell
        self._open_log = open_log
        self._may_ack = may_ack
        self._is_sole = is_sole or may_ack
        self._on_committed = committed
        self._roll_log = roll_log
        self._roll_bytes = roll_bytes
        # Bytes appended to the ledger, and whether it is being rolled.
        self._ledger_bytes = 0
        self._is_rolling = False
        self._when_settled: Callable[[bool], None] | None = None
        # Calls that wait for the log to be opened.
        self._waiting: deque[Callable[[], None]] = deque()
        # Runs appended, and those committed, since it was opened.
        self._appended = 0
        self._committed = 0
        # What waits for a run to be committed: its number, and whom to tell. True: it is.
        self._held: deque[tuple[int, Callable[[bool], None]]] = deque()
        # Runs in flight: when each was appended, and the number of the last entry with it; and what is committed.
        self._unconfirmed: deque[tuple[Sequence[LogRecord], float, int]] = deque()
        self.committed_number = 0
        # The last entry that was sent to subscribers of a durable topic, here or by former owners; -1: unknown.
        self.sent_number = -1
        self._counters = counters or LogCounters()
        self._on_changed = changed
        self._unappended_bytes = 0
        # Whether a run is appended even if it is empty.
        self._must_append = False
        self._is_scheduled = False
        self._tries = 0
        # While it is sealed: called with the ledger to close, if there is one.
        self._sealed: Callable[[OpenLedger | None], None] | None = None
        # Reads that wait for entries, in the order in which they came: each is tried when the log has grown.
        self.readers: dict[object, Callable[[], object]] = {}

    # --- opening

    def begin(self) -> None:
        self._open_log(self)

    def opened(self, found: OpenedLog) -> None:
        if self.stage is not LogStage.OPENING:
            return
        self.log, self._ledger, self.epoch = found.log, found.ledger, found.epoch
        self.committed_number, self.sent_number = self.log.entries.number, found.sent
        self._appended = self._committed = self._tries = self._ledger_bytes = 0
        self._is_rolling = False
        self.problem = ""
        self.stage = LogStage.OPEN
        self.owner.opened()
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            call()
        self._schedule()
        self._on_changed(self)

    def not_opened(self, problem: str) -> None:
        """Try again in a moment; what waits goes on waiting, as long as its time lasts."""
        self.problem = problem
        if self.stage is LogStage.OPENING:
            delay_s = min(_RETRY_S * 2**self._tries, _RETRY_S_MAX)
            self._tries += 1
            self._shell.call_later(delay_s, self._try_again)

    def _try_again(self) -> None:
        if self.stage is LogStage.OPENING:
            self._open_log(self)

    # --- commands

    def submit(self, work: Work, size: int = 0, count: int = 1) -> bytes | Reply:
        """Run so many commands of so many bytes as one, now or when the log is open; all replies in one once what they
        rest on is committed."""
        if self.is_open:
            self.make_room(size)
            answer = self._run(work)
            if self.is_settled:
                return answer
            reply = Reply(expired=lambda: late(self.name) * count)
            self.when_committed(partial(self._settle, reply, answer, count))
            return reply
        waiting = Reply(expired=lambda: not_open(self.name, self.problem) * count)
        self._waiting.append(lambda: self._run_late(work, waiting, count))
        return waiting

    @property
    def is_open(self) -> bool:
        return self.stage is LogStage.OPEN

    def make_room(self, size: int) -> None:
        """Before commands of so many bytes are run: what was run before is another append if it would be too long."""
        self._unappended_bytes += size
        if self._unappended_bytes > RUN_BYTES:
            self.append_now()
            self._unappended_bytes = size

    def _run_late(self, work: Work, reply: Reply, count: int) -> None:
        if reply.is_wanted:
            self.when_committed(partial(self._settle, reply, self._run(work), count))

    def _run(self, work: Work) -> bytes:
        try:
            answer = work(self.log)
        except LogCommandError as problem:
            answer = error(problem.text)
        if self.log.has_changes:
            self._schedule()
        return answer

    @property
    def is_settled(self) -> bool:
        """Whether what the state shows is committed, and no other hub can have added to it."""
        return not self.is_ahead and self._is_sole()

    @property
    def is_ahead(self) -> bool:
        """Whether the state shows what is not committed yet."""
        return self._committed < self._appended or bool(self.log.changes) or self._must_append

    def when_committed(self, tell: Callable[[bool], None]) -> None:
        """Tell when all that the state shows now is committed, or that it is uncertain."""
        if not self._is_sole() and not (self.log.changes or self._must_append):
            # What is in flight may have been confirmed before another hub went on.
            self._must_append = True
            self._schedule()
        if self.is_ahead:
            self._hold(tell)
        else:
            tell(True)

    def _hold(self, tell: Callable[[bool], None]) -> None:
        """Call it once the last run is committed, or the next one if there are changes for it."""
        is_next = bool(self.log.changes) or self._must_append
        self._held.append((self._appended + is_next, tell))

    def when_settled(self, tell: Callable[[bool], None]) -> None:
        """Tell once, while the ledger is rolled, when all that was appended to it is committed."""
        if self._committed < self._appended:
            self._when_settled = tell
        else:
            tell(self.stage is LogStage.OPEN)

    def changed(self) -> None:
        """A caller has changed `log`: append it at the end of this turn."""
        if self.log.has_changes:
            self._schedule()

    # --- appending

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._shell.call_later(0, self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        self.append_now()

    def append_now(self) -> None:
        """Append what has been changed so far, before the turn is over."""
        if self.stage is not LogStage.OPEN or self._ledger is None or self._is_rolling:
            return
        if self.readers:
            for serve in list(self.readers.values()):
                serve()
        self._unappended_bytes = 0
        if not (self.log.changes or self._must_append) or self._ledger is None:
            return
        records, self._must_append = self.log.take_changes(), False
        self._appended += 1
        self._unconfirmed.append((records, self._shell.fine_now(), self.log.entries.number))
        run = encode_run(records)
        self._ledger_bytes += len(run)
        try:
            self._ledger.append(run, partial(self._completed, self._ledger))
        except (LedgerError, LimitError) as problem:
            self._fail(str(problem))
            return
        self._on_changed(self)
        if self._ledger_bytes > self._roll_bytes and self._roll_log is not None:
            self._is_rolling = True
            self._roll_log(self, self._ledger, self.log.snapshot())

    def when_appended(self, tell: Callable[[bool], None]) -> None:
        """As `when_committed`, for a caller whose changes `append_now` has just appended, or failed to append."""
        if self.stage is LogStage.OPEN:
            self._hold(tell)
        else:
            tell(False)

    def rolled(self, ledger: OpenLedger) -> None:
        """The log goes on in this ledger, which begins with the snapshot."""
        if self.stage is LogStage.OPEN and self._is_rolling:
            self._ledger, self._ledger_bytes = ledger, 0
            self._is_rolling = False
            self._schedule()
            self._finish_sealing()

    def not_rolled(self, problem: str) -> None:
        """The former ledger may be closed, or another hub may own the topic: look again."""
        if self.stage is LogStage.OPEN and self._is_rolling:
            self._fail(problem)

    def _completed(self, ledger: OpenLedger, outcome: int | LedgerError) -> None:
        # Of a ledger that failed, and is followed by another, nothing counts any more.
        if self._ledger is not ledger:
            return
        if isinstance(outcome, LedgerError):
            self._fail(str(outcome))
            return
        self._release(ledger)

    def _release(self, ledger: OpenLedger) -> None:
        """Acknowledge the oldest run in flight, unless the lease has run out: then once it is held again."""
        if self._ledger is not ledger:
            return
        if not self._may_ack():
            self._shell.call_later(_LEASE_S, self._release, ledger)
            return
        self._committed += 1
        records, appended_at, self.committed_number = self._unconfirmed.popleft()
        self._counters.commits += 1
        self._counters.commit_s += self._shell.fine_now() - appended_at
        self._on_committed(self, records)
        while self._held and self._held[0][0] <= self._committed:
            self._held.popleft()[1](True)
        if self._when_settled is not None and self._committed == self._appended:
            settled, self._when_settled = self._when_settled, None
            settled(True)
        if self._sealed is not None:
            self._finish_sealing()

    def _fail(self, problem: str) -> None:
        """What is in flight is uncertain; begin again from what the ledgers have."""
        self._counters.failures += 1
        self.problem = problem
        self.stage = LogStage.OPENING
        self._forget_state()
        self._shell.call_later(0, self._try_again)
        self._finish_sealing()

    def seal(self, sealed: Callable[[OpenLedger | None], None]) -> None:
        """Close it once all that was appended is committed, then call `sealed`. The caller gives it no more commands.

        Reads that wait are tried once more, and forgotten: they have to look where the log is next.
        """
        self._sealed = sealed
        for wake in list(self.readers.values()):
            wake()
        self._finish_sealing()

    @property
    def is_sealing(self) -> bool:
        return self._sealed is not None or self.stage is LogStage.CLOSED

    def _finish_sealing(self) -> None:
        if self._sealed is None:
            return
        if self.stage is LogStage.OPEN and (self._is_rolling or self._must_wait() or self._sealed is None):
            # None: appending what was left has failed, which has finished it.
            return
        sealed, self._sealed, ledger = self._sealed, None, self._ledger
        self.close()
        sealed(ledger)

    def _must_wait(self) -> bool:
        if self.log.changes or self._must_append:
            self.append_now()
        return self.is_ahead

    def close(self) -> None:
        """Take nothing more. What is in flight is uncertain."""
        self.stage = LogStage.CLOSED
        self._waiting.clear()
        self.readers.clear()
        self._forget_state()

    def _forget_state(self) -> None:
        self._ledger = None
        self.log = TopicLog()
        self._appended = self._committed = 0
        self._must_append = False
        self._unconfirmed.clear()
        settled, self._when_settled = self._when_settled, None
        if settled is not None:
            settled(False)
        held, self._held = self._held, deque()
        for _, tell in held:
            tell(False)

    def _settle(self, reply: Reply, answer: bytes, count: int, is_committed: bool) -> None:
        if reply.is_wanted:
            reply.complete(answer if is_committed else uncertain(self.name) * count)
