"""A hub of the release before works beside a present one: messages flow both ways, and topics move between them."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import redis
from typer.testing import CliRunner

from equipoise.cli.main import app
from pipeline.store_thread import StoreThread
from support.processes import ServerProcess, hub

WHEEL = Path(__file__).parent / "equipoise-0.1.0-py3-none-any.whl"
PATIENCE_S = 30.0
# What INFO counts as lost, by its names in either release.
LOSSES = ("messages_lost", "lost", "messages_dropped", "dropped", "links_overflowed")
# Messages published in each direction at each step.
COUNT = 20


class Pair:
    """An old hub and a new one that meet in one store, and a plain client of each."""

    def __init__(self, old: ServerProcess, new: ServerProcess, store_url: str, stack: ExitStack) -> None:
        self.hubs = {"old": old, "new": new}
        self._store_url = store_url
        self._stack = stack
        self.clients = {name: self._client(server) for name, server in self.hubs.items()}

    def _client(self, server: ServerProcess) -> redis.Redis:
        made = redis.Redis(port=server.port, socket_timeout=PATIENCE_S)
        self._stack.callback(made.close)
        return made

    def listen(self, name: str, topic: str) -> Listener:
        return Listener(self._client(self.hubs[name]), topic)

    def info(self, name: str) -> dict[str, str]:
        text = self.clients[name].execute_command("INFO", "cluster")  # type: ignore[no-untyped-call]
        assert isinstance(text, dict)
        return {str(key): str(value) for key, value in text.items()}

    def move(self, topic: str, home: str) -> None:
        result = CliRunner().invoke(app, ["move", topic, home, "--store", self._store_url])
        assert result.exit_code == 0, result.output

    def is_open(self, name: str, topic: str) -> bool:
        (row,) = self.clients[name].execute_command("EQ.TOPIC", topic)  # type: ignore[no-untyped-call]
        assert isinstance(row, list)
        return bytes(row[1]) == b"open"


class Listener:
    def __init__(self, client: redis.Redis, topic: str) -> None:
        self._pubsub = client.pubsub()  # type: ignore[no-untyped-call]  # redis-py leaves it so
        self._pubsub.subscribe(topic)
        assert self._pubsub.get_message(timeout=PATIENCE_S)["type"] == "subscribe"

    def read(self, count: int) -> list[str]:
        found: list[str] = []
        while len(found) < count:
            message = self._pubsub.get_message(timeout=PATIENCE_S)
            assert message is not None, f"only {len(found)} of {count} messages came"
            found.append(message["data"].decode())
        return found


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(tmp_path / "release")
    with ExitStack() as stack:
        store = stack.enter_context(StoreThread())
        release = {"PYTHONPATH": str(tmp_path / "release")}
        old = stack.enter_context(hub("--store", store.url, name="old", environment=release))
        new = stack.enter_context(hub("--store", store.url, name="new"))
        made = Pair(old, new, store.url, stack)
        _await(lambda: all(_links_up(made.info(name)) == "1" for name in made.hubs))
        yield made


def _links_up(info: dict[str, str]) -> str | None:
    """The release before has another name for it."""
    return info.get("links_connected", info.get("links_up"))


def _await(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, "it did not come to pass"
        time.sleep(0.05)


def test_messages_flow_between_the_releases_and_a_topic_moves_there_and_back(pair: Pair) -> None:
    """
    1. a topic lives at the hub of the release before; clients of both hubs publish to it and subscribe to it;
    2. it moves to the present hub, and back, while the same subscribers listen.
    """
    listeners: dict[str, Listener] = {}
    for step, home in enumerate(("old", "new", "old")):
        pair.move("t", home)
        if not listeners:
            listeners = {name: pair.listen(name, "t") for name in pair.hubs}
        _await(partial(pair.is_open, home, "t"))
        sent = {name: [f"{step} {name} {i}" for i in range(COUNT)] for name in pair.hubs}
        for i in range(COUNT):
            for name, client in pair.clients.items():
                client.publish("t", sent[name][i])
        for listener in listeners.values():
            got = listener.read(2 * COUNT)
            for messages in sent.values():
                assert [one for one in got if one in messages] == messages
    assert "limits_differing" in pair.info("new")
    assert "limits_differing" not in pair.info("old"), "it is no hub of the release before"
    for name in pair.hubs:
        info = pair.info(name)
        counted = [info[key] for key in LOSSES if key in info]
        assert counted == ["0", "0", "0"], name
