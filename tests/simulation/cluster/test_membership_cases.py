"""Membership of one hub in a cluster: joining, leaving, failing, and following the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from equipoise.access import parse_users
from equipoise.control.operations import drain
from equipoise.errors import SettingsError
from equipoise.hub.cluster import Cluster, Routing
from equipoise.hub.membership.acl_sync import AclSync, first_rules
from equipoise.lab.scenarios import Workload
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.region import STORE, TREE, RegionHub
from equipoise.lab.simulation.cluster.world import SESSION_S, ClusterWorld
from equipoise.lab.workload import History
from equipoise.model import Member, Plan, PlanChange
from equipoise.model.change import ASKED_FOR
from equipoise.store import (
    HubsStore,
    LeaderFacts,
    LeaderStore,
    MemoryStore,
    PlanStore,
    UsersStore,
    publish_users,
)

from .worlds import case

NAMES = [b"t%d" % i for i in range(400)]
# The way of news: a store's watch, a read or two, at most a look that comes late.
NEWS_S = 0.5
USERS = '[users.default]\nnopass = true\npublish = ["*"]\n'
Script = Callable[[ClusterWorld], Awaitable[None]]


def play(script: Script, hubs: tuple[str, ...] = ("h1", "h2", "h3")) -> None:
    with Simulation(seed=1, time_s_max=600.0) as sim:
        scenario = case("cluster-store-moves", hubs=hubs, workload=Workload(clients=()))
        world = ClusterWorld(sim, scenario, History())

        async def main() -> None:
            await world.region.begin()
            for work in world.region.work():
                world.keep(work)
            for node in world.hubs.values():
                node.start()
            await until(world.region.is_settled)
            await script(world)

        sim.run(main())


async def until(is_so: Callable[[], bool], timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not is_so():  # noqa: ASYNC110  # virtual time is free, and what changes is another host's state
            await asyncio.sleep(0.01)


async def beside(world: ClusterWorld) -> MemoryStore:
    """Another session, on the store's own host."""
    return await world.region.beside()


def cluster_of(node: RegionHub) -> Cluster:
    assert node.hub is not None
    assert node.hub.cluster is not None
    return node.hub.cluster


def share(world: ClusterWorld, observer: str, hub: str) -> float:
    router = cluster_of(world.region.hubs[observer]).router
    return sum(router.home(name) == hub for name in NAMES) / len(NAMES)


def test_the_first_hub_makes_the_plan_and_a_new_one_gets_its_share() -> None:
    async def script(world: ClusterWorld) -> None:
        assert share(world, "h1", "h1") == 1.0
        world.add_hub("h2").start()
        await until(world.region.is_settled)
        assert world.directory.plan.version == 2
        for observer in ("h1", "h2"):
            assert 0.35 < share(world, observer, "h2") < 0.65

    play(script, hubs=("h1",))


@pytest.mark.parametrize("is_silent", [True, False])
def test_a_dead_hub_is_replaced_within_its_session_timeout(is_silent: bool) -> None:
    async def script(world: ClusterWorld) -> None:
        died_at = world.sim.now
        world.region.hubs["h2"].crash(silent=is_silent)
        left = [world.region.hubs[name] for name in ("h1", "h3")]
        await until(lambda: all(share(world, node.name, "h2") == 0.0 for node in left))
        assert world.sim.now - died_at < SESSION_S + NEWS_S
        assert world.directory.plan.version == 3, "no hub had to change the plan"
        # And it takes nothing until a plan gives it something: its own coming back is such a plan.
        world.region.hubs["h2"].start()
        await until(world.region.is_settled)
        assert world.directory.plan.version == 4
        assert share(world, "h1", "h2") > 0.2

    play(script)


def test_a_hub_whose_process_has_ended_on_the_same_machine_is_replaced_at_once() -> None:
    async def script(world: ClusterWorld) -> None:
        world.region.is_one_machine = True
        died_at = world.sim.now
        world.region.hubs["h2"].crash(silent=False)
        left = [world.region.hubs[name] for name in ("h1", "h3")]
        await until(lambda: all(share(world, node.name, "h2") == 0.0 for node in left))
        assert world.sim.now - died_at < SESSION_S / 2
        world.region.hubs["h2"].start()
        await until(world.region.is_settled)
        assert share(world, "h1", "h2") > 0.2

    play(script)


def test_a_hub_of_the_same_machine_that_only_lost_its_connections_stays() -> None:
    async def script(world: ClusterWorld) -> None:
        world.region.is_one_machine = True
        assert world.sim.reset_connections("h1", "h2")
        await asyncio.sleep(SESSION_S)
        assert share(world, "h1", "h2") > 0.2
        assert world.directory.plan.version == 3
        assert world.region.hubs["h2"].incarnations == 1

    play(script)


def test_a_hub_that_shuts_down_cleanly_is_replaced_at_once() -> None:
    async def script(world: ClusterWorld) -> None:
        node = world.region.hubs["h2"]
        assert node.store is not None
        left_at = world.sim.now
        await node.host.spawn(node.store.close())
        await until(lambda: share(world, "h1", "h2") == 0.0)
        assert world.sim.now - left_at < 0.1

    play(script)


def test_a_hub_that_resumes_after_its_session_starts_a_new_incarnation() -> None:
    async def script(world: ClusterWorld) -> None:
        node = world.region.hubs["h3"]
        node.host.pause()
        await until(lambda: share(world, "h1", "h3") == 0.0)
        node.host.thaw()
        thawed_at = world.sim.now
        await until(lambda: node.incarnations == 2 and world.region.is_settled())
        assert world.sim.now - thawed_at < SESSION_S + NEWS_S

    play(script)


def test_a_hub_whose_node_was_deleted_announces_itself_again() -> None:
    async def script(world: ClusterWorld) -> None:
        store = await beside(world)
        await store.delete(TREE.alive("h2"))
        await until(lambda: world.region.hubs["h2"].incarnations == 2 and world.region.is_settled())

    play(script)


def test_a_hub_is_registered_with_its_load_and_never_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by seed 20005 of durable-unled: a full hub that had just come back was given logs."""

    async def script(world: ClusterWorld) -> None:
        monkeypatch.setattr(world.region, "load_of", lambda hub: 0.7)
        node = world.region.hubs["h3"]
        node.crash(silent=True)
        await until(lambda: "h3" not in world.region.alive)
        node.start()
        await until(lambda: "h3" in world.region.alive)
        seen = await HubsStore(await beside(world), TREE).look("h3")
        assert seen is not None and seen.alive is not None
        assert seen.alive.load_ratio == 0.7

    play(script)


def test_a_hub_that_is_cut_off_from_the_store_keeps_serving_with_the_last_plan() -> None:
    async def script(world: ClusterWorld) -> None:
        for name in world.region.hubs:
            world.sim.cut(name, STORE)
        await asyncio.sleep(20 * SESSION_S)
        for name in world.region.hubs:
            assert share(world, name, "h1") > 0.2
            assert world.region.hubs[name].incarnations == 1
        for name in world.region.hubs:
            world.sim.heal(name, STORE)
        await asyncio.sleep(5 * SESSION_S)
        assert world.region.is_settled()
        assert [node.incarnations for node in world.region.hubs.values()] == [1, 1, 1]

    play(script)


def test_a_reconnection_without_changes_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = 0
    apply = Cluster.apply

    def counted(cluster: Cluster, routing: Routing) -> None:
        nonlocal applied
        applied += 1
        apply(cluster, routing)

    monkeypatch.setattr(Cluster, "apply", counted)

    async def script(world: ClusterWorld) -> None:
        before = applied
        assert before > 3
        for name in world.region.hubs:
            world.sim.reset_connections(name, STORE)
        await asyncio.sleep(SESSION_S)
        assert applied == before
        assert world.region.is_settled()

    play(script)


def test_a_second_hub_of_a_name_is_rejected() -> None:
    async def script(world: ClusterWorld) -> None:
        first = world.region.hubs["h1"]
        other = world.region.add(first.settings, host=world.sim.host("elsewhere"))
        world.region.hubs["h1"] = first
        with pytest.raises(SettingsError, match="another hub named h1 is alive at h1:6399"):
            # Without the supervisor, which would start it again.
            await other.host.spawn(world.region.attend(other))
        assert world.region.is_settled()

    play(script)


def test_a_drained_hub_that_restarts_stays_drained() -> None:
    async def script(world: ClusterWorld) -> None:
        await drain(PlanStore(await beside(world), TREE), "h2")
        await until(lambda: world.directory.plan.version == 4 and world.region.is_settled())
        assert share(world, "h1", "h2") == 0.0
        world.region.hubs["h2"].crash(silent=False)
        world.region.hubs["h2"].start()
        await until(lambda: world.directory.plan.version == 5 and world.region.is_settled())
        assert share(world, "h1", "h2") == 0.0

    play(script)


def test_if_a_controller_leads_a_new_hub_waits_until_it_is_admitted() -> None:
    async def script(world: ClusterWorld) -> None:
        controller = await beside(world)
        await LeaderStore(controller, TREE).claim(LeaderFacts(name="c1"))
        world.add_hub("h4").start()
        node = world.region.hubs["h4"]
        await until(lambda: node.membership is not None and node.membership.ready.is_set())
        await asyncio.sleep(3 * SESSION_S)
        assert world.directory.plan.version == 3
        assert "h4" in cluster_of(world.region.hubs["h1"]).router.peers
        # The controller goes without a word about it.
        await controller.close()
        await until(world.region.is_settled)
        assert share(world, "h1", "h4") > 0.1

    play(script)


def test_a_member_that_returns_unnoticed_by_the_controller_restores_its_share() -> None:
    async def script(world: ClusterWorld) -> None:
        await LeaderStore(await beside(world), TREE).claim(LeaderFacts(name="c1"))
        world.region.hubs["h2"].crash(silent=False)
        await until(lambda: share(world, "h1", "h2") == 0.0)
        world.region.hubs["h2"].start()
        await until(lambda: "h2" in cluster_of(world.region.hubs["h1"]).router.peers)
        back_at = world.sim.now
        await until(world.region.is_settled, 60.0)
        assert 25.0 < world.sim.now - back_at < 35.0
        assert world.directory.plan.version == 4

    play(script)


def test_a_controller_gives_a_hub_its_share() -> None:
    async def script(world: ClusterWorld) -> None:
        controller = await beside(world)
        await LeaderStore(controller, TREE).claim(LeaderFacts(name="c1"))
        world.add_hub("h4").start()
        node = world.region.hubs["h4"]
        await until(lambda: node.membership is not None and node.membership.ready.is_set())
        plans = PlanStore(controller, TREE, writer="c1")
        plan = await plans.load()
        await plans.commit(PlanChange.on(plan, ASKED_FOR, set_members=[Member("h4", 32)]))
        await until(world.region.is_settled)
        assert world.directory.plan.version == 4
        assert share(world, "h1", "h4") > 0.25

    play(script)


def test_no_plan_is_applied_before_the_rules_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """News of the plan may come before news of the users: then it is the plan that waits."""
    applied: list[tuple[int, int, str]] = []
    apply = Cluster.apply

    def observed(cluster: Cluster, routing: Routing) -> None:
        plan: Plan = routing.plan
        applied.append((plan.version, plan.access_version, cluster.core.users.version))
        apply(cluster, routing)

    async def deaf(rules: AclSync) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Cluster, "apply", observed)
    monkeypatch.setattr(AclSync, "follow", deaf)

    async def script(world: ClusterWorld) -> None:
        store, users = await beside(world), parse_users(USERS)
        await publish_users(UsersStore(store, TREE), PlanStore(store, TREE), users, access_version=0)
        await until(lambda: world.directory.plan.version == 4 and world.region.is_settled())
        newest = [rules for _, access_version, rules in applied if access_version == 1]
        assert len(newest) >= 3
        assert set(newest) == {users.version}

    play(script)


def test_new_rules_are_in_force_without_a_new_plan() -> None:
    async def script(world: ClusterWorld) -> None:
        store, users = await beside(world), parse_users(USERS)
        await UsersStore(store, TREE).replace(users, access_version=0)
        await until(lambda: all(_rules_of(node) == users.version for node in world.region.hubs.values()))
        assert world.directory.plan.version == 3

    play(script)


def _rules_of(node: RegionHub) -> Any:
    assert node.hub is not None
    return node.hub.core.users.version


def test_a_users_file_seeds_an_empty_store_and_no_other() -> None:
    async def script(world: ClusterWorld) -> None:
        store, users = await beside(world), parse_users(USERS)
        first = await first_rules(store, TREE, users)
        assert (first.access_version, first.users.version) == (1, users.version)
        other = parse_users(USERS.replace("publish", "subscribe"))
        second = await first_rules(store, TREE, other)
        assert (second.access_version, second.users.version) == (1, users.version)

    play(script, hubs=("h1",))
