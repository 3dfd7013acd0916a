"""Errors of `equipoise pipeline` and `equipoise lake`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.pipeline.lake.lake import held
from equipoise.pipeline.settings import PipelineSettings
from equipoise.pipeline.sums_choice import SumsAt
from support.spark import need_spark

HUBS = ("--hubs", "h1=127.0.0.1:1", "--to", "127.0.0.1:1")


def told(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(words))
    return found.exit_code, found.output + found.stderr


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java; the folder returned is its PATH."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_without_java_the_error_says_what_to_install(no_java: Path) -> None:
    pytest.importorskip("pyspark")
    status, text = told("pipeline", *HUBS)
    assert status == 1
    assert "Spark needs Java: there is no Java: install version 17 or newer, or set JAVA_HOME" in text


def test_with_an_old_java_the_error_names_the_needed_one(no_java: Path) -> None:
    pytest.importorskip("pyspark")
    java = no_java / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    status, text = told("pipeline", *HUBS)
    assert status == 1
    assert "is Java 11: version 17 or newer is needed" in text


@pytest.mark.parametrize(("words", "sums"), [((), SumsAt.AUTO), (("--sums", "executors"), SumsAt.EXECUTORS)])
def test_an_option_sets_where_windows_are_summed(
    words: tuple[str, ...], sums: SumsAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_spark()
    started: list[PipelineSettings] = []
    monkeypatch.delenv("EQUIPOISE_STORE", raising=False)
    monkeypatch.setattr("equipoise.pipeline.process.run", lambda settings, *_, **__: started.append(settings))
    assert told("pipeline", *HUBS, *words)[0] == 0
    assert [settings.sums for settings in started] == [sums]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "give either --store zk://host:port/root or --hubs"),
        (("--store", "zk://a", "--hubs", "h1=a:1"), "give either --store"),
        (("--hubs", "h1=127.0.0.1:1"), "--hubs needs --to HOST:PORT"),
        ((*HUBS, "--secret-file", "/nowhere/at/all"), "cannot read /nowhere/at/all"),
    ],
)
def test_contradictory_options_are_rejected_with_valid_ones(
    words: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EQUIPOISE_STORE", raising=False)
    status, said = told("pipeline", *words)
    assert status == 2
    assert text in said


@pytest.mark.parametrize("words", [("summary",), ("compact",), ("view", "--at", "2026-11-15T12:00:00")])
def test_a_folder_without_history_is_distinguished_from_an_empty_one(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    status, text = told("lake", words[0], str(tmp_path), *words[1:])
    assert status == 2
    assert "has no lake: give the --dir of a pipeline" in text


def test_a_lake_that_a_pipeline_writes_is_not_compacted_from_outside(tmp_path: Path) -> None:
    need_spark()
    (tmp_path / "lake" / "records" / "date=2026-11-15" / "hour=12").mkdir(parents=True)
    with held(tmp_path / "lake", "equipoise pipeline", wait_s=0.0):
        status, text = told("lake", "compact", str(tmp_path))
    assert status == 2
    assert f"in use by process {os.getpid()}, equipoise pipeline: wait until it has ended, or stop it" in text


def test_a_second_pipeline_in_the_same_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_spark()
    monkeypatch.setattr("equipoise.pipeline.process._LAKE_WAIT_S", 0.0)
    monkeypatch.delenv("EQUIPOISE_STORE", raising=False)
    with held(tmp_path / "lake", "equipoise lake compact", wait_s=0.0):
        status, text = told("pipeline", *HUBS, "--dir", str(tmp_path))
    assert status == 2
    assert f"in use by process {os.getpid()}, equipoise lake compact: wait" in text
