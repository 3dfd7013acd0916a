"""Random commands on streams at a live hub, in transactions too, are answered as a live redis-server answers them.

`tests/log/test_against_redis.py` compares the log alone; here commands pass through sessions, queues and appends: in
pipelines of random length, in MULTI with EXEC or DISCARD, and blocked reads with a concurrent writer.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from log.test_against_redis import Commands, new_reader, without_times
from support.processes import ServerProcess, hub, redis_server

SEEDS = 12
COMMANDS = 150

pytestmark = pytest.mark.needs_redis


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    folder: Path = tmp_path_factory.mktemp("data")
    with redis_server() as redis, hub("--data", str(folder)) as ours:
        ours.host = "127.0.0.1"
        yield redis, ours


class Client:
    """One connection: commands in one write, all of their replies."""

    def __init__(self, server: ServerProcess, proto: int) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout=30)
        self._reader = new_reader()
        self.send([[b"HELLO", b"%d" % proto]])
        self.replies(1)

    def send(self, commands: list[list[bytes]]) -> None:
        self._socket.sendall(b"".join(map(spelled, commands)))

    def replies(self, count: int) -> list[object]:
        found: list[object] = []
        while len(found) < count:
            reply = self._reader.gets()
            if reply is False:
                self._reader.feed(self._socket.recv(1 << 16))
            else:
                found.append(reply)
        return found

    def ask(self, commands: list[list[bytes]]) -> list[object]:
        self.send(commands)
        return self.replies(len(commands))

    def close(self) -> None:
        self._socket.close()


def spelled(words: list[bytes]) -> bytes:
    return b"*%d\r\n%b" % (
        len(words),
        b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words),
    )


def turns(seed: int) -> Iterator[list[list[bytes]]]:
    """Pipelines of commands; some of them are transactions."""
    commands, rng, left = Commands(seed), random.Random(seed), COMMANDS
    while left > 0:
        count = rng.choice((1, 1, 3, 8))
        left -= count
        turn = [commands.next() for _ in range(count)]
        if rng.random() < 0.4:
            turn = [[b"MULTI"], *turn, [rng.choice((b"EXEC", b"EXEC", b"DISCARD"))]]
        yield turn


def bare(turn: list[list[bytes]], replies: list[object]) -> list[object]:
    """Replies without times, those inside EXEC too."""
    inner = turn[1:-1] if turn[0] == [b"MULTI"] else []
    found = []
    for command, reply in zip(turn, replies, strict=True):
        if command == [b"EXEC"] and isinstance(reply, list):
            reply = [without_times(each, part) for each, part in zip(inner, reply, strict=True)]
        found.append(without_times(command, reply))
    return found


@pytest.mark.parametrize("proto", [2, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_pipelines_and_transactions_are_answered_as_redis_answers_them(
    servers: tuple[ServerProcess, ServerProcess], seed: int, proto: int
) -> None:
    redis, ours = (Client(server, proto) for server in servers)
    said: list[str] = []
    try:
        for client in (redis, ours):
            client.ask([[b"DEL", b"a"], [b"DEL", b"b"]])
        for turn in turns(seed):
            wanted, got = bare(turn, redis.ask(turn)), bare(turn, ours.ask(turn))
            said += [
                f"{b' '.join(each).decode()}  ->  {reply}" for each, reply in zip(turn, wanted, strict=True)
            ]
            assert got == wanted, "\n".join(said[-25:])
    finally:
        redis.close()
        ours.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_blocked_reads_are_answered_as_redis_answers_them(
    servers: tuple[ServerProcess, ServerProcess], seed: int
) -> None:
    """Two readers wait, with and without a group; a writer adds entries, or deletes the log or the group.

    An entry that is added and deleted in one transaction is left out: it wakes readers of Redis 7.0 with an empty list.
    """
    rng = random.Random(seed)
    heard: list[list[object]] = []
    story = [rng.random() for _ in range(40)]
    for server in servers:
        writer, plain, member = (Client(server, 2) for _ in range(3))
        writer.ask([[b"DEL", b"a"], [b"DEL", b"b"], [b"XGROUP", b"CREATE", b"a", b"g", b"$", b"MKSTREAM"]])
        replies: list[object] = []
        for number, chance in enumerate(story):
            plain.send([[b"XREAD", b"COUNT", b"2", b"BLOCK", b"0", b"STREAMS", b"a", b"b", b"$", b"$"]])
            member.send([[b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"0", b"STREAMS", b"a", b">"]])
            until_blocked(writer, 2)
            first, second = ([b"XADD", b"a", b"%d-%d" % (number + 1, part), b"f", b"v"] for part in (1, 2))
            if chance < 0.25:
                replies += writer.ask([[b"MULTI"], first, second, [b"EXEC"]])
            else:
                replies += writer.ask([first])
            replies += plain.replies(1) + member.replies(1)
            if chance > 0.8:
                member.send([[b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"0", b"STREAMS", b"a", b">"]])
                until_blocked(writer, 1)
                ends = [b"DEL", b"a"] if chance > 0.9 else [b"XGROUP", b"DESTROY", b"a", b"g"]
                replies += writer.ask([ends]) + member.replies(1)
                replies += writer.ask([[b"XGROUP", b"CREATE", b"a", b"g", b"$", b"MKSTREAM"]])
        heard.append(replies)
        for client in (writer, plain, member):
            client.close()
    assert heard[1] == heard[0]


def until_blocked(client: Client, count: int) -> None:
    """Wait until so many clients wait in a read."""
    for _ in range(2_000):
        info = client.ask([[b"INFO", b"clients"]])[0]
        assert isinstance(info, bytes)
        if b"blocked_clients:%d\r\n" % count in info:
            return
    raise AssertionError(f"{count} clients do not wait")
