"""Answer a question that takes long, such as a list of all topics, without keeping everybody waiting.

The work is an iterator whose steps take a millisecond at most. It goes on for as long as its client may keep the
loop; then it gives way, and the reply comes in a later turn. What the client sends in the meantime waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from equipoise.hub.data.session import DEFERRED, TURN_S, Deferred

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session


def by_turns(
    core: HubCore, session: Session, steps: Iterator[object], reply: Callable[[], bytes]
) -> bytes | Deferred:
    """`reply()` once all steps are done: at once if the turn is long enough for them."""
    if _run(core, steps, session.last_at + TURN_S):
        return reply()

    def go_on() -> None:
        if session.is_closing:
            return
        if _run(core, steps, core.now() + TURN_S):
            session.settle(reply())
        else:
            core.shell.call_later(0, go_on)

    core.shell.call_later(0, go_on)
    return DEFERRED


def _run(core: HubCore, steps: Iterator[object], until: float) -> bool:
    """Whether the steps came to their end before time was up."""
    return all(core.now() <= until for _ in steps)
