"""The hub as a process: signals, errors at start, and clients that reconnect after a kill."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hiredis
import pytest
import redis

from hub.live import users_text
from hub.world import decoded, request
from support import processes
from support.polling import eventually
from support.processes import ROOT

TIMEOUT_S = 10.0
ALL = 'create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]\noperate = ["*"]'


class RawClient:
    """A blocking socket with RESP encoding."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._decoder = hiredis.Reader()

    def do(self, *words: str) -> object:
        self.socket.sendall(request(*words))
        return self.read()

    def read(self) -> object:
        while not (replies := decoded(self._decoder)):
            data = self.socket.recv(65_536)
            if not data:
                raise EOFError
            self._decoder.feed(data)
        (reply,) = replies
        return reply

    def close(self) -> None:
        self.socket.close()


@contextmanager
def raw_client(port: int) -> Iterator[RawClient]:
    client = RawClient(port)
    try:
        yield client
    finally:
        client.close()


def started(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "equipoise.cli.main", "hub", "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )


# --- mistakes


def test_a_hub_that_cannot_start_prints_the_reason_in_one_line(tmp_path: Path) -> None:
    settings, users = tmp_path / "hub.toml", tmp_path / "users.toml"
    settings.write_text("[limits]\nargs_max = 'many'\n")
    users.write_bytes(b"\xff\xfe")
    tls = ["--tls-port", "0", "--tls-certificate", str(users), "--tls-key", str(users)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        # All at once: they take a second each to find out.
        hubs = {
            f"cannot listen on 127.0.0.1:{port}": started("--port", str(port)),
            "limits.args_max": started("--config", str(settings)),
            "is not UTF-8 text": started("--users", str(users)),
            f"tls.certificate {users}": started(*tls),
            "refusing to listen on 0.0.0.0": started("--host", "0.0.0.0"),
        }
        for reason, process in hubs.items():
            said, complained = process.communicate(timeout=3 * TIMEOUT_S)
            assert (process.returncode, said) == (2, ""), complained
            (line,) = complained.splitlines()
            assert line.startswith("equipoise: ")
            assert reason in line


# --- signals


def test_term_ends_a_hub_in_good_order_though_a_client_never_reads() -> None:
    with (
        processes.hub() as server,
        raw_client(server.port) as client,
        raw_client(server.port) as stuck,
        raw_client(server.port) as publisher,
    ):
        assert client.do("SUBSCRIBE", "quiet") == [b"subscribe", b"quiet", 1]
        stuck.do("SUBSCRIBE", "t")
        for _ in range(6):
            publisher.do("PUBLISH", "t", "x" * 1_000_000)
        assert open_files_max(server.pid) >= 10_000
        began_at = time.monotonic()
        assert server.stop(signal.SIGTERM) == 0
        # A stuck client is waited for a second; for ever would be longer than this, on any machine.
        assert time.monotonic() - began_at < 30
        with pytest.raises(EOFError):
            client.read()
        assert "Traceback" not in server.output


def open_files_max(pid: int) -> int:
    limits = Path(f"/proc/{pid}/limits").read_text()
    line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    soft, hard = (int(number) for number in line.split()[3:5])
    # A machine may not allow more.
    return soft if hard >= 10_000 else 10_000


def test_sighup_reloads_the_users(tmp_path: Path) -> None:
    path = tmp_path / "users.toml"
    path.write_text(users_text(root=ALL, alice=ALL))
    with processes.hub("--users", str(path)) as server:
        with raw_client(server.port) as alice, raw_client(server.port) as root:
            assert alice.do("AUTH", "alice", "alice") == b"OK"
            assert root.do("AUTH", "root", "root") == b"OK"
            assert alice.do("SUBSCRIBE", "t") == [b"subscribe", b"t", 1]
            path.write_text("broken")
            server.process.send_signal(signal.SIGHUP)
            eventually(lambda: "users not reloaded" in server.output)
            assert root.do("PUBLISH", "t", "x") == 1
            assert alice.read() == [b"message", b"t", b"x"]
            path.write_text(users_text(root=ALL, alice='subscribe = ["other"]'))
            server.process.send_signal(signal.SIGHUP)
            assert alice.read() == [b"unsubscribe", b"t", 0]
            assert root.do("PUBLISH", "t", "x") == 0
            path.write_text(users_text(root=ALL))
            server.process.send_signal(signal.SIGHUP)
            with pytest.raises((EOFError, ConnectionError)):
                alice.read()
        assert "Traceback" not in server.output


# --- death and return


def test_clients_reconnect_to_a_hub_that_was_killed() -> None:
    """
    1. A hub with a raw subscriber and redis-py clients is killed without a word.
    2. Every connection breaks at once.
    3. A hub starts on the same port, and the same client objects are served again.
    """
    with processes.hub() as first:
        port = first.port
        bus = redis.Redis(port=port, socket_timeout=TIMEOUT_S)
        listener = bus.pubsub()  # type: ignore[no-untyped-call]  # redis-py does not say
        listener.subscribe("t")
        assert listener.get_message(timeout=TIMEOUT_S)["type"] == "subscribe"
        raw = RawClient(port)
        epoch = _epoch(raw)
        assert bus.publish("t", "before") == 1
        assert first.kill() == -signal.SIGKILL
        with pytest.raises((EOFError, ConnectionError)):
            raw.read()
        raw.close()
    with processes.hub(port=port):
        # redis-py reconnects and subscribes again by itself.
        message = listener.get_message(timeout=TIMEOUT_S)
        while message is None or message["type"] != "subscribe":
            message = listener.get_message(timeout=TIMEOUT_S)
        assert bus.publish("t", "after") == 1
        received = listener.get_message(timeout=TIMEOUT_S)
        assert received is not None and received["data"] == b"after"
        with raw_client(port) as again:
            assert _epoch(again) > epoch
        listener.close()
        bus.close()


def _epoch(client: RawClient) -> int:
    client.do("HELLO", "3")
    answer = client.do("EQ.SUBSCRIBE", "stream")
    assert isinstance(answer, list)
    return int(answer[3])
