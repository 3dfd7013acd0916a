"""Folders that a bookie cannot use are refused with the reason, and left as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app


def test_a_check_makes_no_directory(tmp_path: Path) -> None:
    missing = tmp_path / "typo"
    done = CliRunner().invoke(app, ["bookie", "check", str(missing)])
    assert done.exit_code == 2
    assert f"there is no directory {missing}" in " ".join(done.output.split())
    assert not missing.exists()


@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_is_no_directory(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()
    directory = file / below if below else file
    done = CliRunner().invoke(app, ["bookie", "--dir", str(directory), "--store", "eqs://127.0.0.1:1"])
    assert done.exit_code == 2
    assert f"cannot write to {directory}: " in " ".join(done.output.split())
