"""Random commands on streams are answered as a live redis-server answers them.

Times are left out of the comparison (idle times, times of delivery), as is the shape of Redis's radix tree; ids are
given. The state that the records fold to is compared with the state that the commands left.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import hiredis
import pytest

from log.logs import Logs
from support.processes import ServerProcess, redis_server

SEEDS = 40
COMMANDS = 150
_TIMES = {b"idle", b"seen-time", b"radix-tree-nodes"}

pytestmark = pytest.mark.needs_redis


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with redis_server() as server:
        yield server


class Client:
    """One connection to Redis, a reply at a time."""

    def __init__(self, server: ServerProcess, proto: int) -> None:
        self._socket = socket.create_connection((server.host, server.port), timeout=30)
        self._reader = new_reader()
        self.run([b"HELLO", b"%d" % proto])
        self.run([b"FLUSHALL"])

    def run(self, words: list[bytes]) -> object:
        body = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        self._socket.sendall(b"*%d\r\n%b" % (len(words), body))
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(1 << 16))
        return reply

    def close(self) -> None:
        self._socket.close()


def new_reader() -> hiredis.Reader:
    return hiredis.Reader(replyError=_refusal)  # type: ignore[arg-type]  # errors as values, to be compared


def _refusal(text: str) -> tuple[str, str]:
    return "error", text


def parsed(data: bytes) -> object:
    reader = new_reader()
    reader.feed(data)
    reply = reader.gets()
    assert reader.gets() is False, data
    return reply


def without_times(command: list[bytes], reply: object) -> object:
    """What does not depend on when it was asked."""
    name = command[0].lower()
    if name == b"xpending" and len(command) > 3 and isinstance(reply, list):
        return [[row[0], row[1], row[3]] for row in reply]
    if name == b"xinfo":
        return _strip(reply)
    return reply


def _strip(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: _strip_pending(item) if key == b"pending" and isinstance(item, list) else _strip(item)
            for key, item in value.items()
            if key not in _TIMES
        }
    if isinstance(value, list):
        if value and isinstance(value[0], bytes) and value[0] in (b"length", b"name") and len(value) % 2 == 0:
            return _strip(dict(zip(value[::2], value[1::2], strict=True)))
        return [_strip(item) for item in value]
    return value


def _strip_pending(rows: list[list[object]]) -> list[list[object]]:
    """(id, [consumer], time, deliveries) without the time."""
    return [[*row[:-2], row[-1]] for row in rows]


class Commands:
    """Commands of a few keys, groups, consumers and ids, so that they meet."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _one(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _key(self) -> str:
        return self._one("a", "a", "a", "b")

    def _group(self) -> str:
        return self._one("g", "g", "h", "missing")

    def _consumer(self) -> str:
        return self._one("c", "d", "e")

    def _id(self) -> str:
        ms, seq = self._random.randrange(14), self._random.randrange(3)
        return self._one(
            f"{ms}-{seq}", f"{ms}-{seq}", f"{ms}-{seq}", f"{ms}", f"{ms}-*", "x", "0-0", "$", "-"
        )

    def _bound(self) -> str:
        return self._one(self._id(), "-", "+", "(" + self._id(), "(+", "(")

    def _count(self) -> str:
        return self._one("1", "2", "3", "10", "0", "-1", "x")

    def _some(self, *words: str) -> list[str]:
        """The words, or none of them."""
        return list(words) if self._random.random() < 0.4 else []

    def _ids(self) -> list[str]:
        return [self._id() for _ in range(self._random.randrange(1, 4))]

    def _trim(self) -> list[str]:
        return [
            self._one("MAXLEN", "MINID", "maxlen"),
            *self._some(self._one("~", "=")),
            self._one(self._id(), self._count()),
            *self._some("LIMIT", self._count()),
        ]

    def _starts(self) -> str:
        return self._one(">", ">", ">", "0", "0-0", "$", self._id())

    def next(self) -> list[bytes]:
        kind = self._random.choice(
            [self._add] * 6
            + [self._read_group] * 5
            + [self._create] * 3
            + [self._range, self._read, self._delete, self._trimmed, self._ack, self._ack, self._claim]
            + [self._autoclaim, self._pending, self._pending, self._info, self._info, self._group_change]
            + [self._setid, self._key_commands]
        )
        return [word.encode() for word in kind()]

    def _add(self) -> list[str]:
        options = self._some("NOMKSTREAM") + (self._trim() if self._random.random() < 0.15 else [])
        fields = ["f", "v"] * self._random.randrange(1, 3) + self._some("odd") * (self._random.random() < 0.1)
        number = self._random.randrange(40)
        at = self._one(self._id(), f"{number}-{self._random.randrange(3)}", f"{number}-*", f"{number}")
        return ["XADD", self._key(), *options, at, *fields]

    def _read_group(self) -> list[str]:
        keys = [self._key()] if self._random.random() < 0.8 else ["a", "b"]
        group = ["GROUP", self._group(), self._consumer()]
        options = self._some("COUNT", self._count()) + self._some("NOACK") * (self._random.random() < 0.5)
        return ["XREADGROUP", *group, *options, "STREAMS", *keys, *(self._starts() for _ in keys)]

    def _create(self) -> list[str]:
        options = self._some("MKSTREAM") + self._some("ENTRIESREAD", self._count())
        return [
            "XGROUP",
            "CREATE",
            self._key(),
            self._one("g", "h"),
            self._one("0", "$", self._id()),
            *options,
        ]

    def _range(self) -> list[str]:
        bounds = [self._bound(), self._bound()]
        return [self._one("XRANGE", "XREVRANGE"), self._key(), *bounds, *self._some("COUNT", self._count())]

    def _read(self) -> list[str]:
        keys = [self._key()] if self._random.random() < 0.7 else ["a", "b"]
        starts = [self._one("0", "$", self._id()) for _ in keys]
        return ["XREAD", *self._some("COUNT", self._count()), "STREAMS", *keys, *starts]

    def _delete(self) -> list[str]:
        return ["XDEL", self._key(), *self._ids()]

    def _trimmed(self) -> list[str]:
        return ["XTRIM", self._key(), *self._trim()]

    def _ack(self) -> list[str]:
        return ["XACK", self._key(), self._group(), *self._ids()]

    def _claim(self) -> list[str]:
        options = (
            self._some("FORCE")
            + self._some("JUSTID")
            + self._some("RETRYCOUNT", self._count())
            + self._some("LASTID", self._id())
            + self._some("IDLE", self._count())
        )
        idle = self._one("0", "0", "100000000", "x")
        return ["XCLAIM", self._key(), self._group(), self._consumer(), idle, *self._ids(), *options]

    def _autoclaim(self) -> list[str]:
        options = self._some("COUNT", self._count()) + self._some("JUSTID")
        who = [self._key(), self._group(), self._consumer()]
        return ["XAUTOCLAIM", *who, self._one("0", "0", "100000000"), self._bound(), *options]

    def _pending(self) -> list[str]:
        who = ["XPENDING", self._key(), self._group()]
        if self._random.random() < 0.3:
            return who
        idle = self._some("IDLE", self._one("0", "100000000"))
        return [*who, *idle, self._bound(), self._bound(), self._count(), *self._some(self._consumer())]

    def _info(self) -> list[str]:
        match self._random.randrange(4):
            case 0:
                return ["XINFO", "STREAM", self._key()]
            case 1:
                return ["XINFO", "STREAM", self._key(), "FULL", *self._some("COUNT", self._count())]
            case 2:
                return ["XINFO", "GROUPS", self._key()]
            case _:
                return ["XINFO", "CONSUMERS", self._key(), self._group()]

    def _group_change(self) -> list[str]:
        key, group = self._key(), self._group()
        match self._random.randrange(4):
            case 0:
                return ["XGROUP", "SETID", key, group, self._id(), *self._some("ENTRIESREAD", self._count())]
            case 1:
                return ["XGROUP", "DESTROY", key, group]
            case 2:
                return ["XGROUP", "CREATECONSUMER", key, group, self._consumer()]
            case _:
                return ["XGROUP", "DELCONSUMER", key, group, self._consumer()]

    def _setid(self) -> list[str]:
        options = self._some("ENTRIESADDED", self._count()) + self._some("MAXDELETEDID", self._id())
        return ["XSETID", self._key(), self._id(), *options]

    def _key_commands(self) -> list[str]:
        match self._random.randrange(6):
            case 0:
                return ["XLEN", self._key()]
            case 1:
                return ["EXISTS", "a", "b", "a"]
            case 2:
                return ["TYPE", self._key()]
            case 3:
                return [self._one("DEL", "UNLINK"), self._key()]
            case _:
                return ["XLEN", self._key()]


@pytest.mark.parametrize("proto", [2, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_commands_are_answered_as_redis_answers_them(
    server: ServerProcess, seed: int, proto: int
) -> None:
    commands, logs, client = Commands(seed), Logs(proto), Client(server, proto)
    said: list[str] = []
    try:
        for _ in range(COMMANDS):
            command = commands.next()
            wanted = without_times(command, client.run(command))
            got = without_times(command, parsed(logs.run(*command)))
            said.append(f"{b' '.join(command).decode()}  ->  {wanted}")
            assert got == wanted, "\n".join(said[-25:])
        for key in list(logs.logs):
            assert logs.folded(key).snapshot() == _unseen(logs, key)
    finally:
        client.close()


def _unseen(logs: Logs, key: bytes) -> object:
    """The state without what is not recorded: when a consumer was last seen."""
    recorded, log = logs.folded(key), logs.logs[key]
    for name, group in log.groups.items():
        for consumer in group.consumers.values():
            consumer.seen_ms = recorded.groups[name].consumers[consumer.name].seen_ms
    return log.snapshot()
