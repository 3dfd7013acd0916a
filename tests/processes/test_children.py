"""Real child processes: ready, dead, restarted, stopped, and orphaned."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.errors import DisconnectedError, SettingsError
from equipoise.processes import (
    BackoffSettings,
    Child,
    ChildSpec,
    Phase,
    PhaseChange,
    RestartBackoff,
    Supervisor,
    check_port,
    free_port,
)
from support.polling import until

READY = re.compile(r"^ready (\d+)$", re.MULTILINE)
PATIENT = "import os, time\nprint('ready', os.getpid(), flush=True)\ntime.sleep(600)\n"
STUBBORN = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{PATIENT}"
SILENT = "import time\ntime.sleep(600)\n"
QUICK = BackoffSettings(first_s=0.01, longest_s=0.05)


def program(
    tmp_path: Path,
    text: str,
    name: str = "child",
    *,
    ready_timeout_s: float = 20.0,
    stop_timeout_s: float = 3.0,
) -> ChildSpec:
    return ChildSpec(
        name=name,
        command=[sys.executable, "-c", text],
        log_path=tmp_path / f"{name}.log",
        ready=READY,
        ready_timeout_s=ready_timeout_s,
        stop_timeout_s=stop_timeout_s,
    )


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_child_has_started_once_it_reports_that_it_is_ready(tmp_path: Path) -> None:
    async def scene() -> None:
        child = Child(program(tmp_path, PATIENT))
        found = await child.start()
        assert found is not None and int(found.group(1)) == child.pid
        await child.stop()
        assert child.pid is None

    asyncio.run(scene())


def test_a_child_that_ends_before_it_is_ready_is_an_error_with_its_last_output(tmp_path: Path) -> None:
    with pytest.raises(DisconnectedError, match="no such luck"):
        asyncio.run(Child(program(tmp_path, "raise SystemExit('no such luck')")).start())


def test_a_child_that_never_gets_ready_is_stopped(tmp_path: Path) -> None:
    async def scene() -> None:
        child = Child(program(tmp_path, SILENT, ready_timeout_s=0.3))
        with pytest.raises(DisconnectedError, match="not ready within"):
            await child.start()
        assert child.pid is None

    asyncio.run(scene())


def test_a_child_that_ignores_the_stop_signal_is_killed(tmp_path: Path) -> None:
    async def scene() -> None:
        child = Child(program(tmp_path, STUBBORN, stop_timeout_s=0.2))
        await child.start()
        await child.stop()
        assert child.pid is None

    asyncio.run(scene())


def test_a_killed_child_is_restarted_and_its_log_continues(tmp_path: Path) -> None:
    async def scene() -> list[PhaseChange]:
        changes: list[PhaseChange] = []
        supervisor = Supervisor(on_change=changes.append, settings=QUICK)
        await supervisor.keep(program(tmp_path, PATIENT))
        first = supervisor.pid("child")
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: supervisor.restarts("child") == 1 and supervisor.phases["child"] is Phase.READY)
        assert supervisor.pid("child") != first
        await supervisor.stop()
        assert supervisor.phases == {}
        return changes

    changes = asyncio.run(scene())
    assert [change.phase for change in changes] == [
        Phase.STARTING,
        Phase.READY,
        Phase.WAITING,
        Phase.STARTING,
        Phase.READY,
        Phase.STOPPED,
    ]
    assert "status -9" in changes[2].detail
    assert len(READY.findall((tmp_path / "child.log").read_text())) == 2


def test_one_process_is_removed_while_the_others_stay(tmp_path: Path) -> None:
    async def scene() -> None:
        supervisor = Supervisor(settings=QUICK)
        await supervisor.keep(program(tmp_path, PATIENT, "one"))
        await supervisor.keep(program(tmp_path, PATIENT, "two"))
        one, two = supervisor.pid("one"), supervisor.pid("two")
        assert one is not None and two is not None
        await supervisor.drop("one")
        assert not is_running(one) and is_running(two)
        await supervisor.stop()
        assert not is_running(two)

    asyncio.run(scene())


def test_a_process_that_cannot_start_is_retried_until_it_is_removed(tmp_path: Path) -> None:
    async def scene() -> None:
        supervisor = Supervisor(settings=QUICK)
        supervisor.begin(program(tmp_path, "raise SystemExit(3)"))
        await until(lambda: supervisor.restarts("child") >= 2)
        await supervisor.drop("child")
        assert supervisor.phases == {}

    asyncio.run(scene())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_children_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    parent = (
        "import asyncio, re, sys\n"
        "from pathlib import Path\n"
        "from equipoise.processes import ChildSpec, Supervisor\n"
        "async def main():\n"
        f"    spec = ChildSpec(name='c', command=[sys.executable, '-c', {STUBBORN!r}],\n"
        "        log_path=Path(sys.argv[1]), ready=re.compile(r'^ready (\\d+)$', re.M))\n"
        "    found = await Supervisor().keep(spec)\n"
        "    print(found.group(1), flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", parent, str(tmp_path / "c.log")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert is_running(pid)
    process.kill()
    process.wait()
    process.stdout.close()
    asyncio.run(until(lambda: not is_running(pid)))


def test_delays_double_up_to_the_longest_and_are_reset_after_a_good_run() -> None:
    backoff = RestartBackoff(BackoffSettings(first_s=1.0, longest_s=5.0, forgiven_after_s=30.0))
    assert [backoff.pause_s(0.0) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert backoff.pause_s(31.0) == 1.0


def test_a_port_in_use_is_a_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SettingsError, match="Choose another port"):
            check_port("127.0.0.1", taken.getsockname()[1])
    check_port("127.0.0.1", free_port())
