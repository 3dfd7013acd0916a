"""What a client is told whose command on a log has no outcome, or none that is known."""

from __future__ import annotations

from equipoise.hub.data.reply import REPLY_S

__all__ = ["LATE", "UNCERTAIN", "not_open"]

UNCERTAIN = (
    "UNCERTAIN the append is not confirmed; it may or may not be stored: check before a retry, or use IDMP"
)
LATE = f"UNCERTAIN the log has not confirmed within {REPLY_S:.0f} s; what the command changes may or may not be stored"


def not_open(problem: str) -> str:
    """The log was not opened in time, with the reason if it is known."""
    text = f"TRYAGAIN the log of this topic could not be opened within {REPLY_S:.0f} s"
    return f"{text}: {problem}" if problem else text
