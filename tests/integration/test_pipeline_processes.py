"""The pipeline as a process, with real hubs under load: killed, started again, and on a cluster of Spark's own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # As above.
import pytest
import redis
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.control.view_receiver import ViewReceiver
from equipoise.pipeline.lake.lake import Lake
from equipoise.telemetry import arrow_schema
from equipoise.view.view import View
from support.polling import eventually
from support.processes import ServerProcess, hub, running
from support.spark import need_spark, spark_cache
from support.spark_cluster import spark_cluster

pytestmark = [pytest.mark.needs_spark, pytest.mark.timeout(900), pytest.mark.xdist_group("cluster")]

# A machine of two cores with ten things to do starts a JVM and its executors in two minutes.
PATIENCE_S = 200.0
READY = re.compile(r"^equipoise pipeline ready")
TOPICS = [f"topic-{number}" for number in range(20)]


@pytest.fixture(autouse=True)
def _spark_is_there() -> None:
    need_spark()


class Views:
    """An intake in a thread of its own."""

    def __init__(self) -> None:
        self.intake = ViewReceiver()
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._listening = threading.Event()

    def __enter__(self) -> Views:
        self._thread.start()
        assert self._listening.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.intake.stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.run_forever()

    async def _listen(self) -> None:
        self.address = await self.intake.start("127.0.0.1", 0)
        self._listening.set()

    @property
    def latest(self) -> View | None:
        return self.intake.latest


class Load:
    """Publishes to all topics at all hubs, a thousand messages a second, and counts what was taken."""

    def __init__(self, hubs: list[ServerProcess]) -> None:
        self.published: Counter[bytes] = Counter()
        self._hubs = hubs
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(20)

    def _run(self) -> None:
        clients = [redis.Redis(port=server.port) for server in self._hubs]
        while not self._stopped.wait(0.05):
            for client in clients:
                pipe = client.pipeline(transaction=False)
                for topic in TOPICS:
                    pipe.publish(topic, b"x" * 50)
                pipe.execute()
                self.published.update(topic.encode() for topic in TOPICS)
        for client in clients:
            client.close()


def pipeline(
    folder: Path, hubs: list[ServerProcess], views: Views, *options: str
) -> AbstractContextManager[ServerProcess]:
    listed = ",".join(f"h{number}=127.0.0.1:{server.port}" for number, server in enumerate(hubs))
    command = [sys.executable, "-m", "equipoise.cli.main", "pipeline", "--hubs", listed]
    return running(
        [*command, "--to", views.address, "--dir", str(folder), *options],
        READY.match,
        timeout_s=PATIENCE_S,
        environment={"EQUIPOISE_CACHE": str(spark_cache())},
    )


def jvm_of(pid: int) -> int:
    """The JVM that a driver has started."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if b"java" in Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    raise AssertionError(f"{pid} has no JVM")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def history(folder: Path) -> pa.Table:
    columns = ["kind", "hub", "incarnation", "sequence", "topic", "publications"]
    tables = [
        pq.read_table(path, columns=columns, partitioning=None) for path in Lake(folder / "lake").files()
    ]
    empty = pa.schema([arrow_schema().field(name) for name in columns]).empty_table()
    return pa.concat_tables([empty, *tables])


def published_in(records: pa.Table) -> Counter[bytes]:
    topics = records.filter(pc.equal(records.column("kind"), "topic"))
    sums = topics.group_by("topic").aggregate([("publications", "sum")]).to_pylist()
    return Counter({row["topic"]: row["publications_sum"] for row in sums})


def assert_each_once(records: pa.Table) -> None:
    """No record twice, and none missing up to the last."""
    for hub_name in ("h0", "h1"):
        own = records.filter(pc.equal(records.column("hub"), hub_name))
        numbers = sorted(own.column("sequence").to_pylist())
        assert numbers == list(range(len(numbers)))


def assert_lake_is_kept_from_others(folder: Path, holder: int) -> None:
    found = CliRunner().invoke(app, ["lake", "compact", str(folder)])
    assert found.exit_code == 2
    assert f"in use by process {holder}, equipoise pipeline" in found.stderr


@pytest.fixture
def hubs() -> Iterator[list[ServerProcess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(hub(name=f"h{number}")) for number in range(2)]


def test_a_pipeline_that_is_killed_under_load_goes_on_and_loses_nothing(
    tmp_path: Path, hubs: list[ServerProcess]
) -> None:
    """1. Hubs under load, a pipeline, its lake closed to others; 2. kill -9: the JVM goes with it; 3. another pipeline
    goes on from the checkpoint; 4. every message that was published is in the history once; 5. its JVM is killed: it
    says so, and ends.
    """
    with Views() as views, Load(hubs) as load:
        with pipeline(tmp_path, hubs, views) as first:
            eventually(lambda: views.intake.views >= 3, "three views")
            jvm = jvm_of(first.pid)
            assert_lake_is_kept_from_others(tmp_path, first.pid)
            first.kill()
            eventually(lambda: not is_running(jvm), "the JVM ends with its driver")
        seen, killed_at_s = views.intake.views, time.time()
        with pipeline(tmp_path, hubs, views) as second:
            eventually(lambda: views.intake.views > seen, "a view of the second pipeline")
            eventually(lambda: (views.intake.age_s or 99.0) < 8.0, "a view of the present")
            view = views.latest
            assert view is not None
            assert view.time_s > killed_at_s
            assert set(view.hubs.names) == {"h0", "h1"}
            assert view.topic(b"topic-0").publications_per_s > 0
            assert set(view.topic(b"topic-0").carried_by) == {"h0", "h1"}
            load.stop()
            eventually(lambda: published_in(history(tmp_path)) == load.published, "all that was published")
            os.kill(jvm_of(second.pid), signal.SIGKILL)
            assert second.process.wait(PATIENCE_S) == 1
        last_words = second.output.strip().splitlines()[-1]
        assert last_words == "equipoise: the JVM has ended with status -9: restart the pipeline"
    assert_each_once(history(tmp_path))


def test_the_same_pipeline_runs_on_a_cluster_and_survives_the_loss_of_a_worker(
    tmp_path: Path, hubs: list[ServerProcess]
) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(spark_cluster(tmp_path / "work"))
        views = stack.enter_context(Views())
        load = stack.enter_context(Load(hubs))
        folder = tmp_path / "pipeline"
        driver = stack.enter_context(pipeline(folder, hubs, views, "--master", cluster.url))
        eventually(lambda: views.intake.views >= 3, "three views")
        eventually(lambda: cluster.is_used, "both workers to take part")
        cluster.workers[0].kill()
        seen = views.intake.views
        eventually(lambda: views.intake.views >= seen + 3, "views after the loss of a worker")
        load.stop()
        eventually(lambda: published_in(history(folder)) == load.published, "all that was published")
        driver.process.terminate()
        assert driver.process.wait(PATIENCE_S) == 0
    assert_each_once(history(folder))
