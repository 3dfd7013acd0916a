"""Controllers that race for the plan and hubs that follow it, while the network misbehaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

from equipoise.errors import PlanRaceError, SessionLostError, StoreUnavailableError
from equipoise.lab.simulation import Simulation
from equipoise.model import Entry, Member, Plan, PlanChange, Reason, Why
from equipoise.store import MemoryStoreServer, MemoryTree, RemoteMemoryStore, StoreSettings
from equipoise.store.records.plans import PlanSettings, PlanStore

PORT = 2181
TIMEOUT_S = 4.0
SETTINGS = StoreSettings(session_timeout_s=TIMEOUT_S, request_timeout_s=TIMEOUT_S)
OFTEN = PlanSettings(snapshot_versions_max=4, history_versions_max=6)
SEEDS = 5
CONTROLLERS, HUBS = ("c1", "c2"), ("h1", "h2")


class Run:
    """One seed. `committed` has the result of each successful commit, `followed` the plans of each hub, in order."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.sim = Simulation(seed, split=0.2, shuffle=True)
        self.tree = MemoryTree(self.sim.loop.time)
        self.committed: list[tuple[str, Plan]] = []
        self.followed: dict[str, list[Plan]] = {name: [] for name in HUBS}
        self.is_over = False

    def play(self) -> Plan:
        with self.sim:
            return self.sim.run(self._main())

    async def _main(self) -> Plan:
        self.sim.host("store").spawn(MemoryStoreServer(self.tree, host="0.0.0.0", port=PORT).start())
        tasks = [self._spawn(name, self._control) for name in CONTROLLERS]
        followers = [self._spawn(name, self._follow) for name in HUBS]
        await self._misbehave()
        self.is_over = True
        async with asyncio.timeout(120):
            await asyncio.gather(*tasks)
            latest = await PlanStore(await self._open(), settings=OFTEN).load()
            # Virtual time is free, and what changes is another host's state.
            while any(plans[-1:] != [latest] for plans in self.followed.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        for follower in followers:
            follower.cancel()
        return latest

    def _spawn(self, name: str, role: Callable[[str], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return self.sim.host(name).spawn(role(name))

    async def _open(self) -> RemoteMemoryStore:
        while True:
            try:
                return await RemoteMemoryStore("store", PORT, SETTINGS).open()
            except StoreUnavailableError:
                continue

    async def _control(self, name: str) -> None:
        plans = PlanStore(await self._open(), writer=name, settings=OFTEN, clock=self.sim.loop.time)
        while not self.is_over:
            await asyncio.sleep(0.3)
            try:
                plan = await plans.load()
                self.committed.append((name, await plans.commit(self._change(plan, name))))
            except (PlanRaceError, StoreUnavailableError, SessionLostError):
                continue

    def _change(self, plan: Plan, name: str) -> PlanChange:
        why = Why(Reason.OPERATOR, {"at_s": self.sim.now}, name)
        if not plan.members:
            return PlanChange.on(plan, why, set_members=[Member(hub) for hub in HUBS])
        topic = b"%s %d" % (name.encode(), plan.version)
        return PlanChange.on(plan, why, set_entries=[Entry(topic, (HUBS[plan.version % 2],))])

    async def _follow(self, name: str) -> None:
        plans = PlanStore(await self._open(), settings=OFTEN)
        while True:
            try:
                async with aclosing(plans.watch()) as changes:
                    async for plan in changes:
                        self.followed[name].append(plan)
            except StoreUnavailableError:
                continue

    async def _misbehave(self) -> None:
        random = self.sim.random
        for _ in range(8):
            name = random.choice([*CONTROLLERS, *HUBS])
            await asyncio.sleep(random.uniform(0.1, 0.5) * TIMEOUT_S)
            if random.random() < 0.4:
                self.sim.reset_connections(name, "store")
                continue
            one, other = random.sample([name, "store"], 2)
            self.sim.cut(one, other, one_way=random.random() < 0.5)
            await asyncio.sleep(random.uniform(0.1, 1.6) * TIMEOUT_S)
            self.sim.heal(one, other)


def test_racing_controllers_make_one_history_and_hubs_follow_it_to_the_end() -> None:
    races, skipped = 0, 0
    for seed in range(SEEDS):
        run = Run(seed)
        latest = run.play()
        by_version: dict[int, Plan] = {}
        for name, plan in run.committed:
            assert by_version.setdefault(plan.version, plan) is plan, (
                f"seed {seed}: {name} made {plan.version} again"
            )
        for plans in run.followed.values():
            versions = [plan.version for plan in plans]
            assert versions == sorted(set(versions)), f"seed {seed}: a hub went back: {versions}"
            for plan in plans:
                assert by_version.get(plan.version, plan) == plan, f"seed {seed}: another {plan.version}"
            skipped += len(by_version) > len(versions)
        # Every commit that was reported is part of history.
        for _, plan in run.committed:
            assert plan.entries.items() <= latest.entries.items(), f"seed {seed}: {plan.version} is gone"
        races += len({name for name, _ in run.committed}) == 2
    assert races > SEEDS // 2, "the controllers hardly ever took turns"
    assert skipped > 0, "no hub was ever away for long"
