"""Every error this package raises on purpose.

    EquipoiseError
    ├── MisuseError            the caller asked for something that cannot be done
    │   ├── SettingsError      a setting is unknown, malformed or out of range
    │   ├── AddressError       a bus URL cannot be understood
    │   ├── LimitError         a name, payload or subscription is over a limit
    │   ├── ClosedError        the bus or subscription was closed by its owner
    │   └── SimulationError    a simulated program did what cannot be simulated
    │       ├── DeadlockError  … waits for something that can never happen
    │       └── RunawayError   … ran past its cap on virtual time or on steps
    ├── PeerError              the other side misbehaved or refused
    │   ├── ProtocolError      bytes that are not the protocol
    │   └── RefusedError       the hub answered with an error
    │       └── DeniedError    … because the user may not do this
    └── WorldError             the network, the clock or the disk failed
        ├── DisconnectedError  no connection could be had in time
        ├── UncertainError     the connection went before the receipt came
        ├── BackloggedError    a bounded queue is full
        ├── DiskFullError      no room is left on the disk
        └── DiskFailedError    the disk refused to read, write or sync

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


class SimulationError(MisuseError):
    """A simulated program asked for a thread, a real socket or another thing outside the simulation."""


class DeadlockError(SimulationError):
    """Nothing can ever happen again, yet the main task is not done."""


class RunawayError(SimulationError):
    """The simulation went past its cap on virtual time or on steps."""


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


class DiskFullError(WorldError):
    """No room is left on the disk. Nothing of the refused append is in the file."""


class DiskFailedError(WorldError):
    """The disk refused an operation. `operation` and `name` say which, on what file.

    After a failed sync the unsynced data must be taken as lost, even if a later sync succeeds.
    """

    def __init__(self, operation: str, name: str, reason: str) -> None:
        super().__init__(f"{operation} of {name!r} failed: {reason}")
        self.operation = operation
        self.name = name
        self.reason = reason
