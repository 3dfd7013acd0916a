"""A seed determines its run: the same hash at any time, on any machine and beside any other run."""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from equipoise.lab.scenarios import scenario_by_name
from equipoise.lab.simulation.campaign import run_campaign
from equipoise.lab.simulation.runner import run_seed
from equipoise.lab.task_pool import ProcessPool, settle_collector
from support.cache import kept_folder

ROOT = Path(__file__).parents[2]
RUNS = [
    ("hub-small", 1),
    ("hub-everything", 2),
    ("hub-revocation", 3),
    ("hub-hostile", 4),
    ("hub-cuts", 5),
    ("cluster-everything", 6),
    ("cluster-store-crashes", 7),
    ("cluster-replication", 8),
    # In these two, connections were closed, and sources left, in an order of memory addresses.
    ("durable-full", 0),
    ("cluster-routed-everything", 1),
]
SCRIPT = f"""
from equipoise.lab.scenarios import scenario_by_name
from equipoise.lab.simulation.runner import run_seed
for case, seed in {RUNS!r}:
    print(run_seed(scenario_by_name(case), seed).trace_hash)
"""
# What hub and client import beside the standard library.
WHEELS = ("hiredis", "msgspec", "xxhash")
VERSIONS = ("3.11", "3.12", "3.13")


@cache
def here() -> list[str]:
    return [run_seed(scenario_by_name(case), seed).trace_hash for case, seed in RUNS]


def elsewhere(python: str, *, hash_seed: str, path: Path | None = None) -> list[str]:
    folders = [str(ROOT / "src"), *([str(path)] if path is not None else [])]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [python, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_seed_gives_the_same_trace_alone_among_others_and_in_any_order() -> None:
    first = here()
    run_seed(scenario_by_name("hub-restarts"), 6)
    again = [run_seed(scenario_by_name(case), seed).trace_hash for case, seed in reversed(RUNS)]
    assert again == list(reversed(first))


def test_other_seeds_give_other_traces() -> None:
    scenario = scenario_by_name("hub-small")
    assert len({run_seed(scenario, seed).trace_hash for seed in range(8)}) == 8


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_the_hash_seed_of_the_interpreter_does_not_matter(hash_seed: str) -> None:
    assert elsewhere(sys.executable, hash_seed=hash_seed) == here()


def test_a_campaign_in_processes_gives_what_one_process_gives() -> None:
    inline = {run.seed: run.trace_hash for run in run_campaign(["hub-small"], range(30))}
    spread = {run.seed: run.trace_hash for run in run_campaign(["hub-small"], range(30), pool=ProcessPool(2))}
    assert spread == inline


@pytest.mark.parametrize("version", VERSIONS)
def test_every_supported_python_gives_the_same_trace(
    version: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        pytest.skip("the one that runs this is compared with all others")
    python = find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    wheels = wheels_for(version, tmp_path_factory)
    assert elsewhere(python, hash_seed="7", path=wheels) == here()


def wheels_for(version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels for this Python, which is kept from one run of the tests to the next."""
    constraints = ROOT / "constraints.txt"
    key = hashlib.sha256(f"{version} {WHEELS} {constraints.read_text()}".encode()).hexdigest()[:12]
    kept = kept_folder() / f"wheels-{version}-{key}"
    if kept.exists():
        return kept
    folder = tmp_path_factory.mktemp(f"wheels-{version}") / "wheels"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    command += ["--python-version", version, "--only-binary=:all:", "--no-deps"]
    command += ["--constraint", str(constraints), *WHEELS]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.skip(f"wheels for Python {version} did not come in time")
    if done.returncode:
        pytest.skip(f"no wheels of {WHEELS} for Python {version}")
    kept.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Complete under its name, or not there: another worker may be as far.
        folder.rename(kept)
    except OSError:
        return folder
    return kept


def find_python(version: str) -> str | None:
    """An interpreter of this version: on the path, or one that pyenv keeps."""
    found = [shutil.which(f"python{version}")]
    found += sorted(str(path) for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for python in found:
        if python is None:
            continue
        told = subprocess.run([python, "--version"], capture_output=True, text=True)
        if told.returncode == 0 and told.stdout.startswith(f"Python {version}."):
            return python
    return None


def test_a_campaign_leaves_the_garbage_collector_as_it_was() -> None:
    """Objects that were excluded from collections stay so; others are collected again."""
    gc.unfreeze()
    try:
        assert len(list(run_campaign(["hub-small"], range(1)))) == 1
        assert not gc.get_freeze_count()
    finally:
        settle_collector()
    assert len(list(run_campaign(["hub-small"], range(1)))) == 1
    assert gc.get_freeze_count()
