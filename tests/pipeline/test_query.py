"""The whole query on Spark, from fake hubs to the lake and to views."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]  # It ships no types.
import pytest

from equipoise.errors import PipelineError
from equipoise.pipeline.job import Pipeline
from equipoise.pipeline.lake.compaction import keep
from equipoise.pipeline.lake.lake import Lake
from equipoise.pipeline.lake.profiles import lake_records
from equipoise.pipeline.samples import sampled
from equipoise.pipeline.settings import KeepingSettings, PipelineSettings, Plausible, SourceSettings
from equipoise.pipeline.sliding_window import SlidingWindow, WindowedView
from equipoise.pipeline.source.hub_directory import ListedHubs
from equipoise.pipeline.source.piece_rows import Rejection
from equipoise.pipeline.spark.session import SparkDriver
from equipoise.pipeline.sums_choice import SumsAt
from equipoise.pipeline.validation import judged
from equipoise.view.interest import Interest
from pipeline.fake_hub import FakeHub
from pipeline.records import SECOND_US, Record, assert_same_view, batch_of, hub_record, topic_record, view_of
from pipeline.store_thread import REGION, StoreThread
from support.polling import eventually

pytestmark = [pytest.mark.needs_spark, pytest.mark.xdist_group("spark")]


class Collector:
    """A sender that keeps the offered views."""

    def __init__(self) -> None:
        self.views: list[WindowedView] = []
        self.interest = Interest()

    def offer(self, view: WindowedView) -> None:
        self.views.append(view)


@pytest.fixture
def hubs() -> Iterator[tuple[FakeHub, FakeHub]]:
    with FakeHub("h1") as first, FakeHub("h2") as second:
        yield first, second


def seconds(count: int, *, since: int = 0, topics: int = 2, **values: Any) -> list[Record]:
    """Windows that have just ended, as a hub records them."""
    start_us = (int(time.time()) - 100) * SECOND_US
    found = []
    for at in range(since, since + count):
        time_us = start_us + at * SECOND_US
        found += [
            topic_record(b"topic-%d" % topic, time_us, publications=1, **values) for topic in range(topics)
        ]
        found.append(hub_record(time_us))
    return found


@contextmanager
def running(
    driver: SparkDriver,
    folder: Path,
    *hubs: FakeHub,
    sender: Collector | None = None,
    sums: SumsAt = SumsAt.DRIVER,
    **options: Any,
) -> Iterator[Pipeline]:
    listed = ",".join(hub.listed for hub in hubs)
    source = SourceSettings(**{"hubs": listed, "timeout_s": 2.0, **options})
    settings = PipelineSettings(
        source=source,
        directory=folder,
        trigger_interval_s=0.0,
        keeping=KeepingSettings(compaction_interval_s=3600.0),
        sums=sums,
        # Small enough that a test meets it: `auto` goes over to executors.
        executors_records_per_s=2.0,
    )
    pipeline = Pipeline(settings, driver, ListedHubs(listed), sender)  # type: ignore[arg-type]  # Offers are all it needs.
    pipeline.start()
    try:
        yield pipeline
    finally:
        pipeline.stop()


def until(condition: Callable[[], bool], pipeline: Pipeline) -> None:
    def is_so() -> bool:
        if condition():
            return True
        pipeline.check()
        return False

    eventually(is_so, lambda: f"the condition did not come true in time: {pipeline.status}", interval_s=0.02)


def kept(folder: Path) -> Counter[tuple[str, int, int]]:
    """How often each record is in the lake, by hub, incarnation and number."""
    found: Counter[tuple[str, int, int]] = Counter()
    for path in Lake(folder / "lake").files():
        table = pq.read_table(path, columns=["hub", "incarnation", "sequence"], partitioning=None)
        found.update(zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True))
    return found


def sent(*hubs: FakeHub) -> Counter[tuple[str, int, int]]:
    return Counter(
        (record["hub"], record["incarnation"], record["sequence"]) for hub in hubs for record in hub.records
    )


@pytest.mark.parametrize("sums", [SumsAt.DRIVER, SumsAt.EXECUTORS])
def test_records_of_all_hubs_are_read_once_and_views_are_made_of_them(
    driver: SparkDriver, tmp_path: Path, hubs: tuple[FakeHub, FakeHub], sums: SumsAt
) -> None:
    first, second = hubs
    sender = Collector()
    first.add(*seconds(10))
    second.add(*seconds(10))
    with running(driver, tmp_path, *hubs, sender=sender, sums=sums) as pipeline:
        until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
        first.add(*seconds(5, since=10, subscribers=4))
        second.add(*seconds(5, since=10, subscribers=3))
        until(lambda: kept(tmp_path) == sent(*hubs), pipeline)

        def is_whole() -> bool:
            view = view_of(sender.views[-1])
            if set(view.hubs.names) != {"h1", "h2"}:
                return False
            topic = view.topic(b"topic-0")
            return (topic.publications_per_s, topic.subscribers) == (2.0, 7.0)

        # A batch may have begun between the two hubs' seconds; the view of the next ones then has both.
        for since in range(15, 45):
            if is_whole():
                break
            first.add(*seconds(1, since=since, subscribers=4))
            second.add(*seconds(1, since=since, subscribers=3))
            until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
        until(lambda: pipeline.status.records == len(first.records) + len(second.records), pipeline)
        assert not +pipeline.status.rejected
        until(is_whole, pipeline)
    assert [view.time_s for view in sender.views] == sorted({view.time_s for view in sender.views})


def test_sums_of_executors_continue_after_a_restart(
    driver: SparkDriver, tmp_path: Path, hubs: tuple[FakeHub, FakeHub]
) -> None:
    first, second = hubs
    begun_s, records = time.time(), []
    for at in range(16):
        records.append((seconds(1, since=at, subscribers=at), seconds(1, since=at, bytes_out=at)))
    sender = Collector()
    live = SlidingWindow()
    for part in (records[:8], records[8:]):
        with running(driver, tmp_path, *hubs, sender=sender, sums=SumsAt.EXECUTORS) as pipeline:
            for one, other in part:
                first.add(*one)
                second.add(*other)
            until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
            assert pipeline.status.sums_at is SumsAt.EXECUTORS
    now_us = int((begun_s + 3600) * SECOND_US)
    for hub in hubs:
        batch = judged(batch_of(hub.records), now_us=now_us, plausible=Plausible())
        live.add(sampled([batch], Counter()))
    expected = live.view()
    assert expected is not None
    # Ten seconds, half of which were read by the query before.
    assert_same_view(view_of(expected), view_of(sender.views[-1]))


def test_where_sums_are_made_changes_with_the_rate_and_no_view_is_of_less(
    driver: SparkDriver, tmp_path: Path, hubs: tuple[FakeHub, FakeHub]
) -> None:
    """`seconds` stamps records with the present second, so the clock of the window is the number of batches."""
    first, _ = hubs
    sender, at = Collector(), 0
    with running(driver, tmp_path, first, sender=sender, sums=SumsAt.AUTO) as pipeline:
        while pipeline.status.sums_at is not SumsAt.EXECUTORS:
            assert at < 60
            first.add(*numbered_seconds(at))
            shown_s = BEGIN_US / SECOND_US + at
            until(partial(is_shown, pipeline, shown_s), pipeline)
            at += 1
    assert at > 20
    for view in sender.views[10:]:
        assert view_of(view).topic(b"t").publications_per_s == 3.0
        assert view_of(view).hubs.count == 1


def is_shown(pipeline: Pipeline, time_s: float) -> bool:
    return pipeline.status.view_time_s == time_s


BEGIN_US = (int(time.time()) - 1000) * SECOND_US


def numbered_seconds(at: int) -> list[Record]:
    time_us = BEGIN_US + at * SECOND_US
    return [
        topic_record(b"t", time_us, publications=3),
        topic_record(b"u", time_us),
        topic_record(b"v", time_us),
        hub_record(time_us),
    ]


def test_a_query_that_dies_in_any_batch_resumes_and_each_record_is_kept_once(
    driver: SparkDriver, tmp_path: Path, hubs: tuple[FakeHub, FakeHub], monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. Batches of a few records each; 2. one of them dies before, in or after its commit to the lake;
    3. a new query starts from the checkpoint, while hubs go on; 4. nothing is lost or there twice."""
    whole_commit, whole_finish = Lake.commit, Lake._finish
    deaths = iter(("before", "within", "after"))

    def commit(lake: Lake, query: str, batch: int, staged: list[str]) -> list[str]:
        how = next(deaths, "") if batch % 2 else ""
        if how == "before":
            raise OSError("died before the commit")
        if how == "within":
            monkeypatch.setattr(Lake, "_finish", _die)
        names = whole_commit(lake, query, batch, staged)
        if how == "after":
            raise OSError("died after the commit")
        return names

    def _die(*_: object) -> None:
        monkeypatch.setattr(Lake, "_finish", whole_finish)
        raise OSError("died within the commit")

    monkeypatch.setattr(Lake, "commit", commit)
    died = 0
    for hub in hubs:
        hub.add(*seconds(6))
    for round_number in range(4):
        with running(driver, tmp_path, *hubs, rows_max=12) as pipeline:
            try:
                until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
            except PipelineError as problem:
                assert "died" in str(problem)
                died += 1
        for hub in hubs:
            hub.add(*seconds(2, since=6 + 2 * round_number))
    with running(driver, tmp_path, *hubs, rows_max=12) as pipeline:
        until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
    assert died == 3
    assert max(kept(tmp_path).values()) == 1


def test_hubs_that_restart_fall_silent_or_forge_records_do_not_affect_others(
    driver: SparkDriver, tmp_path: Path, hubs: tuple[FakeHub, FakeHub]
) -> None:
    first, second = hubs
    first.add(*seconds(3))
    second.add(*seconds(3))
    with running(driver, tmp_path, *hubs, timeout_s=0.3) as pipeline:
        until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
        former = sent(first)
        first.restart()
        first.add(*seconds(2, since=3))
        until(lambda: kept(tmp_path) == former + sent(*hubs), pipeline)
        second.answers.clear()
        first.add(*seconds(2, since=5))
        until(lambda: kept(tmp_path) == former + sent(*hubs), pipeline)
        until(lambda: pipeline.status.rejected[Rejection.UNANSWERED] > 0, pipeline)
        second.answers.set()
        forged = {"cpu_ratio": float("nan")}, {"cpu_ratio": -1.0}, {"time": int(4e15)}
        second.add(*(hub_record(seconds(1, since=8)[-1]["time"]) | lie for lie in forged))
        second.add(*seconds(1, since=8))
        until(lambda: ("h2", 1, len(second.records) - 1) in kept(tmp_path), pipeline)
        until(lambda: pipeline.status.rejected[Rejection.NOT_FINITE] == 1, pipeline)
        assert pipeline.status.rejected[Rejection.NEGATIVE] == 1
        assert pipeline.status.rejected[Rejection.FUTURE] == 1
    assert max(kept(tmp_path).values()) == 1
    assert len(kept(tmp_path)) == len(former) + len(first.records) + len(second.records) - 3


def test_hubs_are_found_in_the_store_as_they_change(
    driver: SparkDriver, tmp_path: Path, hubs: tuple[FakeHub, FakeHub]
) -> None:
    first, second = hubs
    first.add(*seconds(2))
    second.add(*seconds(2))
    with StoreThread() as store:
        store.announce("h1", first.port)
        with running(driver, tmp_path, hubs=store.url, region=REGION) as pipeline:
            until(lambda: kept(tmp_path) == sent(first), pipeline)
            store.announce("h2", second.port)
            until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
            store.withdraw("h1")
            second.add(*seconds(2, since=2))
            until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
            # Back in the same incarnation: it is read from its last position.
            first.add(*seconds(2, since=2))
            store.announce("h1", first.port)
            until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
        # Another query, from the checkpoint, whose source has to find the store first.
        first.add(*seconds(1, since=4))
        with running(driver, tmp_path, hubs=store.url, region=REGION) as pipeline:
            until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
    assert max(kept(tmp_path).values()) == 1


def test_the_lake_is_merged_and_read_by_spark(
    driver: SparkDriver, tmp_path: Path, hubs: tuple[FakeHub, FakeHub]
) -> None:
    for hub in hubs:
        hub.add(*seconds(12))
    with running(driver, tmp_path, *hubs, rows_max=8) as pipeline:
        until(lambda: kept(tmp_path) == sent(*hubs), pipeline)
    lake = Lake(tmp_path / "lake")
    before = len(lake.files())
    assert before > 5
    told: list[int] = []
    done = keep(
        driver.session,
        lake,
        KeepingSettings(replaced_retention_s=0.0),
        is_all=True,
        clock=lambda: time.time() + 1,
        tell=told.append,
    )
    assert done.merged == before
    assert told[-1] == before and told == sorted(told)
    assert len(lake.files()) == len(lake.hours())
    assert kept(tmp_path) == sent(*hubs)
    records = lake_records(driver.session, lake)
    assert records.count() == sum(len(hub.records) for hub in hubs)
    assert records.where("kind = 'topic'").agg({"publications": "sum"}).collect()[0][0] == 48
