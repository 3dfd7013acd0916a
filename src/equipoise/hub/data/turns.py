"""Answer a question that takes long, such as a list of all topics, without keeping everybody waiting.

The work is an iterator whose steps take a millisecond at most. It goes on for as long as its client may keep the
loop; then it gives way, and the reply comes in a later turn. What the client sends in the meantime waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from equipoise.hub.data.ports import Shell
from equipoise.hub.data.reply import Reply

__all__ = ["TURN_S", "by_turns"]

# How long one client's commands may keep the loop, in seconds; then others have a turn.
TURN_S = 0.01


class Clocked(Protocol):
    """What runs the work: the hub's core."""

    shell: Shell
    now: Callable[[], float]


class Turn(Protocol):
    """Whose work it is: a session, with the time at which its turn began."""

    last_at: float


def by_turns(
    core: Clocked, session: Turn, steps: Iterator[object], outcome: Callable[[], bytes]
) -> bytes | Reply:
    """`outcome()` once all steps are done: at once if the turn is long enough for them."""
    if _run(core, steps, session.last_at + TURN_S):
        return outcome()
    # The work is finite, so it needs no limit of time.
    reply = Reply(wait_s=None)

    def go_on() -> None:
        if not reply.is_wanted:
            return
        if _run(core, steps, core.now() + TURN_S):
            reply.complete(outcome())
        else:
            core.shell.call_later(0, go_on)

    core.shell.call_later(0, go_on)
    return reply


def _run(core: Clocked, steps: Iterator[object], until: float) -> bool:
    """Whether the steps came to their end before time was up."""
    return all(core.now() <= until for _ in steps)
