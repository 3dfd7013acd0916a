"""What every store promises; see `equipoise.store.contract`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from contracts.store_worlds import MemoryWorld, RemoteWorld, World, ZooKeeperWorld, log_states
from equipoise.errors import (
    BadVersionError,
    ClosedError,
    LimitError,
    MisuseError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from equipoise.store import Node, Read, SessionState, Store, WatchKind
from equipoise.store.contract import NODE_BYTES_MAX
from support.polling import until
from support.zookeeper import require_zookeeper, shared_zookeeper


@pytest.fixture(params=[MemoryWorld, RemoteWorld, pytest.param(ZooKeeperWorld, marks=pytest.mark.needs_java)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param is ZooKeeperWorld:
        require_zookeeper()
        shared_zookeeper()
    yield request.param()


# Nodes.


def test_a_node_reads_back_as_it_was_made(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        made = await store.create("/a", b"one")
        assert (made.path, made.data, made.version, made.owner) == ("/a", b"one", 0, 0)
        assert await store.get("/a") == made == await store.find("/a")

    world.run(scenario())


def test_a_node_is_made_once(world: World) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        await one.create("/a", b"one")
        with pytest.raises(NodeExistsError) as raised:
            await other.create("/a", b"one")
        assert raised.value.path == "/a"
        assert (await other.get("/a")).data == b"one"

    world.run(scenario())


def test_only_one_of_many_makes_a_node(world: World) -> None:
    async def scenario() -> None:
        stores = [await world.open() for _ in range(3)]
        tries = [store.create("/lead", b"%d" % n, ephemeral=True) for n in range(4) for store in stores]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(not isinstance(result, NodeExistsError) for result in results) == 1

    world.run(scenario())


def test_a_node_needs_its_parent(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        with pytest.raises(NoNodeError):
            await store.create("/a/b")
        await store.ensure("/a/b/c")
        await store.ensure("/a/b/c")
        assert await store.children("/a/b") == ("c",)

    world.run(scenario())


def test_an_ephemeral_node_has_no_children(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        await store.create("/a", ephemeral=True)
        with pytest.raises(MisuseError, match="ephemeral"):
            await store.create("/a/b")

    world.run(scenario())


def test_what_is_not_there_is_found_missing(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        assert await store.find("/a") is None
        with pytest.raises(NoNodeError):
            await store.get("/a")
        with pytest.raises(NoNodeError):
            await store.set("/a", b"", version=None)
        with pytest.raises(NoNodeError):
            await store.delete("/a")
        with pytest.raises(NoNodeError):
            await store.children("/a")

    world.run(scenario())


def test_setting_compares_the_version_and_counts_it_up(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        made = await store.create("/a", b"one")
        changed = await store.set("/a", b"two", version=0)
        assert (changed.data, changed.version, changed.created_id) == (b"two", 1, made.created_id)
        for version in (0, 2):
            with pytest.raises(BadVersionError):
                await store.set("/a", b"three", version=version)
        assert (await store.set("/a", b"four", version=None)).version == 2

    world.run(scenario())


def test_increments_by_compare_and_set_lose_none(world: World) -> None:
    async def add(store: Store, times: int) -> None:
        while times:
            node = await store.get("/sum")
            try:
                await store.set("/sum", b"%d" % (int(node.data) + 1), version=node.version)
                times -= 1
            except BadVersionError:
                pass

    async def scenario() -> None:
        stores = [await world.open() for _ in range(3)]
        await stores[0].create("/sum", b"0")
        await asyncio.gather(*(add(store, 10) for store in stores))
        assert (await stores[1].get("/sum")).data == b"30"

    world.run(scenario())


def test_deleting_compares_the_version_and_spares_parents(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        await store.ensure("/a/b")
        with pytest.raises(NotEmptyError):
            await store.delete("/a")
        with pytest.raises(BadVersionError):
            await store.delete("/a/b", version=1)
        await store.delete("/a/b", version=0)
        assert await store.children("/a") == ()

    world.run(scenario())


def test_children_are_sorted_names(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        await store.ensure("/a")
        for name in ("c", "ä", "b", "b2"):
            await store.create(f"/a/{name}")
        assert await store.children("/a") == ("b", "b2", "c", "ä")

    world.run(scenario())


def test_creation_ids_grow_over_the_whole_store(world: World) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        ids = [(await store.create(f"/{n}")).created_id for n, store in enumerate((one, other, one))]
        await one.delete("/0")
        ids.append((await other.create("/0", ephemeral=True)).created_id)
        assert ids == sorted(set(ids))

    world.run(scenario())


def test_a_node_holds_a_megabyte_and_no_more(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        data = b"x" * NODE_BYTES_MAX
        await store.create("/a", data)
        assert (await store.get("/a")).data == data
        with pytest.raises(LimitError):
            await store.set("/a", data + b"x", version=None)

    world.run(scenario())


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//a", "/a//b", "/a/../b", "/.", "/a\x00", "/" + "a" * 10_001]
)
def test_a_path_that_is_none_is_refused(world: World, path: str) -> None:
    async def scenario() -> None:
        store = await world.open()
        with pytest.raises(MisuseError):
            await store.create(path)

    world.run(scenario())


# Several reads.


def test_several_reads_are_answered_in_their_order_and_missing_nodes_by_none(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        made = await store.create("/a", b"x")
        await store.create("/a/c")
        await store.create("/a/b")
        children = WatchKind.CHILDREN
        reads = [
            Read("/a", children),
            Read("/none"),
            Read("/a"),
            Read("/none", children),
            Read("/a/b", children),
        ]
        assert await store.read(reads) == (("b", "c"), None, made, None, ())
        assert await store.read([]) == ()
        with pytest.raises(MisuseError):
            await store.read([Read("/a"), Read("a")])

    world.run(scenario())


def test_no_answer_is_older_than_the_one_before_it(world: World) -> None:
    async def write(store: Store) -> None:
        for n in range(1, 81):
            await store.set("/second", b"%d" % n, version=None)
            await store.set("/first", b"%d" % n, version=None)

    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        for path in ("/first", "/second"):
            await one.create(path, b"0")
        writing, seen = asyncio.create_task(write(other)), list[int]()
        while not writing.done():
            first, *_, second = await one.read([Read("/first"), *[Read("/none")] * 20, Read("/second")])
            assert isinstance(first, Node)
            assert isinstance(second, Node)
            assert int(second.data) >= int(first.data)
            seen.append(int(first.data))
        await writing
        assert seen == sorted(seen)

    world.run(scenario())


def test_a_read_after_sync_shows_what_others_have_committed(world: World) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        await one.create("/a", b"0")
        for number in range(1, 20):
            await one.set("/a", b"%d" % number, version=None)
            await other.sync()
            assert (await other.get("/a")).data == b"%d" % number

    world.run(scenario())


def test_a_read_asked_for_with_a_write_comes_after_it(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        await store.create("/a", b"0")
        writing = asyncio.create_task(store.set("/a", b"1", version=0))
        await asyncio.sleep(0)
        (node,) = await store.read([Read("/a")])
        assert node == await writing

    world.run(scenario())


# Sessions.


def test_an_ephemeral_node_names_its_session_and_goes_with_it(world: World) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        made = await one.create("/alive", b"load", ephemeral=True)
        assert made.owner == one.session != other.session
        assert (await other.get("/alive")).owner == one.session
        await one.close()
        assert await other.find("/alive") is None

    world.run(scenario())


def test_a_session_that_expires_is_lost_with_its_nodes_and_followed_by_a_new_one(world: World) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        await one.create("/alive", ephemeral=True)
        await one.create("/stays")
        states, old = log_states(one), one.session

        await world.expire(one)
        await until(lambda: one.state is SessionState.CONNECTED and one.session != old)
        await until(lambda: _is_gone(other, "/alive"))

        assert states[-2:] == [SessionState.LOST, SessionState.CONNECTED]
        assert await other.find("/stays") is not None
        assert (await one.create("/alive", ephemeral=True)).owner == one.session

    world.run(scenario())


def test_a_closed_store_says_so_and_may_be_closed_again(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        async with store.watch("/a") as watch:
            waiting = asyncio.create_task(watch.changed())
            await asyncio.sleep(0)
            await store.close()
            await store.close()
            with pytest.raises(ClosedError):
                await waiting
        with pytest.raises(ClosedError):
            await store.get("/")

    world.run(scenario())


def test_a_listener_that_has_ended_hears_nothing_more(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        heard: list[SessionState] = []
        store.listen(heard.append)()
        await store.close()
        assert heard == []

    world.run(scenario())


# Watches.


@pytest.mark.parametrize("kind", WatchKind)
def test_a_quiet_node_tells_nothing(world: World, kind: WatchKind) -> None:
    async def scenario() -> None:
        store = await world.open()
        await store.ensure("/a/b")
        async with store.watch("/a", kind) as watch:
            await store.ensure("/a/b/c")
            await store.create("/ab")
            assert not await watch.changed(timeout_s=0.05)

    world.run(scenario())


def test_a_data_watch_tells_of_making_setting_and_deleting(world: World) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        async with one.watch("/a") as watch:
            await other.create("/a")
            assert await watch.changed(timeout_s=5)
            await other.set("/a", b"x", version=0)
            assert await watch.changed(timeout_s=5)
            await other.delete("/a")
            assert await watch.changed(timeout_s=5)
            assert not await watch.changed(timeout_s=0.02)

    world.run(scenario())


def test_a_watch_of_children_tells_of_them_and_not_of_data(world: World) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        async with one.watch("/a", WatchKind.CHILDREN) as watch:
            await other.create("/a")
            assert await watch.changed(timeout_s=5)
            await other.set("/a", b"x", version=None)
            assert not await watch.changed(timeout_s=0.02)
            await other.create("/a/b")
            assert await watch.changed(timeout_s=5)
            await other.delete("/a/b")
            assert await watch.changed(timeout_s=5)

    world.run(scenario())


def test_nothing_falls_between_two_reads(world: World) -> None:
    async def follow(store: Store, seen: list[int]) -> None:
        async with store.watch("/n") as watch:
            while not seen or seen[-1] < 40:
                seen.append(int((await store.get("/n")).data))
                if seen[-1] < 40:
                    await watch.changed()

    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        await one.create("/n", b"0")
        seen: list[int] = []
        following = asyncio.create_task(follow(one, seen))
        for n in range(1, 41):
            await other.set("/n", b"%d" % n, version=None)
        async with asyncio.timeout(10):
            await following
        assert seen == sorted(seen)
        assert seen[-1] == 40

    world.run(scenario())


@pytest.mark.parametrize("kind", WatchKind)
def test_what_a_read_with_the_news_does_not_show_is_told_next(world: World, kind: WatchKind) -> None:
    async def follow(store: Store, seen: list[int]) -> None:
        async with store.watch("/n", kind) as watch:
            seen.append(len(await store.children("/n")))
            while seen[-1] < 40:
                _, names = await watch.changed_to(lambda: [Read("/n"), Read("/n", WatchKind.CHILDREN)])
                assert isinstance(names, tuple)
                seen.append(len(names))

    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        await one.create("/n", b"0")
        seen: list[int] = []
        following = asyncio.create_task(follow(one, seen))
        for n in range(40):
            await other.create(f"/n/{n}")
            await other.set("/n", b"%d" % n, version=None)
        async with asyncio.timeout(10):
            await following
        assert seen == sorted(seen)
        assert seen[-1] == 40

    world.run(scenario())


def test_a_node_that_comes_is_read_with_the_news_of_it(world: World) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        calls: list[int] = []

        def reads() -> list[Read]:
            calls.append(1)
            return [Read("/a"), Read("/b")]

        async with one.watch("/a") as watch:
            reading = asyncio.create_task(watch.changed_to(reads))
            assert await one.find("/b") is None
            assert not calls, "nothing is asked before there is news"
            made = await other.create("/a", b"x")
            assert await reading == (made, None)

    world.run(scenario())


def test_two_watches_of_one_node_are_both_told(world: World) -> None:
    async def scenario() -> None:
        store = await world.open()
        async with store.watch("/a") as one, store.watch("/a") as other:
            await store.create("/a")
            assert await one.changed(timeout_s=5)
            assert await other.changed(timeout_s=5)

    world.run(scenario())


def test_a_watch_outlives_the_session(world: World) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        async with one.watch("/a") as watch:
            old = one.session
            await world.expire(one)
            await until(lambda: one.session not in (0, old))
            assert await watch.changed(timeout_s=5)
            await other.create("/a")
            assert await watch.changed(timeout_s=5)

    world.run(scenario())


async def _is_gone(store: Store, path: str) -> bool:
    return await store.find(path) is None
