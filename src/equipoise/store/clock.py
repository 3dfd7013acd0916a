"""How far a ZooKeeper's clock is from ours: it stamps every node with the time of its creation."""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass

from kazoo.client import KazooClient  # type: ignore[import-untyped]  # kazoo has no types
from kazoo.exceptions import KazooException  # type: ignore[import-untyped]  # kazoo has no types
from kazoo.handlers.threading import KazooTimeoutError  # type: ignore[import-untyped]  # kazoo has no types

from equipoise.errors import StoreUnavailableError
from equipoise.store.zookeeper_url import ZooKeeperAddress

__all__ = ["ClockReading", "read_clock"]


@dataclass(frozen=True, slots=True)
class ClockReading:
    # The store's time less ours; positive if it is ahead.
    offset_s: float
    # The truth lies no further from it than this: half the round trip.
    uncertainty_s: float


def read_clock(address: ZooKeeperAddress, timeout_s: float) -> ClockReading:
    """Make a node that goes with its session, and look at its time. Blocks; raises StoreUnavailableError."""
    silent = logging.Logger("equipoise.store.clock", level=logging.CRITICAL)
    client = KazooClient(address.chroot, timeout=timeout_s, logger=silent, **address.client_options())
    try:
        client.start(timeout=timeout_s)
        client.ensure_path("/")
        before_s = time.time()
        _, stat = client.create(f"/clock-{uuid.uuid4().hex}", b"", ephemeral=True, include_data=True)
        after_s = time.time()
    except (KazooException, KazooTimeoutError, OSError) as problem:
        raise StoreUnavailableError(str(problem) or "no answer in time") from problem
    finally:
        client.stop()
        client.close()
    return ClockReading(stat.ctime / 1_000 - (before_s + after_s) / 2, (after_s - before_s) / 2)
