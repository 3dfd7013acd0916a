"""Logs of processes are bounded, while a process writes and across restarts."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from equipoise.processes import Child, ChildSpec, bound_log, child, log_since

TALKER = (
    "import time\nprint('ready', flush=True)\nwhile True: print('x' * 99, flush=True); time.sleep(0.001)\n"
)


def test_a_log_that_is_too_long_is_rotated_and_its_writer_continues(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"1" * 10)
        assert not bound_log(path, 10)
        writer.write(b"2" * 10)
        assert bound_log(path, 10)
        assert (tmp_path / "a.log.1").read_bytes() == b"1" * 10 + b"2" * 10
        writer.write(b"3")
        assert path.read_bytes() == b"3"


def test_a_missing_log_is_not_created(tmp_path: Path) -> None:
    assert not bound_log(tmp_path / "none.log", 10)
    assert log_since(tmp_path / "none.log", 0) == ""


def test_new_output_is_found_also_when_the_log_was_rotated_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("old new")
    assert log_since(path, 4) == "new"
    path.write_text("x")
    assert log_since(path, 4) == "x"


def test_a_child_with_constant_output_fills_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_LOG_LOOK_S", 0.01)
    path = tmp_path / "child.log"
    spec = ChildSpec(
        name="child",
        command=[sys.executable, "-c", TALKER],
        log_path=path,
        ready=re.compile("ready"),
        log_bytes_max=10_000,
    )

    async def scene() -> None:
        talking = Child(spec)
        await talking.start()
        ending = asyncio.create_task(talking.over())
        async with asyncio.timeout(20.0):
            while not (tmp_path / "child.log.1").exists():  # noqa: ASYNC110  a file has no event
                await asyncio.sleep(0.01)
            while path.stat().st_size == 0:  # noqa: ASYNC110  likewise: it goes on in the same file
                await asyncio.sleep(0.01)
        await talking.stop()
        assert "status -15" in await ending

    asyncio.run(scene())
