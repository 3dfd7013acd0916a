"""Every exception that this package raises.

    EquipoiseError
    ├── MisuseError            the caller's request cannot be done
    │   ├── SettingsError      a setting is unknown, malformed or out of range
    │   ├── AddressError       a bus URL cannot be understood
    │   ├── LimitError         a name, payload or subscription exceeds a limit
    │   ├── ClosedError        the bus, subscription or store was closed by its owner
    │   ├── PlanError          a plan or a change to it contradicts itself
    │   ├── FilterError        a filter cannot be read, or can never match
    │   └── SimulationError    a simulated program used something that cannot be simulated
    │       ├── DeadlockError  … waits for something that can never happen
    │       └── RunawayError   … ran past its cap on virtual time or on steps
    ├── PeerError              the other side misbehaved or refused
    │   ├── ProtocolError      bytes that are not the protocol
    │   ├── ViewError          an inconsistent view, or a table that is not a view
    │   ├── CoordinateError    an impossible coordinate or round-trip time
    │   ├── RefusedError       the hub answered with an error
    │   │   └── DeniedError    … because the user lacks the permission
    │   └── DisplacedError     another client reads a durable subscription in this one's place
    └── WorldError             the network, the clock or the disk failed
        ├── DisconnectedError  no connection within the time-out
        ├── UncertainError     the connection was lost before the ack
        ├── BackloggedError    a bounded queue is full
        ├── BehindError        some hubs did not apply a change in time
        ├── ProvisionError     a server could not be started or stopped
        ├── DiskFullError      no room is left on the disk
        ├── DiskFailedError    the disk refused to read, write or sync
        ├── LedgerError        a ledger takes no more entries, or could not be recovered or read
        ├── UnmeasuredError    the machine is too busy for a measurement
        ├── PipelineError      Spark could not be started, or has exited
        └── StoreError         the metadata store failed, or its content is not as expected
            ├── StoreUnavailableError  … it did not answer in time
            ├── SessionLostError       … the session has ended, its ephemeral nodes with it
            ├── NodeError              … a node is not as the request needs it
            │   ├── NodeExistsError    … it exists already
            │   ├── NoNodeError        … it, or its parent, does not exist
            │   ├── NotEmptyError      … it has children
            │   └── BadVersionError    … another writer has changed it
            ├── PlanRaceError          … another writer has committed this version of the plan
            ├── ForeignRegionError     … it holds another region than this hub's
            └── DamagedError           … the stored data is damaged

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


class FilterError(MisuseError):
    """A filter cannot be read, can never match, or is too large: at offset `byte`, where `expected` was expected."""

    def __init__(self, byte: int, expected: str) -> None:
        super().__init__(f"filter, byte {byte}: expected {expected}")
        self.byte = byte
        self.expected = expected


class SimulationError(MisuseError):
    """A simulated program asked for a thread, a real socket or another thing outside the simulation."""


class DeadlockError(SimulationError):
    """The simulation has no event left to run, and the main task is not done."""


class RunawayError(SimulationError):
    """The simulation went past its cap on virtual time or on steps."""


class PeerError(EquipoiseError):
    """The other side misbehaved or refused."""


class ProtocolError(PeerError):
    """Bytes that are not the protocol. `reason` is the text of the RESP error."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ViewError(PeerError):
    """The data is not a valid view: use the last valid one."""


class CoordinateError(PeerError):
    """An impossible coordinate or round-trip time; it was ignored."""


class RefusedError(PeerError):
    """The hub answered with an error. `code` is its first word, such as `ERR` or `NOPERM`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.code = text.partition(" ")[0]


class DeniedError(RefusedError):
    """The user lacks the permission, or has not logged in."""


class DisplacedError(PeerError):
    """Another client has attached to the durable subscription under the same name."""


class WorldError(EquipoiseError):
    """The network, the clock or the disk failed; trying again later may help."""


class DisconnectedError(WorldError):
    """No connection within the time-out."""


class UncertainError(WorldError):
    """The connection was lost after a message was sent and before its ack, or the hub does not know its outcome.

    The message may or may not have been delivered. Publish it again only if a duplicate does no harm.
    """


class BackloggedError(WorldError):
    """A bounded queue is full. Wait for `flush()`, or await `publish`, which waits by itself."""


class BehindError(WorldError):
    """A change is stored, but the live hubs in `hubs` have not applied it in time; they will."""

    def __init__(self, text: str, hubs: Sequence[str]) -> None:
        super().__init__(text)
        self.hubs = tuple(hubs)


class DiskFullError(WorldError):
    """The disk is full. The file contains no part of the refused append."""


class DiskFailedError(WorldError):
    """The disk refused an operation. `operation` and `name` say which, on what file.

    After a failed sync the unsynced data must be taken as lost, even if a later sync succeeds.
    """

    def __init__(self, operation: str, name: str, reason: str) -> None:
        super().__init__(f"{operation} of {name!r} failed: {reason}")
        self.operation = operation
        self.name = name
        self.reason = reason


class LedgerError(WorldError):
    """The ledger `ledger` (0: none was created) cannot be written, recovered or read. `reason` says why.

    Entries in flight may or may not be stored: recovery decides.
    """

    def __init__(self, ledger: int, reason: str) -> None:
        super().__init__(f"ledger {ledger}: {reason}" if ledger else reason)
        self.ledger = ledger
        self.reason = reason


class UnmeasuredError(WorldError):
    """The measurement is not possible: other processes load this machine too much."""


class PipelineError(WorldError):
    """Spark could not be started, or has exited. The text says which and what to do."""


class StoreError(WorldError):
    """The metadata store failed, or its content is not as expected."""


class StoreUnavailableError(StoreError):
    """The store did not answer in time. A write may or may not have happened: read before writing again."""


class SessionLostError(StoreError):
    """The session has ended, and its ephemeral nodes are deleted.

    A write in progress may have happened. The store opens a new session by itself.
    """


class NodeError(StoreError):
    """The node at `path` is not as the request needs it."""

    _text = "the node {} is not as expected"

    def __init__(self, path: str) -> None:
        super().__init__(self._text.format(path))
        self.path = path


class NodeExistsError(NodeError):
    """The node to be created exists already; it belongs to another process."""

    _text = "the node {} exists already"


class NoNodeError(NodeError):
    """The node, or the parent of a node to be created, does not exist."""

    _text = "the node {}, or its parent, does not exist"


class NotEmptyError(NodeError):
    """The node to be deleted has children."""

    _text = "the node {} has children: delete them first"


class BadVersionError(NodeError):
    """Another writer has changed the node since the expected version: read it again."""

    _text = "the node {} has changed: read it again"


class ProvisionError(WorldError):
    """A server could not be started or stopped; the controller retries."""


class PlanRaceError(StoreError):
    """Another writer has committed this version of the plan first: load the plan and decide again."""

    def __init__(self, version: int) -> None:
        super().__init__(f"plan version {version} is already committed: load the plan and decide again")
        self.version = version


class ForeignRegionError(StoreError):
    """The store holds another region than the one this hub belongs to; the hub does not register there."""


class DamagedError(StoreError):
    """The data stored at `path` is damaged. Nothing was deleted."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path
        self.reason = reason
