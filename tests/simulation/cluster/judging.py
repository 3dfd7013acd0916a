"""What every run is held to: each message once, in order, and no needless word of a gap."""

from __future__ import annotations

from .worlds import Outcomes

__all__ = ["check_promises"]

# The first few say what is wrong; hundreds follow from them.
_TOLD_MAX = 5
# A run in which less was said has tried nothing.
MESSAGES_MIN = 50


def check_promises(outcomes: Outcomes, seed: int, *, messages_min: int = MESSAGES_MIN) -> None:
    told = [str(violation) for violation in outcomes.violations[:_TOLD_MAX]]
    assert not told, f"seed {seed}: {told}"
    assert outcomes.history.messages > messages_min, f"seed {seed}: too little happened"
