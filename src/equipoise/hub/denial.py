"""How a hub says no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.commands.keys import KEY_COMMANDS
from equipoise.resp import Command

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.session import Session


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


def unknown_command(command: Command) -> str:
    """Redis's words, with its preview of the arguments; its own commands for keys get an explanation."""
    name = command[0].decode("utf-8", "surrogateescape")
    if command[0].lower() in KEY_COMMANDS:
        return (
            f"ERR '{name}' works on keys and values, and this is a pub/sub hub that keeps none; "
            "use SUBSCRIBE, PUBLISH and their kin here, and a Redis server for data"
        )
    preview = ""
    for argument in command[1:]:
        if len(preview) >= 128:
            break
        # Redis prints C strings, which a NUL ends.
        shown = argument[: 128 - len(preview)].partition(b"\0")[0]
        preview += f"'{shown.decode('utf-8', 'surrogateescape')}' "
    return f"ERR unknown command '{name[:128]}', with args beginning with: {preview}"
