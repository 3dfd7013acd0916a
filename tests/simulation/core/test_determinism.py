"""The same seed is the same run: again, on every installed Python, under every hash seed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.core import programs
from simulation.core.programs import run_seed

VERSIONS = ("3.11", "3.12", "3.13")
SEEDS = [str(seed) for seed in range(8)]
SOURCE = Path(__file__).parents[3] / "src"


def _interpreters() -> dict[str, Path]:
    """The supported Pythons on this machine: those on PATH that run, and pyenv's."""
    found: dict[str, Path] = {}
    for version in VERSIONS:
        named = shutil.which(f"python{version}")
        candidates = [Path(named)] if named else []
        root = os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv"
        candidates += sorted(Path(root).glob(f"versions/{version}.*/bin/python{version}"))
        for candidate in candidates:
            if _version_of(candidate) == version:
                found[version] = candidate
                break
    return found


def _version_of(interpreter: Path) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([interpreter, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip()


def _run_with(interpreter: Path | str, hash_seed: str = "0") -> str:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": hash_seed}
    command = [str(interpreter), "-W", "error", programs.__file__, *SEEDS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_seed_gives_the_same_run_again() -> None:
    assert [run_seed(seed) for seed in range(10)] == [run_seed(seed) for seed in range(10)]


def test_seeds_give_different_runs() -> None:
    assert len({run_seed(seed).digest for seed in range(10)}) == 10


def test_a_seed_gives_the_same_run_whatever_ran_before_it() -> None:
    alone = run_seed(5)
    for seed in (3, 9):
        run_seed(seed)
    assert run_seed(5) == alone


def test_all_faults_of_the_program_fire_and_messages_still_arrive() -> None:
    outcomes = [run_seed(seed) for seed in range(30)]
    fired = sum((outcome.faults for outcome in outcomes), start=outcomes[0].faults.__class__())
    for fault in ("reset", "cut", "heal", "pause", "crash", "restart", "loss", "torn tail"):
        assert fired[fault] > 0, fault
    assert min(outcome.received for outcome in outcomes) > 100


@pytest.mark.parametrize("hash_seed", ["1", "12345"])
def test_the_hash_seed_makes_no_difference(hash_seed: str) -> None:
    assert _run_with(sys.executable, hash_seed) == _run_with(sys.executable)


def test_every_installed_python_gives_the_same_run() -> None:
    interpreters = _interpreters()
    if len(interpreters) < 2:
        pytest.skip(f"needs two of Python {', '.join(VERSIONS)}; found {', '.join(interpreters) or 'none'}")
    outputs = {version: _run_with(path) for version, path in interpreters.items()}
    assert len(set(outputs.values())) == 1, outputs
