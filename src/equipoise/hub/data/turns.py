"""Split long work into slices between turns of the event loop.

The work is an iterator whose steps take at most one to two milliseconds. `LongWork` runs it in consecutive turns of the
loop; between two turns the loop serves everything else. `Turns` records the duration of the turns, which shows first
what stalls a hub.

Commands of a client that take longer than a turn continue in a later one (`TurnQueue`). All waiting clients share one
turn per pass of the loop, round-robin by user, or by address for clients without a user. While several clients of a
user or address wait, further input of that user or address queues behind them. So a thousand connections that flood a
hub with commands delay its loop no more than two. Turns of an owner over its share (`shares.py`) are short.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from equipoise.hub.data.ports import Shell, Timer
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.shares import PIECE_BYTES, PIECE_S, Shares, next_piece_bytes

__all__ = ["TURN_S", "LongWork", "TurnQueue", "Turns", "UngatheredTurns", "by_turns"]

# How long one client's commands may occupy the loop in one turn, in seconds. A multiple of the clock's 1 ms.
TURN_S = 0.001
# The same for an owner over its share. The loop's own work for a pass takes a tenth of it.
SHORT_TURN_S = 2 * PIECE_S
_END = object()


class UngatheredTurns:
    """For connections that send output at once, or gather it by themselves."""

    def turn(self, work: Callable[[], object], /) -> object:
        return work()

    def gathered(self, write: Callable[[bytes], object], /) -> Callable[[bytes], object]:
        return write

    def sent(self) -> tuple[float, int] | None:
        return None

    def renew_shares(self) -> None:
        return None


class Owned(Protocol):
    """A session, as far as it has an owner."""

    @property
    def owner(self) -> str: ...


class Turns:
    """Owned by HubCore."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.shares = Shares(shell)
        self.queue = TurnQueue(shell, self.shares)
        # Turns of long work so far, and the duration of the longest in seconds.
        self.count = 0
        self.turn_s_max = 0.0

    def note(self, turn_s: float) -> None:
        self.count += 1
        self.turn_s_max = max(self.turn_s_max, turn_s)

    def used(self, session: Owned, used_s: float) -> int:
        """The session has used this much time; return the number of its owner if that is over its share, else 0."""
        return self.shares.note(session.owner, used_s)

    def is_crowded(self, owner: str) -> bool:
        """Whether further clients of the owner queue behind those that wait. Not if it is over its share: then all of
        its input comes in short pieces."""
        return len(self.queue.waiting.get(owner, ())) > 1 and owner not in self.shares.limited

    def limit_of(self, session: Owned) -> int:
        """The number of the session's owner if that is over its share, else 0."""
        return self.shares.limited.get(session.owner, 0)


class TurnQueue:
    """Clients whose commands wait for their turn. Owned by `Turns`."""

    def __init__(self, shell: Shell, shares: Shares) -> None:
        self._shell = shell
        self._shares = shares
        # The end of the current turn by the shell's clock of work; 0: the turn is not short.
        self._until = 0.0
        # The size of a piece of input in a short turn, and the time at which the latest one was begun.
        self._piece_bytes = PIECE_BYTES
        self._piece_at = 0.0
        # By user or address, the continuations of its waiting clients; the next user or address comes first.
        self.waiting: dict[str, deque[Callable[[], None]]] = {}
        # Runs exactly while a client waits.
        self._timer: Timer | None = None

    def enter(self, owner: str, go_on: Callable[[], None]) -> None:
        """Queue a client: `go_on` is called in its turn, also if the client has disconnected by then."""
        self.waiting.setdefault(owner, deque()).append(go_on)
        if self._timer is None:
            self._timer = self._shell.call_later(0, self._pass)

    def is_over(self, began_at: float) -> bool:
        """Whether the turn that began at this time is over."""
        if self._until:
            return self._shell.work_s() > self._until
        return self._shell.now() - began_at > TURN_S

    def take_piece(self, held: list[bytes]) -> bytes:
        """Remove and return the input to execute next: in a short turn, no more than takes little time."""
        data = held.pop(0)
        if not self._until:
            return data
        self._piece_at, size = self._shell.work_s(), self._piece_bytes
        if len(data) > size:
            held.insert(0, data[size:])
        return data[:size]

    def end_piece(self, began_at: float) -> bool:
        """The piece of input has been executed; return whether the turn that began at this time is over."""
        if self._until:
            took_s = self._shell.work_s() - self._piece_at
            self._piece_bytes = next_piece_bytes(self._piece_bytes, took_s)
        return self.is_over(began_at)

    def _pass(self) -> None:
        """Continue clients until one turn is used up: at least one client, and each at most once."""
        now, clock, shares = self._shell.now, self._shell.work_s, self._shares
        until, began_at = now() + TURN_S, clock()
        short_until = began_at + SHORT_TURN_S
        for _ in range(sum(map(len, self.waiting.values()))):
            owner, queue = next(iter(self.waiting.items()))
            go_on = queue.popleft()
            del self.waiting[owner]
            if queue:
                self.waiting[owner] = queue
            self._until = short_until if owner in shares.limited else 0.0
            go_on()
            ended_at = clock()
            shares.note(owner, ended_at - began_at)
            began_at = ended_at
            if (self._until and ended_at > short_until) or now() > until:
                break
        self._until = 0.0
        self._timer = self._shell.call_later(0, self._pass) if self.waiting else None


class LongWork:
    """One piece of work at a time, owned by its caller. Runs from `run` to its end, or until `cancel`.

    `run` during a run replaces the work: the former work is abandoned, and its `done` is not called.
    """

    __slots__ = ("_done", "_steps", "_timer", "_turn_s", "_turns")

    def __init__(self, turns: Turns, *, turn_s: float = 0.0) -> None:
        """A turn lasts `turn_s`, and at least one step."""
        self._turns = turns
        self._turn_s = turn_s
        self._steps: Iterator[object] | None = None
        self._done: Callable[[], object] = _nothing
        self._timer: Timer | None = None

    @property
    def is_running(self) -> bool:
        return self._steps is not None

    def run(
        self, steps: Iterator[object], done: Callable[[], object] | None = None, *, until: float | None = None
    ) -> None:
        """Run the steps, the first at once, then call `done`. `until`: the end of the first turn."""
        is_running = self.is_running
        self._steps, self._done = steps, done or _nothing
        if not is_running:
            self._turn(until)

    def cancel(self) -> None:
        self._steps = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self, until: float | None = None) -> None:
        self._timer = None
        steps, shell = self._steps, self._turns.shell
        assert steps is not None, "it has a turn only while there is work"
        began_at = shell.fine_now()
        end_at = shell.now() + self._turn_s if until is None else until
        is_over = shell.turns.turn(partial(self._go_on, steps, end_at))
        self._turns.note(shell.fine_now() - began_at)
        if self._steps is None:
            return
        if is_over and steps is self._steps:
            self._steps = None
            self._done()
        else:
            self._timer = shell.call_later(0, self._turn)

    def _go_on(self, steps: Iterator[object], until: float) -> bool:
        """Run steps of one turn; return whether the iterator has ended. Steps may cancel or replace the work."""
        now = self._turns.shell.now
        while next(steps, _END) is not _END:
            if not self._turn_s or now() > until or steps is not self._steps:
                return False
        return True


class HasTurns(Protocol):
    """The interface of the hub's core to `by_turns`."""

    turns: Turns


class Turn(Protocol):
    """The session whose work it is, with the time at which its turn began."""

    last_at: float


def by_turns(
    core: HasTurns, session: Turn, steps: Iterator[object], outcome: Callable[[], bytes | Reply]
) -> bytes | Reply:
    """Run the steps in turns and reply with `outcome()`: at once if the session's current turn suffices.

    An outcome that has to be awaited itself has its own timeout, which begins after the last step.
    """
    outcomes: list[bytes | Reply] = []
    # The work is finite, so the reply needs no timeout.
    reply = Reply(wait_s=None)
    is_late = False

    def done() -> None:
        if is_late:
            _complete_with(core, reply, outcome())
        else:
            outcomes.append(outcome())

    def wanted() -> Iterator[object]:
        for step in steps:
            yield step
            if is_late and not reply.is_wanted:
                work.cancel()
                return

    work = LongWork(core.turns, turn_s=TURN_S)
    work.run(wanted(), done, until=session.last_at + TURN_S)
    is_late = True
    return outcomes[0] if outcomes else reply


def _complete_with(core: HasTurns, reply: Reply, outcome: bytes | Reply) -> None:
    if not isinstance(outcome, Reply):
        reply.complete(outcome)
        return
    timeout = None if outcome.wait_s is None else core.turns.shell.call_later(outcome.wait_s, outcome.expire)

    def ready() -> None:
        if timeout is not None:
            timeout.cancel()
        reply.complete(*(outcome.pieces or ()))

    def abandoned() -> None:
        if timeout is not None:
            timeout.cancel()
        outcome.forget()

    reply.when_abandoned(abandoned)
    outcome.owe(ready, core.turns.shell.now(), is_muted=False)
    if outcome.pieces is not None:
        ready()


def _nothing() -> None:
    """The default of `LongWork.run`'s `done`."""
