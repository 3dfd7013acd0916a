"""One child process: logs to a file, reports readiness, has health checks, ends with its parent.

Always true: if this process dies, for any reason, the kernel kills the child (on Linux; elsewhere only a graceful end
ends the child). A child is stopped by SIGTERM, and killed after a while. A log is one file and one older one, `NAME.1`;
together they take at most twice the bound plus the output between two checks.

A child hangs if it failed several health checks in a row. These are counted rather than timed: after a sleep of the
whole machine, one check has failed, not an hour of checks.

The supervisor decides about restarts.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from equipoise.errors import DisconnectedError

__all__ = [
    "LOG_BYTES_MAX",
    "Check",
    "Child",
    "ChildSpec",
    "HealthSettings",
    "ask",
    "bound_log",
    "log_since",
    "spawn",
    "until_it_hangs",
]

# Months of an ordinary process; minutes of one that logs errors continuously, which is enough to find the cause.
LOG_BYTES_MAX = 10 * 1024 * 1024
# The part of one run's log that is searched for the ready line.
_READ_BYTES_MAX = 256 * 1024


def bound_log(path: Path, bytes_max: int = LOG_BYTES_MAX) -> bool:
    """Move the log to the older one if it is too long; return whether it was.

    It is copied and truncated rather than renamed: a process keeps its file open. A line written between the two steps
    is lost; this needs no support by the process.
    """
    try:
        if path.stat().st_size <= bytes_max:
            return False
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        with path.open("r+b") as log:
            log.truncate(0)
    except OSError:
        # Gone, or the disk is full: no reason to end a process. The next check follows soon.
        return False
    return True


def log_since(path: Path, offset: int) -> str:
    """The end of the log after the offset; the log may have been truncated since; empty without one."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, 2)
            begin = offset if offset <= size else 0
            log.seek(max(begin, size - _READ_BYTES_MAX))
            return log.read().decode(errors="replace")
    except OSError:
        return ""


# Called with the age of the process in seconds. True: healthy; False: not healthy, or no reply; None: unknown, for
# external reasons.
Check = Callable[[float], Awaitable[bool | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    # A check takes one connection and less than a millisecond of both sides.
    every_s: float = 5.0
    # A process that waits for CPU on a busy machine, swaps or collects garbage replies within seconds.
    timeout_s: float = 10.0
    # Failed checks in a row: 20 s of refusals, a minute of silence. Fewer would end processes that are only slow, and a
    # restart adds load.
    failures_max: int = 4


async def ask(check: Check, lived_s: float, timeout_s: float) -> bool | None:
    """The result; False if there is none in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await check(lived_s)
    except (OSError, TimeoutError):
        return False


async def until_it_hangs(check: Check, settings: HealthSettings, *, lived_s: Callable[[], float]) -> str:
    """Return, with a message, once this many checks in a row have failed; unknown results do not count."""
    failures = 0
    while failures < settings.failures_max:
        await asyncio.sleep(settings.every_s)
        answer = await ask(check, lived_s(), settings.timeout_s)
        if answer is not None:
            failures = 0 if answer else failures + 1
    return f"hangs: {failures} failed health checks in a row"


# Runs in the child just before exec. 1 is PR_SET_PDEATHSIG, 9 is SIGKILL; the process id stays the same through exec.
# A separate program rather than code between fork and exec: this process may have threads.
_DIE_WITH_PARENT = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(1, 9)\n"
    "if os.getppid() == int(sys.argv[1]): os.execvp(sys.argv[2], sys.argv[2:])\n"
)
_LOG_LINES_SHOWN = 5
# Interval of checking a child for readiness and for its end. uvloop has another child watcher, which needs the main
# thread.
_LOOK_S = 0.02
# Interval of checking the length of its log.
_LOG_LOOK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What to run."""

    name: str
    command: Sequence[str]
    log_path: Path
    # The ready line in its log. None: it is ready as soon as it runs.
    ready: re.Pattern[str] | None = None
    # The health check: before readiness is reported, and from then on to detect that it hangs. None: no check.
    check: Check | None = None
    health: HealthSettings = field(default_factory=HealthSettings)
    # Maximum size of its log and of the older one, each.
    log_bytes_max: int = LOG_BYTES_MAX
    # A JVM on a busy machine takes many seconds; one that needs more is stuck.
    ready_timeout_s: float = 60.0
    # Then it is killed.
    stop_timeout_s: float = 3.0
    environment: Mapping[str, str] = field(default_factory=dict)


class Child:
    """One run of a process."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self._process: subprocess.Popen[bytes] | None = None
        # Where this run's part of the log begins: the file is kept from run to run.
        self._log_from = 0
        self._started_at = 0.0

    @property
    def pid(self) -> int | None:
        """None before the start and after the end."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def status(self) -> int | None:
        """Its exit status; None before its end."""
        return None if self._process is None else self._process.poll()

    async def start(self) -> re.Match[str] | None:
        """Start it and wait until it is ready; return the ready line. Raises DisconnectedError with its last output."""
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
        """Wait for its end, or until it hangs and is stopped; return which."""
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
        """Terminate it, and kill it after a while. May be called twice, and before the start."""
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
            # A cancelled call leaves no orphan either.
            if process.poll() is None:
                process.kill()
                process.wait()

    def last_words(self) -> str:
        """The end of its log."""
        lines = log_since(self.spec.log_path, self._log_from).splitlines()[-_LOG_LINES_SHOWN:]
        return " / ".join(line.strip() for line in lines) or f"no output; see {self.spec.log_path}"

    async def _ready(self) -> re.Match[str] | None:
        """Wait for its ready line, then for a successful health check."""
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
    """Start a process that ends with this one. Call it from a thread that lives as long as the child."""
    with log_path.open("ab") as log:
        return subprocess.Popen(
            _dying_with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            pass_fds=pass_fds,
            # The parent forwards an interrupt from the terminal.
            process_group=0,
        )


def _dying_with_parent(command: Sequence[str]) -> list[str]:
    if sys.platform != "linux":
        return list(command)
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
