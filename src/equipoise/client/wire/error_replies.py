"""Convert error replies into exceptions with a remedy; classify which errors are temporary. Pure."""

from __future__ import annotations

from equipoise.errors import DeniedError, EquipoiseError, RefusedError, UncertainError

_UNKNOWN_COMMAND = "ERR unknown command"

_DENIALS = {
    "WRONGPASS": "check the user and the secret in the bus URL",
    "NOAUTH": "put a user and its secret in the bus URL: equipoise://user:secret@host:port",
    "NOPERM": "ask the operator of the hub to allow it in the hub's users file, or log in as another user",
    "DENIED": "the server rejects connections from this address; ask its operator",
}


def make_refusal(text: str) -> RefusedError | UncertainError:
    """The error for an error reply: the peer's text, then the next step if there is a known one."""
    code = text.partition(" ")[0]
    if code == "UNCERTAIN":
        # The hub has accepted the messages, and does not know their outcome.
        return UncertainError(text.partition(" ")[2])
    advice = _DENIALS.get(code)
    if advice is not None:
        return DeniedError(f"{text.rstrip('.')}; {advice}")
    return RefusedError(text)


def is_unknown_command(error: RefusedError) -> bool:
    return error.text.startswith(_UNKNOWN_COMMAND)


def explain_greeting(error: RefusedError) -> RefusedError:
    """The error for a rejected HELLO, which is more specific than the peer's text."""
    if error.code == "NOPROTO" or is_unknown_command(error):
        return RefusedError(f"{error.text}; the server is too old: use an Equipoise hub, or Redis 6 or newer")
    return error


def is_permanent(error: EquipoiseError) -> bool:
    """Whether retrying the handshake is pointless: a wrong secret, a peer of another kind."""
    return isinstance(error, DeniedError) or (
        isinstance(error, RefusedError) and (error.code == "NOPROTO" or is_unknown_command(error))
    )
