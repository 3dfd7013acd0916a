"""The contract of the metadata store.

A store is a tree of small versioned nodes and a session. Nodes are compared and set by version; an ephemeral node is
deleted with the session that created it. There are three stores: in memory, in memory behind a (simulated) network, and
ZooKeeper; one contract suite runs on all.

Time. Every request, and every wait for a connection, takes at most `request_timeout_s`; then StoreUnavailableError.

Sessions. A store opens one, keeps it alive, and reports its state: CONNECTED; SUSPENDED while the store is unreachable;
LOST once the session has ended. LOST is reported at most the session time-out after the last request with a reply was
sent, so an owner learns of it before other clients can see its ephemeral nodes deleted, with or without a connection,
if both clocks run at the same rate. After LOST the store opens a new session by itself and is CONNECTED again; a client
with ephemeral nodes has to create them again.

Uncertain outcomes. If the connection is lost before the reply, the store reads before it retries: a `create` counts as
done if the node exists with this data, and belongs to this session or is persistent; a `set` if the version is the next
one and the data is the same; a `delete` if the node does not exist. (A `set` of any version may be executed twice.) If
two writers could write the same bytes and it matters who was first, add a unique value. If the session ends, too, a
write raises SessionLostError and may have happened.

Watches report that something has changed, not what: the reader reads again. A watch lasts until it is left. Several
changes may be reported once, and a reconnection counts as a change.

Reads. A reply may be as old as the state of its server, which may lag in an ensemble; it is never older than an earlier
reply to this store. A client that needs the present state writes with an expected version, or calls `sync` before it
reads.

Latency. A store may be far away, so independent requests are sent together: `read` executes several reads over one
connection, in order, and each result is no older than the one before it. If the connection is lost, all of them are
read again.

There are no transactions over several nodes: every commit here creates or sets one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Annotated, Protocol, Self

import msgspec
from msgspec import Meta

from equipoise.errors import LimitError, MisuseError

__all__ = [
    "NODE_BYTES_MAX",
    "Answer",
    "Node",
    "Read",
    "SessionState",
    "Store",
    "StoreSettings",
    "Watch",
    "WatchKind",
    "ancestors",
    "check_data",
    "check_path",
    "parent_of",
]

# ZooKeeper rejects packets of 1 MiB (jute.maxbuffer); the rest is for the path and the header.
NODE_BYTES_MAX = 1_000_000
PATH_CHARS_MAX = 10_000


def check_path(path: str) -> None:
    """Raise MisuseError unless ZooKeeper accepts the path, too."""
    if path == "/":
        return
    if len(path) > PATH_CHARS_MAX:
        raise MisuseError(f"a path of {len(path)} characters: use at most {PATH_CHARS_MAX}")
    if not path.startswith("/") or not all(part not in ("", ".", "..") for part in path[1:].split("/")):
        raise MisuseError(f"{path!r} is not a path: it must be /a/b, with no empty, '.' or '..' part")
    if not path.isprintable():
        raise MisuseError(f"{path!r} is not a path: it has unprintable characters")


def check_data(path: str, data: bytes) -> None:
    if len(data) > NODE_BYTES_MAX:
        raise LimitError(f"{len(data)} bytes for the node {path}: a node has at most {NODE_BYTES_MAX}")


def parent_of(path: str) -> str:
    """The parent's path; the root is its own."""
    return path.rpartition("/")[0] or "/"


def ancestors(path: str) -> list[str]:
    """The node and all above it but the root, from the top."""
    parts = path.strip("/").split("/") if path != "/" else []
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]


class SessionState(StrEnum):
    CONNECTED = "connected"
    # Unreachable; the session may still be alive.
    SUSPENDED = "suspended"
    # The session has ended; its ephemeral nodes are deleted, or will be.
    LOST = "lost"


class WatchKind(StrEnum):
    # The node is created, deleted, or its data set.
    DATA = "data"
    # A child is created or deleted, or the node itself is.
    CHILDREN = "children"


class Node(msgspec.Struct, frozen=True, array_like=True):
    """A node at the time of the read."""

    path: str
    data: bytes
    # Counts the times `set` succeeded; 0 after creation.
    version: int
    # Increases with every creation in the whole store: of two owners of a path, the later one has the greater id.
    # ZooKeeper's czxid.
    created_id: int
    # The session of an ephemeral node; 0 for a persistent one.
    owner: int = 0


class Read(msgspec.Struct, frozen=True, array_like=True):
    """One of several reads: a node, or the names of its children."""

    path: str
    kind: WatchKind = WatchKind.DATA


# The result of a Read: the node, or its children's names, sorted; None if the node does not exist.
Answer = Node | tuple[str, ...] | None


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time-outs of a store."""

    session_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="A hub without contact for this long counts as dead. Shorter detects dead hubs sooner, "
            "longer tolerates pauses. ZooKeeper allows 2 to 20 of its ticks, by default 4 to 40 s.",
        ),
    ] = 10.0
    request_timeout_s: Annotated[
        float,
        Meta(
            gt=0,
            description="For one request, waiting for a reconnection included. As long as the session: "
            "what takes longer is of no use to a hub that must answer its clients.",
        ),
    ] = 10.0


class Watch(Protocol):
    """Use as an async context manager, and read after entering it.

    async with store.watch(path) as watch:
        while True:
            node = await store.find(path)
            ...
            await watch.changed()
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def changed(self, timeout_s: float | None = None) -> bool:
        """Wait until something may have changed since the last call returned, or since entering.

        False if the time is up first. The next call reports changes after this one has returned.
        Raises ClosedError once the store is closed.
        """
        ...

    async def changed_to(self, reads: Callable[[], Sequence[Read]]) -> tuple[Answer, ...]:
        """Wait as `changed` does, and read: one round trip arms the watch again and then reads.

        `reads` is called for each attempt. The next call reports changes that the results do not show.
        """
        ...


class Store(Protocol):
    """Paths are absolute, `/a/b`. Data is at most 1,000,000 bytes.

    Every method raises StoreUnavailableError when its time is up, ClosedError after `close`, and writes raise
    SessionLostError; each method lists its other errors.
    """

    @property
    def session(self) -> int:
        """The id of the session, unique in the store's life; 0 without a session."""
        ...

    @property
    def state(self) -> SessionState: ...

    def listen(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call back with every new state, from the loop; the callback must not block. Returns a function to end
        that.
        """
        ...

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> Node:
        """Raises NodeExistsError, or NoNodeError if the parent does not exist."""
        ...

    async def get(self, path: str) -> Node:
        """Raises NoNodeError."""
        ...

    async def find(self, path: str) -> Node | None:
        """Like `get`; None if the node does not exist."""
        ...

    async def set(self, path: str, data: bytes, *, version: int | None) -> Node:
        """Raises NoNodeError, or BadVersionError unless the node has this version. None: any version."""
        ...

    async def delete(self, path: str, *, version: int | None = None) -> None:
        """Raises NoNodeError, NotEmptyError, or BadVersionError unless the node has this version."""
        ...

    async def children(self, path: str) -> tuple[str, ...]:
        """Names, sorted. Raises NoNodeError."""
        ...

    async def read(self, reads: Sequence[Read]) -> tuple[Answer, ...]:
        """All of them in one round trip, executed in this order, over one connection."""
        ...

    async def sync(self) -> None:
        """Wait until the server has all that was committed before this call, by any client: later reads show it."""
        ...

    async def ensure(self, path: str) -> None:
        """Create the node and its ancestors, persistent and empty, unless they exist."""
        ...

    def watch(self, path: str, kind: WatchKind = WatchKind.DATA) -> Watch:
        """The node need not exist."""
        ...

    async def close(self) -> None:
        """End the session, with its ephemeral nodes, and release everything. May be called twice."""
        ...
