"""Split long work into slices between turns of the event loop.

The work is an iterator whose steps take a millisecond or two at most. `LongWork` gives it turns of the loop, one after
another, until it has come to its end; between two turns everything else goes on. `Turns` counts how long the turns
take, for what stalls a hub shows there first.

Commands of a client that take longer than a turn go on in a later one (`TurnQueue`). The clients that wait so have one
turn in each pass of the loop between them, however many they are: users, or addresses where there are none, go round.
While several of its clients wait, whatever comes from a user or address waits behind them. A thousand connections that
flood a hub with commands keep its loop no longer than two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from equipoise.hub.data.ports import Shell, Timer
from equipoise.hub.data.reply import Reply

__all__ = ["TURN_S", "LongWork", "TurnQueue", "Turns", "by_turns"]

# How long one client's commands may keep the loop, in seconds; then others have a turn. Whole milliseconds count.
TURN_S = 0.002
_END = object()


class Turns:
    """Owned by HubCore."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.queue = TurnQueue(shell)
        # Turns of long work so far, and how long the longest of them has kept the loop.
        self.count = 0
        self.turn_s_max = 0.0

    def note(self, turn_s: float) -> None:
        self.count += 1
        self.turn_s_max = max(self.turn_s_max, turn_s)


class TurnQueue:
    """Clients whose commands wait for their turn. Owned by `Turns`."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        # By user or address, what goes on with each client that waits; the one whose turn is next comes first.
        self.waiting: dict[str, deque[Callable[[], None]]] = {}
        # Runs exactly while a client waits.
        self._timer: Timer | None = None

    def enter(self, owner: str, go_on: Callable[[], None]) -> None:
        """`go_on` is called when it is the client's turn, also if the client has left meanwhile."""
        self.waiting.setdefault(owner, deque()).append(go_on)
        if self._timer is None:
            self._timer = self._shell.call_later(0, self._pass)

    def _pass(self) -> None:
        """Let clients go on until a turn has been used up; one at least, and each of them once at most."""
        now, until = self._shell.now, self._shell.now() + TURN_S
        for _ in range(sum(map(len, self.waiting.values()))):
            owner, queue = next(iter(self.waiting.items()))
            go_on = queue.popleft()
            del self.waiting[owner]
            if queue:
                self.waiting[owner] = queue
            go_on()
            if now() > until:
                break
        self._timer = self._shell.call_later(0, self._pass) if self.waiting else None


class LongWork:
    """One piece of work at a time, owned by what has it done. Goes on from `run` to its end, or to `cancel`.

    What is run while it runs takes its place: the former work is given up where it is, and its `done` is not called.
    """

    __slots__ = ("_done", "_steps", "_timer", "_turn_s", "_turns")

    def __init__(self, turns: Turns, *, turn_s: float = 0.0) -> None:
        """A turn lasts for `turn_s`, and for one step at least."""
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
        """Do the steps, the first ones at once, then call `done`. `until`: when the first turn is over."""
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
        is_over = self._go_on(steps, shell.now() + self._turn_s if until is None else until)
        self._turns.note(shell.fine_now() - began_at)
        if self._steps is None:
            return
        if is_over and steps is self._steps:
            self._steps = None
            self._done()
        else:
            self._timer = shell.call_later(0, self._turn)

    def _go_on(self, steps: Iterator[object], until: float) -> bool:
        """Whether the steps have come to their end. They may cancel the work, or put other work in its place."""
        now = self._turns.shell.now
        while next(steps, _END) is not _END:
            if not self._turn_s or now() > until or steps is not self._steps:
                return False
        return True


class HasTurns(Protocol):
    """What runs the work of a client: the hub's core."""

    turns: Turns


class Turn(Protocol):
    """Whose work it is: a session, with the time at which its turn began."""

    last_at: float


def by_turns(
    core: HasTurns, session: Turn, steps: Iterator[object], outcome: Callable[[], bytes]
) -> bytes | Reply:
    """`outcome()` once all steps are done: at once if the session's turn is long enough for them."""
    outcomes: list[bytes] = []
    # The work is finite, so it needs no limit of time.
    reply = Reply(wait_s=None)
    is_late = False

    def done() -> None:
        if is_late:
            reply.complete(outcome())
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


def _nothing() -> None:
    """Nothing is to be done at the end."""
