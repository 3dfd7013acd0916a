"""`equipoise up` with Spark: from the first message to the first plan, killed processes and the end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import redis

from local.up_world import Up, require_java

pytestmark = [
    pytest.mark.needs_java,
    pytest.mark.needs_spark,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("up"),
]
# Far more than the seconds it takes, for machines that do something else meanwhile.
STOP_S_MAX = 30.0
# Starting Spark takes 15 s on an idle machine of two cores.
PLAN_S_MAX = 90.0
_JVM = "org.apache.spark.deploy.SparkSubmit"
_WORKERS = "pyspark.daemon"


def test_it_plans_loses_its_pipeline_and_its_supervisor_and_plans_again(tmp_path: Path) -> None:
    """One story, since every start of Spark costs a quarter of a minute.

    1. Everything comes up, and the controller decides on views.
    2. The pipeline is killed: it comes back, and its JVM and Spark's workers do not outlive it.
    3. The supervisor is killed: nothing is left, Spark included.
    4. It starts again where it stopped, and one interrupt ends everything.
    """
    require_java()
    up = Up(tmp_path)
    try:
        up.start("--hubs", "1")
        up.until_up()
        with redis.Redis(port=up.port) as client:
            client.publish("news", "hello")
        up.until(lambda: plans(up), "it decides nothing", PLAN_S_MAX)

        first, spark = up.pid_of("pipeline"), sparks(up)
        assert spark.keys() == {_JVM, _WORKERS}
        os.kill(first, signal.SIGKILL)
        up.until(lambda: up.pid_of("pipeline") not in (0, first), "the pipeline was not started again")
        former = set().union(*spark.values())
        up.until(lambda: not former & up.processes().keys(), f"Spark outlives its pipeline: {spark}")

        up.until(lambda: _JVM in sparks(up), "no second Spark")
        up.kill()
        up.until(lambda: not up.processes(), f"left: {up.processes()}")

        up.start("--hubs", "1")
        up.until_up()
        up.until(lambda: "pipeline ready" in up.said, "no pipeline", PLAN_S_MAX)
        up.until(lambda: plans(up), "it decides nothing", PLAN_S_MAX)
        assert up.interrupt() < STOP_S_MAX
        up.until(lambda: not up.processes(), f"left: {up.processes()}")
    finally:
        up.stop()


def plans(up: Up) -> bool:
    overview = up.ask("/api/overview")
    return overview is not None and overview["state"] == "leading" and overview["view_age_s"] < 10


def sparks(up: Up) -> dict[str, set[int]]:
    """Spark's processes by what runs in them: the JVM, and the parent of its Python workers with those."""
    found: dict[str, set[int]] = {}
    for pid, words in up.processes().items():
        for name in {_JVM, _WORKERS}.intersection(words):
            found.setdefault(name, set()).add(pid)
    return found
