"""Say what goes wrong in a world, how often and for how long.

Values only: when and to which client or hub it happens is drawn from the seed where it is injected.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Fault", "FaultKind"]


class FaultKind(StrEnum):
    """What can go wrong. The value is the word in reports and traces."""

    RESET = "reset"
    """All connections between a client and the hub break, in the middle of whatever is under way."""
    CUT = "cut"
    """Nothing passes between a client and the hub, both ways; neither side is notified."""
    CUT_ONE_WAY = "one-way cut"
    FLAP = "flap"
    """Cut and heal, several times in a row."""
    SLOW_LINK = "slow link"
    """The way from the hub to a client carries few bytes per second."""
    HUB_PAUSE = "hub pause"
    CLIENT_PAUSE = "client pause"
    """The program stands still, as in a garbage collection or a migration of its machine, and loses nothing."""
    HUB_CRASH = "hub crash"
    """The program ends at once; its peers see a reset. It is started again after the duration."""
    HUB_POWER_CUT = "hub power cut"
    """As a crash, but its peers hear nothing until they send something to the restarted machine."""
    STALL = "stall"
    """A client does not read: a plain one leaves its socket alone, a smart one takes no messages."""
    CLOCK_STEP = "clock step"
    """The hub's wall clock jumps, forward or back, by up to the duration's thousandfold."""
    RULES = "rules change"
    """Other access rules for the duration, then the first ones again."""
    HOSTILE = "hostile bytes"
    """A stranger connects and sends what no client should."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault in a world."""

    kind: FaultKind
    # How often in one run: drawn between the two.
    times: tuple[int, int] = (0, 2)
    lasts_s: tuple[float, float] = (0.05, 0.5)
    # Which clients it may hit, by name; empty: any.
    clients: tuple[str, ...] = ()
