"""Servers on demand: start hubs on machines, stop hubs that are empty.

The controller decides how many; a provisioner finds machines. Every round repeats missing and surplus servers until the
request is fulfilled: a provisioner's actions have to be idempotent. No call waits for a machine; rounds continue.

`CommandProvisioner` runs a configured command, for any cloud: `COMMAND start NAME`, `COMMAND stop NAME`. Always true: a
request is in the store before the command runs, so no hub is forgotten if this process dies in between; at most one
command runs for a hub, and a bounded number in all; only a round starts one, so a controller that no longer leads
starts none. Commands run in parallel to rounds. A later round repeats one that fails or takes too long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shlex
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from equipoise.errors import ProvisionError, StoreError
from equipoise.store import ServersStore, Store, Tree, WantedServer

__all__ = [
    "CommandProvisioner",
    "NoProvisioner",
    "Provisioner",
    "StoreProvisioner",
    "fresh_names",
    "run_command",
]


class Provisioner(Protocol):
    """Starts and stops machines."""

    @property
    def problem(self) -> str:
        """The last failure without a later success, for display; empty if there is none."""
        ...

    async def wanted(self) -> Mapping[str, WantedServer]:
        """The requested hubs that were not released. Raises StoreError."""
        ...

    async def start(self, servers: Sequence[WantedServer]) -> None:
        """Request these hubs. Raises StoreError, or ProvisionError."""
        ...

    async def remind(self, hubs: Sequence[str]) -> None:
        """Called in every round with requested hubs that are not alive: repeat failed requests. Raises like `start`."""
        ...

    async def stop(self, hubs: Sequence[str]) -> None:
        """Stop these hubs, which serve no clients any more. Raises like `start`."""
        ...


class NoProvisioner:
    """Hubs are started and stopped by their operator."""

    problem = ""

    async def wanted(self) -> Mapping[str, WantedServer]:
        return {}

    async def start(self, servers: Sequence[WantedServer]) -> None:
        return None

    async def remind(self, hubs: Sequence[str]) -> None:
        return None

    async def stop(self, hubs: Sequence[str]) -> None:
        return None


class StoreProvisioner:
    """Write the wanted hubs into the store; `equipoise up` reads them and starts and stops processes."""

    problem = ""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._servers = ServersStore(store, tree)

    async def wanted(self) -> Mapping[str, WantedServer]:
        return await self._servers.load()

    async def start(self, servers: Sequence[WantedServer]) -> None:
        await self._servers.change(add=servers)

    async def remind(self, hubs: Sequence[str]) -> None:
        """The reader of the store keeps its processes running."""

    async def stop(self, hubs: Sequence[str]) -> None:
        await self._servers.change(remove=hubs)


def fresh_names(taken: set[str], count: int, *, prefix: str = "hub") -> list[str]:
    """Unused names: hub-1, hub-2 and so on, the lowest free ones."""
    names: list[str] = []
    number = 1
    while len(names) < count:
        name = f"{prefix}-{number}"
        if name not in taken:
            names.append(name)
        number += 1
    return names


log = logging.getLogger("equipoise.control")

# Starting a machine may take minutes; the command has to request it without waiting.
COMMAND_S_MAX = 60.0
# Enough to double a small system at once; providers begin to reject more concurrent requests.
COMMANDS_MAX = 8
# Pauses after failures: from a round's length, doubled, up to a delay that is acceptable after a repair.
RETRY_S = 5.0
RETRY_S_MAX = 60.0
_OUTPUT_SHOWN = 300

START, STOP = "start", "stop"


@dataclass(slots=True)
class _Errand:
    """The pending action for one hub, until it is alive or gone."""

    verb: str
    task: asyncio.Task[None] | None = None
    has_worked: bool = False
    # Not before this time of the loop's clock.
    due_s: float = 0.0
    pause_s: float = RETRY_S

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()


class CommandProvisioner:
    """Owned by one controller; `close` ends running commands."""

    def __init__(
        self,
        command: str,
        store: Store,
        tree: Tree,
        *,
        call: Callable[[Sequence[str]], Awaitable[None]] | None = None,
    ) -> None:
        self._words = shlex.split(command)
        self._servers = ServersStore(store, tree)
        self._call = call or run_command
        self._slots = asyncio.Semaphore(COMMANDS_MAX)
        self._errands: dict[str, _Errand] = {}
        # Failed commands, and the last problem of each hub with a pending action.
        self.failures = 0
        self._problems: dict[str, str] = {}

    @property
    def problem(self) -> str:
        return "; ".join(self._problems.values())

    async def wanted(self) -> Mapping[str, WantedServer]:
        return await self._servers.load()

    async def start(self, servers: Sequence[WantedServer]) -> None:
        await self._servers.change(add=servers)
        for server in servers:
            # Earlier actions for a hub of that name are void.
            self._forget(server.hub)
            self._pursue(server.hub, START)

    async def remind(self, hubs: Sequence[str]) -> None:
        # A hub that is no longer missing is alive; if it disappears, it is to be started again.
        for hub in [hub for hub, errand in self._errands.items() if errand.verb == START and hub not in hubs]:
            self._forget(hub)
        wanted = await self._servers.load() if hubs else {}
        for hub in hubs:
            # A hub stopped since the round began is not requested again.
            if hub in wanted:
                self._pursue(hub, START)

    async def stop(self, hubs: Sequence[str]) -> None:
        for hub in hubs:
            self._pursue(hub, STOP)

    async def close(self) -> None:
        """The next leader repeats interrupted commands."""
        tasks = [errand.task for errand in self._errands.values() if errand.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, hub: str) -> None:
        if hub in self._errands and not self._errands[hub].is_running:
            del self._errands[hub]
            self._problems.pop(hub, None)

    def _pursue(self, hub: str, verb: str) -> None:
        errand, before = self._errands.get(hub), None
        if errand is None or (errand.verb, verb) == (START, STOP):
            before = None if errand is None else errand.task
            errand = self._errands[hub] = _Errand(verb)
        # A pending stop stays until it succeeds, though the hub is missing meanwhile.
        is_early = asyncio.get_running_loop().time() < errand.due_s
        if not (errand.is_running or errand.has_worked or is_early):
            errand.task = asyncio.create_task(self._run(hub, errand, before), name=f"{errand.verb} {hub}")

    async def _run(self, hub: str, errand: _Errand, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            before.cancel()
            await asyncio.wait([before])
        try:
            async with self._slots:
                await self._call([*self._words, errand.verb, hub])
            if errand.verb == STOP:
                await self._servers.change(remove=[hub])
                del self._errands[hub]
        except (ProvisionError, StoreError) as problem:
            self.failures += 1
            self._problems[hub] = str(problem)
            log.warning("%s; again in %.0f s", problem, errand.pause_s)
            errand.due_s = asyncio.get_running_loop().time() + errand.pause_s
            errand.pause_s = min(2 * errand.pause_s, RETRY_S_MAX)
        else:
            errand.has_worked = True
            self._problems.pop(hub, None)


async def run_command(words: Sequence[str], *, patience_s: float = COMMAND_S_MAX) -> None:
    """Run it to its end. Raises ProvisionError with the end of its output; cancelled, it ends the command, too."""
    shown = shlex.join(words)
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # So that child processes of a script end with it.
            start_new_session=True,
        )
    except OSError as problem:
        raise ProvisionError(f"cannot run {shown}: {problem.strerror}") from problem
    try:
        async with asyncio.timeout(patience_s):
            output, _ = await process.communicate()
    except TimeoutError as problem:
        raise ProvisionError(
            f"{shown} did not end within {patience_s:g} s: it must request a machine without waiting for it"
        ) from problem
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        said = output.decode(errors="replace").strip()[-_OUTPUT_SHOWN:]
        raise ProvisionError(f"{shown} ended with status {process.returncode}: {said or 'no output'}")
    log.info("%s", shown)
