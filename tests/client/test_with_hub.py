"""The client and a real hub on one loop: the guarantees of both."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

import equipoise
from equipoise import Gap, GapReason, Message
from equipoise.access import Users, hash_secret, parse_users
from equipoise.access.secret import ScryptCost
from equipoise.errors import DeniedError, DisconnectedError, RefusedError
from equipoise.hub import Hub, HubSettings, Limits, Tls
from support.polling import until

from .peer import connect, on_loop

QUICK = equipoise.ClientSettings(reconnect_first_s=0.01, reconnect_max_s=0.05)


@asynccontextmanager
async def running(settings: HubSettings | None = None, users: Users | None = None) -> AsyncIterator[Hub]:
    hub = Hub(settings or HubSettings(name="h", port=0), users)
    await hub.start()
    try:
        yield hub
    finally:
        await hub.stop()


def url_of(hub: Hub, login: str = "") -> str:
    return f"equipoise://{login}127.0.0.1:{hub.port}"


def make_users(**grants: str) -> Users:
    """Users whose password is their name; each grant is TOML. The cheapest hash: tests log in often."""
    tables = []
    for name, grant in grants.items():
        secret = hash_secret(name.encode(), salt=b"s" * 16, cost=ScryptCost(n=1024, r=8, p=1))
        tables.append(f'[users.{name}]\nsecret = "{secret}"\n{grant}')
    return parse_users("\n".join(tables))


def numbers(events: list[equipoise.Event]) -> list[int]:
    return [event.position.n for event in events if isinstance(event, Message) and event.position]


@on_loop
async def test_messages_arrive_once_in_order_with_positions_from_one() -> None:
    async with running() as hub, connect(url_of(hub), settings=QUICK) as bus:
        async with bus.subscribe("a") as a, bus.psubscribe("[ab]") as pattern:
            for start in range(0, 3000, 500):
                for i in range(start, start + 500):
                    bus.publish_nowait("a", str(i))
                await bus.flush()
            by_name = [await anext(a) for _ in range(3000)]
            by_pattern = [await anext(pattern) for _ in range(3000)]
        assert numbers(by_name) == numbers(by_pattern) == list(range(1, 3001))
        assert [event.text for event in by_name if isinstance(event, Message)] == [
            str(i) for i in range(3000)
        ]
        assert (await bus.publish("a", "no subscriber is left")).receivers == 0


@on_loop
async def test_every_byte_survives_in_topic_and_payload() -> None:
    every = bytes(range(256))
    async with running() as hub, connect(url_of(hub)) as bus, bus.subscribe(every) as subscription:
        assert (await bus.publish(every, every)).receivers == 1
        event = await anext(subscription)
        assert isinstance(event, Message) and event.payload == every
        assert (await bus.publish(event.topic, "back")).receivers == 1


@on_loop
async def test_a_killed_connection_costs_exactly_the_messages_published_meanwhile() -> None:
    async with (
        running() as hub,
        connect(url_of(hub), name="victim", reconnect_first_s=0.2, reconnect_max_s=0.2) as bus,
        connect(url_of(hub)) as other,
        bus.subscribe("a") as a,
    ):
        await other.publish("a", "before")
        assert isinstance(await anext(a), Message)
        [victim] = [session for session in hub.core.sessions.values() if session.name == b"victim"]
        hub.core.cut(victim, "the test says so")
        await until(lambda: not bus.is_connected)
        for i in range(7):
            await other.publish("a", str(i))
        await until(lambda: bus.is_connected)
        assert await anext(a) == Gap("a", 7, GapReason.RECONNECTED)
        await other.publish("a", "after")
        event = await anext(a)
        assert isinstance(event, Message) and event.text == "after"


@on_loop
async def test_a_restarted_hub_is_a_gap_of_unknown_size_and_the_subscription_continues() -> None:
    async with running() as hub:
        port = hub.port
        bus = connect(url_of(hub), settings=QUICK)
        await bus.__aenter__()
        a = await bus.subscribe("a").__aenter__()
        await bus.publish("a", "before")
        assert isinstance(await anext(a), Message)
    await until(lambda: not bus.is_connected)
    async with running(HubSettings(name="h", port=port)):
        await until(lambda: bus.is_connected)
        assert await anext(a) == Gap("a", None, GapReason.RECONNECTED)
        assert (await bus.publish("a", "after")).receivers == 1
        event = await anext(a)
        assert isinstance(event, Message) and event.text == "after"
        await bus.close()


@on_loop
async def test_a_user_gets_permitted_topics_and_an_error_for_others() -> None:
    users = make_users(ann='publish = ["a.*"]\ncreate = ["*"]\nsubscribe = ["a.*"]')
    async with running(users=users) as hub:
        with pytest.raises(DeniedError, match="check the user and the secret"):
            async with connect(url_of(hub, "ann:wrong@")):
                pass
        with pytest.raises(DeniedError, match="put a user and its secret in the bus URL"):
            async with connect(url_of(hub)):
                pass
        async with connect(url_of(hub, "ann:ann@")) as bus:
            async with bus.subscribe("a.1") as mine:
                await bus.publish("a.1", "x")
                assert isinstance(await anext(mine), Message)
            with pytest.raises(DeniedError, match="may not publish 'b'; ask the operator of the hub"):
                await bus.publish("b", "x")
            with pytest.raises(DeniedError, match="may not subscribe 'b'"):
                async with bus.subscribe("a.2", "b"):
                    pass
            bus.publish_nowait("b", "x")
            with pytest.raises(DeniedError, match="may not publish 'b'"):
                await bus.flush()


@on_loop
async def test_a_permission_revoked_while_messages_flow_ends_only_its_subscription() -> None:
    wide = 'publish = ["*"]\ncreate = ["*"]\nsubscribe = ["*"]'
    async with (
        running(users=make_users(ann=wide)) as hub,
        connect(url_of(hub, "ann:ann@")) as bus,
        bus.subscribe("a") as a,
        bus.subscribe("b") as b,
        bus.psubscribe("*") as every,
    ):
        await bus.publish("a", "before")
        hub.reload_users(make_users(ann='publish = ["*"]\ncreate = ["*"]\nsubscribe = ["b"]'))
        assert isinstance(await anext(a), Message)
        assert isinstance(await anext(every), Message)
        for revoked in (a, every):
            with pytest.raises(DeniedError, match="the permission was revoked"):
                await anext(revoked)
        await bus.publish("b", "still")
        assert isinstance(await anext(b), Message)


@on_loop
async def test_the_client_learns_the_limits_of_the_hub() -> None:
    limits = Limits(subscriptions_max=2, topic_bytes_max=16)
    async with running(HubSettings(port=0, limits=limits)) as hub, connect(url_of(hub)) as bus:
        with pytest.raises(RefusedError):
            await bus.publish("t" * 17, "x")
        async with bus.subscribe("a"), bus.subscribe("b"):
            with pytest.raises(RefusedError):
                async with bus.subscribe("c"):
                    pass
        async with bus.subscribe("c"):
            assert (await bus.publish("c", "room again")).receivers == 1


@on_loop
async def test_the_hub_knows_the_client_by_name_and_library() -> None:
    async with running() as hub, connect(url_of(hub), name="probe") as bus:
        await bus.publish("a", "so that the courtesies have been answered")
        [session] = hub.core.sessions.values()
        assert session.name == b"probe"


@on_loop
async def test_tls_works_with_the_right_authority_and_gives_a_reason_without(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    chain, key, ca = tmp_path / "chain.pem", tmp_path / "key.pem", tmp_path / "ca.pem"
    for i, blob in enumerate(certificate.cert_chain_pems):
        blob.write_to_path(chain, append=i > 0)
    certificate.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    settings = HubSettings(port=0, tls=Tls(port=0, certificate=str(chain), key=str(key)))
    async with running(settings) as hub:
        url = f"equipoises://127.0.0.1:{hub.tls_port}"
        async with connect(url, tls_ca_file=str(ca)) as bus, bus.subscribe("a") as a:
            assert (await bus.publish("a", "encrypted")).receivers == 1
            assert isinstance(await anext(a), Message)
        context = ssl.create_default_context()
        authority.configure_trust(context)
        async with connect(url, tls=context) as bus:
            await bus.publish("a", "x")
        with pytest.raises(DisconnectedError, match=r"certificate is not trusted .* pass its CA as tls_ca"):
            async with connect(url):
                pass
        with pytest.raises(DisconnectedError, match="equipoises:// is for TLS ports"):
            async with connect(f"equipoises://127.0.0.1:{hub.port}", tls_ca_file=str(ca)):
                pass


@on_loop
async def test_a_hundred_subscriptions_and_ten_publishers_account_for_every_message() -> None:
    async with running() as hub, connect(url_of(hub)) as bus:
        subscriptions = [await bus.subscribe(f"t{i % 10}").__aenter__() for i in range(100)]
        receipts = await asyncio.gather(*(bus.publish(f"t{i % 10}", str(i)) for i in range(500)))
        assert {receipt.receivers for receipt in receipts} == {1}, "one on the wire, however many here"
        for subscription in subscriptions:
            assert numbers([await anext(subscription) for _ in range(50)]) == list(range(1, 51))
