"""Regions and crowds: servers come when they are wanted and go when they are empty; players come, play and go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pytest

from equipoise.lab.experiments.run_game import Crowd, Match, Outcome
from equipoise.lab.experiments.run_game import play as play_match
from equipoise.lab.scenarios.game import Game, Schedule
from equipoise.lab.simulation.cluster.controller import LiveViews, SimulatedTelemetryReader
from equipoise.lab.simulation.cpu import measured_cpu
from equipoise.plan import PlannerSettings
from equipoise.plan.planner import Planner
from equipoise.view import View
from experiments.small_worlds import SmallWorld, play

GAME = Game(tiles_per_side=2, tile_length=50.0, payload_bytes=200)


def test_every_player_receives_all_players_of_its_tile_and_itself() -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        crowd = Crowd(world.sim, GAME, world.meter, lambda: world.region.endpoints)
        await crowd.follow(Schedule((0, 12), (10, 12)), lambda second: False)
        crowd.fall_silent()
        await asyncio.sleep(3.0)
        assert len(crowd.players) == 12
        assert crowd.unanswered == 0
        assert crowd.deaf == 0
        assert world.meter.lost == 0
        # Twelve players on four tiles, three updates a second, for nearly ten seconds: each hears itself at least.
        assert world.meter.responses > 12 * 3 * 7
        assert world.meter.deliveries > 2 * world.meter.responses

    play(story, hubs=1)


def test_players_who_leave_are_gone_and_disconnected() -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        crowd = Crowd(world.sim, GAME, world.meter, lambda: world.region.endpoints)
        await crowd.follow(Schedule((0, 10), (5, 10), (6, 3), (10, 3)), lambda second: False)
        assert len(crowd.players) == 3
        assert await world.sim.until(lambda: world.region.hubs["hub-1"].clients == 3, 5.0)

    play(story, hubs=1)


def test_records_are_read_from_where_the_reader_stopped() -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        reader = SimulatedTelemetryReader()
        sequences: dict[str, list[int]] = {}
        for _ in range(5):
            await asyncio.sleep(1.3)
            for batch in await reader.read(world.region.running):
                for row in batch.select(["hub", "sequence"]).to_pylist():
                    sequences.setdefault(row["hub"], []).append(row["sequence"])
        assert sorted(sequences) == ["hub-1", "hub-2"]
        for found in sequences.values():
            assert found == list(range(len(found)))
            assert len(found) >= 5

    play(story, hubs=2)


def test_a_hub_that_does_not_answer_is_left_out_and_read_later() -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        reader = SimulatedTelemetryReader()
        await asyncio.sleep(2.5)
        world.region.hubs["hub-2"].host.pause()
        first = {row for batch in await reader.read(world.region.running) for row in batch["hub"].to_pylist()}
        world.region.hubs["hub-2"].host.thaw()
        await asyncio.sleep(1.0)
        second = {
            row for batch in await reader.read(world.region.running) for row in batch["hub"].to_pylist()
        }
        assert first == {"hub-1"}
        assert second == {"hub-1", "hub-2"}

    play(story, hubs=2)


def played(schedule: Schedule, *, out_bytes_per_s: float) -> Outcome:
    match = Match(schedule=schedule, game=GAME, servers=3, out_bytes_per_s=out_bytes_per_s, start_s=1.0)
    return play_match(match, Planner(PlannerSettings(servers_max=3)))


def test_the_planner_adds_servers_under_load_and_nothing_is_lost() -> None:
    outcome = played(Schedule((0, 10), (30, 40), (60, 40)), out_bytes_per_s=300e3)
    assert outcome.meter.seconds[0].servers == 1
    assert outcome.meter.seconds[-1].servers > 1
    assert outcome.meter.lost == 0
    assert outcome.plans > 1
    # The first plan is the operator's.
    assert len(outcome.meter.plans_at_s) == outcome.plans - 1


def test_one_server_that_suffices_stays_alone() -> None:
    outcome = played(Schedule((0, 10), (30, 10)), out_bytes_per_s=10e6)
    assert {second.servers for second in outcome.meter.seconds} == {1}
    assert outcome.meter.lost == 0


def test_a_failing_controller_is_an_error() -> None:
    class Broken(LiveViews):
        def view(self, batches: Sequence[pa.RecordBatch], now: float) -> View | None:
            raise RuntimeError("broken")

    match = Match(schedule=Schedule((0, 2), (10, 2)), game=GAME, servers=1)
    with pytest.raises(ExceptionGroup) as found:
        play_match(match, Planner(), Broken())
    assert found.group_contains(RuntimeError, match="broken")


def test_a_server_too_many_is_emptied_stopped_and_forgotten_by_the_store() -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        settings = PlannerSettings(servers_max=2, rental_min_s=5.0, server_hour_price=100.0)
        world.region.control(Planner(settings), hubs_max=2)
        crowd = Crowd(world.sim, GAME, world.meter, lambda: world.region.endpoints)
        crowd._adjust(10)
        assert await world.sim.until(lambda: len(world.region.running) == 1, 300.0)
        assert world.region.members == world.region.running
        await asyncio.sleep(3.0)
        crowd.fall_silent()
        await asyncio.sleep(3.0)
        assert world.meter.lost == 0

    play(story, hubs=2, out_bytes_per_s=10e6)


def test_a_machine_with_a_processor_is_as_busy_as_its_telemetry_says() -> None:
    async def story(world: SmallWorld) -> None:
        await world.begin()
        crowd = Crowd(world.sim, GAME, world.meter, lambda: world.region.endpoints)
        crowd._adjust(20)
        await asyncio.sleep(4.0)
        host = world.region.hubs["hub-1"].host
        assert host.cpu is not None
        before_s, began = host.cpu.busy_s, world.sim.now
        views, reader = LiveViews(), SimulatedTelemetryReader()
        for _ in range(10):
            await asyncio.sleep(1.0)
            view = views.view(await reader.read(world.region.running), host.clock.time())
        assert view is not None
        measured = (host.cpu.busy_s - before_s) / (world.sim.now - began)
        assert view.hub("hub-1").cpu_ratio == pytest.approx(measured, rel=0.2)

    play(story, hubs=1, cpu=measured_cpu(0.05))
