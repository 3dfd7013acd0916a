"""Remove the filters of closed connections, those of large clients in turns.

A client may hold 10,000 filters, whose removal takes some 40 ms: other clients would wait. A closed connection receives
nothing in any case, so its filters may stay a little longer. Other subscriptions are removed at once: that is quick,
and the compiled part writes to their connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.hub.data.subscribe import filters_of, forget_all_but, forget_session, forget_some
from equipoise.hub.data.turns import LongWork

if TYPE_CHECKING:
    from equipoise.hub.data.kinds import Kind
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.session_host import SessionHost
    from equipoise.hub.data.turns import Turns

__all__ = ["AT_ONCE", "Departures"]

# Filters that are removed at once, and in each turn of the loop: about 1 ms.
AT_ONCE = 250


class Departures:
    """Owned by HubCore."""

    def __init__(self, core: SessionHost, turns: Turns) -> None:
        self._core = core
        # Closed connections with filters, and these filters.
        self._leaving: deque[tuple[Session, list[tuple[Kind, bytes]]]] = deque()
        self._work = LongWork(turns)

    def forget(self, session: Session) -> None:
        """The connection is closed."""
        filters = filters_of(session)
        if len(filters) <= AT_ONCE:
            forget_session(self._core, session)
            return
        forget_all_but(self._core, session, filters)
        self._leaving.append((session, filters))
        if not self._work.is_running:
            self._work.run(self._forget_all())

    def finish(self) -> None:
        """Remove all that is left, before the topics are dropped."""
        self._work.cancel()
        while self._leaving:
            forget_session(self._core, self._leaving.popleft()[0])

    def _forget_all(self) -> Iterator[None]:
        while self._leaving:
            session, filters = self._leaving[0]
            forget_some(self._core, session, filters[-AT_ONCE:])
            del filters[-AT_ONCE:]
            if not filters:
                session.subscriptions = None
                self._leaving.popleft()
            yield
