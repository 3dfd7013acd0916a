"""Every error this package raises on purpose.

    EquipoiseError
    ├── MisuseError            the caller asked for something that cannot be done
    │   ├── SettingsError      a setting is unknown, malformed or out of range
    │   ├── AddressError       a bus URL cannot be understood
    │   ├── LimitError         a name, payload or subscription is over a limit
    │   └── ClosedError        the bus or subscription was closed by its owner
    ├── PeerError              the other side misbehaved or refused
    │   ├── ProtocolError      bytes that are not the protocol
    │   └── RefusedError       the hub answered with an error
    │       └── DeniedError    … because the user may not do this
    └── WorldError             the network, the clock or the disk failed
        ├── DisconnectedError  no connection could be had in time
        ├── UncertainError     the connection went before the receipt came
        └── BackloggedError    a bounded queue is full

An error carries its facts as attributes and says in its text what to do next.
"""

from __future__ import annotations


class EquipoiseError(Exception):
    """The root: `except EquipoiseError` catches all of ours and nothing else."""


class MisuseError(EquipoiseError):
    """The caller asked for something that cannot be done; retrying will not help."""


class SettingsError(MisuseError):
    """A setting is unknown, malformed or out of range."""


class AddressError(MisuseError):
    """A bus URL cannot be understood."""


class LimitError(MisuseError):
    """A name, payload or subscription is over a limit."""


class ClosedError(MisuseError):
    """The bus or subscription was closed by its owner."""


class PeerError(EquipoiseError):
    """The other side misbehaved or refused."""


class ProtocolError(PeerError):
    """Bytes that are not the protocol. `reason` is the text a Redis peer would be told."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class RefusedError(PeerError):
    """The hub answered with an error. `code` is its first word, such as `ERR` or `NOPERM`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.code = text.partition(" ")[0]


class DeniedError(RefusedError):
    """The user may not do this, or has not said who it is."""


class WorldError(EquipoiseError):
    """The network, the clock or the disk failed; trying again later may help."""


class DisconnectedError(WorldError):
    """No connection could be had in time."""


class UncertainError(WorldError):
    """The connection went after a message was sent and before its receipt came.

    The message may or may not have been delivered. Publish it again only if a duplicate does no harm.
    """


class BackloggedError(WorldError):
    """A bounded queue is full. Wait for `flush()`, or publish with a receipt, which waits by itself."""
