"""Estimated and measured load of a hub after a session. Pure.

The offloading hub estimates both hubs and sends the acceptor its part. Each hub compares its own estimate with its own
load once a window has passed since the session ended.

Always true: a session followed by another one within that window is not compared, because the load has changed again.
"""

from __future__ import annotations

from typing import NamedTuple

from equipoise.content.balancing.load import EdgeLoad

__all__ = ["SessionLoads", "SessionOutcomes"]


class SessionLoads(NamedTuple):
    """One session at one of its hubs."""

    session: str
    peer: str
    estimated: EdgeLoad
    realised: EdgeLoad


class SessionOutcomes:
    """Owned by the shell of one edge."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        # The latest estimate: session, other hub, load.
        self._expected: tuple[str, str, EdgeLoad] | None = None
        # The end of that session; None: it is in progress, or there is no estimate.
        self._ended_s: float | None = None
        # The latest compared session, and the number of comparisons.
        self.latest: SessionLoads | None = None
        self.compared = 0

    def estimated(self, session: str, peer: str, load: EdgeLoad) -> None:
        self._expected, self._ended_s = (session, peer, load), None

    def ended(self, now_s: float, session: str) -> None:
        """The session has ended. Without an estimate of it, the earlier one is void: the load has changed again."""
        if self._expected is not None and self._expected[0] == session:
            self._ended_s = now_s
        else:
            self._expected = self._ended_s = None

    def poll(self, now_s: float, load: EdgeLoad) -> None:
        """Compare, if a window has passed."""
        if self._expected is None or self._ended_s is None or now_s < self._ended_s + self._window_s:
            return
        session, peer, estimated = self._expected
        self.latest = SessionLoads(session, peer, estimated, load)
        self.compared += 1
        self._expected = self._ended_s = None
