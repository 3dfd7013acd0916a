"""The doctor on this machine: its findings are true."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.doctor import CheckOptions, CheckResult, CheckStatus, examine, probes
from equipoise.model import TopicSpec
from equipoise.store import (
    HubFacts,
    HubsStore,
    MemoryStore,
    MemoryStoreServer,
    MemoryTree,
    SpecsStore,
    Tree,
)
from support.zookeeper import require_zookeeper, shared_zookeeper


def found(wanted: CheckOptions) -> dict[str, CheckResult]:
    async def main() -> dict[str, CheckResult]:
        return {finding.name: finding async for finding in examine(wanted)}

    return asyncio.run(main())


def test_a_port_in_use_is_found(tmp_path: Path) -> None:
    with socket.socket() as listener, socket.socket() as other:
        for one in (listener, other):
            one.bind(("127.0.0.1", 0))
        listener.listen()
        taken, free = listener.getsockname()[1], other.getsockname()[1]
        other.close()
        findings = found(CheckOptions(ports={taken: "a hub", free: "the dashboard"}, directory=tmp_path))
    assert findings[f"port {taken}"].status is CheckStatus.WARNING
    assert findings[f"port {free}"].status is CheckStatus.OK


def test_missing_java_and_spark_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(probes, "find_spec", lambda _: None)
    findings = found(CheckOptions(ports={}, directory=tmp_path))
    assert findings["java"].status is findings["spark"].status is CheckStatus.FAILURE


def test_an_old_java_is_reported_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    finding = found(CheckOptions(ports={}, directory=tmp_path))["java"]
    assert finding.status is CheckStatus.FAILURE and finding.fact.startswith("8 at ")


def test_memory_is_read_from_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "meminfo"
    file.write_text("MemTotal: 100 kB\nMemAvailable:   2048 kB\n")
    assert probes.available_bytes(file) == 2_097_152
    assert probes.available_bytes(tmp_path / "none") is None


def test_a_missing_directory_is_checked_by_its_parent(tmp_path: Path) -> None:
    assert probes.look_at(tmp_path / "a" / "b").status is CheckStatus.OK
    (tmp_path / "file").touch()
    assert probes.look_at(tmp_path / "file").status is CheckStatus.FAILURE


def test_reachable_and_unreachable_stores_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[CheckResult]:
        server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time), host="127.0.0.1", port=0)
        await server.start()
        there = await probes.ask_store(f"eqs://127.0.0.1:{server.port}")
        await server.stop()
        return [there, await probes.ask_store(f"eqs://127.0.0.1:{server.port}")]

    monkeypatch.setattr(probes, "_PATIENCE_S", 0.5)
    there, gone = asyncio.run(main())
    assert there.status is CheckStatus.OK
    assert gone.status is CheckStatus.FAILURE and "does not answer" in gone.fact


def test_hubs_without_rate_limits_are_named_if_a_topic_has_one() -> None:
    async def main() -> list[list[CheckResult]]:
        tree = MemoryTree(asyncio.get_running_loop().time)
        server = MemoryStoreServer(tree, host="127.0.0.1", port=0)
        await server.start()
        url, store = f"eqs://127.0.0.1:{server.port}", await MemoryStore(tree).open()
        hubs = HubsStore(store, Tree())
        await hubs.announce(HubFacts(hub="new", address="127.0.0.1:1", incarnation=1, keeps_limits=True))
        await hubs.announce(HubFacts(hub="old", address="127.0.0.1:2", incarnation=1))
        findings = [[one async for one in probes.ask_limits(url)]]
        await SpecsStore(store, Tree()).put(TopicSpec(pattern=b"x", rate_per_s=1.0))
        findings.append([one async for one in probes.ask_limits(url)])
        await store.close()
        await server.stop()
        return findings

    before, after = asyncio.run(main())
    assert before == []
    (finding,) = after
    assert finding.status is CheckStatus.WARNING
    assert "that old cannot enforce" in finding.fact and "hubs weigh old 1" in finding.next_step


@pytest.mark.needs_java
def test_the_clock_is_compared_with_zookeepers(tmp_path: Path) -> None:
    require_zookeeper()
    findings = found(CheckOptions(ports={}, directory=tmp_path, store_url=f"{shared_zookeeper().url}/doctor"))
    assert findings["store"].status is CheckStatus.OK
    assert findings["clock"].status is CheckStatus.OK and "the store's" in findings["clock"].fact


def test_the_command_prints_facts_for_programs_and_ends_with_1_on_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EQUIPOISE_STORE", raising=False)
    words = ["doctor", "--json", "--ports", "6399", "--dir"]
    told = CliRunner().invoke(app, [*words, str(tmp_path)])
    names = [row["name"] for row in json.loads(told.stdout)]
    assert {"java", "spark", "port 6399", "open files", "memory", "directory"} <= set(names)
    (tmp_path / "file").touch()
    told = CliRunner().invoke(app, [*words, str(tmp_path / "file")])
    assert told.exit_code == 1
    (row,) = [row for row in json.loads(told.stdout) if row["name"] == "directory"]
    assert row["status"] == "failure" and row["next_step"]


def test_the_command_prints_one_line_for_each_finding_and_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EQUIPOISE_STORE", raising=False)
    (tmp_path / "file").touch()
    told = CliRunner().invoke(app, ["doctor", "--dir", str(tmp_path / "file")])
    assert "python: 3." in told.stdout
    assert "→ give --dir another" in told.stdout
    refused = CliRunner().invoke(app, ["doctor", "--ports", "x"])
    assert refused.exit_code == 2 and "such as 6399,6400" in refused.output
