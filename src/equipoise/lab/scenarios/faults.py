"""The faults of a world: kinds, frequency and duration.

Values only. Fault injection draws the time and the affected client or hub from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Fault", "FaultKind"]


class FaultKind(StrEnum):
    """Kind of a fault. Reports and traces show the value."""

    RESET = "reset"
    "All connections between a client and the hub break, also in the middle of a frame."
    CUT = "cut"
    "No packet passes between a client and the hub, in either direction. Neither side is notified."
    CUT_ONE_WAY = "one-way cut"
    FLAP = "flap"
    "The link is cut and healed several times in a row."
    SLOW_LINK = "slow link"
    "The link from the hub to a client carries few bytes per second."
    HUB_PAUSE = "hub pause"
    CLIENT_PAUSE = "client pause"
    "The process pauses, as in a garbage collection or a live migration, and loses no state."
    HUB_CRASH = "hub crash"
    "The process exits at once and its peers see a reset. It restarts after the duration."
    HUB_POWER_CUT = "hub power cut"
    "Like a crash, but peers see no reset until they send to the restarted machine."
    STALL = "stall"
    "A client does not read: a plain client does not read its socket, a smart client takes no messages."
    CLOCK_STEP = "clock step"
    "The hub's wall clock jumps, forward or back, by up to a thousand times the duration."
    RULES = "rules change"
    "Different access rules for the duration, then the original rules again."
    HOSTILE = "hostile bytes"
    "An unauthenticated connection sends bytes that no client should send."


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault in a world."""

    kind: FaultKind
    # Number of faults in one run: drawn between the two.
    times: tuple[int, int] = (0, 2)
    lasts_s: tuple[float, float] = (0.05, 0.5)
    # Names of the clients that the fault may affect; empty: any.
    clients: tuple[str, ...] = ()
