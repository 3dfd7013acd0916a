"""Orders of publishers, computed from arrivals: the latest of each topic.

A plan's entry has the number of the order by which its publishers are assigned. Hubs read the order when the number
changes; a newer order than the plan's may be used, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from equipoise.limits.seat_order import SeatOrder
from equipoise.store.contract import Node, Store
from equipoise.store.tree import Tree

__all__ = ["SeatOrders"]

log = logging.getLogger("equipoise.store.records.seat_orders")

_decoder = msgspec.msgpack.Decoder(SeatOrder)


class SeatOrders:
    """Read and store the orders of one region."""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._store = store
        self._tree = tree

    async def load(self, topic: bytes) -> SeatOrder | None:
        """None: there is none, or it cannot be read."""
        return self._read(topic, await self._store.find(self._tree.seat_order(topic)))

    async def keep(self, topic: bytes, key: bytes, publishers: Iterable[int]) -> SeatOrder:
        """Store an order in place of the topic's last one. Raises StoreError if another writer is faster."""
        path = self._tree.seat_order(topic)
        node = await self._store.find(path)
        before = self._read(topic, node)
        order = SeatOrder.of(1 if before is None else before.number + 1, key, publishers)
        data = msgspec.msgpack.encode(order)
        if node is None:
            await self._store.ensure(self._tree.seat_orders)
            await self._store.create(path, data)
        else:
            await self._store.set(path, data, version=node.version)
        return order

    def _read(self, topic: bytes, node: Node | None) -> SeatOrder | None:
        if node is None:
            return None
        try:
            return _decoder.decode(node.data)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            log.error("the order of the publishers of %r cannot be read: %s", topic, problem)
            return None
