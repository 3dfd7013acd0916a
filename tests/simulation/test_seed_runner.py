"""Results of runs whose programs fail in ways that no checker covers."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from equipoise.client.inbox import Inbox
from equipoise.hub.data.session import Session
from equipoise.lab.scenarios import (
    Client,
    NetworkShape,
    PublishedStream,
    Scenario,
    Subscribing,
    Workload,
    scenario_by_name,
)
from equipoise.lab.simulation.ablation import replaced
from equipoise.lab.simulation.runner import CLEAN, run_seed

SMALL = replace(scenario_by_name("hub-small"), faults=())


def broken(*_: object) -> None:
    raise ZeroDivisionError("a mistake")


def test_an_exception_in_the_hub_fails_the_run() -> None:
    with replaced(Session, "receive", broken):
        run = run_seed(SMALL, 0)
    assert any(violation.property == CLEAN for violation in run.violations)
    assert any("a mistake" in violation.text for violation in run.violations)


def test_an_exception_that_the_client_logs_and_survives_fails_the_run() -> None:
    with replaced(Inbox, "put", broken):
        run = run_seed(SMALL, 0)
    assert any("a mistake" in violation.text for violation in run.violations)


def test_a_failed_run_keeps_the_last_lines_of_its_trace_and_a_green_one_does_not() -> None:
    with replaced(Session, "receive", broken):
        assert run_seed(SMALL, 0).lines
    assert run_seed(SMALL, 0).lines == ()


def test_nothing_of_a_world_is_left_and_the_garbage_collector_is_on_again() -> None:
    def living() -> int:
        return sum(type(each) is Session for each in gc.get_objects())

    # What an earlier test has left in older generations.
    gc.collect()
    before = living()
    run_seed(SMALL, 0)
    assert living() == before
    assert gc.isenabled()


SHAPES = [
    NetworkShape(),
    NetworkShape(shape="star"),
    NetworkShape(shape="sites", round_trips_s=(("oslo", "rome", 0.05),), hub_place="oslo"),
    NetworkShape(shape="cities", hub_place="paris"),
]


@pytest.mark.parametrize("topology", SHAPES, ids=lambda topology: topology.shape)
def test_a_world_without_faults_delivers_everything(topology: NetworkShape) -> None:
    far = {"sites": "rome", "cities": "tokyo"}.get(topology.shape, "")
    scenario = Scenario(
        name="quiet",
        summary="nothing goes wrong",
        topology=topology,
        workload=Workload(
            clients=(
                Client(
                    name="ann",
                    publishes=(PublishedStream(topics=("t",), count=50, interval_s=0.01),),
                    place=topology.hub_place,
                ),
                Client(name="bob", subscribes=(Subscribing(names=("t",)),), place=far),
            )
        ),
        duration_s=1.0,
    )
    run = run_seed(scenario, 1)
    assert run.is_green, run.violations
    assert run.deliveries == run.messages > 20
    assert run.faults.total() == 0
