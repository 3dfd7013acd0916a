"""Servers that the conformance tests share, one of each kind per test run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from conformance.worlds import hub_in, redis_in
from support.processes import ServerProcess


class Servers:
    """Starts the server of a world when it is first asked for. No hub may have logged an exception at the end."""

    def __init__(self, stack: ExitStack, folders: pytest.TempPathFactory) -> None:
        self._stack, self._folders = stack, folders
        self._running: dict[tuple[str, str], ServerProcess] = {}

    def get(self, server: str, world: str = "open") -> ServerProcess:
        key = (server, world)
        if key not in self._running:
            context = redis_in(world) if server == "redis" else hub_in(world, self._folders.mktemp(world))
            self._running[key] = self._stack.enter_context(context)
        return self._running[key]

    def check(self) -> None:
        for (server, world), process in self._running.items():
            assert server != "hub" or "Traceback" not in process.output, f"{world} hub:\n{process.output}"


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with ExitStack() as stack:
        started = Servers(stack, tmp_path_factory)
        yield started
        started.check()


@pytest.fixture
def hub(servers: Servers) -> ServerProcess:
    """An open hub, shared: a test uses names of its own."""
    return servers.get("hub")
