"""The users of a region, in the store.

The text is that of a users file; the file of the first hub or tool seeds it. Its access version counts the changes:
0 without users in the store, then 1, 2, 3. A plan carries the access version of its time, so a hub that gets a plan
knows whether its own rules are too old.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from equipoise.access import Users, parse_users, render_users
from equipoise.errors import (
    BadVersionError,
    DamagedError,
    NodeExistsError,
    PlanRaceError,
    SettingsError,
)
from equipoise.model import PlanChange, Reason, Why
from equipoise.store.contract import Node, Store
from equipoise.store.executor import HEAVY_BYTES, offload
from equipoise.store.records.blobs import BlobRef, delete_blob, read_blob, write_blob
from equipoise.store.records.follow import read_reported
from equipoise.store.records.plans import PlanStore
from equipoise.store.tree import Tree, version_name

__all__ = ["StoredUsers", "UsersStore", "publish_users"]

# A reader may find a reference whose text was just replaced; if that repeats, there is another fault.
_READS_MAX = 5


class StoredUsers(msgspec.Struct, frozen=True):
    users: Users
    access_version: int


class _UsersRef(BlobRef, frozen=True, array_like=True):
    """A reference to the text of the users."""

    # Added to the node's version: users restored into an emptied store keep their access version.
    access_base: int = 0


_references = msgspec.msgpack.Decoder(_UsersRef)


class UsersStore:
    """Read and replace the users of one region."""

    def __init__(self, store: Store, tree: Tree | None = None) -> None:
        self._store = store
        self._tree = tree or Tree()
        self._tokens = 0

    async def load(self) -> StoredUsers:
        """The users; `Users.open()` with access version 0 if none were ever stored. Raises DamagedError."""
        problem: DamagedError | None = None
        for _ in range(_READS_MAX):
            node = await self._store.find(self._tree.users)
            if node is None:
                return StoredUsers(Users.open(), 0)
            try:
                return StoredUsers(await self._read(node), _access_version(node))
            except DamagedError as error:
                problem = error
        assert problem is not None
        raise problem

    async def seed(self, users: Users) -> StoredUsers:
        """Store these users unless there are some already; return those in force. Open access is not stored."""
        if not users.is_open and await self._store.find(self._tree.users) is None:
            try:
                return await self.replace(users, access_version=0)
            except BadVersionError:
                pass
        return await self.load()

    async def replace(self, users: Users, *, access_version: int) -> StoredUsers:
        """Replace the users of this access version. Raises BadVersionError if others are in force by now."""
        return await self._replace(users, over=access_version, access_version=access_version + 1)

    async def put_back(self, users: StoredUsers, *, over: int) -> StoredUsers:
        """Store users with their own access version, in place of older ones. Raises BadVersionError as `replace`."""
        return await self._replace(users.users, over=over, access_version=users.access_version)

    async def _replace(self, users: Users, *, over: int, access_version: int) -> StoredUsers:
        if users.is_open:
            raise SettingsError("open access cannot be stored: give at least one user")
        old = await self._store.find(self._tree.users)
        if (0 if old is None else _access_version(old)) != over:
            raise BadVersionError(self._tree.users)
        await self._store.ensure(self._tree.users_blobs)
        blob = await write_blob(
            self._store, self._tree.users_blobs, self._name(access_version), render_users(users).encode()
        )
        node_version = 0 if old is None else old.version + 1
        reference = _UsersRef(
            blob.name, blob.parts, blob.size, blob.digest, access_base=access_version - node_version - 1
        )
        try:
            node = await self._put(old, msgspec.msgpack.encode(reference))
        except (BadVersionError, NodeExistsError) as problem:
            await delete_blob(self._store, self._tree.users_blobs, blob.name)
            raise BadVersionError(self._tree.users) from problem
        if old is not None:
            await self._forget(old)
        return StoredUsers(users, _access_version(node))

    async def watch(self) -> AsyncGenerator[StoredUsers, None]:
        """The users, and again whenever they have changed. Continues after a loss of the store."""
        known = -1
        async with self._store.watch(self._tree.users) as watch:
            while True:
                stored = await read_reported(self.load)
                if stored.access_version > known:
                    known = stored.access_version
                    yield stored
                await watch.changed()

    async def _read(self, node: Node) -> Users:
        try:
            blob = _references.decode(node.data)
            text = (await read_blob(self._store, self._tree.users_blobs, blob)).decode()
            return await offload(len(text) > HEAVY_BYTES, parse_users, text)
        except (msgspec.DecodeError, UnicodeDecodeError, SettingsError) as problem:
            raise DamagedError(self._tree.users, str(problem)) from problem

    async def _put(self, old: Node | None, data: bytes) -> Node:
        if old is None:
            return await self._store.create(self._tree.users, data)
        return await self._store.set(self._tree.users, data, version=old.version)

    async def _forget(self, old: Node) -> None:
        try:
            blob = _references.decode(old.data)
        except msgspec.DecodeError:
            return  # It was damaged; its text cannot be found any more.
        await delete_blob(self._store, self._tree.users_blobs, blob.name)

    def _name(self, access_version: int) -> str:
        self._tokens += 1
        return f"{version_name(access_version)}-{self._store.session & (2**64 - 1):x}.{self._tokens}"


async def publish_users(
    stored: UsersStore, plans: PlanStore, users: Users, *, access_version: int
) -> StoredUsers:
    """Replace the users and announce that to all hubs through the plan. Raises BadVersionError after another change.

    Safe to interrupt: the next change of users brings the plan up to date, and watchers of the users have the change.
    """
    made = await stored.replace(users, access_version=access_version)
    why = Why(Reason.ACCESS, {"users": float(len(users))})
    while True:
        plan = await plans.load()
        if plan.access_version >= made.access_version:
            return made
        try:
            await plans.commit(PlanChange.on(plan, why, access_version=made.access_version))
        except PlanRaceError:
            continue


def _access_version(node: Node) -> int:
    try:
        base = _references.decode(node.data).access_base
    except msgspec.DecodeError:
        base = 0
    return node.version + 1 + base
