"""One child process: it logs to a file, says when it is ready, answers when asked, and ends with its parent.

Always true: its log is bounded; if this process dies, however it dies, the kernel kills the child (on Linux; elsewhere
only an orderly end takes the child along). A child that is being stopped is asked first and killed after a while.

When to start it again is the supervisor's business.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from equipoise.errors import DisconnectedError
from equipoise.processes.health import Check, HealthSettings, ask, until_it_hangs
from equipoise.processes.logfile import LOG_BYTES_MAX, bound_log, log_since

__all__ = ["Child", "ChildSpec", "spawn"]

# Runs in the child just before it becomes what it is to be. 1 is PR_SET_PDEATHSIG, 9 is SIGKILL; the process id stays
# the same through exec. A program of its own rather than code between fork and exec: this process may have threads.
_DIE_WITH_PARENT = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "if os.getppid() == int(sys.argv[1]): os.execvp(sys.argv[2], sys.argv[2:])\n"
)
_LOG_LINES_SHOWN = 5
# How often a child is looked at: whether it is ready, whether it lives. The loop's own watcher of children is another
# one under uvloop, and needs the main thread.
_LOOK_S = 0.02
# Between two looks at the length of its log.
_LOG_LOOK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What to run."""

    name: str
    command: Sequence[str]
    log_path: Path
    # A line of its log that says that it is ready. None: it is as soon as it runs.
    ready: re.Pattern[str] | None = None
    # What it is asked: once it says that it is ready, whether it is, and from then on whether it hangs. None: nothing.
    check: Check | None = None
    health: HealthSettings = field(default_factory=HealthSettings)
    # Of its log and of the older one, each.
    log_bytes_max: int = LOG_BYTES_MAX
    # A JVM on a busy machine takes many seconds; one that needs more is stuck.
    ready_timeout_s: float = 60.0
    # Then it is killed.
    stop_timeout_s: float = 3.0
    environment: Mapping[str, str] = field(default_factory=dict)


class Child:
    """One life of a process."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        # Where this life's part of the log begins: the file is kept from one life to the next.
        self._log_from = 0
        self._started_at = 0.0

    @property
    def pid(self) -> int | None:
        """None before the start and after the end."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def status(self) -> int | None:
        """What it ended with; None before that."""
        return None if self._process is None else self._process.poll()

    async def start(self) -> re.Match[str] | None:
        """Start it and wait until it is ready; what it said then. Raises DisconnectedError with its last words."""
        spec = self.spec
        spec.log_path.parent.mkdir(parents=True, exist_ok=True)
        bound_log(spec.log_path, spec.log_bytes_max)
        self._started_at = asyncio.get_running_loop().time()
        self._log_from = spec.log_path.stat().st_size if spec.log_path.exists() else 0
        self._process = spawn(spec.command, spec.log_path, environment=spec.environment)
        try:
            async with asyncio.timeout(spec.ready_timeout_s):
                return await self._ready()
        except TimeoutError as problem:
            await self.stop()
            raise DisconnectedError(
                f"{spec.name} was not ready within {spec.ready_timeout_s:g} s: {self.last_words()}"
            ) from problem
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def ended(self) -> int:
        """Wait for its end and return its status; negative if by a signal."""
        assert self._process is not None, "not started"
        while (status := self._process.poll()) is None:  # noqa: ASYNC110  see _LOOK_S
            await asyncio.sleep(_LOOK_S)
        return status

    async def over(self) -> str:
        """Wait for its end, or until it hangs and is ended for that; how it was."""
        ending = asyncio.create_task(self.ended())
        watching = asyncio.create_task(self._watch())
        bounding = asyncio.create_task(self._bound_log())
        tasks = (ending, watching, bounding)
        try:
            await asyncio.wait((ending, watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self.status is not None:
            return f"ended with status {self.status}: {self.last_words()}"
        await self.stop()
        return watching.result()

    async def stop(self) -> None:
        """Ask it to end, insist after a while. May be called twice, and before the start."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(self.spec.stop_timeout_s):
                await self.ended()
        except TimeoutError:
            pass
        finally:
            # If we are cancelled there is no orphan either.
            if process.poll() is None:
                process.kill()
                process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        lines = log_since(self.spec.log_path, self._log_from).splitlines()[-_LOG_LINES_SHOWN:]
        return " / ".join(line.strip() for line in lines) or f"it said nothing; see {self.spec.log_path}"

    async def _ready(self) -> re.Match[str] | None:
        """Its own word first, then an answer."""
        found = None
        while self.spec.ready is not None and found is None:
            found = self.spec.ready.search(log_since(self.spec.log_path, self._log_from))
            if found is None:
                await self._look_again()
        while self.spec.check is not None and await self._is_well(self.spec.check) is False:
            await self._look_again()
        return found

    async def _is_well(self, check: Check) -> bool | None:
        return await ask(check, self._lived_s(), self.spec.health.timeout_s)

    async def _look_again(self) -> None:
        if self.status is not None:
            raise DisconnectedError(f"{self.spec.name} ended at once: {self.last_words()}")
        await asyncio.sleep(_LOOK_S)

    async def _watch(self) -> str:
        if self.spec.check is None:
            await asyncio.get_running_loop().create_future()
        assert self.spec.check is not None
        return await until_it_hangs(self.spec.check, self.spec.health, lived_s=self._lived_s)

    async def _bound_log(self) -> None:
        while True:
            await asyncio.sleep(_LOG_LOOK_S)
            if bound_log(self.spec.log_path, self.spec.log_bytes_max):
                self._log_from = 0

    def _lived_s(self) -> float:
        return asyncio.get_running_loop().time() - self._started_at


def spawn(
    command: Sequence[str],
    log_path: Path,
    *,
    environment: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that ends with this one. Call it from a thread that lives as long as the child shall."""
    with log_path.open("ab") as log:
        return subprocess.Popen(
            _dying_with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            pass_fds=pass_fds,
            # An interrupt typed at the terminal is for the parent to pass on.
            process_group=0,
        )


def _dying_with_parent(command: Sequence[str]) -> list[str]:
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
