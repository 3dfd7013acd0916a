"""Error texts for denied commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.access import Action, User

if TYPE_CHECKING:
    from equipoise.hub.client_limits import Limits


class _Client(Protocol):
    @property
    def user(self) -> User | None: ...


class _Limited(Protocol):
    @property
    def limits(self) -> Limits: ...


# Most bytes of a name in an error text, as in Redis for unknown commands.
SHOWN_BYTES = 128

RESERVED = "ERR names that begin with $lane/ are reserved for hubs: choose another"


def denial(session: _Client, action: Action, name: bytes) -> str:
    """NOPERM with the user, the action and the name, which identify the rule to change."""
    who = session.user.name if session.user is not None else "nobody"
    shown = name[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return f"NOPERM user '{who}' may not {action} '{shown}'"


def too_long(core: _Limited) -> str:
    return f"ERR topic name longer than {core.limits.topic_bytes_max} bytes (topic_bytes_max)"
