"""A hub cut off from its store, in virtual time."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from equipoise.errors import SessionLostError, StoreUnavailableError
from equipoise.lab.simulation import Simulation
from equipoise.store import (
    MemoryStoreServer,
    MemoryTree,
    RemoteMemoryStore,
    SessionState,
    StoreSettings,
)
from support.polling import until

PORT = 2181
TIMEOUT_S = 6.0
SETTINGS = StoreSettings(session_timeout_s=TIMEOUT_S, request_timeout_s=TIMEOUT_S)


# Who believed to own the node, from when to when.
Span = tuple[str, float, float]


class Cluster:
    """A store on one host, hubs on others. `told` has the session events of each hub, with times."""

    def __init__(
        self, seed: int = 0, *, split: float = 0.2, kind: type[RemoteMemoryStore] = RemoteMemoryStore
    ) -> None:
        self._kind = kind
        self.sim = Simulation(seed, split=split, shuffle=True)
        self.server = self.sim.host("store")
        self.tree = MemoryTree(self.sim.loop.time)
        self.server.spawn(self.serve())
        self.told: dict[str, list[tuple[float, SessionState]]] = {}

    async def serve(self) -> None:
        await MemoryStoreServer(self.tree, host="0.0.0.0", port=PORT).start()

    async def join(self, name: str) -> RemoteMemoryStore:
        """A store as seen from a host of that name."""
        told = self.told.setdefault(name, [])

        async def open_store() -> RemoteMemoryStore:
            store = await self._kind("store", PORT, SETTINGS).open()
            store.listen(lambda state: told.append((self.sim.now, state)))
            return store

        return await self.sim.host(name).spawn(open_store())

    def states(self, name: str) -> list[SessionState]:
        return [state for _, state in self.told[name]]

    def is_there(self, path: str) -> bool:
        return path in {"/" + name for name in self.tree.children("/")}


def test_a_hub_that_is_cut_off_learns_of_its_loss_before_its_node_is_deleted() -> None:
    cluster = Cluster()

    async def main() -> None:
        hub = await cluster.join("hub")
        await hub.create("/alive", ephemeral=True)
        await asyncio.sleep(1.0)
        cut_at = cluster.sim.now
        cluster.sim.cut("hub", "store")
        await until(lambda: not cluster.is_there("/alive"), 120)
        gone_at = cluster.sim.now
        assert cluster.states("hub") == [SessionState.SUSPENDED, SessionState.LOST]
        assert cluster.told["hub"][-1][0] <= gone_at
        assert TIMEOUT_S * 0.7 < gone_at - cut_at < TIMEOUT_S * 1.1

        cluster.sim.heal("hub", "store")
        await until(lambda: hub.state is SessionState.CONNECTED, 120)
        assert (await hub.create("/alive", ephemeral=True)).owner == hub.session

    with cluster.sim:
        cluster.sim.run(main())


@pytest.mark.parametrize("one_way", [None, ("hub", "store"), ("store", "hub")])
def test_a_reconnection_in_time_keeps_the_node(one_way: tuple[str, str] | None) -> None:
    cluster = Cluster()

    async def main() -> None:
        hub = await cluster.join("hub")
        made = await hub.create("/alive", ephemeral=True)
        one, other = one_way or ("hub", "store")
        cluster.sim.cut(one, other, one_way=one_way is not None)
        await asyncio.sleep(TIMEOUT_S * 0.6)
        cluster.sim.heal(one, other)
        await until(lambda: hub.state is SessionState.CONNECTED, 120)
        await asyncio.sleep(3 * TIMEOUT_S)
        assert hub.session == made.owner
        assert cluster.is_there("/alive")
        assert SessionState.LOST not in cluster.states("hub")

    with cluster.sim:
        cluster.sim.run(main())


def test_a_hub_that_receives_nothing_ends_its_session_though_the_store_receives_from_it() -> None:
    cluster = Cluster()

    async def main() -> None:
        hub = await cluster.join("hub")
        await hub.create("/alive", ephemeral=True)
        cluster.sim.cut("store", "hub", one_way=True)
        await until(lambda: not cluster.is_there("/alive"), 120)
        assert cluster.states("hub") == [SessionState.SUSPENDED, SessionState.LOST]

    with cluster.sim:
        cluster.sim.run(main())


def test_a_hub_that_was_paused_past_its_session_writes_nothing_when_it_resumes() -> None:
    cluster = Cluster()

    async def main() -> None:
        hub = await cluster.join("hub")
        await hub.create("/alive", ephemeral=True)
        await hub.create("/data", b"0")
        host = cluster.sim.host("hub")
        host.pause()
        writing = host.spawn(hub.set("/data", b"late", version=0))
        await until(lambda: not cluster.is_there("/alive"), 120)
        host.thaw()
        with pytest.raises(SessionLostError):
            await writing
        assert cluster.tree.get("/data").data == b"0"
        assert SessionState.LOST in cluster.states("hub")

    with cluster.sim:
        cluster.sim.run(main())


def test_a_store_that_is_down_for_a_minute_is_found_again_with_its_nodes() -> None:
    cluster = Cluster()

    async def main() -> None:
        hub = await cluster.join("hub")
        await hub.create("/data", b"kept")
        cluster.server.crash(silent=True)
        with pytest.raises(StoreUnavailableError):
            await hub.get("/data")
        await asyncio.sleep(60)
        cluster.server.restart()
        cluster.server.spawn(cluster.serve())
        await until(lambda: hub.state is SessionState.CONNECTED, 120)
        assert (await hub.get("/data")).data == b"kept"

    with cluster.sim:
        cluster.sim.run(main())


def test_resets_in_the_middle_of_frames_lose_and_repeat_nothing() -> None:
    for seed in range(20):
        cluster = Cluster(seed, split=0.5)

        async def main(cluster: Cluster) -> None:
            hub = await cluster.join("hub")
            await hub.create("/sum", b"0")
            for n in range(30):
                if n % 3 == 0:
                    asyncio.get_running_loop().call_later(
                        0.0007 * (n % 5), cluster.sim.reset_connections, "hub", "store"
                    )
                node = await hub.set("/sum", b"%d" % (n + 1), version=n)
                assert node.version == n + 1
            assert cluster.sim.faults["reset"] > 0

        with cluster.sim:
            cluster.sim.run(main(cluster))


def test_two_hubs_never_own_the_same_node_at_once() -> None:
    owners = 0
    for seed in range(25):
        spans = _contended(Cluster(seed))
        owners += len({name for name, _, _ in spans})
        assert _overlaps(spans) == [], f"seed {seed}"
    assert owners > 40, "the node hardly ever changed hands"


def test_without_their_own_timeout_they_would() -> None:
    class Trusting(RemoteMemoryStore):
        async def _guard(self) -> None:
            """Leave it to the server."""

    assert any(_overlaps(_contended(Cluster(seed, kind=Trusting))) for seed in range(5))


def _contended(cluster: Cluster) -> list[Span]:
    with cluster.sim:
        return sorted(cluster.sim.run(_contend(cluster)), key=lambda span: span[1])


def _overlaps(spans: list[Span]) -> list[tuple[Span, Span]]:
    return [(one, other) for one, other in pairwise(spans) if other[1] < one[2]]


async def _contend(cluster: Cluster) -> list[Span]:
    """Two hubs want one ephemeral node while links are cut and hosts pause; return who believed when to have it."""
    spans: list[Span] = []
    hosts = [cluster.sim.host(name) for name in ("h1", "h2")]
    stores = [await cluster.join(host.name) for host in hosts]
    tasks = [
        host.spawn(_own(cluster, store, host.name, spans)) for host, store in zip(hosts, stores, strict=True)
    ]
    random = cluster.sim.random
    for _ in range(12):
        name = random.choice(["h1", "h2"])
        one, other = random.sample([name, "store"], 2)
        cluster.sim.cut(one, other, one_way=random.random() < 0.5)
        await asyncio.sleep(random.uniform(0.2, 2.0) * TIMEOUT_S)
        cluster.sim.heal(one, other)
        await asyncio.sleep(random.uniform(0.0, 0.5) * TIMEOUT_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return spans


async def _own(cluster: Cluster, store: RemoteMemoryStore, name: str, spans: list[Span]) -> None:
    """Take the node whenever it is free and hold it until the session is lost."""
    lost = asyncio.Event()
    store.listen(lambda state: lost.set() if state is SessionState.LOST else None)
    while True:
        try:
            lost.clear()
            await store.create("/owner", name.encode(), ephemeral=True)
        except Exception:
            await asyncio.sleep(0.3)
            continue
        begun = cluster.sim.now
        try:
            await lost.wait()
        finally:
            spans.append((name, begun, cluster.sim.now))
