"""Nodes and sessions of a store in memory, with ZooKeeper's rules. Pure: time comes from `clock`.

Always true:
    every node but the root has its parent, and no ephemeral node has children;
    an ephemeral node's owner is a live session;
    an armed watch gets the first change after it, once, and is then removed;
    a session that has ended is rejected permanently.

The server calls `expire_due` and connects sessions with their owners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from equipoise.errors import (
    BadVersionError,
    MisuseError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionLostError,
)
from equipoise.store.contract import Node, WatchKind, parent_of

__all__ = ["MemoryTree", "SessionOwner"]


class SessionOwner(Protocol):
    """The owner of a session's connection. The tree calls both methods from within a call: do not call back."""

    def changed(self, path: str, kind: WatchKind) -> None: ...

    def ended(self) -> None:
        """The session has ended, by time-out or by the tree's `end_session`."""
        ...


@dataclass(slots=True)
class _Record:
    data: bytes
    created_id: int
    owner: int
    version: int = 0
    # Names, in order of creation.
    children: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Session:
    timeout_s: float
    received_at: float
    # None while there is no connection.
    owner: SessionOwner | None
    ephemerals: dict[str, None] = field(default_factory=dict)
    # Watches armed on the present connection.
    watches: dict[tuple[WatchKind, str], None] = field(default_factory=dict)


class MemoryTree:
    """Changes only through its methods; every writing method is one step of its history."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._nodes: dict[str, _Record] = {"/": _Record(b"", 0, 0)}
        self._sessions: dict[int, _Session] = {}
        self._watchers: dict[tuple[WatchKind, str], dict[int, None]] = {}
        self._last_id = 0
        self._last_session = 0

    # Sessions.

    def open_session(self, timeout_s: float, owner: SessionOwner | None) -> int:
        self._last_session += 1
        self._sessions[self._last_session] = _Session(timeout_s, self._clock(), owner)
        return self._last_session

    def attach(self, session: int, owner: SessionOwner | None) -> None:
        """Set the connection of the session, or None. Watches of the former connection are removed."""
        found = self._live(session)
        self._forget_watches(session, found)
        found.owner = owner
        if owner is not None:
            found.received_at = self._clock()

    def touch(self, session: int) -> None:
        """The client of the session has sent something."""
        self._live(session).received_at = self._clock()

    def touch_all(self) -> None:
        """The server has started: every session gets its full time-out again, since no client could reach it."""
        for session in self._sessions.values():
            session.received_at = self._clock()

    def end_session(self, session: int) -> None:
        """End it and delete its ephemeral nodes. No effect if it has ended before."""
        found = self._sessions.pop(session, None)
        if found is None:
            return
        self._forget_watches(session, found)
        for path in list(found.ephemerals):
            self._remove(path)
        if found.owner is not None:
            found.owner.ended()

    def expire_due(self) -> None:
        now = self._clock()
        for number, session in list(self._sessions.items()):
            if session.received_at + session.timeout_s <= now:
                self.end_session(number)

    def next_expiry(self) -> float | None:
        """When the next session ends if its client sends nothing."""
        return min((found.received_at + found.timeout_s for found in self._sessions.values()), default=None)

    def is_live(self, session: int) -> bool:
        return session in self._sessions

    # Nodes.

    def create(self, session: int, path: str, data: bytes, ephemeral: bool) -> Node:
        owner = self._live(session)
        parent = self._nodes.get(parent_of(path))
        if path in self._nodes:
            raise NodeExistsError(path)
        if parent is None:
            raise NoNodeError(path)
        if parent.owner:
            raise MisuseError(f"{path} cannot be created: its parent is ephemeral and cannot have children")
        self._last_id += 1
        self._nodes[path] = _Record(data, self._last_id, session if ephemeral else 0)
        parent.children[path.rpartition("/")[2]] = None
        if ephemeral:
            owner.ephemerals[path] = None
        self._tell_of_node(path)
        return self.get(path)

    def get(self, path: str) -> Node:
        found = self._find(path)
        return Node(path, found.data, found.version, found.created_id, found.owner)

    def find(self, path: str) -> Node | None:
        return self.get(path) if path in self._nodes else None

    def set(self, session: int, path: str, data: bytes, version: int | None) -> Node:
        self._live(session)
        found = self._expect(path, version)
        found.data = data
        found.version += 1
        self._last_id += 1
        self._tell(path, WatchKind.DATA)
        return self.get(path)

    def delete(self, session: int, path: str, version: int | None) -> None:
        self._live(session)
        found = self._expect(path, version)
        if path == "/":
            raise MisuseError("the root cannot be deleted")
        if found.children:
            raise NotEmptyError(path)
        self._remove(path)

    def children(self, path: str) -> tuple[str, ...]:
        return tuple(sorted(self._find(path).children))

    def arm(self, session: int, path: str, kind: WatchKind) -> None:
        """Notify the session's owner of the next change. The node need not exist."""
        self._live(session).watches[kind, path] = None
        self._watchers.setdefault((kind, path), {})[session] = None

    # Nodes of a journal.

    def persistent(self) -> Iterator[Node]:
        """All nodes but the root and the ephemeral ones, parents first."""
        for path, found in self._nodes.items():
            if path != "/" and not found.owner:
                yield Node(path, found.data, found.version, found.created_id)

    def restore(self, node: Node) -> None:
        """Create or set a persistent node as recorded; its parent exists."""
        found = self._nodes.get(node.path)
        if found is None:
            self._nodes[node.path] = _Record(node.data, node.created_id, 0, node.version)
            self._nodes[parent_of(node.path)].children[node.path.rpartition("/")[2]] = None
        else:
            found.data, found.version = node.data, node.version
        self._last_id = max(self._last_id, node.created_id)

    def forget(self, path: str) -> None:
        """Delete a node that was restored."""
        self._remove(path)

    # Internal.

    def _live(self, session: int) -> _Session:
        found = self._sessions.get(session)
        if found is None:
            raise SessionLostError("the session has ended")
        return found

    def _find(self, path: str) -> _Record:
        found = self._nodes.get(path)
        if found is None:
            raise NoNodeError(path)
        return found

    def _expect(self, path: str, version: int | None) -> _Record:
        found = self._find(path)
        if version is not None and version != found.version:
            raise BadVersionError(path)
        return found

    def _remove(self, path: str) -> None:
        found = self._nodes.pop(path)
        del self._nodes[parent_of(path)].children[path.rpartition("/")[2]]
        if found.owner in self._sessions:
            del self._sessions[found.owner].ephemerals[path]
        self._last_id += 1
        self._tell_of_node(path)

    def _tell_of_node(self, path: str) -> None:
        """The node was created or deleted."""
        for kind in WatchKind:
            self._tell(path, kind)
        self._tell(parent_of(path), WatchKind.CHILDREN)

    def _tell(self, path: str, kind: WatchKind) -> None:
        for number in self._watchers.pop((kind, path), {}):
            session = self._sessions[number]
            session.watches.pop((kind, path), None)
            if session.owner is not None:
                session.owner.changed(path, kind)

    def _forget_watches(self, number: int, session: _Session) -> None:
        for key in session.watches:
            watchers = self._watchers[key]
            watchers.pop(number, None)
            if not watchers:
                del self._watchers[key]
        session.watches.clear()
