"""The contract of the metadata store.

A store is a tree of small versioned nodes and a session. Nodes are compared and set by version; an ephemeral node goes
with the session that made it. There are three: in memory, in memory behind a (simulated) network, and ZooKeeper; one
contract suite runs on all.

Time. Every request waits at most `request_timeout_s`, for a connection too, and then raises StoreUnavailableError.

Sessions. A store opens one, keeps it alive, and says how it is: CONNECTED; SUSPENDED while it cannot be reached; LOST
once the session has ended. LOST comes no later than the session time-out after the last request that was answered had
been sent, so an owner learns of it before others can see its ephemeral nodes go, reachable store or not, as long as
both clocks run alike. After LOST the store opens a new session by itself and is CONNECTED again; a client that had
ephemeral nodes makes them again, or does not.

Doubt. If the connection goes before the reply comes, the store looks before it tries again: a `create` counts as
done if the node is there, with this data, and is this session's or persistent; a `set` if the version is the next one
and the data this; a `delete` if the node is gone. (A `set` of any version may be carried out twice.) Where two
writers could write the same bytes and it matters who was first, put something unique into them. If the session goes
too, a write raises SessionLostError and may have happened.

Watches say that something has changed, not what: the reader reads again. One watch lasts until it is left. Changes
that come together are reported once, and a reconnection counts as a change.

Reads. An answer may be as old as the server that gave it, which in an ensemble may lag; it is never older than an
answer this store has given before. A client that must not act on the past writes with an expected version.

Distance. A store may be a long way off, so what does not depend on an answer is asked for together with what gives it:
`read` takes several reads over one connection, in their order, and each answer is no older than the one before it.
Should the connection go, all of them are read again.

Transactions over several nodes are left out: everything here commits by creating or setting one node.
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

# ZooKeeper refuses packets of 1 MiB (jute.maxbuffer); what is left is for the path and the header.
NODE_BYTES_MAX = 1_000_000
PATH_CHARS_MAX = 10_000


def check_path(path: str) -> None:
    """Raise MisuseError unless ZooKeeper would take it too."""
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
    # Out of reach; the session may still be alive.
    SUSPENDED = "suspended"
    # The session has ended; its ephemeral nodes are gone or are going.
    LOST = "lost"


class WatchKind(StrEnum):
    # The node is made, deleted, or its data set.
    DATA = "data"
    # A child is made or deleted, or the node itself is.
    CHILDREN = "children"


class Node(msgspec.Struct, frozen=True, array_like=True):
    """A node as it was when it was read."""

    path: str
    data: bytes
    # Counts the times `set` succeeded; 0 after creation.
    version: int
    # Grows with every creation in the whole store: of two owners of a path, the later one has the greater id.
    # ZooKeeper's czxid.
    created_id: int
    # The session an ephemeral node belongs to; 0 for a persistent one.
    owner: int = 0


class Read(msgspec.Struct, frozen=True, array_like=True):
    """One of several that are asked for together: a node, or the names of its children."""

    path: str
    kind: WatchKind = WatchKind.DATA


# To a Read: the node, or its children's names, sorted; None if the node is not there.
Answer = Node | tuple[str, ...] | None


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How patient a store is."""

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

        False if the time is up first. The next call reports what changes after it has returned.
        Raises ClosedError once the store is closed.
        """
        ...

    async def changed_to(self, reads: Callable[[], Sequence[Read]]) -> tuple[Answer, ...]:
        """Wait as `changed` does, and read: in one round trip, which sets the watch again and then asks for these.

        `reads` is called when there is something to read, and again if it has to be asked for again. What the answers
        do not show is reported by the next call.
        """
        ...


class Store(Protocol):
    """Paths are absolute, `/a/b`. Data is at most 1,000,000 bytes.

    Every method raises StoreUnavailableError when time is up, ClosedError after `close`, and writes raise
    SessionLostError; the others are named with each.
    """

    @property
    def session(self) -> int:
        """The id of the session, unique in the store's life; 0 while there is none."""
        ...

    @property
    def state(self) -> SessionState: ...

    def listen(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call back with every new state, from the loop and without waiting. Returns what ends it."""
        ...

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False) -> Node:
        """Raises NodeExistsError, or NoNodeError if the parent is not there."""
        ...

    async def get(self, path: str) -> Node:
        """Raises NoNodeError."""
        ...

    async def find(self, path: str) -> Node | None:
        """Like `get`; None if the node is not there."""
        ...

    async def set(self, path: str, data: bytes, *, version: int | None) -> Node:
        """Raises NoNodeError, or BadVersionError unless the node has this version. None: whatever it has."""
        ...

    async def delete(self, path: str, *, version: int | None = None) -> None:
        """Raises NoNodeError, NotEmptyError, or BadVersionError unless the node has this version."""
        ...

    async def children(self, path: str) -> tuple[str, ...]:
        """Names, sorted. Raises NoNodeError."""
        ...

    async def read(self, reads: Sequence[Read]) -> tuple[Answer, ...]:
        """All of them in one round trip, carried out in this order, over one connection."""
        ...

    async def ensure(self, path: str) -> None:
        """Make the node and its ancestors, persistent and empty, as far as they are not there."""
        ...

    def watch(self, path: str, kind: WatchKind = WatchKind.DATA) -> Watch:
        """The node need not be there."""
        ...

    async def close(self) -> None:
        """End the session, its ephemeral nodes with it, and let go of everything. May be called twice."""
        ...
