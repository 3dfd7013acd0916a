"""A real ZooKeeper as a child: started, stopped, never orphaned, with clear errors for missing prerequisites."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from equipoise.errors import EquipoiseError, SettingsError, StoreUnavailableError
from equipoise.store import StoreSettings, open_store
from equipoise.store.embedded import zookeeper_process
from equipoise.store.embedded.zookeeper_process import (
    EmbeddedSettings,
    EmbeddedZooKeeper,
    find_jars,
    find_java,
)
from support.polling import eventually
from support.processes import ServerProcess, running
from support.zookeeper import require_zookeeper, shared_zookeeper

COMMAND = "import typer; from equipoise.cli.store import command; typer.run(command)"
READY = re.compile(r"^equipoise store ready on (?P<host>\S+):(?P<port>\d+)\s*$")


def settings_for(folder: Path, port: int = 0) -> EmbeddedSettings:
    return EmbeddedSettings(directory=folder, port=port)


def store_command(folder: Path, *options: str) -> AbstractContextManager[ServerProcess]:
    command = [sys.executable, "-c", COMMAND, "--dir", str(folder), "--port", "0", *options]
    return running(command, READY.match)


def java_child_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [child] = [int(child) for child in children]
    assert b"java" in Path(f"/proc/{child}/cmdline").read_bytes()
    return child


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.needs_java
def test_the_command_reports_when_it_is_ready_ends_its_child_on_a_signal_and_keeps_its_state(
    tmp_path: Path,
) -> None:
    require_zookeeper()
    with store_command(tmp_path) as command:
        child = java_child_of(command.pid)
        asyncio.run(_write(f"zk://{command.host}:{command.port}/root"))
        problem = failing(EmbeddedZooKeeper(settings_for(tmp_path)))
        assert "in use by another store" in str(problem)
        assert command.stop(signal.SIGINT) == 0
        assert not is_running(child)

    async def scenario() -> None:
        async with EmbeddedZooKeeper(settings_for(tmp_path, command.port)) as server:
            store = await open_store(f"{server.url}/root", StoreSettings(session_timeout_s=4.0))
            assert (await store.get("/a")).data == b"kept"
            await store.close()
            pid = server.pid
        assert pid is not None
        assert not is_running(pid)

    asyncio.run(scenario())


async def _write(url: str) -> None:
    store = await open_store(url)
    await store.create("/a", b"kept")
    await store.close()


@pytest.mark.needs_java
@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_no_orphan_is_left_when_the_command_is_killed(tmp_path: Path) -> None:
    require_zookeeper()
    with store_command(tmp_path) as server:
        child = java_child_of(server.pid)
        server.kill()
        eventually(lambda: not is_running(child))


@pytest.mark.needs_java
def test_the_command_ends_when_its_child_does(tmp_path: Path) -> None:
    require_zookeeper()
    with store_command(tmp_path) as server:
        os.kill(java_child_of(server.pid), signal.SIGKILL)
        eventually(lambda: server.process.poll() is not None)
    assert server.process.returncode == 1
    assert "ended by itself" in server.output


@pytest.mark.needs_java
def test_a_port_in_use_is_an_error_of_one_line(tmp_path: Path) -> None:
    require_zookeeper()
    port = shared_zookeeper().port
    problem = failing(EmbeddedZooKeeper(settings_for(tmp_path, port)))
    assert isinstance(problem, SettingsError)
    assert f"cannot listen on 127.0.0.1:{port}" in str(problem)
    assert "\n" not in str(problem)


@pytest.mark.needs_java
def test_an_unusable_directory_is_an_error_of_one_line(tmp_path: Path) -> None:
    require_zookeeper()
    (tmp_path / "data").write_text("a file where ZooKeeper wants a folder")
    problem = failing(EmbeddedZooKeeper(settings_for(tmp_path)))
    assert isinstance(problem, SettingsError)
    assert "cannot use" in str(problem)


@pytest.mark.needs_java
def test_a_server_that_ends_at_once_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_zookeeper()
    monkeypatch.setattr(zookeeper_process, "_MAIN", "org.example.Nothing")
    problem = failing(EmbeddedZooKeeper(settings_for(tmp_path)))
    assert isinstance(problem, StoreUnavailableError)
    assert "ended at once" in str(problem)
    assert "org.example.Nothing" in str(problem)
    assert "\n" not in str(problem)


def test_without_java_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(StoreUnavailableError, match="install version 17"):
        find_java()


@pytest.mark.parametrize("said", ['openjdk version "11.0.2"', 'java version "1.8.0_392"', "who knows"])
def test_a_java_that_is_too_old_is_rejected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str
) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StoreUnavailableError, match="17 or newer"):
        find_java()


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(StoreUnavailableError, match=r"equipoise\[pipeline\]"):
        find_jars()


def test_a_pyspark_without_zookeeper_is_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr("importlib.util.find_spec", lambda _: Spec())
    with pytest.raises(StoreUnavailableError, match="no zookeeper jar"):
        find_jars()


def failing(server: EmbeddedZooKeeper) -> EquipoiseError:
    with pytest.raises(EquipoiseError) as raised:
        asyncio.run(server.start())
    return raised.value
