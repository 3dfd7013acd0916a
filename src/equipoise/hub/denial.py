"""How a hub says no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.access import Action

if TYPE_CHECKING:
    from equipoise.hub.session import Session


def denial(session: Session, action: Action, name: bytes) -> str:
    """Redis's code, and who may not do what, so that the rule to change is plain."""
    who = session.user.name if session.user is not None else "nobody"
    return f"NOPERM user '{who}' may not {action} '{name.decode('utf-8', 'backslashreplace')}'"
