"""`equipoise up` without Spark: ready soon, clear errors, and no process left after its parent."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from typer.testing import CliRunner, Result

from equipoise.cli.main import app
from local.up_world import Up, require_java

pytestmark = pytest.mark.needs_java
# Far more than the seconds it takes, for machines that do something else meanwhile.
STOP_S_MAX = 30.0


def test_a_hub_is_ready_soon_and_one_interrupt_ends_everything(up: Up) -> None:
    up.start("--hubs", "2", "--bookies", "1", "--no-pipeline")
    up.until_up()
    with redis.Redis(port=up.port) as client:
        assert client.publish("news", "hello") == 0
    parts = ("controller", "hub-2", "bookie-1")
    up.until(lambda: all(f"{part} ready" in up.said for part in parts), "not all came up")
    up.until(lambda: is_added(up.port), "no entry is taken")
    up.until(lambda: (up.ask("/api/durable") or {}).get("logs"), "the dashboard shows no log")
    assert {path.name for path in (up.data / "logs").iterdir()} == {
        "bookie-1.log",
        "hub-1.log",
        "hub-2.log",
        "controller.log",
    }
    assert (up.data / "store" / "zookeeper.log").exists()
    assert up.interrupt() < STOP_S_MAX
    assert "stopped" in up.said
    up.until(lambda: not up.processes(), f"left: {up.processes()}")


def test_with_tls_clients_that_trust_its_authority_are_served_at_all_hubs(up: Up) -> None:
    up.start("--hubs", "2", "--no-pipeline", "--tls")
    up.until_up()
    up.until(lambda: "hub-2 ready" in up.said, "not all came up")
    ports = json.loads((up.data / "ports.json").read_text())
    authority = up.data / "tls" / "ca.pem"
    assert f"equipoises://127.0.0.1:{ports['hub-1-tls']} --tls-ca {authority}" in " ".join(up.said.split())

    def client(hub: str, **how: Any) -> redis.Redis:
        return redis.Redis(port=ports[f"{hub}-tls"], ssl=True, socket_timeout=30, **how)

    for hub in ("hub-1", "hub-2"):
        with client(hub, ssl_ca_certs=str(authority)) as trusting:
            assert trusting.ping()
        with (
            client(hub) as doubting,
            pytest.raises(redis.ConnectionError, match="CERTIFICATE_VERIFY_FAILED"),
        ):
            doubting.ping()
    with (
        client("hub-1", ssl_ca_certs=str(authority)) as one,
        client("hub-2", ssl_ca_certs=str(authority)) as other,
        one.pubsub() as listener,
    ):
        listener.subscribe("news")
        assert listener.get_message(timeout=30)["type"] == "subscribe"
        # The link between the hubs uses TLS as well: neither of them would do without.
        assert other.publish("news", "hello") >= 0
        assert listener.get_message(timeout=30)["data"] == b"hello"
    # And so does the dashboard, by the same authority.
    assert up.dashboard.startswith("https://127.0.0.1:")
    up.until(lambda: (up.ask("/api/overview") or {}).get("plan_version", 0) > 0, "no plan on the dashboard")


def test_state_survives_and_nothing_outlives_a_supervisor_that_is_killed(up: Up) -> None:
    up.start("--hubs", "2", "--no-pipeline")
    up.until_up()
    port, token = up.port, up.token
    up.until(lambda: (up.ask("/api/overview") or {}).get("plan_version", 0) > 0, "no plan on the dashboard")
    up.until(lambda: "hub-2 ready" in up.said, "not all came up")
    # Only an operator sets these: a fresh store has neither.
    command(up, "topics", "set", "game.*", "--latency", "40ms")
    for hub in ("hub-1", "hub-2"):
        command(up, "move", f"kept-at-{hub}", hub, "--why", "before the crash")
    kept = said_by_operator(up)
    assert len(kept["entries"]) == 2
    up.kill()
    up.until(lambda: not up.processes(), f"left: {up.processes()}")
    up.start("--hubs", "2", "--no-pipeline")
    up.until_up()
    assert (up.port, up.token) == (port, token)
    assert said_by_operator(up) == kept


def said_by_operator(up: Up) -> dict[str, Any]:
    """Limits of topics, and where the plan has single ones."""
    entries = json.loads(command(up, "plan", "show", "--json"))["entries"]
    return {"specs": json.loads(command(up, "topics", "specs", "--json")), "entries": entries}


def command(up: Up, *words: str, given: str = "") -> str:
    """What `equipoise` prints, run on the system's store."""
    result = invoke(up, *words, given=given)
    assert result.exit_code == 0, result.output
    return result.stdout


def invoke(up: Up, *words: str, given: str = "") -> Result:
    ports = json.loads((up.data / "ports.json").read_text())
    environment = {"EQUIPOISE_STORE": f"zk://127.0.0.1:{ports['store']}"}
    return CliRunner().invoke(app, list(words), input=given, env=environment)


def test_a_port_in_use_is_reported_with_its_replacement(up: Up) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        up.data.mkdir()
        (up.data / "ports.json").write_text(json.dumps({"hub-1": port}))
        up.start("--hubs", "1", "--no-pipeline")
        up.until_up()
        up.until(
            lambda: f"port {port} is taken: hub-1 listens on {up.port}" in up.said, "no error was printed"
        )
        assert pings(up.port)


def test_a_missing_java_is_an_error_of_one_line(up: Up, tmp_path: Path) -> None:
    up.start(environment={"PATH": str(tmp_path), "JAVA_HOME": ""})
    assert up.status() == 1
    assert "there is no Java: install version 17 or newer, or set JAVA_HOME" in up.said
    assert "Traceback" not in up.said and "hub-1" not in up.said


def test_a_java_that_is_too_old_is_an_error_of_one_line(up: Up, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    up.start(environment={"PATH": f"{tmp_path}:/usr/bin:/bin", "JAVA_HOME": ""})
    assert up.status() == 1
    assert f"{java} is Java 11: version 17 or newer is needed" in up.said
    assert "Traceback" not in up.said and "hub-1" not in up.said


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One system for the tests below."""
    require_java()
    made = Up(tmp_path_factory.mktemp("up"))
    try:
        made.start("--hubs", "2", "--no-pipeline")
        made.until_up()
        yield made
    finally:
        made.stop()


@pytest.fixture
def system(running: Up) -> Up:
    """With everything in it at work, whatever the test before has done."""
    running.until(lambda: is_whole(running), "not all came up")
    return running


def is_whole(up: Up) -> bool:
    """Whether the store answers, with two hubs that serve, and the dashboard does."""
    result = invoke(up, "hubs", "ls", "--json")
    states = [hub["state"] for hub in json.loads(result.stdout)] if result.exit_code == 0 else []
    return states == ["serving", "serving"] and up.ask("/api/overview") is not None


def test_a_directory_in_use_is_refused(system: Up, tmp_path: Path) -> None:
    second = Up(tmp_path)
    second.data = system.data
    second.start("--hubs", "1", "--no-pipeline")
    assert second.status() == 2
    assert "in use by another `equipoise up`" in second.said


@pytest.mark.parametrize(
    "words",
    [("hub", "hub-1"), ("controller",), ("org.apache.zookeeper.server.ZooKeeperServerMain",)],
    ids=["hub", "controller", "store"],
)
def test_a_killed_process_is_restarted_and_no_other_is_affected(system: Up, words: tuple[str, ...]) -> None:
    before = system.processes()
    first = system.pid_of(*words)
    os.kill(first, signal.SIGKILL)
    system.until(lambda: system.pid_of(*words) not in (0, first), "it was not started again")
    system.until(lambda: pings(system.port), "no hub answers")
    assert before.keys() - system.processes().keys() == {first}


def test_users_can_be_added_while_it_runs(system: Up) -> None:
    """The last of the tests that share a system: without a login there is no access any more."""
    ports = json.loads((system.data / "ports.json").read_text())

    def add(name: str, password: str, *grants: str) -> None:
        command(system, "users", "add", name, "--password-stdin", *grants, given=password)

    add("hubs", (system.data / "hubs.password").read_text(), "--link", "*", "--observe", "*")
    add("ann", "hers", "--publish", "*", "--subscribe", "*")
    system.until(lambda: is_heard(ports["hub-1"], ports["hub-2"]), "no message passes between hubs")


def is_heard(from_port: int, at_port: int) -> bool:
    """Whether Ann hears at one hub what she says at another, on topics that live at either."""
    topics = [f"t{i}" for i in range(8)]
    try:
        with (
            redis.Redis(port=at_port, username="ann", password="hers") as subscriber,
            subscriber.pubsub() as listener,
        ):
            listener.subscribe(*topics)
            with redis.Redis(port=from_port, username="ann", password="hers") as publisher:
                for topic in topics:
                    publisher.publish(topic, "x")
            heard = set()
            while (message := listener.get_message(timeout=0.5)) is not None:
                if message["type"] == "message":
                    heard.add(message["channel"])
            return len(heard) == len(topics)
    except (redis.ConnectionError, redis.AuthenticationError):
        return False


def is_added(port: int) -> bool:
    """A hub hears of the bookie in its own time."""
    try:
        with redis.Redis(port=port, socket_timeout=STOP_S_MAX) as client:
            return bool(client.xadd("orders", {"item": "tea"}))
    except redis.RedisError:
        return False


def pings(port: int) -> bool:
    try:
        with redis.Redis(port=port, socket_timeout=STOP_S_MAX) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
