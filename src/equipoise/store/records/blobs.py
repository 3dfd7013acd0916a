"""Store values that exceed one node: compressed, in parts, with a checksum.

A blob is written completely before any reference to it, and never changed. A reference has its name, size and checksum:
other bytes are rejected.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from xxhash import xxh3_128_digest

from equipoise.errors import DamagedError, NoNodeError
from equipoise.store.contract import Node, Read, Store
from equipoise.store.executor import HEAVY_BYTES, offload

__all__ = ["BlobRef", "delete_blob", "read_blob", "write_blob"]

PART_BYTES_MAX = 900_000
# The largest size that a reader unpacks: 100,000 entries take 3 MB, a plan of a million topics 40 MB.
BLOB_BYTES_MAX = 256 * 1024 * 1024
# Parts in flight: ZooKeeper replies in order on one connection, so a few hide the round trip.
_PARTS_AT_ONCE = 4
# The fastest level: names compress eightfold at it.
_LEVEL = 1


class BlobRef(msgspec.Struct, frozen=True, array_like=True):
    name: str
    parts: int
    # Unpacked.
    size: int
    # XXH3-128 of the unpacked bytes: against accidents, not against forgers, who could write the reference too.
    digest: bytes


async def write_blob(store: Store, folder: str, name: str, data: bytes) -> BlobRef:
    """`name` has never been used. A failure may leave parts, to which nothing refers."""
    packed = await offload(len(data) > HEAVY_BYTES, zlib.compress, data, _LEVEL)
    parts = [packed[start : start + PART_BYTES_MAX] for start in range(0, len(packed), PART_BYTES_MAX)]
    await store.create(f"{folder}/{name}")
    for first in range(0, len(parts), _PARTS_AT_ONCE):
        numbers = range(first, min(first + _PARTS_AT_ONCE, len(parts)))
        await asyncio.gather(*(store.create(_part(folder, name, n), parts[n]) for n in numbers))
    return BlobRef(name, len(parts), len(data), xxh3_128_digest(data))


async def read_blob(store: Store, folder: str, ref: BlobRef) -> bytes:
    """Raises DamagedError unless every byte is as written."""
    path = f"{folder}/{ref.name}"
    if not 0 <= ref.size <= BLOB_BYTES_MAX:
        raise DamagedError(path, f"its reference announces {ref.size} bytes")
    unpack = zlib.decompressobj()
    data = bytearray()
    try:
        async with aclosing(_parts(store, folder, ref)) as parts:
            async for part in parts:
                # At most the announced size: a few bytes of zlib can expand to gigabytes.
                left = ref.size - len(data) + 1
                data += await offload(len(part) > HEAVY_BYTES, unpack.decompress, part, left)
                if len(data) > ref.size:
                    break
    except zlib.error as problem:
        raise DamagedError(path, f"it does not unpack: {problem}") from problem
    if len(data) != ref.size or xxh3_128_digest(bytes(data)) != ref.digest:
        raise DamagedError(path, "its checksum does not match")
    return bytes(data)


async def _parts(store: Store, folder: str, ref: BlobRef) -> AsyncGenerator[bytes, None]:
    """Several in one round trip. Raises DamagedError if one is missing."""
    for first in range(0, ref.parts, _PARTS_AT_ONCE):
        numbers = range(first, min(first + _PARTS_AT_ONCE, ref.parts))
        nodes = await store.read([Read(_part(folder, ref.name, n)) for n in numbers])
        for number, node in zip(numbers, nodes, strict=True):
            if not isinstance(node, Node):
                raise DamagedError(f"{folder}/{ref.name}", f"part {number} of {ref.parts} is missing")
            yield node.data


async def delete_blob(store: Store, folder: str, name: str) -> None:
    """Parts first. Another process may delete them at the same time."""
    path = f"{folder}/{name}"
    try:
        for part in await store.children(path):
            await _delete_if_there(store, f"{path}/{part}")
        await store.delete(path)
    except NoNodeError:
        pass


async def _delete_if_there(store: Store, path: str) -> None:
    try:
        await store.delete(path)
    except NoNodeError:
        pass


def _part(folder: str, name: str, number: int) -> str:
    return f"{folder}/{name}/{number:04d}"
