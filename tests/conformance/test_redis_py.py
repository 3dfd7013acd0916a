"""redis-py, the synchronous client, works with a hub as with Redis.

Every test runs against both, in RESP2 and RESP3: what a test expects is thereby known to be what Redis gives.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from conformance.conftest import Servers
from equipoise.processes import free_port
from support.processes import ServerProcess, redis_server
from support.processes import hub as hub_process

PATIENCE_S = 10.0
SERVERS = ["hub", pytest.param("redis", marks=pytest.mark.needs_redis)]
# The types of redis-py are incomplete, so its objects are foreign data here.
Connect = Callable[..., Any]
_serial = itertools.count()


@pytest.fixture
def name() -> str:
    """A unique prefix on the shared servers."""
    return f"py{next(_serial)}"


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, servers: Servers) -> ServerProcess:
    return servers.get(request.param)


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def connect(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Connect]:
    with ExitStack() as stack:

        def client(**options: Any) -> Any:
            made = redis.Redis(host=server.host, port=server.port, protocol=request.param, **options)
            return stack.enter_context(made)

        yield client


def receive(pubsub: Any) -> dict[str, Any]:
    """The next message of any kind, without the keys that do not concern it."""
    message = pubsub.get_message(timeout=PATIENCE_S)
    assert message is not None, "nothing came"
    return {key: value for key, value in message.items() if value is not None}


def test_subscribing_publishing_and_unsubscribing(connect: Connect, name: str) -> None:
    client = connect()
    channel = name.encode()
    with client.pubsub() as pubsub:
        pubsub.subscribe(name)
        assert receive(pubsub) == {"type": "subscribe", "channel": channel, "data": 1}
        assert client.publish(name, b"\x00\xff\r\n") == 1
        assert receive(pubsub) == {"type": "message", "channel": channel, "data": b"\x00\xff\r\n"}
        pubsub.unsubscribe(name)
        assert receive(pubsub) == {"type": "unsubscribe", "channel": channel, "data": 0}
        assert client.publish(name, "unheard") == 0
        assert not pubsub.subscribed


def test_patterns_and_names_side_by_side(connect: Connect, name: str) -> None:
    client = connect(decode_responses=True)
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(f"{name}.a")
        pubsub.psubscribe(f"{name}.*")
        for _ in range(2):
            assert pubsub.get_message(timeout=PATIENCE_S) is None  # a confirmation, ignored
        assert client.publish(f"{name}.a", "hello") == 2
        assert receive(pubsub) == {"type": "message", "channel": f"{name}.a", "data": "hello"}
        assert receive(pubsub) == {
            "type": "pmessage",
            "pattern": f"{name}.*",
            "channel": f"{name}.a",
            "data": "hello",
        }


def test_shard_channels(connect: Connect, name: str) -> None:
    client = connect(decode_responses=True)
    with client.pubsub() as pubsub:
        pubsub.ssubscribe(name)
        assert receive(pubsub) == {"type": "ssubscribe", "channel": name, "data": 1}
        assert client.spublish(name, "hello") == 1
        assert receive(pubsub) == {"type": "smessage", "channel": name, "data": "hello"}
        assert client.pubsub_shardchannels(f"{name}*") == [name]
        assert client.pubsub_shardnumsub(name) == [(name, 1)]
        pubsub.sunsubscribe(name)
        assert receive(pubsub) == {"type": "sunsubscribe", "channel": name, "data": 0}


def test_listening_until_unsubscribed(connect: Connect, name: str) -> None:
    client = connect(decode_responses=True)
    pubsub = client.pubsub()
    pubsub.subscribe(name)
    heard = []
    for message in pubsub.listen():
        heard.append((message["type"], message["data"]))
        if message["type"] == "subscribe":
            for i in range(3):
                client.publish(name, str(i))
        if message["data"] == "2":
            pubsub.unsubscribe()
    assert heard == [
        ("subscribe", 1),
        ("message", "0"),
        ("message", "1"),
        ("message", "2"),
        ("unsubscribe", 0),
    ]
    pubsub.close()


def test_handlers_in_a_thread(connect: Connect, name: str) -> None:
    client = connect(decode_responses=True)
    heard: list[str] = []
    done = threading.Event()

    def handle(message: dict[str, Any]) -> None:
        heard.append(message["data"])
        if message["data"] == "last":
            done.set()

    pubsub = client.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe(**{name: handle})
    thread = pubsub.run_in_thread(sleep_time=0.01)
    for text in ("first", "second", "last"):
        assert client.publish(name, text) == 1
    assert done.wait(PATIENCE_S)
    thread.stop()
    thread.join(PATIENCE_S)
    assert heard == ["first", "second", "last"]


def test_health_checks_while_subscribed(connect: Connect, name: str) -> None:
    client = connect(decode_responses=True, health_check_interval=1000)
    with client.pubsub() as pubsub:
        pubsub.subscribe(name)
        receive(pubsub)
        pubsub.connection.next_health_check = 0  # as if the interval had passed
        assert pubsub.get_message(timeout=PATIENCE_S) is None  # the answer to the health check, hidden
        assert pubsub.health_check_response_counter == 0
        assert pubsub.connection.next_health_check > 0
        client.publish(name, "after")
        assert receive(pubsub)["data"] == "after"


def test_ping_while_subscribed(connect: Connect, name: str) -> None:
    client = connect()
    with client.pubsub() as pubsub:
        pubsub.subscribe(name)
        receive(pubsub)
        pubsub.ping()
        assert receive(pubsub) == {"type": "pong", "data": b""}
        pubsub.ping(message="hello")
        assert receive(pubsub) == {"type": "pong", "data": b"hello"}


def test_counting_subscribers(connect: Connect, name: str) -> None:
    client = connect(decode_responses=True)
    with client.pubsub() as one, client.pubsub() as two:
        before = client.pubsub_numpat()
        one.subscribe(f"{name}.a", f"{name}.b")
        two.subscribe(f"{name}.a")
        one.psubscribe(f"{name}.*")
        for pubsub in (one, one, one, two):
            receive(pubsub)
        assert sorted(client.pubsub_channels(f"{name}.*")) == [f"{name}.a", f"{name}.b"]
        assert client.pubsub_numsub(f"{name}.a", f"{name}.b", f"{name}.c") == [
            (f"{name}.a", 2),
            (f"{name}.b", 1),
            (f"{name}.c", 0),
        ]
        assert client.pubsub_numpat() == before + 1


@pytest.mark.parametrize("is_transaction", [True, False])
def test_a_pipeline_of_publishes(connect: Connect, name: str, is_transaction: bool) -> None:
    """A pipeline is a transaction by default."""
    client = connect(decode_responses=True)
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(name)
        assert pubsub.get_message(timeout=PATIENCE_S) is None
        with client.pipeline(transaction=is_transaction) as pipeline:
            for i in range(500):
                pipeline.publish(name, str(i))
            assert pipeline.execute() == [1] * 500
        assert [receive(pubsub)["data"] for _ in range(500)] == [str(i) for i in range(500)]


def test_a_large_message(connect: Connect, name: str) -> None:
    client = connect()
    payload = bytes(range(256)) * 4000
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(name)
        assert pubsub.get_message(timeout=PATIENCE_S) is None
        assert client.publish(name, payload) == 1
        assert receive(pubsub)["data"] == payload


def test_commands_about_connections(connect: Connect, name: str) -> None:
    client = connect(decode_responses=True, client_name=name)
    other = connect(decode_responses=True, client_name=f"{name}.other", single_connection_client=True)
    assert client.ping() is True
    assert client.echo("hello") == "hello"
    assert client.client_getname() == name
    info = client.client_info()
    assert (info["name"], info["flags"], info["user"]) == (name, "N", "default")
    assert client.client_id() == int(info["id"])
    assert {name, f"{name}.other"} <= {entry["name"] for entry in client.client_list()}
    victim = other.client_id()
    assert client.client_kill_filter(_id=str(victim)) == 1
    assert other.ping() is True  # redis-py connects again by itself
    assert other.client_id() != victim
    assert client.config_get("save") == {"save": ""}
    assert client.info("server")["redis_mode"] == "standalone"
    assert client.reset() in (True, "RESET")


def test_wrong_commands_raise_response_errors(connect: Connect) -> None:
    client = connect()
    with pytest.raises(
        redis.ResponseError, match=r"unknown command 'NOSUCH', with args beginning with: 'a' "
    ):
        client.execute_command("NOSUCH", "a")
    with pytest.raises(redis.ResponseError, match="wrong number of arguments for 'publish' command"):
        client.execute_command("PUBLISH", "a")
    assert client.ping() is True


@pytest.mark.parametrize(
    "run", [lambda client: client.set("a", 1), lambda client: client.pipeline().get("a").execute()]
)
def test_a_hub_replies_that_it_stores_no_values(hub: ServerProcess, run: Callable[[Any], object]) -> None:
    with (
        redis.Redis(host=hub.host, port=hub.port) as client,
        pytest.raises(redis.ResponseError, match="a hub has none"),
    ):
        run(client)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("kind", SERVERS)
def test_logging_in(servers: Servers, kind: str, protocol: int) -> None:
    server = servers.get(kind, "secured")
    # redis-py takes a refused login for a lost connection and would try again for seconds.
    retry = Retry(NoBackoff(), 0)
    options: dict[str, Any] = {"host": server.host, "port": server.port, "protocol": protocol, "retry": retry}
    with redis.Redis(username="alice", password="wonderland", **options) as alice:
        assert alice.publish("game.a", "x") == 0
        with pytest.raises(redis.exceptions.NoPermissionError):
            alice.publish("news", "x")
    with redis.Redis(password="secret", **options) as default:
        assert default.publish("news", "x") == 0
    with redis.Redis(password="wrong", **options) as wrong, pytest.raises(redis.AuthenticationError):
        wrong.ping()
    with redis.Redis(**options) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


@pytest.mark.parametrize("start", [hub_process, pytest.param(redis_server, marks=pytest.mark.needs_redis)])
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_subscriber_reconnects_after_a_restart(start: Callable[..., Any], protocol: int) -> None:
    """
    1. A client subscribes by name, by pattern and to a shard channel.
    2. The server is killed and started again on the same port.
    3. The client notices while it waits, connects again and renews its subscriptions.
    4. New messages arrive.
    """
    port = free_port()
    retry = Retry(NoBackoff(), 3)
    with ExitStack() as stack:
        first = stack.enter_context(start(port=port))
        client = stack.enter_context(
            redis.Redis(host="127.0.0.1", port=port, protocol=protocol, decode_responses=True, retry=retry)
        )
        pubsub = stack.enter_context(client.pubsub())
        pubsub.subscribe("a")
        pubsub.psubscribe("a*")
        pubsub.ssubscribe("s")
        confirmed = {"subscribe", "psubscribe", "ssubscribe"}
        assert {receive(pubsub)["type"] for _ in range(3)} == confirmed
        first.kill()
        stack.enter_context(start(port=port))
        assert {receive(pubsub)["type"] for _ in range(3)} == confirmed
        assert client.publish("a", "back") == 2
        assert client.spublish("s", "back") == 1
        assert [receive(pubsub)["type"] for _ in range(3)] == ["message", "pmessage", "smessage"]


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_filter_is_a_pattern_with_a_handler(servers: Servers, protocol: int, name: str) -> None:
    """redis-py finds the handler by the pattern's text, which therefore comes back as it was sent."""
    server = servers.get("hub")
    text = f"$filter {name} symbol = 'YHOO' and volume > 150"
    heard: list[bytes] = []
    with (
        redis.Redis(host=server.host, port=server.port, protocol=protocol) as client,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
    ):
        pubsub.psubscribe(**{text: lambda message: heard.append(message["data"])})
        pubsub.psubscribe(f"$filter {name} symbol = 'IBM'")
        # The replies: both subscriptions are confirmed.
        for _ in range(2):
            pubsub.get_message(timeout=PATIENCE_S)
        assert pubsub.subscribed
        counts = [
            client.publish(name, f'{{"symbol": "{symbol}", "volume": {volume}}}')
            for symbol, volume in (("YHOO", 200), ("YHOO", 100), ("IBM", 1), ("GM", 200))
        ]
        assert counts == [1, 0, 1, 0]
        message = None
        for _ in range(20):
            message = pubsub.get_message(timeout=PATIENCE_S)
            if message is not None:
                break
        assert message is not None and message["data"] == b'{"symbol": "IBM", "volume": 1}'
        assert heard == [b'{"symbol": "YHOO", "volume": 200}']
        pubsub.punsubscribe(text)
        pubsub.get_message(timeout=PATIENCE_S)
        assert client.publish(name, '{"symbol": "YHOO", "volume": 200}') == 0
