"""Detect that the process was paused, and hold its clients until its incarnation is confirmed.

A hub that is paused for longer than its session (a stopped process, a swapping machine) is declared dead, and learns
that shortly after it resumes. Messages that it acknowledged in between would be lost, and subscribers that connected to
other hubs after its death would receive no gap. So commands of clients that arrive after a standstill are held until
    the store has executed a write of this hub to its `alive` node that was requested since then; or
    the store has not replied for a term, and then every other hub that is considered alive has confirmed this hub.

A timer advances `HubCore.awake_until`. A command that is read later than that arrived after a standstill: for a session
this is one comparison with a time that it reads anyway. While clients are held, that time is in the past, so the same
comparison holds all of them. Links between hubs are not held, nor are hubs that connect, because the confirmation
arrives over them.

The hub's own transports (`_sockets.c`) gather replies in a turn of the loop and send them at its end. They read the
clock before they send, and hold replies to clients if the hub was paused in the middle of the turn.

Always true: a standstill of half a session, the term of a lease, is detected before any command that arrived after it
is executed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from equipoise.hub.cluster.lease import Lease
    from equipoise.hub.data.ports import Shell, Timer
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.turns import Turns
    from equipoise.hub.telemetry.stats import Health

__all__ = ["ALWAYS_AWAKE", "Standstill"]

# For a hub without a cluster: no other hub can declare it dead.
ALWAYS_AWAKE = float("inf")
_ASLEEP = float("-inf")
# Prefix of the commands of connecting hubs.
LINK_VERBS = b"EQ.L."
# Number of times per term that the timer advances `awake_until`.
LOOKS_PER_TERM = 6
# Interval at which a hub that holds its clients checks whether it is confirmed, in seconds.
LOOK_S = 0.01
# Seconds after which a held client is disconnected.
PATIENCE_S = 5.0


class _Core(Protocol):
    awake_until: float

    @property
    def health(self) -> Health: ...
    @property
    def lease(self) -> Lease: ...
    @property
    def shell(self) -> Shell: ...
    @property
    def turns(self) -> Turns: ...
    def cut(self, session: Session, reason: str) -> None: ...


class Standstill:
    """Owned by HubCore."""

    def __init__(self, core: _Core) -> None:
        self._core = core
        self._timer: Timer | None = None
        # Time from which clients are held; None: they are not.
        self._woke_at: float | None = None
        self._asked_at = _ASLEEP
        # Held clients, each with its continuation.
        self._held: list[tuple[Session, Callable[[], None]]] = []
        # Number of standstills.
        self.count = 0
        # Called after a standstill, so that the membership writes to the store.
        self.on_noticed: Callable[[], object] | None = None
        # Called with whether to hold replies to clients; set by listeners whose transports gather replies.
        self.on_hold: list[Callable[[bool], object]] = []

    @property
    def is_holding(self) -> bool:
        return self._woke_at is not None

    def start(self) -> None:
        """The hub, or its next incarnation, belongs to a cluster."""
        self.stop()
        self._check()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.is_holding:
            self._release()
        self._core.awake_until = ALWAYS_AWAKE

    def holds(self, client: Session, verb: bytes, go_on: Callable[[], None]) -> bool:
        """Whether commands read after `awake_until`, `verb` the first of them, wait until `go_on` is called.

        Logins and connecting hubs are not held.
        """
        self.notice()
        if client.user is None or verb.startswith(LINK_VERBS):
            return False
        self._held.append((client, go_on))
        return True

    def notice(self) -> None:
        """The hub was paused: hold its clients from now on."""
        if self.is_holding:
            return
        self.count += 1
        self._core.awake_until = _ASLEEP
        # Not `now`: the loop may have read its time before the pause.
        self._woke_at = self._core.shell.fine_now()
        self._asked_at = _ASLEEP
        for hold in self.on_hold:
            hold(True)
        if self.on_noticed is not None:
            self.on_noticed()
        self._check_in(LOOK_S)

    def _check_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._core.shell.call_later(delay_s, self._check)

    def _check(self) -> None:
        now, lease = self._core.shell.now(), self._core.lease
        if self._core.awake_until < now and not self.is_holding:
            self.notice()
            return
        if self._woke_at is not None and not lease.is_confirmed(self._woke_at, now):
            self._wait(now, self._woke_at)
            self._check_in(LOOK_S)
            return
        if self.is_holding:
            self._release()
        self._core.awake_until = now + lease.term_s
        self._check_in(lease.term_s / LOOKS_PER_TERM)

    def _wait(self, now: float, woke_at: float) -> None:
        """Ask the other hubs while the store does not reply; disconnect clients after PATIENCE_S."""
        lease = self._core.lease
        if now - max(self._asked_at, woke_at) > lease.interval_s:
            self._asked_at = now
            lease.ask_peers()
        if now - woke_at > PATIENCE_S and self._held:
            self._core.health.report(
                "standstill",
                "paused for longer than half a session and not confirmed alive: clients are disconnected",
            )
            held, self._held = self._held, []
            for client, _ in held:
                self._core.cut(client, "the hub paused, and is not confirmed alive")

    def _release(self) -> None:
        """The hub is confirmed, or begins a new incarnation: continue the held clients, in turns."""
        self._woke_at = None
        self._core.health.report("standstill", "")
        for hold in self.on_hold:
            hold(False)
        held, self._held = self._held, []
        for client, go_on in held:
            self._core.turns.queue.enter(client.owner, go_on)
