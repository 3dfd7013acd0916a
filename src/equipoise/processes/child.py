"""One child process: logs to a file, reports readiness, answers health checks, ends with its parent.

Always true: if this process dies, however it dies, the kernel kills the child (on Linux; elsewhere only an orderly end
takes the child along). A child that is being stopped is asked first and killed after a while. A log is one file and one
older one, `NAME.1`; together they take twice the bound and what is written between two looks.

A child hangs when it did not answer several questions in a row. They are counted rather than timed: when the whole
machine has slept, that is one answer that did not come, not an hour without any.

When to start it again is the supervisor's business.
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

# Months of an ordinary process; minutes of one that complains about everything, which is enough to see why.
LOG_BYTES_MAX = 10 * 1024 * 1024
# Of one run, as much as is searched for a word.
_READ_BYTES_MAX = 256 * 1024


def bound_log(path: Path, bytes_max: int = LOG_BYTES_MAX) -> bool:
    """Make the log the older one if it is too long; whether it was.

    It is copied and emptied rather than renamed: a process holds on to its file, not to the name. A line that is
    written between the two is lost, which is the price of asking nothing of the process.
    """
    try:
        if path.stat().st_size <= bytes_max:
            return False
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        with path.open("r+b") as log:
            log.truncate(0)
    except OSError:
        # Gone, or the disk is full: no reason to end a process. The next look comes soon.
        return False
    return True


def log_since(path: Path, offset: int) -> str:
    """The end of what was written behind the offset, of a log that may have been emptied since; empty without one."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, 2)
            begin = offset if offset <= size else 0
            log.seek(max(begin, size - _READ_BYTES_MAX))
            return log.read().decode(errors="replace")
    except OSError:
        return ""


# Asked with the seconds that the process has lived. True: it is well; False: it is not, or does not answer; None: it
# cannot be known, for reasons that are not its own.
Check = Callable[[float], Awaitable[bool | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    # A question takes one connection and less than a millisecond of both sides.
    every_s: float = 5.0
    # A process that waits for its turn on a busy machine, swaps or collects garbage answers within seconds.
    timeout_s: float = 10.0
    # Answers in a row that do not come: 20 s of refusals, a minute of silence. Sooner would end processes that only
    # have a hard time, and a restart makes that harder.
    failures_max: int = 4


async def ask(check: Check, lived_s: float, timeout_s: float) -> bool | None:
    """The answer; False if there is none in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await check(lived_s)
    except (OSError, TimeoutError):
        return False


async def until_it_hangs(check: Check, settings: HealthSettings, *, lived_s: Callable[[], float]) -> str:
    """Return, with words about it, once so many answers in a row did not come; what cannot be known does not count."""
    failures = 0
    while failures < settings.failures_max:
        await asyncio.sleep(settings.every_s)
        answer = await ask(check, lived_s(), settings.timeout_s)
        if answer is not None:
            failures = 0 if answer else failures + 1
    return f"hangs: {failures} failed health checks in a row"


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
        return " / ".join(line.strip() for line in lines) or f"no output; see {self.spec.log_path}"

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
