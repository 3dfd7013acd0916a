"""Health checks of children: ready once they reply, restarted when they hang, an error when misused."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from equipoise.errors import SettingsError
from equipoise.processes import (
    BackoffSettings,
    Check,
    ChildSpec,
    HealthSettings,
    Phase,
    PhaseChange,
    Supervisor,
    ask,
    until_it_hangs,
)
from support.polling import until

PATIENT = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
QUICK = BackoffSettings(first_s=0.01, longest_s=0.05)
# The program answers by touching a file: a stopped program does not answer.
LIVELY = (
    "import sys, time, pathlib\n"
    "print('ready', flush=True)\n"
    "while True: pathlib.Path(sys.argv[1]).touch(); time.sleep(0.01)\n"
)
HASTY = HealthSettings(every_s=0.02, timeout_s=0.5, failures_max=3)


def spec(tmp_path: Path, text: str, check: Check | None, *words: str) -> ChildSpec:
    return ChildSpec(
        name="child",
        command=[sys.executable, "-c", text, *words],
        log_path=tmp_path / "child.log",
        ready=re.compile("^ready", re.MULTILINE),
        ready_timeout_s=20.0,
        check=check,
        health=HASTY,
    )


def test_a_child_that_reports_to_be_ready_is_ready_once_it_replies(tmp_path: Path) -> None:
    answers = iter([False, False, True])
    asked: list[float] = []

    async def check(lived_s: float) -> bool | None:
        asked.append(lived_s)
        return next(answers, True)

    async def scene() -> None:
        supervisor = Supervisor(settings=QUICK)
        await supervisor.keep(spec(tmp_path, PATIENT, check))
        assert len(asked) == 3 and asked == sorted(asked) and asked[0] > 0
        await supervisor.stop()

    asyncio.run(scene())


def test_a_child_that_hangs_is_restarted_with_a_message(tmp_path: Path) -> None:
    sign = tmp_path / "sign"

    async def check(lived_s: float) -> bool:
        sign.unlink(missing_ok=True)
        await until(sign.exists)
        return True

    async def scene() -> list[PhaseChange]:
        changes: list[PhaseChange] = []
        supervisor = Supervisor(on_change=changes.append, settings=QUICK)
        await supervisor.keep(spec(tmp_path, LIVELY, check, str(sign)))
        first = supervisor.pid("child")
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        # On a busy machine the child may be late with its sign as well.
        await until(lambda: supervisor.restarts("child") >= 1 and supervisor.phases["child"] is Phase.READY)
        assert supervisor.pid("child") != first
        await supervisor.stop()
        return changes

    first, *_ = [change for change in asyncio.run(scene()) if change.phase is Phase.WAITING]
    assert "hangs: 3 failed health checks in a row" in first.detail


def test_unknown_and_restored_health_ends_no_child() -> None:
    answers: list[bool | None] = [False, False, True, False, None, False, None, True, False, False, False]
    left = list(answers)

    async def check(lived_s: float) -> bool | None:
        return left.pop(0)

    words = asyncio.run(
        until_it_hangs(check, HealthSettings(every_s=0.0, failures_max=3), lived_s=lambda: 1.0)
    )
    assert left == [] and "3 failed health checks" in words


def test_a_timeout_and_a_refused_connection_are_failed_checks() -> None:
    async def silent(lived_s: float) -> bool:
        await asyncio.sleep(600)
        return True

    async def refused(lived_s: float) -> bool:
        raise ConnectionRefusedError

    assert asyncio.run(ask(silent, 1.0, 0.01)) is False
    assert asyncio.run(ask(refused, 1.0, 1.0)) is False


def test_a_child_with_invalid_settings_is_a_settings_error_with_its_output(tmp_path: Path) -> None:
    async def scene() -> list[PhaseChange]:
        changes: list[PhaseChange] = []
        supervisor = Supervisor(on_change=changes.append, settings=QUICK)
        program = "import sys\nprint('no such colour', file=sys.stderr)\nsys.exit(2)\n"
        with pytest.raises(SettingsError, match="child does not start: no such colour"):
            await supervisor.keep(spec(tmp_path, program, None))
        await supervisor.stop()
        return changes

    refusals = [change.refusal for change in asyncio.run(scene()) if change.phase is Phase.WAITING]
    assert isinstance(refusals[0], SettingsError)


def test_a_child_that_has_run_before_is_restarted_for_any_exit_status(tmp_path: Path) -> None:
    async def scene() -> list[PhaseChange]:
        changes: list[PhaseChange] = []
        supervisor = Supervisor(on_change=changes.append, settings=QUICK)
        program = "import time\nprint('ready', flush=True)\ntime.sleep(0.2)\nraise SystemExit(2)\n"
        await supervisor.keep(spec(tmp_path, program, None))
        await until(lambda: supervisor.restarts("child") >= 1)
        await supervisor.stop()
        return changes

    ended = [change for change in asyncio.run(scene()) if change.phase is Phase.WAITING]
    assert ended and all(change.refusal is None for change in ended)
