"""How a hub says no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.access import Action

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session


# Of a name, in an error: enough to know it by, as Redis shows of unknown commands.
SHOWN_BYTES = 128

RESERVED = "ERR names that begin with $lane/ are those of hubs among themselves: choose another"


def denial(session: Session, action: Action, name: bytes) -> str:
    """Redis's code, and who may not do what, so that the rule to change is plain."""
    who = session.user.name if session.user is not None else "nobody"
    shown = name[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return f"NOPERM user '{who}' may not {action} '{shown}'"


def too_long(core: HubCore) -> str:
    return f"ERR topic name longer than {core.limits.topic_bytes_max} bytes (topic_bytes_max)"
