"""A controller whose store does not answer, over connections: the served memory store, and ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from contracts.store_worlds import NetworkWorld, RemoteWorld, ZooKeeperWorld
from control.control_world import TREE, Views
from equipoise.control.controller import Controller
from equipoise.control.provision import NoProvisioner
from equipoise.control.settings import ControllerSettings
from equipoise.plan import Planner, PlannerSettings
from equipoise.store import LeaderFacts, Store, StoreSettings
from support.polling import until
from support.zookeeper import require_zookeeper, shared_zookeeper


@pytest.fixture(params=[RemoteWorld, pytest.param(ZooKeeperWorld, marks=pytest.mark.needs_java)])
def world(request: pytest.FixtureRequest) -> Iterator[NetworkWorld]:
    if request.param is ZooKeeperWorld:
        require_zookeeper()
        shared_zookeeper()
    yield request.param()


def controller_on(store: Store) -> Controller:
    return Controller(
        store,
        TREE,
        ControllerSettings(name="one", period_s=0.2),
        policy=Planner(PlannerSettings()),
        views=Views(),
        provisioner=NoProvisioner(),
        facts=LeaderFacts(name="one"),
    )


def test_a_controller_waits_for_its_store_loses_the_lead_and_leads_again(world: NetworkWorld) -> None:
    async def scenario() -> None:
        store = await world.open(StoreSettings(session_timeout_s=2.0, request_timeout_s=1.0))
        proxy = world.proxy_of(store)
        # The store answers nothing from the first request on.
        proxy.block()
        controller = controller_on(store)
        running = asyncio.create_task(controller.run())
        await until(lambda: "did not answer" in controller.store_health.problem)
        proxy.unblock()
        await until(lambda: controller.leadership.is_leading and not controller.store_health.problem)
        # Now for longer than the session lasts.
        proxy.block()
        await until(lambda: not controller.leadership.is_leading)
        assert controller.store_health.problem
        proxy.unblock()
        await until(lambda: controller.leadership.is_leading and not controller.store_health.problem)
        assert not running.done()
        running.cancel()
        await asyncio.wait([running])

    world.run(scenario())
