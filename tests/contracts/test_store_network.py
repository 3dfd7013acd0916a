"""What a store promises when its connection fails; see `equipoise.store.contract`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from contracts.store_worlds import NetworkWorld, RemoteWorld, ZooKeeperWorld, log_states
from equipoise.errors import (
    BadVersionError,
    NodeExistsError,
    SessionLostError,
    StoreUnavailableError,
)
from equipoise.store import Read, SessionState, Store, StoreSettings
from support.polling import until
from support.zookeeper import require_zookeeper, shared_zookeeper


@pytest.fixture(params=[RemoteWorld, pytest.param(ZooKeeperWorld, marks=pytest.mark.needs_java)])
def world(request: pytest.FixtureRequest) -> Iterator[NetworkWorld]:
    if request.param is ZooKeeperWorld:
        require_zookeeper()
        shared_zookeeper()
    yield request.param()


def test_a_reconnection_in_time_keeps_session_and_ephemeral_nodes(world: NetworkWorld) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        made = await one.create("/alive", ephemeral=True)
        states = log_states(one)
        world.proxy_of(one).break_connections()
        await until(lambda: len(states) == 2)
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert one.session == made.owner
        assert await other.get("/alive") == made

    world.run(scenario())


def test_requests_wait_for_the_reconnection(world: NetworkWorld) -> None:
    async def scenario() -> None:
        store = await world.open()
        await _cut(world, store)
        writing = asyncio.create_task(store.create("/a", b"x"))
        await asyncio.sleep(0)
        world.proxy_of(store).unblock()
        assert (await writing).data == b"x"

    world.run(scenario())


def test_a_request_that_cannot_be_answered_ends_in_time(world: NetworkWorld) -> None:
    async def scenario() -> None:
        store = await world.open(StoreSettings(session_timeout_s=3.0, request_timeout_s=0.2))
        world.proxy_of(store).block()
        with pytest.raises(StoreUnavailableError):
            await store.get("/")
        world.proxy_of(store).unblock()

    world.run(scenario())


def test_a_store_that_is_not_there_is_told_in_time(world: NetworkWorld) -> None:
    async def scenario() -> None:
        with pytest.raises(StoreUnavailableError):
            await world.connect_nowhere(StoreSettings(session_timeout_s=3.0, request_timeout_s=0.2))

    world.run(scenario())


@pytest.mark.parametrize("ephemeral", [True, False])
def test_a_create_whose_reply_is_lost_is_known_to_be_ours(world: NetworkWorld, ephemeral: bool) -> None:
    # 1 the request reaches the server, which makes the node; 2 the connection breaks before the reply;
    # 3 a retry would find the node and take it for another client's.
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        world.proxy_of(one).swallows_reply = True
        made = await one.create("/a", b"mine", ephemeral=ephemeral)
        assert not world.proxy_of(one).swallows_reply
        assert (made.data, made.owner) == (b"mine", one.session if ephemeral else 0)
        assert await other.get("/a") == made

    world.run(scenario())


def test_a_create_whose_reply_is_lost_is_known_not_to_be_ours(world: NetworkWorld) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        await other.create("/a", b"theirs")
        world.proxy_of(one).swallows_reply = True
        with pytest.raises(NodeExistsError):
            await one.create("/a", b"mine")
        await other.create("/b", b"same", ephemeral=True)
        world.proxy_of(one).swallows_reply = True
        with pytest.raises(NodeExistsError):
            await one.create("/b", b"same", ephemeral=True)

    world.run(scenario())


def test_a_set_or_delete_whose_reply_is_lost_happens_once(world: NetworkWorld) -> None:
    async def scenario() -> None:
        store = await world.open()
        await store.create("/a", b"0")
        world.proxy_of(store).swallows_reply = True
        assert (await store.set("/a", b"1", version=0)).version == 1
        world.proxy_of(store).swallows_reply = True
        with pytest.raises(BadVersionError):
            await store.set("/a", b"2", version=0)
        world.proxy_of(store).swallows_reply = True
        await store.delete("/a", version=1)
        assert await store.find("/a") is None

    world.run(scenario())


def test_what_changed_while_the_store_was_away_is_told(world: NetworkWorld) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        async with one.watch("/a") as watch:
            await _cut(world, one)
            await other.create("/a")
            world.proxy_of(one).unblock()
            assert await watch.changed(timeout_s=5)
            assert await one.find("/a") is not None

    world.run(scenario())


def test_reads_whose_replies_are_lost_are_all_read_again(world: NetworkWorld) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        first, second = await other.create("/first", b"1"), await other.create("/second", b"2")
        world.proxy_of(one).swallows_reply = True
        assert await one.read([Read("/first"), Read("/second"), Read("/none")]) == (first, second, None)
        assert not world.proxy_of(one).swallows_reply

    world.run(scenario())


def test_a_change_is_told_and_read_though_the_connection_goes_meanwhile(world: NetworkWorld) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        async with one.watch("/a") as watch:
            reading = asyncio.create_task(watch.changed_to(lambda: [Read("/a")]))
            await _cut(world, one)
            made = await other.create("/a")
            world.proxy_of(one).unblock()
            while await reading == (None,):
                reading = asyncio.create_task(watch.changed_to(lambda: [Read("/a")]))
            assert reading.result() == (made,)

    world.run(scenario())


@pytest.mark.parametrize("is_reading", [False, True])
def test_a_change_is_told_though_the_first_try_to_ask_again_took_too_long(
    world: NetworkWorld, is_reading: bool
) -> None:
    # 1 the news is here; 2 the request to be told again is not answered in time, though the connection stays;
    # 3 no client reconnects, so no other event would show it.
    async def scenario() -> None:
        one = await world.open(StoreSettings(session_timeout_s=4.0, request_timeout_s=0.1))
        other = await world.open()
        async with one.watch("/a") as watch:
            made = await other.create("/a")
            await until(lambda: _is_there(one, "/a"))
            world.proxy_of(one).block()
            told = asyncio.create_task(
                watch.changed_to(lambda: [Read("/a")]) if is_reading else watch.changed(timeout_s=10)
            )
            with pytest.raises(StoreUnavailableError):
                await one.get("/a")
            with pytest.raises(StoreUnavailableError):
                await one.get("/a")
            world.proxy_of(one).unblock()
            assert await told == ((made,) if is_reading else True)

    world.run(scenario())


def test_a_session_that_is_cut_off_is_lost_to_its_owner_before_it_is_to_others(world: NetworkWorld) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        await one.create("/alive", ephemeral=True)
        states = log_states(one)
        world.proxy_of(one).block()
        async with other.watch("/alive") as watch:
            while await other.find("/alive") is not None:
                assert await watch.changed(timeout_s=10)
        assert states == [SessionState.SUSPENDED, SessionState.LOST]
        world.proxy_of(one).unblock()

    world.run(scenario())


def test_a_write_under_way_when_the_session_is_lost_raises_and_is_not_sent_again(world: NetworkWorld) -> None:
    async def scenario() -> None:
        one, other = await world.open(), await world.open()
        world.proxy_of(one).block()
        writing = asyncio.create_task(one.create("/alive", ephemeral=True))
        with pytest.raises(SessionLostError):
            await writing
        world.proxy_of(one).break_connections()
        world.proxy_of(one).unblock()
        await until(lambda: one.state is SessionState.CONNECTED)
        assert await other.find("/alive") is None

    world.run(scenario())


async def _is_there(store: Store, path: str) -> bool:
    return await store.find(path) is not None


async def _cut(world: NetworkWorld, store: Store) -> None:
    """Break the connection, and let no other one be of use."""
    world.proxy_of(store).block()
    world.proxy_of(store).break_connections()
    await until(lambda: store.state is SessionState.SUSPENDED)
