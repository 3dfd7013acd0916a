"""Errors for commands on a log that failed or have an unknown outcome, with topic and remedy."""

from __future__ import annotations

from functools import lru_cache

from equipoise.hub.data.reply import REPLY_S
from equipoise.model.names import shown
from equipoise.resp.replies import error

__all__ = ["late", "no_topic_room", "not_open", "not_reached", "owner_late", "uncertain"]

_IN_DOUBT = "it may or may not be stored: check before you repeat it, or repeat it with IDMP"


@lru_cache(1024)
def uncertain(topic: bytes) -> bytes:
    """The ledger failed with the append in flight."""
    return error(f"UNCERTAIN topic {shown(topic)}: the append was not confirmed; {_IN_DOUBT}")


@lru_cache(1024)
def late(topic: bytes) -> bytes:
    """The bookies have not confirmed in time."""
    return error(
        f"UNCERTAIN topic {shown(topic)}: the append was not confirmed within {REPLY_S:.0f} s; {_IN_DOUBT}"
    )


def owner_late(topic: bytes) -> bytes:
    """Another hub, which owns the log, has not answered in time."""
    return error(
        f"UNCERTAIN topic {shown(topic)}: the owner of the log has not answered within {REPLY_S:.0f} s; {_IN_DOUBT}"
    )


def not_open(topic: bytes, problem: str) -> bytes:
    """The log was not opened in time, with the reason if it is known."""
    return _not_executed(topic, f"the log could not be opened within {REPLY_S:.0f} s", problem)


def not_reached(topic: bytes, problem: str) -> bytes:
    """The command was not sent to the home of the topic, with the reason if it is known."""
    return _not_executed(topic, f"the home of the log could not be reached within {REPLY_S:.0f} s", problem)


def no_topic_room(topic: bytes) -> bytes:
    """The home has reached `limits.topics_max`."""
    text = "its home has no room for another topic (limits.topics_max); nothing is stored: repeat it later"
    return error(f"TRYAGAIN topic {shown(topic)}: {text}")


def _not_executed(topic: bytes, what: str, problem: str) -> bytes:
    reason = f" ({problem})" if problem else ""
    return error(f"TRYAGAIN topic {shown(topic)}: {what}{reason}; nothing is stored: repeat the command")
