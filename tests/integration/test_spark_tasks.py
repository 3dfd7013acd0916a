"""Campaigns and sweeps on a standalone cluster of Spark's: the results of one process, also when a worker is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.polling import eventually
from support.processes import ROOT
from support.spark import need_spark, spark_cache
from support.spark_cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.needs_spark, pytest.mark.timeout(900), pytest.mark.xdist_group("cluster")]

PATIENCE_S = 300.0
TASKS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    need_spark()
    with spark_cluster(tmp_path_factory.mktemp("work")) as found:
        yield found


def start(*words: str) -> subprocess.Popen[str]:
    """A process of its own: a process has one Spark session."""
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "EQUIPOISE_CACHE": str(spark_cache())}
    return subprocess.Popen(
        [sys.executable, "-m", *words], env=environment, stdout=subprocess.PIPE, text=True
    )


def equipoise_json(*words: str) -> dict[str, Any]:
    process = start("equipoise.cli.main", *words, "--json")
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    told = json.loads(output)
    assert isinstance(told, dict)
    return told


def without_times(told: dict[str, Any], *more: str) -> dict[str, Any]:
    times = {"elapsed_s", "seeds_per_s", "seeds_per_s_by_case", "took_s", "taken_at", *more}
    return {name: value for name, value in told.items() if name not in times}


def test_a_campaign_on_a_cluster_gives_what_one_process_gives(cluster: SparkCluster) -> None:
    words = ("simulate", "--case", "hub-small", "--case", "hub-cuts", "--seeds", "0..12")
    on_spark = equipoise_json(*words, "--master", cluster.url)
    assert len(on_spark["seeds"]) == 24
    assert without_times(on_spark) == without_times(equipoise_json(*words))


def test_the_seeds_of_a_sweep_on_a_cluster_give_what_one_process_gives(cluster: SparkCluster) -> None:
    """Each seed is a task, and makes the tasks of a sweep."""
    seeds = ("reproduce", "epulsar-6", "--quick", "--seeds", "1..3")
    on_spark = equipoise_json(*seeds, "--master", cluster.url)
    assert on_spark["seeds"] == [1, 2]
    assert without_times(on_spark) == without_times(equipoise_json(*seeds))


def started(folder: Path) -> list[tuple[int, int]]:
    """(task, process) of every start of a task."""
    marks = [path.name.split("-") for path in folder.glob("started-*")]
    return [(int(number), int(pid)) for _, number, pid, _ in marks]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_that_is_killed_in_the_middle_costs_no_result(cluster: SparkCluster, tmp_path: Path) -> None:
    """1. Each of two workers runs a task that waits; 2. a worker is killed, and the process of its task ends; 3. tasks
    may go on: all results are there, and the task that was lost has been started twice.
    """
    process = start("support.waiting_tasks", cluster.url, str(tmp_path), str(TASKS))
    eventually(lambda: len(started(tmp_path)) == 2, "a task on each worker")
    cluster.workers[0].kill()
    eventually(
        lambda: not all(is_running(pid) for _, pid in started(tmp_path)), "the executor ends with its worker"
    )
    (tmp_path / "go").touch()
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert json.loads(output) == [[number, number * number] for number in range(TASKS)]
    assert len(started(tmp_path)) > TASKS
    assert {number for number, _ in started(tmp_path)} == set(range(TASKS))
