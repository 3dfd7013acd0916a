"""Servers under test as child processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import equipoise
from equipoise.errors import DisconnectedError
from equipoise.profile.dialects import Resp2
from equipoise.profile.servers import HOST, KINDS, ServerKind, running, version

LISTENER = (
    "import socket, sys, time\n"
    "with socket.create_server(('127.0.0.1', int(sys.argv[1]))) as listener:\n"
    "    time.sleep(60)\n"
)

FAKE = ServerKind(
    name="fake",
    dialect=Resp2(),
    find=lambda: sys.executable,
    absence="",
    command=lambda binary, port, folder: [binary, "-c", LISTENER, str(port)],
    version_command=lambda binary: [binary, "-c", "print('Fake server v=1.2.3-beta sha=0')"],
)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_server_accepts_connections_while_running_and_is_gone_afterwards() -> None:
    with running(FAKE) as server:
        socket.create_connection((HOST, server.port), timeout=5).close()
        assert is_running(server.pid)
    assert not is_running(server.pid)


def test_a_server_is_ended_when_the_measurement_fails() -> None:
    with pytest.raises(ZeroDivisionError), running(FAKE) as server:
        raise ZeroDivisionError
    assert not is_running(server.pid)


def test_the_process_id_is_the_servers_own() -> None:
    with running(FAKE) as server:
        assert LISTENER.encode() in Path(f"/proc/{server.pid}/cmdline").read_bytes()


def test_a_server_that_ignores_the_request_to_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.profile.servers.STOP_S_MAX", 0.2)
    stubborn = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTENER
    kind = replace(FAKE, command=lambda binary, port, folder: [binary, "-c", stubborn, str(port)])
    with running(kind) as server:
        pass
    assert not is_running(server.pid)


def test_a_server_does_not_outlive_a_benchmark_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; sys.path[:0] = [sys.argv[1]]\n"
        "from test_servers import FAKE\n"
        "from equipoise.profile.servers import running\n"
        "with running(FAKE) as server:\n"
        "    print(server.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    here = str(Path(__file__).parent)
    # The killed process cannot remove its temporary folder, so it gets a place that is cleaned up for it.
    surroundings = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script, here], stdout=subprocess.PIPE, text=True, env=surroundings
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while is_running(pid) and not is_zombie(pid):
        assert time.monotonic() < deadline, "the server lives on"
        time.sleep(0.01)


def is_zombie(pid: int) -> bool:
    """Dead, and not yet reaped by its new parent process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_server_that_dies_at_start_is_reported_with_its_last_words() -> None:
    kind = replace(
        FAKE, command=lambda binary, port, folder: [binary, "-c", "raise SystemExit('no such option')"]
    )
    with pytest.raises(DisconnectedError, match="no such option"), running(kind):
        pass


def test_an_absent_server_is_reported_with_how_to_get_it() -> None:
    kind = replace(FAKE, find=lambda: None, absence="install it")
    with pytest.raises(DisconnectedError, match="install it"), running(kind):
        pass
    assert version(kind) == "absent"


def test_the_version_is_the_first_number_a_server_states() -> None:
    assert version(FAKE) == "1.2.3-beta"


def test_the_hub_states_its_version() -> None:
    assert version(KINDS["hub"]) == equipoise.__version__
