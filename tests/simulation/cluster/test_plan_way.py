"""How a plan reaches hubs far from the store, and the failures without parts of this protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from equipoise.hub.cluster import Cluster, Routing
from equipoise.hub.membership.liveness import HubLooks
from equipoise.lab.scenarios import ClusterScenario, Workload
from equipoise.lab.simulation import Simulation
from equipoise.lab.simulation.cluster.region import TREE
from equipoise.lab.simulation.cluster.world import ClusterWorld
from equipoise.lab.simulation.link import LinkSpec
from equipoise.lab.simulation.topology import Lan
from equipoise.lab.workload import History
from equipoise.model import Member, Plan, PlanChange
from equipoise.model.change import ASKED_FOR
from equipoise.store import PlanStore, Read
from equipoise.store.backends.session import FlagWatch
from equipoise.store.contract import Answer
from equipoise.store.records.hubs_snapshot import HubLook, HubSeen, seen_in

from .worlds import case, run

ONE_WAY_S = 0.040
HUBS = ("h1", "h2", "h3")
# Who has applied which routing, and when.
Applied = list[tuple[str, Routing, float]]


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> Applied:
    found: Applied = []
    apply = Cluster.apply

    def remember(cluster: Cluster, routing: Routing) -> None:
        found.append((cluster.name, routing, asyncio.get_running_loop().time()))
        apply(cluster, routing)

    monkeypatch.setattr(Cluster, "apply", remember)
    return found


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30.0):
        while not is_so():  # noqa: ASYNC110  # virtual time is free, and what changes is another host's state
            await asyncio.sleep(0.001)


async def _commit(plans: PlanStore, *members: str) -> Plan:
    base = await plans.load()
    added = [Member(name) for name in members]
    return await plans.commit(PlanChange.on(base, ASKED_FOR, set_members=[*base.members, *added]))


def _join_and_commit(seed: int) -> tuple[int, float]:
    """
    1. three hubs serve, 40 ms from their store;
    2. a fourth starts, and a writer at the store makes it a member at the same moment;
    3. when all have come to rest, one more plan is committed: its version, and when.
    """
    committed = (0, 0.0)
    with Simulation(seed=seed, topology=Lan(LinkSpec(latency_s=ONE_WAY_S)), time_s_max=600.0) as sim:
        world = ClusterWorld(sim, case("cluster-store-moves", workload=Workload(clients=())), History())

        async def main() -> None:
            nonlocal committed
            await world.region.begin()
            for work in world.region.work():
                world.keep(work)
            for node in world.hubs.values():
                node.start()
            await _until(world.region.is_settled)
            # What hubs do after a plan, they have done.
            await asyncio.sleep(2.0)
            store = await world.region.beside()
            plans = PlanStore(store, TREE, clock=lambda: 0.0)
            await plans.load()
            async with store.watch(TREE.alive("h4")) as watch:
                world.add_hub("h4").start()
                await watch.changed()
            await _commit(plans, "h4")
            await _until(world.region.is_settled)
            await asyncio.sleep(2.0)
            committed = ((await _commit(plans)).version, sim.now)
            await _until(world.region.is_settled)

        sim.run(main())
    return committed


def _passed_over(applied: Applied) -> set[str]:
    """Who has put a plan in force without a hub that serves under it."""
    return {name for name, routing, _ in applied if "h4" in routing.plan.by_hub and "h4" not in routing.hubs}


def test_a_plan_is_in_force_one_round_trip_after_its_notification(
    applied: Applied,
) -> None:
    for seed in range(5):
        applied.clear()
        version, committed_at = _join_and_commit(seed)
        assert not _passed_over(applied), f"seed {seed}"
        took_s = {name: at - committed_at for name, routing, at in applied if routing.plan.version == version}
        assert took_s == pytest.approx(dict.fromkeys((*HUBS, "h4"), 3 * ONE_WAY_S), abs=0.001), f"seed {seed}"


def test_reading_hubs_before_the_plan_would_skip_a_hub(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    see, last = HubLooks.see, dict[HubLooks, dict[str, HubSeen]]()

    async def see_before(glances: HubLooks, plan: Plan) -> dict[str, HubSeen]:
        if glances._kept is None or glances not in last:
            last[glances] = await see(glances, plan)
        glances._kept = None
        return last[glances]

    monkeypatch.setattr(HubLooks, "see", see_before)
    with suppress(TimeoutError):
        _join_and_commit(0)
    assert _passed_over(applied)


def test_without_a_renewed_watch_hubs_would_miss_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_only(watch: FlagWatch, reads: Callable[[], Sequence[Read]]) -> tuple[Answer, ...]:
        return await watch._told(lambda: watch._read(reads()))

    monkeypatch.setattr(FlagWatch, "changed_to", read_only)
    assert _is_any_unsettled(case("cluster-store-cuts"))


def test_with_unverified_guesses_hubs_would_not_detect_new_hubs(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(look: HubLook, answers: Sequence[Answer]) -> tuple[dict[str, HubSeen | None], list[str]]:
        listed = answers[0] if isinstance(answers[0], tuple) else ()
        nodes = zip(look._guesses.items(), answers[2::2], strict=True)
        found = {hub: seen_in(node, is_alive=bool(guess)) for (hub, guess), node in nodes if node is not None}  # type: ignore[arg-type]  # a guess asks for nodes
        return found, [] if found else list(listed)

    monkeypatch.setattr(HubLook, "conclude", believe)
    assert _is_any_unsettled(case("cluster-store-joins", store_cuts=(0, 0)))


def _is_any_unsettled(scenario: ClusterScenario) -> bool:
    return any(
        violation.property == "progress" for seed in range(10) for violation in run(seed, scenario).violations
    )
