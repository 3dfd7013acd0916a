"""Release the logs of topics with another home, a few at a time, so that publishers of other topics do not wait.

The owner offers each log to its next home, which requests the release when it is prepared to open the log
(`log_taking`). A log that waits for its turn stays open here and accepts commands of every hub; the next home forwards
commands meanwhile (`log_calls`). If the next home cannot request the release, or does not within OFFER_S, the owner
releases the log all the same.

Always true: at most SEALED_MAX logs are being sealed because of a plan, except those that take longer than SLOT_S.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from equipoise.hub.cluster.link.capability import OFFERS
from equipoise.hub.cluster.link.frame import Life
from equipoise.hub.cluster.link.log_frames import OfferFrame, ReleasedFrame, ReleaseFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.logs.live_log import LogStage

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.logs.live_log import LiveLog

__all__ = ["LogGiving"]

SEALED_MAX = 4
# Longest time, in seconds, that sealing one log delays the others: its appends, or the store's reply, may take longer.
SLOT_S = 1.0
# How long an offer is valid, in seconds: a home opens a few logs at a time, and requests hundreds within this time.
OFFER_S = 5.0


class LogGiving:
    """Owned by LogCalls."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        # Logs that are open here though another hub is their home: the incarnation that each is offered to, and the
        # time from which it is sealed without a request.
        self._offered: dict[bytes, tuple[Life | None, float]] = {}
        # By log, the hub that has requested its release and has no reply yet.
        self._requests: dict[bytes, str] = {}
        # By log that is being sealed, the timer that ends its slot.
        self._slots: dict[bytes, Timer] = {}
        self._timer: Timer | None = None

    def is_waiting(self, key: bytes) -> bool:
        """Whether the log is open here though another hub is its home."""
        return key in self._offered

    def routed(self, leaving: Iterable[LiveLog]) -> None:
        """The routing has changed: exactly these logs of this hub have other homes."""
        logs = self._cluster.core.logs
        assert logs is not None, "it has logs"
        before, self._offered = self._offered, {}
        for live in leaving:
            if live.stage is LogStage.OPEN and not live.is_sealing:
                self._offered[live.name] = self._offer(live.name, before.get(live.name))
            else:
                logs.seal(live)
        self._pump()

    def _offer(self, key: bytes, before: tuple[Life | None, float] | None) -> tuple[Life | None, float]:
        """Offer a log to its home, unless it was offered to it before."""
        now, home = self._cluster.core.now(), self._cluster.router.home(key)
        link = None if home is None else self._cluster.out.get(home)
        if link is None or not link.can(OFFERS):
            return None, now
        life = link.hub, link.incarnation
        if before is not None and before[0] == life:
            return before
        link.send(OfferFrame(key))
        return life, now + OFFER_S

    def requested(self, peer: str, frame: ReleaseFrame) -> None:
        """RELEASE: the next home is ready to open the log. It may have applied a plan that this hub has not."""
        logs = self._cluster.core.logs
        if logs is None or frame.topic not in logs.by_name:
            self._cluster.tell(peer, ReleasedFrame(frame.topic, 0, b""))
            return
        self._requests[frame.topic] = peer
        self._pump()

    def released(self, key: bytes, version: int, node: bytes) -> None:
        """The log was released in the store."""
        peer = self._requests.pop(key, None)
        if peer is not None:
            self._cluster.tell(peer, ReleasedFrame(key, version, node))

    def sealed(self, key: bytes) -> None:
        """The log is closed here."""
        self._offered.pop(key, None)
        # Without a release: another hub has the log, or is about to.
        self.released(key, 0, b"")
        timer = self._slots.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._pump()

    def close(self) -> None:
        for timer in self._slots.values():
            timer.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._offered.clear()
        self._requests.clear()
        self._slots.clear()

    def _end_slot(self, key: bytes) -> None:
        self._slots.pop(key, None)
        self._pump()

    def _pump(self) -> None:
        """Seal the requested logs, then those whose offers have expired, as far as there are free slots."""
        logs = self._cluster.core.logs
        if logs is None:
            return
        now = self._cluster.core.now()
        due = [key for key, peer in self._requests.items() if self._is_next_home(key, peer)]
        # Also a log that another hub than its next home has requested, by an older or a newer plan.
        due += [key for key, (_, since) in self._offered.items() if since <= now]
        for key in due:
            if len(self._slots) >= SEALED_MAX:
                return
            self._offered.pop(key, None)
            live = logs.by_name.get(key)
            if live is not None and key not in self._slots:
                self._slots[key] = self._cluster.core.shell.call_later(SLOT_S, self._end_slot, key)
                logs.seal(live)
        self._look_again(now)

    def _is_next_home(self, key: bytes, peer: str) -> bool:
        return key in self._offered and self._cluster.router.home(key) == peer

    def _look_again(self, now: float) -> None:
        """Schedule `_pump` for the expiry of the next offer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._offered:
            next_at = min(since for _, since in self._offered.values())
            self._timer = self._cluster.core.shell.call_later(max(0.0, next_at - now), self._pump)
