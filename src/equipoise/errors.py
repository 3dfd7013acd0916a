"""Every error this package raises on purpose.

    EquipoiseError
    ├── MisuseError            the caller asked for something that cannot be done
    │   ├── SettingsError      a setting is unknown, malformed or out of range
    │   ├── AddressError       a bus URL cannot be understood
    │   ├── LimitError         a name, payload or subscription is over a limit
    │   ├── ClosedError        the bus, subscription or store was closed by its owner
    │   ├── PlanError          a plan or a change to it contradicts itself
    │   └── SimulationError    a simulated program did what cannot be simulated
    │       ├── DeadlockError  … waits for something that can never happen
    │       └── RunawayError   … ran past its cap on virtual time or on steps
    ├── PeerError              the other side misbehaved or refused
    │   ├── ProtocolError      bytes that are not the protocol
    │   ├── ViewError          a view that contradicts itself, or a table that is no view
    │   ├── CoordinateError    a place or a round trip that cannot be
    │   └── RefusedError       the hub answered with an error
    │       └── DeniedError    … because the user may not do this
    └── WorldError             the network, the clock or the disk failed
        ├── DisconnectedError  no connection could be had in time
        ├── UncertainError     the connection went before the receipt came
        ├── BackloggedError    a bounded queue is full
        ├── BehindError        some hubs did not apply a change in time
        ├── ProvisionError     a server could not be started or stopped
        ├── DiskFullError      no room is left on the disk
        ├── DiskFailedError    the disk refused to read, write or sync
        ├── UnmeasuredError    this machine is too busy for a measurement
        ├── PipelineError      Spark could not be started, or has ended by itself
        └── StoreError         the metadata store failed, or found things otherwise than expected
            ├── StoreUnavailableError  … it did not answer in time
            ├── SessionLostError       … the session has ended, its ephemeral nodes with it
            ├── NodeError              … a node is not as the request needs it
            │   ├── NodeExistsError    … it is there already
            │   ├── NoNodeError        … it, or its parent, is not there
            │   ├── NotEmptyError      … it has children
            │   └── BadVersionError    … somebody else has changed it
            ├── PlanRaceError          … somebody else has committed this version of the plan
            ├── ForeignRegionError     … it holds another region than this hub's
            └── DamagedError           … what is stored is not what was written

An error carries its facts as attributes and says in its text what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence


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
    """The bus, subscription or store was closed by its owner."""


class PlanError(MisuseError):
    """A plan or a change to it contradicts itself; nothing of it was applied."""


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


class ViewError(PeerError):
    """What was sent as a view is none: plan with the last good one, or not at all."""


class CoordinateError(PeerError):
    """A network coordinate or a round trip that cannot be; it was left out of account."""


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


class BehindError(WorldError):
    """A change is stored, but the live hubs in `hubs` have not applied it in time; they will."""

    def __init__(self, text: str, hubs: Sequence[str]) -> None:
        super().__init__(text)
        self.hubs = tuple(hubs)


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


class UnmeasuredError(WorldError):
    """What was to be measured cannot be told apart from what else goes on on this machine."""


class PipelineError(WorldError):
    """Spark could not be started, or has ended by itself. The text says which and what to do."""


class StoreError(WorldError):
    """The metadata store failed, or found things otherwise than expected."""


class StoreUnavailableError(StoreError):
    """The store did not answer in time. A write may or may not have happened: read before writing again."""


class SessionLostError(StoreError):
    """The session has ended and its ephemeral nodes with it.

    A write that was under way may have happened. The store opens a new session by itself.
    """


class NodeError(StoreError):
    """The node at `path` is not as the request needs it."""

    _text = "the node {} is not as expected"

    def __init__(self, path: str) -> None:
        super().__init__(self._text.format(path))
        self.path = path


class NodeExistsError(NodeError):
    """The node to be made is there already; it is somebody else's."""

    _text = "the node {} is there already"


class NoNodeError(NodeError):
    """The node, or the parent of a node to be made, is not there."""

    _text = "the node {}, or its parent, is not there"


class NotEmptyError(NodeError):
    """The node to be deleted has children."""

    _text = "the node {} has children: delete them first"


class BadVersionError(NodeError):
    """Somebody else has changed the node since the version that was expected: read it again."""

    _text = "the node {} has changed: read it again"


class ProvisionError(WorldError):
    """A server could not be started or stopped; it will be tried again."""


class PlanRaceError(StoreError):
    """Somebody else has committed this version of the plan first: load the plan and decide again."""

    def __init__(self, version: int) -> None:
        super().__init__(f"plan version {version} is already committed: load the plan and decide again")
        self.version = version


class ForeignRegionError(StoreError):
    """The store holds another region than the one this hub belongs to; the hub does not register there."""


class DamagedError(StoreError):
    """What is stored at `path` is not what was written. Nothing was deleted."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path
        self.reason = reason
