"""One ZooKeeper for all tests of a process: a JVM takes a second to start and 150 MB."""

from __future__ import annotations

import asyncio
import atexit
import functools
import tempfile
from pathlib import Path

import pytest

from equipoise.errors import StoreUnavailableError
from equipoise.store.embedded.zookeeper_process import (
    EmbeddedSettings,
    EmbeddedZooKeeper,
    find_jars,
    find_java,
)

# Sessions may be as short as two of these, and end up to one late.
TICK_MS = 200


@functools.cache
def missing() -> str | None:
    """Why there can be no ZooKeeper here; None if there can."""
    try:
        find_java()
        find_jars()
    except StoreUnavailableError as problem:
        return str(problem)
    return None


def require_zookeeper() -> None:
    """Skip the test, with the reason, where ZooKeeper cannot be started."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)


@functools.cache
def shared_zookeeper() -> EmbeddedZooKeeper:
    """Started at the first call, outside any loop, and stopped when the process ends.

    Keep to a root of your own in it.
    """
    folder = tempfile.TemporaryDirectory(prefix="equipoise-zookeeper-")
    server = EmbeddedZooKeeper(EmbeddedSettings(directory=Path(folder.name), tick_ms=TICK_MS))

    def stop() -> None:
        asyncio.run(server.stop())
        folder.cleanup()

    atexit.register(stop)
    asyncio.run(server.start())
    return server
