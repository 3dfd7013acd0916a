"""Topics of a real hub in Spark: streams, batches, limits, loss, and rows written once."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit
from pyspark.sql.streaming.datasource import ReadAllAvailable

from equipoise.errors import LedgerError
from equipoise.pipeline.spark.session import SparkDriver
from equipoise.pipeline.topic_settings import TopicReadSettings, read_options
from equipoise.pipeline.topics import TopicSource
from equipoise.pipeline.topics.source import TopicStreamReader
from support.processes import ROOT, ServerProcess, hub

pytestmark = [pytest.mark.needs_spark, pytest.mark.xdist_group("spark")]

PATIENCE_S = 120


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with hub("--data", str(tmp_path_factory.mktemp("data"))) as found:
        yield found


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Any]:
    with redis.Redis(host=server.host, port=server.port, socket_timeout=PATIENCE_S) as found:
        yield found


class Topics:
    """A session of Spark's and a hub."""

    def __init__(self, driver: SparkDriver, server: ServerProcess, folder: Path) -> None:
        self.spark = driver.session
        self.spark.dataSource.register(TopicSource)
        self.hubs = f"{server.host}:{server.port}"
        self.folder = folder

    def read(self, **options: object) -> DataFrame:
        given = {name: str(value) for name, value in options.items()}
        return self.spark.read.format("equipoise").options(hubs=self.hubs, **given).load()

    def stream(self, name: str, **options: object) -> list[int]:
        """Read what there is now, from where the query of this name was before; how many rows each batch has."""
        given = {name: str(value) for name, value in options.items()}
        rows = self.spark.readStream.format("equipoise").options(hubs=self.hubs, **given).load()
        batches: list[int] = []

        def take(batch: DataFrame, number: int) -> None:
            found = [(row["topic"], row["id"]) for row in batch.collect()]
            batches.append(len(found))
            self.seen += found

        self.seen: list[tuple[str, str]] = []
        query = (
            rows.writeStream.foreachBatch(take)
            .option("checkpointLocation", str(self.folder / name))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)
        return batches


@pytest.fixture
def topics(driver: SparkDriver, server: ServerProcess, tmp_path: Path) -> Topics:
    return Topics(driver, server, tmp_path)


def fill(client: Any, topic: str, count: int) -> list[str]:
    with client.pipeline(transaction=False) as pipe:
        for number in range(count):
            pipe.xadd(topic, {"n": number})
        return [at.decode() for at in pipe.execute()]


def test_a_table_has_every_entry_once_in_tasks_of_the_requested_size(topics: Topics, client: Any) -> None:
    ids = fill(client, "table", 250)
    client.xadd("table", {"payload": "hello"}, id="9999999999999-0")
    table = topics.read(topic="table", recordsPerTask=100)
    assert table.rdd.getNumPartitions() == 3
    rows = sorted(table.collect(), key=lambda row: [int(part) for part in row["id"].split("-")])
    assert [row["id"] for row in rows] == [*ids, "9999999999999-0"]
    assert rows[7]["fields"] == {"n": b"7"}
    assert [rows[0]["payload"], rows[-1]["payload"]] == [None, b"hello"]
    assert int(rows[0]["timestamp"].timestamp() * 1_000) == int(ids[0].partition("-")[0])
    part = topics.read(topic="table", startingOffsets=ids[10], endingOffsets=ids[19])
    assert sorted(row["id"] for row in part.collect()) == sorted(ids[10:20])


def test_a_stream_resumes_and_reads_no_more_than_its_limit(topics: Topics, client: Any) -> None:
    options = {"pattern": "stream.*", "startingOffsets": "earliest", "maxRecordsPerTrigger": 40}
    ids = [("stream.a", at) for at in fill(client, "stream.a", 70)]
    batches = topics.stream("q", **options)
    assert [sum(batches), max(batches)] == [70, 40]
    assert sorted(topics.seen) == sorted(ids)
    ids = [("stream.a", at) for at in fill(client, "stream.a", 10)]
    ids += [("stream.b", at) for at in fill(client, "stream.b", 90)]
    assert max(topics.stream("q", **options)) <= 40
    assert sorted(topics.seen) == sorted(ids)
    assert sum(topics.stream("q", **options)) == 0


class Reading:
    """The reader of a stream without Spark: states and rows as Spark would ask for them."""

    def __init__(self, server: ServerProcess, **options: str) -> None:
        given = {"hubs": f"{server.host}:{server.port}", "startingOffsets": "earliest", **options}
        self._options = given
        with self._reader() as reader:
            self._state: dict[str, Any] = reader.initialOffset()

    def count(self, **options: str) -> int:
        """The number of rows after the last read position; they are read then."""
        with self._reader(**options) as reader:
            end = reader.latestOffset(self._state, ReadAllAvailable())
            batches = [batch for part in reader.partitions(self._state, end) for batch in reader.read(part)]
        self._state = end
        return sum(batch.num_rows for batch in batches)

    @contextmanager
    def _reader(self, **options: str) -> Iterator[TopicStreamReader]:
        reader = TopicStreamReader(read_options(TopicReadSettings, {**self._options, **options}))
        try:
            yield reader
        finally:
            reader.stop()


def test_entries_that_were_trimmed_before_they_were_read_end_the_query_by_default(
    server: ServerProcess, client: Any
) -> None:
    fill(client, "lost", 10)
    reading = Reading(server, topic="lost")
    assert reading.count() == 10
    fill(client, "lost", 10)
    client.xtrim("lost", maxlen=3, approximate=False)
    with pytest.raises(LedgerError, match="7 entries were trimmed or deleted"):
        reading.count()
    assert reading.count(failOnDataLoss="false") == 3
    client.delete("lost")
    fill(client, "lost", 4)
    with pytest.raises(LedgerError, match="the log was deleted"):
        reading.count()
    assert reading.count(failOnDataLoss="false") == 4
    fill(client, "lost", 2)
    assert reading.count() == 2


@pytest.mark.parametrize("how", ["by number", "by id"])
def test_a_batch_that_is_run_again_adds_no_row_twice(topics: Topics, client: Any, how: str) -> None:
    """1. A query writes a batch; 2. its checkpoint loses that the batch was committed, as after a crash;
    3. the query starts again, and writes the batch again; 4. every row is in the log once."""
    source, sink = f"source {how}", f"sink {how}"
    fill(client, source, 30)
    checkpoint = topics.folder / "sink"
    keys = {"idColumn": "id"} if how == "by id" else {}

    def write() -> None:
        rows = (
            topics.spark.readStream.format("equipoise")
            .options(hubs=topics.hubs, topic=source, startingOffsets="earliest", recordsPerTask="10")
            .load()
        )
        query = (
            rows.select(lit(sink).alias("topic"), col("id"), col("fields")["n"].alias("n"))
            .writeStream.format("equipoise")
            .options(hubs=topics.hubs, checkpointLocation=str(checkpoint), **keys)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)

    write()
    assert client.xlen(sink) == 30
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    fill(client, source, 5)
    write()
    numbers = [int(fields[b"n"]) for _, fields in client.xrange(sink)]
    assert sorted(numbers) == sorted([*range(30), *range(5)])


def test_a_table_is_appended_and_invalid_rows_are_rejected(topics: Topics, client: Any) -> None:
    rows = topics.spark.createDataFrame([("a", 1), ("b", 2)], "name string, height int")
    write = rows.coalesce(1).write.format("equipoise").option("hubs", topics.hubs)
    write.option("topic", "people").mode("append").save()
    assert [fields for _, fields in client.xrange("people")] == [
        {b"name": b"a", b"height": b"1"},
        {b"name": b"b", b"height": b"2"},
    ]
    with pytest.raises(PySparkException, match="not overwritten"):
        write.option("topic", "people").mode("overwrite").save()
    with pytest.raises(PySparkException, match="a column `topic`"):
        rows.write.format("equipoise").option("hubs", topics.hubs).mode("append").save()


def test_the_example_counts_sold_items(
    topics: Topics, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for shop, item in (("eu", "tea"), ("eu", "milk"), ("us", "tea")):
        client.xadd(f"orders.{shop}", {"item": item})
    example = runpy.run_path(str(ROOT / "examples" / "topics_in_spark.py"))
    example["main"](topics.spark, topics.hubs, str(topics.folder))
    assert capsys.readouterr().out == "orders.eu: 2 sold\norders.us: 1 sold\n"
