"""Views from the results of batches: the same view wherever it is summed, also during a change."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from equipoise.pipeline.hub_state import HubState
from equipoise.pipeline.hub_sums import hub_sums
from equipoise.pipeline.samples import HUB_SAMPLES, TOPIC_SAMPLES, Sampled, sampled
from equipoise.pipeline.settings import PipelineSettings, Plausible, SourceSettings
from equipoise.pipeline.sliding_window import WindowedView, timely
from equipoise.pipeline.sums_choice import RATE_BATCHES, SumsAt
from equipoise.pipeline.validation import judged
from equipoise.pipeline.view_maker import ViewMaker
from equipoise.view.interest import Interest
from pipeline.records import (
    SECOND_US,
    START_US,
    Record,
    assert_same_view,
    batch_of,
    hub_record,
    numbered,
    topic_record,
    view_of,
)

batch_task = pytest.importorskip("equipoise.pipeline.batch_task", reason="it needs PySpark")

HUBS = ("h0", "h1", "h2")
# Enough batches: until the rate is accepted and both ways have had a window of records, and some more.
SECONDS = RATE_BATCHES + 20


def maker_of(sums: SumsAt, *, topics_max: int = 1_000) -> ViewMaker:
    source = SourceSettings(hubs="h0=127.0.0.1:1")
    return ViewMaker(
        PipelineSettings(
            source=source,
            directory=Path("nowhere"),
            sums=sums,
            executors_records_per_s=1.0,
            view_topics_max=topics_max,
        )
    )


def second(hub: str, at: int, topics: int = 3) -> list[Record]:
    """What a hub recorded in that second."""
    at_us = START_US + at * SECOND_US
    records = [
        topic_record(b"topic-%d" % topic, at_us, publications=at * topic, bytes_out=100 * topic + at)
        for topic in range(topics)
    ]
    return numbered(hub, [*records, hub_record(at_us, cpu_ratio=0.01 * at, deliveries=at)])


def added(maker: ViewMaker, folder: Path, number: int, records: list[Record]) -> WindowedView | None:
    """As `task_results` makes them of the records, but in this process and for all hubs together."""
    batch = judged(batch_of(records), now_us=START_US + 3600 * SECOND_US, plausible=Plausible())
    found, sums = sampled([batch], Counter()), []
    if maker.wants_sums:
        window = HubState(folder, number, maker.over_us).updated(timely(found, maker.since_us)[0])
        sums = [hub_sums(window.topics, window.hubs, over_us=maker.over_us)]
    if not maker.wants_samples:
        found = Sampled(TOPIC_SAMPLES.empty_table(), HUB_SAMPLES.empty_table(), Counter())
    return maker.add(batch_task.BatchResult(found, sums, len(records), []), None, Interest())[0]


def test_views_are_the_same_on_the_driver_on_executors_and_while_one_takes_over(tmp_path: Path) -> None:
    makers = {way: maker_of(way) for way in SumsAt}
    for way in makers:
        (tmp_path / way).mkdir()
    ways = set()
    for at in range(1, SECONDS):
        records = [record for hub in HUBS for record in second(hub, at)]
        views = {}
        for way, maker in makers.items():
            view = added(maker, tmp_path / way, at, records)
            assert view is not None
            views[way] = view_of(view)
        assert_same_view(views[SumsAt.DRIVER], views[SumsAt.EXECUTORS])
        assert_same_view(views[SumsAt.DRIVER], views[SumsAt.AUTO])
        ways.add(makers[SumsAt.AUTO].sums_at)
    assert ways == {SumsAt.DRIVER, SumsAt.EXECUTORS}


def test_a_view_that_ends_no_later_than_the_last_one_is_not_sent(tmp_path: Path) -> None:
    maker = maker_of(SumsAt.DRIVER)
    assert added(maker, tmp_path, 1, second("h0", 5)) is not None
    assert added(maker, tmp_path, 2, second("h1", 4)) is None
    view = added(maker, tmp_path, 3, second("h0", 6))
    assert view is not None
    assert set(view_of(view).hubs.names) == {"h0", "h1"}


def test_hubs_share_the_topics_that_a_view_names() -> None:
    maker = maker_of(SumsAt.DRIVER, topics_max=1_000)
    assert maker.bound(Interest()).topics_per_hub == 1_000
    for number, hub in enumerate(HUBS):
        added(maker, Path(), number, second(hub, 1 + number))
    assert maker.bound(Interest()).topics_per_hub == 333
