"""Supervise processes: start, watch, restart with backoff, stop all.

Always true: when `stop` has returned none of the processes is left; each is started at most once at a time.

The caller decides which processes there are, and in which order; `on_change` reports their changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from equipoise.errors import EquipoiseError, SettingsError
from equipoise.processes.child import Child, ChildSpec

__all__ = ["BackoffSettings", "Phase", "PhaseChange", "RestartBackoff", "Supervisor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    # A process that died once is running again before any time-out.
    first_s: float = 0.2
    # One that cannot start costs next to nothing, and runs soon after its cause is gone.
    longest_s: float = 15.0
    # After a run of this length the next end begins with the first pause again.
    forgiven_after_s: float = 30.0


class RestartBackoff:
    """The pauses of one process; owned by its supervisor."""

    __slots__ = ("_failures", "_settings")

    def __init__(self, settings: BackoffSettings) -> None:
        self._settings = settings
        self._failures = 0

    def pause_s(self, ran_s: float) -> float:
        """The pause after an end `ran_s` after the start."""
        if ran_s >= self._settings.forgiven_after_s:
            self._failures = 0
        pause_s = self._settings.first_s * 2.0**self._failures
        # Bounded, so that the power above stays finite.
        self._failures = min(self._failures + 1, 30)
        return min(pause_s, self._settings.longest_s)


# Exit status of a command with wrong arguments or invalid settings.
_MISUSED = 2


class Phase(StrEnum):
    STARTING = "starting"
    READY = "ready"
    # It ended, or could not start, and is restarted after a pause.
    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """A change of a process."""

    name: str
    phase: Phase
    detail: str = ""
    # Set if it has never been ready and reports that it cannot run with its settings.
    refusal: SettingsError | None = None


@dataclass(slots=True)
class _Kept:
    spec: ChildSpec
    child: Child
    task: asyncio.Task[None]
    ready: asyncio.Future[re.Match[str] | None]
    phase: Phase = Phase.STARTING
    restarts: int = 0
    was_ready: bool = False


class Supervisor:
    """Owned by one task of one loop. Changes through `keep`, `drop` and `stop`."""

    def __init__(
        self,
        *,
        on_change: Callable[[PhaseChange], None] = lambda _: None,
        settings: BackoffSettings | None = None,
    ) -> None:
        self._kept: dict[str, _Kept] = {}
        self._on_change = on_change
        self._settings = settings or BackoffSettings()

    @property
    def phases(self) -> dict[str, Phase]:
        return {name: kept.phase for name, kept in self._kept.items()}

    def pid(self, name: str) -> int | None:
        kept = self._kept.get(name)
        return None if kept is None else kept.child.pid

    def restarts(self, name: str) -> int:
        kept = self._kept.get(name)
        return 0 if kept is None else kept.restarts

    async def keep(self, spec: ChildSpec, *, patience_s: float | None = None) -> re.Match[str] | None:
        """Run it from now on, and return its first ready line.

        Raises TimeoutError after `patience_s`, SettingsError if it cannot run with its settings; it is supervised in
        both cases. None: no time-out.
        """
        self.begin(spec)
        ready = self._kept[spec.name].ready
        async with asyncio.timeout(patience_s):
            return await asyncio.shield(ready)

    def begin(self, spec: ChildSpec) -> None:
        """Run it from now on, without waiting for it."""
        assert spec.name not in self._kept, f"{spec.name} is already supervised"
        loop = asyncio.get_running_loop()
        child = Child(spec)
        task = loop.create_task(self._run(spec.name))
        self._kept[spec.name] = _Kept(spec, child, task, loop.create_future())

    async def drop(self, name: str) -> None:
        """Stop it permanently. No effect if it is not supervised."""
        kept = self._kept.get(name)
        if kept is None:
            return
        kept.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await kept.task
        await kept.child.stop()
        kept.ready.cancel()
        self._tell(kept, Phase.STOPPED)
        self._kept.pop(name, None)

    async def stop(self) -> None:
        """Stop all concurrently: each has its own time-out, and the whole takes no longer than the longest of them."""
        await asyncio.gather(*(self.drop(name) for name in reversed(list(self._kept))))

    async def _run(self, name: str) -> None:
        kept = self._kept[name]
        loop = asyncio.get_running_loop()
        backoff = RestartBackoff(self._settings)
        while True:
            started_at = loop.time()
            self._tell(kept, Phase.STARTING)
            reason = await self._live(kept)
            refusal = self._refusal(kept)
            pause_s = backoff.pause_s(loop.time() - started_at)
            self._tell(kept, Phase.WAITING, f"{reason}; again in {pause_s:.1f} s", refusal)
            await asyncio.sleep(pause_s)
            kept.restarts += 1
            kept.child = Child(kept.spec)

    async def _live(self, kept: _Kept) -> str:
        """Run it once; return how it ended."""
        try:
            found = await kept.child.start()
        except (EquipoiseError, OSError) as problem:
            return str(problem)
        kept.was_ready = True
        self._tell(kept, Phase.READY)
        if not kept.ready.done():
            kept.ready.set_result(found)
        return await kept.child.over()

    def _refusal(self, kept: _Kept) -> SettingsError | None:
        if kept.was_ready or kept.child.status != _MISUSED:
            return None
        words = kept.child.last_words().removeprefix("equipoise: ")
        refusal = SettingsError(f"{kept.spec.name} does not start: {words}")
        if not kept.ready.done():
            kept.ready.set_exception(refusal)
            # No caller waits for it.
            kept.ready.exception()
        return refusal

    def _tell(
        self, kept: _Kept, phase: Phase, detail: str = "", refusal: SettingsError | None = None
    ) -> None:
        kept.phase = phase
        self._on_change(PhaseChange(kept.spec.name, phase, detail, refusal))
