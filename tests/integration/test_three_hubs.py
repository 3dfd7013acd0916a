"""Three hub processes and a ZooKeeper, used with redis-py and the operator's commands."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.store.embedded.zookeeper_process import EmbeddedSettings, EmbeddedZooKeeper
from support.polling import eventually
from support.ports import own_port
from support.processes import ServerProcess, hub
from support.zookeeper import require_zookeeper, shared_zookeeper

pytestmark = pytest.mark.needs_java

SESSION_S = 2.0
PATIENCE_S = 30.0
NAMES = ("h1", "h2", "h3")
TOPICS = [f"t{i}" for i in range(12)]


class System:
    """A store and the hubs that meet in it. `zookeeper` belongs to others, too; without one there is one of its own."""

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        zookeeper: EmbeddedZooKeeper | None = None,
        *,
        tick_ms: int = 200,
        session_s: float = SESSION_S,
    ) -> None:
        self._stack = stack
        if zookeeper is None:
            settings = EmbeddedSettings(directory=folder / "store", port=own_port(), tick_ms=tick_ms)
            zookeeper = EmbeddedZooKeeper(settings)
        self.zookeeper = zookeeper
        self.url = f"{zookeeper.url}/{folder.name}"
        self.config = folder / "hub.toml"
        self.config.write_text(f"[membership]\nsession_timeout_s = {session_s}\n")
        self.hubs: dict[str, ServerProcess] = {}
        # Where clients are ended.
        self.clients = stack

    def start_store(self) -> None:
        asyncio.run(self.zookeeper.start())

    def stop_store(self) -> None:
        asyncio.run(self.zookeeper.stop())

    def start_hub(self, name: str, *options: str) -> ServerProcess:
        words = ("--config", str(self.config), "--store", self.url, *options)
        server = self.hubs[name] = self._stack.enter_context(hub(*words, name=name))
        return server

    def client(self, name: str, **options: Any) -> redis.Redis:
        made = redis.Redis(port=self.hubs[name].port, socket_timeout=PATIENCE_S, **options)
        self.clients.callback(made.close)
        return made

    def command(self, *words: str, exit_code: int = 0) -> str:
        result = CliRunner().invoke(app, [*words, "--store", self.url])
        assert result.exit_code == exit_code, result.output
        return result.output

    def json(self, *words: str) -> Any:
        return json.loads(self.command(*words, "--json"))

    def home(self, topic: str) -> str:
        found: str = self.json("topics", "show", topic)["homes"][0]
        return found


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """Without a hub yet, in a store that others use as well."""
    require_zookeeper()
    with ExitStack() as stack:
        yield System(tmp_path, stack, shared_zookeeper())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Three hubs and a ZooKeeper of their own, for all tests that leave them at work."""
    require_zookeeper()
    with ExitStack() as stack:
        made = System(tmp_path_factory.mktemp("system"), stack)
        made.start_store()
        stack.callback(made.stop_store)
        with ThreadPoolExecutor() as threads:
            list(threads.map(made.start_hub, NAMES))
        yield made


@pytest.fixture
def trio(running: System) -> Iterator[System]:
    """With all of them at work. The clients of a test end with it."""
    eventually(lambda: [row["state"] for row in running.json("hubs", "ls")] == ["serving"] * len(NAMES))
    with ExitStack() as clients:
        running.clients = clients
        yield running


class Listener:
    """A plain subscriber that keeps one connection, and what it got."""

    def __init__(self, client: redis.Redis, topics: list[str], patterns: tuple[str, ...] = ()) -> None:
        # Its connection is of the client's pool, and is closed with it.
        self._pubsub = client.pubsub()  # type: ignore[no-untyped-call]  # redis-py leaves it so
        if topics:
            self._pubsub.subscribe(*topics)
        if patterns:
            self._pubsub.psubscribe(*patterns)
        for _ in range(len(topics) + len(patterns)):
            message = self._pubsub.get_message(timeout=PATIENCE_S)
            assert message is not None
            assert message["type"] in ("subscribe", "psubscribe")

    def read(self, count: int) -> list[tuple[str, str]]:
        """The next messages, as (topic, text). redis-py would hide a reconnection: the connection is looked at."""
        connection = self._pubsub.connection
        found: list[tuple[str, str]] = []
        while len(found) < count:
            message = self._pubsub.get_message(timeout=PATIENCE_S)
            assert message is not None, f"only {len(found)} of {count} messages came"
            found.append((message["channel"].decode(), message["data"].decode()))
        assert self._pubsub.connection is connection
        return found

    def is_quiet(self) -> bool:
        return self._pubsub.get_message(timeout=0.1) is None


def test_a_killed_hub_that_is_started_again_does_not_wait_for_its_dead_session(tmp_path: Path) -> None:
    """1. The home of a topic is killed. 2. A supervisor starts it again. 3. Its session has two minutes left.

    4. The new process proves that the old one has ended, takes its place, and messages flow.
    """
    require_zookeeper()
    with ExitStack() as stack:
        system = System(tmp_path, stack, tick_ms=6000, session_s=120.0)
        system.start_store()
        stack.callback(system.stop_store)
        for name in ("h1", "h2"):
            system.start_hub(name)
        home = system.home("news")
        publisher = system.client("h2" if home == "h1" else "h1")
        listener = Listener(publisher, ["news"])
        publisher.publish("news", "before")
        assert listener.read(1) == [("news", "before")]
        system.hubs[home].kill()
        began_at = time.monotonic()
        system.start_hub(home)
        publisher.publish("news", "after")
        assert listener.read(1) == [("news", "after")]
        assert time.monotonic() - began_at < 110, "it waited for the dead session"


def test_any_hub_serves_every_topic_once_and_in_order_while_topics_move(trio: System) -> None:
    clients = {name: trio.client(name) for name in NAMES}
    listeners = [Listener(clients[name], TOPICS) for name in NAMES]
    by_pattern = Listener(clients["h2"], [], ("t*",))
    homes = {topic: trio.home(topic) for topic in TOPICS}
    assert len(set(homes.values())) > 1, "the ring has put all topics on one hub"
    sent: list[tuple[str, str]] = []
    for n in range(40):
        for name, client in clients.items():
            for topic in TOPICS:
                client.publish(topic, f"{name} {n}")
                sent.append((topic, f"{name} {n}"))
        if n % 10 == 5:
            trio.command("move", TOPICS[n // 10], NAMES[n // 10 % 3])
    for listener in (*listeners, by_pattern):
        got = listener.read(len(sent))
        for topic in TOPICS:
            for name in NAMES:
                stream = [text for at, text in got if at == topic and text.startswith(name)]
                assert stream == [f"{name} {n}" for n in range(40)]
        assert listener.is_quiet()


def test_a_move_is_over_when_the_command_returns_and_the_history_says_why(trio: System) -> None:
    topic = TOPICS[0]
    target = next(name for name in NAMES if name != trio.home(topic))
    listener = Listener(trio.client("h1"), [topic])
    trio.command("move", topic, target, "--wait", "--why", "closer to its users")
    rows = {row["hub"]: row["state"] for row in trio.json("topics", "show", topic)["hubs"]}
    assert rows.pop(target) == "open"
    assert set(rows.values()) <= {"remote", "unused"}
    (latest, *_) = trio.json("plan", "history")
    assert latest["entries"][0]["why"]["note"] == "closer to its users"
    assert "@" in latest["by"]
    trio.client("h3").publish(topic, "still here")
    assert listener.read(1) == [(topic, "still here")]
    trio.command("move", topic, "--ring", "--wait")
    assert trio.json("topics", "show", topic)["placed_by"] == "ring"


def test_nobody_misses_a_zookeeper_that_is_gone_for_longer_than_a_session(trio: System) -> None:
    trio.command("move", TOPICS[1], "h3", "--wait")
    before = trio.json("plan", "show")
    clients = {name: trio.client(name) for name in NAMES}
    listeners = [Listener(clients[name], TOPICS) for name in NAMES]
    trio.stop_store()
    stopped_at = time.monotonic()
    rounds = 0
    while time.monotonic() - stopped_at < 2 * SESSION_S:
        _publish_and_read(clients, listeners, rounds)
        rounds += 1
    trio.start_store()
    started_at = time.monotonic()
    while time.monotonic() - started_at < 2 * SESSION_S:
        _publish_and_read(clients, listeners, rounds)
        rounds += 1
    assert trio.json("plan", "show") == before
    # And the plan can be changed again.
    trio.command("move", TOPICS[1], "h1", "--wait")
    _publish_and_read(clients, listeners, rounds)
    for server in trio.hubs.values():
        assert "was declared dead" not in server.output


def _publish_and_read(clients: dict[str, redis.Redis], listeners: list[Listener], number: int) -> None:
    for client in clients.values():
        for topic in TOPICS:
            client.publish(topic, str(number))
    for listener in listeners:
        got = listener.read(len(clients) * len(TOPICS))
        assert {text for _, text in got} == {str(number)}


def test_topics_of_a_killed_hub_are_served_by_the_others_and_it_comes_back(trio: System) -> None:
    victim = trio.home(TOPICS[0])
    left = [name for name in NAMES if name != victim]
    listener = Listener(trio.client(left[0]), TOPICS)
    publisher = trio.client(left[1])
    trio.hubs[victim].kill()

    def is_back() -> bool:
        publisher.publish(TOPICS[0], "again")
        return not listener.is_quiet()

    eventually(is_back)
    state = {row["hub"]: row["state"] for row in trio.json("hubs", "ls")}
    assert state[victim] == "dead"
    trio.start_hub(victim)
    eventually(lambda: {row["state"] for row in trio.json("hubs", "ls")} == {"serving"})
    comes_back = Listener(trio.client(victim), ["news"])
    publisher.publish("news", "hello")
    assert comes_back.read(1) == [("news", "hello")]


def test_a_hub_is_drained_stopped_and_forgotten_without_anybody_noticing(trio: System) -> None:
    """The last of the tests that share hubs: there are two of them afterwards."""
    listener = Listener(trio.client("h1"), TOPICS)
    publisher = trio.client("h3")
    for topic in TOPICS:
        publisher.publish(topic, "before")
    trio.command("hubs", "drain", "h2", "--wait")
    assert trio.json("topics", "ls", "--hub", "h2") == []
    for topic in TOPICS:
        publisher.publish(topic, "after")
    assert trio.hubs["h2"].stop(signal.SIGTERM) == 0
    trio.command("hubs", "forget", "h2")
    assert [row["hub"] for row in trio.json("hubs", "ls")] == ["h1", "h3"]
    for topic in TOPICS:
        publisher.publish(topic, "later")
    got = listener.read(3 * len(TOPICS))
    for topic in TOPICS:
        assert [text for at, text in got if at == topic] == ["before", "after", "later"]


def test_a_users_file_seeds_the_store_and_then_the_store_is_the_truth(system: System, tmp_path: Path) -> None:
    users, password = tmp_path / "users.toml", tmp_path / "password"
    password.write_text("between hubs\n")
    runner = CliRunner()
    for name, typed, grants in (
        ("hubs", "between hubs", ["--link", "*", "--observe", "*"]),
        ("ann", "ann's own", ["--publish", "*", "--subscribe", "*"]),
    ):
        words = ["users", "add", name, "--file", str(users), "--password-stdin", *grants]
        result = runner.invoke(app, words, input=typed)
        assert result.exit_code == 0, result.output
    login = ("--cluster-user", "hubs", "--cluster-password-file", str(password))
    system.start_hub("h1", "--users", str(users), *login)
    # The second one learns them from the store.
    system.start_hub("h2", *login)
    ann = {"username": "ann", "password": "ann's own"}
    listener = Listener(system.client("h1", **ann), TOPICS)
    publisher = system.client("h2", **ann)
    for topic in TOPICS:
        publisher.publish(topic, "x")
    assert len(listener.read(len(TOPICS))) == len(TOPICS)
    with pytest.raises(redis.AuthenticationError):
        system.client("h2").publish("t", "x")
    operator = ("--user", "hubs", "--password-file", str(password))
    assert {row["topic"] for row in system.json("topics", "ls", *operator)} == set(TOPICS)
    system.command("users", "rm", "ann")

    def is_gone() -> bool:
        try:
            publisher.publish("t0", "x")
        except (redis.ConnectionError, redis.AuthenticationError):
            return True
        return False

    eventually(is_gone)


def test_a_hub_without_its_login_or_its_address_says_what_to_give(system: System) -> None:
    with pytest.raises(AssertionError, match="--advertise HOST:PORT"):
        system.start_hub("h1", "--host", "0.0.0.0", "--insecure")
    words = ["users", "add", "ann", "--store", system.url, "--password-stdin", "--publish", "*"]
    result = CliRunner().invoke(app, words, input="ann's own")
    assert result.exit_code == 0, result.output
    with pytest.raises(AssertionError, match="give --cluster-user and"):
        system.start_hub("h1")
