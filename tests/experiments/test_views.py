"""Views of simulated hubs: made by the live pipeline's code, and equal to those of Spark's batch transforms."""

from __future__ import annotations

import asyncio

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pytest

from equipoise.errors import PipelineError
from equipoise.lab.experiments.run_game import Crowd
from equipoise.lab.experiments.views import SparkViews, ViewMaking, view_making
from equipoise.lab.scenarios.game import Game
from equipoise.lab.simulation.cluster.controller import LiveViews, SimulatedTelemetryReader
from equipoise.pipeline.settings import SessionSettings
from equipoise.pipeline.spark.session import SparkDriver
from experiments.small_worlds import SmallWorld, play

GAME = Game(tiles_per_side=2, tile_length=50.0, payload_bytes=200)
SECONDS = 12

Looks = list[tuple[float, list[pa.RecordBatch]]]


def looks(seed: int = 1) -> Looks:
    """What two hubs recorded under a small crowd, as read once a second."""

    async def story(world: SmallWorld) -> Looks:
        await world.begin()
        crowd = Crowd(world.sim, GAME, world.meter, lambda: world.region.endpoints)
        crowd._adjust(16)
        reader, found = SimulatedTelemetryReader(), []
        clock = world.region.hubs["hub-1"].host.clock
        for _ in range(SECONDS):
            await asyncio.sleep(1.0)
            found.append((clock.time(), await reader.read(world.region.running)))
        return found

    return play(story, hubs=2, seed=seed, out_bytes_per_s=1e6)


def test_a_view_has_the_load_of_hubs_and_topics() -> None:
    views = LiveViews()
    view = None
    for now, batches in looks():
        view = views.view(batches, now)
    assert view is not None
    assert sorted(view.hubs.names) == ["hub-1", "hub-2"]
    assert set(view.topics.names) <= set(GAME.topics)
    # Sixteen players, three updates a second; joining and changing tiles cost a few.
    assert view.topics.publications_per_s.sum() == pytest.approx(48, rel=0.15)
    assert view.topics.subscribers.sum() == pytest.approx(16, abs=3)
    assert (view.hubs.out_bytes_per_s_max == 1e6).all()


def test_there_is_no_view_before_a_hub_has_recorded_telemetry() -> None:
    assert LiveViews().view([], 1e9) is None


def test_an_experiment_goes_on_without_spark_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(settings: SessionSettings) -> SparkDriver:
        raise PipelineError("no Java here")

    monkeypatch.setattr(SparkDriver, "start", fail)
    with view_making(5) as views:
        assert type(views()) is LiveViews
    assert "no Java here" in views.note
    assert views.agrees


@pytest.mark.needs_spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(300)
def test_spark_makes_the_same_views_as_the_live_window(driver: SparkDriver) -> None:
    making = ViewMaking(lambda: SparkViews(driver.session, every=6))
    views = making()
    assert isinstance(views, SparkViews)
    for now, batches in looks(seed=2):
        assert views.view(batches, now) is not None or now < 1.7e9 + 3
    assert views.made == SECONDS // 6
    assert views.agrees, views.difference_max
    assert "2 of them" in making.note
