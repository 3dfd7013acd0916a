"""`equipoise hub --data FOLDER`: acknowledged entries of a single hub survive a crash."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import redis

from support.processes import ServerProcess, hub, process_environment

# Restarting a hub and its bookie on a busy machine takes a while; a client asks again until then.
PATIENCE_S = 30.0


def connected(server: ServerProcess) -> Any:
    return redis.Redis(host=server.host, port=server.port, socket_timeout=PATIENCE_S)


def test_acknowledged_entries_are_there_after_kill_9_in_order_and_once(tmp_path: Path) -> None:
    acked: list[bytes] = []
    enough = threading.Event()

    def add(server: ServerProcess) -> None:
        client = connected(server)
        try:
            for number in range(1_000_000):
                acked.append(client.xadd("t", {"n": number}))
                if number == 200:
                    enough.set()
        except redis.RedisError:
            return

    with hub("--data", str(tmp_path)) as server:
        writer = threading.Thread(target=add, args=(server,))
        writer.start()
        assert enough.wait(PATIENCE_S)
        server.kill()
        writer.join()
    with hub("--data", str(tmp_path)) as server:
        client = connected(server)
        found = client.xrange("t")
        ids = [at for at, _ in found]
        assert ids[: len(acked)] == acked
        assert len(ids) - len(acked) in (0, 1), "at most the one in flight is there besides"
        assert [int(fields[b"n"]) for _, fields in found] == list(range(len(ids)))


def test_groups_and_pending_entries_survive_too(tmp_path: Path) -> None:
    with hub("--data", str(tmp_path)) as server:
        client = connected(server)
        for number in range(5):
            client.xadd("t", {"n": number}, id=f"1-{number + 1}")
        client.xgroup_create("t", "g", id="0")
        client.xreadgroup("g", "c", {"t": ">"}, count=3)
        client.xack("t", "g", "1-1")
        client.xdel("t", "1-5")
        before = client.xinfo_stream("t", full=True)
        server.kill()
    with hub("--data", str(tmp_path)) as server:
        client = connected(server)
        assert client.xinfo_stream("t", full=True) == before
        assert [row["message_id"] for row in client.xpending_range("t", "g", "-", "+", 10)] == [
            b"1-2",
            b"1-3",
        ]
        assert client.xadd("t", {"n": 5}, id="1-*") == b"1-6"


def test_a_killed_bookie_is_restarted_and_the_log_continues(tmp_path: Path) -> None:
    with hub("--data", str(tmp_path)) as server:
        client = connected(server)
        client.xadd("t", {"n": 1}, id="1-1")
        os.kill(bookie_of(server), 9)
        for number in range(2, 100):
            try:
                client.xadd("t", {"n": number}, id=f"1-{number}")
                break
            except redis.ResponseError as problem:
                assert str(problem).startswith(("UNCERTAIN", "TRYAGAIN", "The ID specified")), problem
        ids = [at for at, _ in client.xrange("t")]
        assert ids[0] == b"1-1"
        assert ids[-1] == b"1-%d" % number


def bookie_of(server: ServerProcess) -> int:
    """The process id of the hub's bookie: its only child."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])


def test_two_hubs_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        hub("--data", str(tmp_path)),
        pytest.raises(AssertionError, match="another hub uses the folder"),
        hub("--data", str(tmp_path), name="h2"),
    ):
        pass


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder, reason in ((file, "it is a file"), (file / "below", "Not a directory")):
        with (
            pytest.raises(AssertionError, match=f"cannot write to {folder}: {reason}"),
            hub("--data", str(folder)),
        ):
            pass


def test_a_hub_of_a_cluster_has_no_folder_of_its_own(tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="--data is for standalone hubs"),
        hub("--data", str(tmp_path), "--store", "eqs://127.0.0.1:1"),
    ):
        pass


def test_a_durable_topic_keeps_published_messages(tmp_path: Path) -> None:
    """1. An operator makes topics durable at a hub that runs alone.
    2. A subscriber gets what is published, and the hub is killed.
    3. The hub that starts again has the messages, and the spec.
    """
    with hub("--data", str(tmp_path)) as server:
        address = (tmp_path / "store-address").read_text().strip()
        words = ["topics", "set", "d.*", "--durable", "1/1/1", "--store", address]
        done = subprocess.run(
            [sys.executable, "-m", "equipoise.cli.main", *words],
            capture_output=True,
            text=True,
            check=False,
            env=process_environment(),
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        client = connected(server)
        while not client.xlen("d.probe"):
            # The hub follows the store: it has the spec a moment after the command has stored it.
            client.publish("d.probe", "x")
        subscriber = client.pubsub(ignore_subscribe_messages=True)
        subscriber.subscribe("d.t")
        for number in range(20):
            client.publish("d.t", number)
        heard: list[int] = []
        while len(heard) < 20:
            message = subscriber.get_message(timeout=PATIENCE_S)
            if message is not None:
                heard.append(int(message["data"]))
        assert heard == list(range(20))
        server.kill()
    with hub("--data", str(tmp_path)) as server:
        client = connected(server)
        client.publish("d.t", 20)
        assert [int(fields[b"payload"]) for _, fields in client.xrange("d.t")] == list(range(21))
