"""Detect that the process was paused, and hold its clients until its incarnation is confirmed.

A hub that stands still for longer than its session (a stopped process, a machine that swaps) is declared dead, and
learns that some moments after it goes on. What it acknowledged in those moments would die with it, and subscribers
that came to other hubs after the death would get no gap. So commands of clients that come after a standstill are held
until

    the store has carried out a write of this hub to its `alive` that was asked for since then; or
    the store is silent, and every other hub that counts as alive has confirmed this hub since then; or
    no other hub counts as alive, and the store is silent for a term.

A timer moves `HubCore.awake_until` on. A command that is read later than that comes after a standstill: for a session
this is one comparison with the time that it reads anyway. While clients are held that moment lies in the past, so the
same comparison holds all of them. Links between hubs are not held, nor are hubs that connect: the confirmation comes
over them.

Wires of our own (`_sockets.c`) gather replies in a turn of the loop and send them at its end. They look at the clock
before they send, and keep replies to clients if the hub stood still in the middle of the turn.

Always true: a standstill of half a session, the term of a lease, is noticed before a command that comes after it is
executed.
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

# Of a hub that belongs to no cluster: no other hub can declare it dead.
ALWAYS_AWAKE = float("inf")
_ASLEEP = float("-inf")
# What the commands of hubs that connect begin with.
LINK_VERBS = b"EQ.L."
# How often the timer moves `awake_until` on in a term.
LOOKS_PER_TERM = 6
# How often a hub that holds its clients looks whether it is confirmed, in seconds.
LOOK_S = 0.01
# A client that has been held for so long is disconnected, in seconds.
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
        # Since when clients are held; None: they are not.
        self._woke_at: float | None = None
        self._asked_at = _ASLEEP
        # Each client that is held, and how it goes on.
        self._held: list[tuple[Session, Callable[[], None]]] = []
        # Standstills so far.
        self.count = 0
        # Called when the hub has stood still, for the membership to ask the store.
        self.on_noticed: Callable[[], object] | None = None
        # Called with whether replies to clients are to be kept: by the listener whose wires gather them.
        self.on_hold: list[Callable[[bool], object]] = []

    @property
    def is_holding(self) -> bool:
        return self._woke_at is not None

    def start(self) -> None:
        """The hub, or its next incarnation, belongs to a cluster."""
        self.stop()
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.is_holding:
            self._release()
        self._core.awake_until = ALWAYS_AWAKE

    def holds(self, client: Session, verb: bytes, go_on: Callable[[], None]) -> bool:
        """Commands, this one first, have come later than `awake_until`: whether they wait until `go_on` is called.

        A login is let in, and so is a hub that connects.
        """
        self.notice()
        if client.user is None or verb.startswith(LINK_VERBS):
            return False
        self._held.append((client, go_on))
        return True

    def notice(self) -> None:
        """The hub has stood still: hold its clients from now on."""
        if self.is_holding:
            return
        self.count += 1
        self._core.awake_until = _ASLEEP
        # Not `now`: the loop may have read the time before it stood still.
        self._woke_at = self._core.shell.fine_now()
        self._asked_at = _ASLEEP
        for hold in self.on_hold:
            hold(True)
        if self.on_noticed is not None:
            self.on_noticed()
        self._look_in(LOOK_S)

    def _look_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._core.shell.call_later(delay_s, self._look)

    def _look(self) -> None:
        now, lease = self._core.shell.now(), self._core.lease
        if self._core.awake_until < now and not self.is_holding:
            self.notice()
            return
        if self._woke_at is not None and not lease.is_confirmed(self._woke_at, now):
            self._wait(now, self._woke_at)
            self._look_in(LOOK_S)
            return
        if self.is_holding:
            self._release()
        self._core.awake_until = now + lease.term_s
        self._look_in(lease.term_s / LOOKS_PER_TERM)

    def _wait(self, now: float, woke_at: float) -> None:
        """Ask the other hubs while the store is silent; disconnect clients after a while."""
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
        """The hub is alive, or begins anew: let clients go on, in turns."""
        self._woke_at = None
        self._core.health.report("standstill", "")
        for hold in self.on_hold:
            hold(False)
        held, self._held = self._held, []
        for client, go_on in held:
            self._core.turns.queue.enter(client.owner, go_on)
