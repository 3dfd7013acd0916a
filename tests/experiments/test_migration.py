"""Topics that move while their store is far away, and the two workflows that they are compared with."""

from __future__ import annotations

import pytest

from equipoise.lab.experiments.epulsar_migration import EXPERIMENT_7, MigrationScale
from equipoise.lab.experiments.epulsar_moving import INTERVAL_S, PLACES, move_all, wan
from equipoise.lab.experiments.epulsar_workflows import Migrated, migrate
from equipoise.lab.simulation import Simulation


def workflow(executors: int, *, is_announced: bool, topics: int = 8) -> list[Migrated]:
    with Simulation(seed=1, topology=wan(0.040)) as sim:
        return sim.run(migrate(sim, PLACES, topics=topics, executors=executors, is_announced=is_announced))


def test_clients_are_never_without_a_hub_while_their_topics_move() -> None:
    there, back = move_all(topics=6, executors=2, one_way_s=0.040, seed=1)
    for moved in (there, back):
        assert moved.down_s == (0.0,) * 6
        assert moved.lost == 0
        # A message in the middle takes a few ways between the hubs longer, and none to the cloud.
        assert moved.response_s < 0.1
        assert moved.gap_s < INTERVAL_S + 0.1


def test_a_plan_is_carried_out_one_round_trip_after_the_news_of_it() -> None:
    one_way_s, between_s = 0.040, 0.015
    (moved,) = move_all(topics=4, executors=4, one_way_s=one_way_s, seed=1, rounds=1)
    # The news of the plan, the plan itself and who is alive; PREPARE, PREPARED, CLOSE; and the word to the cloud.
    expected_s = one_way_s + 2 * one_way_s + 3 * between_s + one_way_s
    assert max(moved.until_s) == pytest.approx(expected_s, abs=0.008)


def test_more_executors_move_many_topics_in_less_time() -> None:
    slow = move_all(topics=16, executors=1, one_way_s=0.0, seed=1, rounds=1)[0]
    fast = move_all(topics=16, executors=16, one_way_s=0.0, seed=1, rounds=1)[0]
    assert max(fast.until_s) < max(slow.until_s) / 4


def test_pulsars_clients_wait_for_manager_and_store() -> None:
    first, _ = workflow(1, is_announced=False)
    # The manager is asked, and the new broker asks the store: four ways of 40 ms, and some between the sites.
    assert min(first.down_s) > 0.160
    # To the broker, to the store and back, and back to the manager; one topic after another.
    assert first.each_s == pytest.approx(0.160, abs=0.004)


def test_clients_that_receive_the_new_broker_wait_less_and_executors_work_in_parallel() -> None:
    alone, _ = workflow(1, is_announced=False)
    told, _ = workflow(4, is_announced=True)
    assert max(told.down_s) < min(alone.down_s) - 0.060
    assert told.each_s == pytest.approx(alone.each_s / 4, rel=0.05)


def test_claims_depend_on_the_outcome() -> None:
    found = EXPERIMENT_7.find(MigrationScale(topics=(4, 8), executors=(1, 4), wan_ms=(0, 40)), 1)
    # The plan's way through the store is shared by eight topics only.
    assert [claim.holds for claim in found.claims] == [True, True, False, True]
    downtime, times = found.figures
    assert [line.label for line in downtime.panels[0].lines] == ["Pulsar", "ePulsar", "ours"]
    assert downtime.panels[0].lines[2].y == (0.0, 0.0)
    assert times.panels[0].lines[0].x == (4.0, 8.0)
