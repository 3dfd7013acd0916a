"""redis-py's stream commands work with a hub with logs as with Redis, in RESP2 and RESP3."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from conformance.conftest import Servers
from support.processes import ServerProcess

PATIENCE_S = 30.0
SERVERS = ["hub", pytest.param("redis", marks=pytest.mark.needs_redis)]
_serial = itertools.count()


@pytest.fixture
def key() -> str:
    """A name that no other test uses on the shared servers."""
    return f"streams-{next(_serial)}"


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, servers: Servers) -> ServerProcess:
    return servers.get(request.param, "logs")


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def client(request: pytest.FixtureRequest, server: ServerProcess) -> Iterator[Any]:
    with ExitStack() as stack:
        yield stack.enter_context(
            redis.Redis(host=server.host, port=server.port, protocol=request.param, socket_timeout=PATIENCE_S)
        )


def entries(found: Any) -> Any:
    """The entries of the one stream that was read; RESP3 has a map of lists of lists, RESP2 a list of pairs."""
    if isinstance(found, dict):
        (rows,) = found.values()
        return rows[0] if rows and isinstance(rows[0], list) else rows
    return found[0][1]


def parts(at: bytes) -> tuple[int, ...]:
    return tuple(map(int, at.split(b"-")))


def test_entries_are_added_and_read_in_order(client: Any, key: str) -> None:
    ids = [client.xadd(key, {"n": number, "name": f"é{number}"}) for number in range(10)]
    assert ids == sorted(ids, key=parts)
    assert client.xlen(key) == 10
    assert [at for at, _ in client.xrange(key)] == ids
    assert [at for at, _ in client.xrevrange(key, count=3)] == ids[:-4:-1]
    assert client.xrange(key, min=ids[4], max=ids[4])[0][1] == {b"n": b"4", b"name": "é4".encode()}
    assert client.type(key) == b"stream"


def test_a_pipeline_and_a_transaction_are_answered_in_order(client: Any, key: str) -> None:
    for is_transaction in (False, True):
        with client.pipeline(transaction=is_transaction) as pipe:
            for _ in range(50):
                pipe.xadd(key, {"f": "v"})
            pipe.xlen(key)
            *ids, length = pipe.execute()
        assert ids == sorted(ids, key=parts)
        assert length == (100 if is_transaction else 50)


def test_a_blocked_read_gets_entries_added_later(client: Any, key: str, server: ServerProcess) -> None:
    first = client.xadd(key, {"n": 1})
    found: list[Any] = []

    def wait() -> None:
        found.append(client.xread({key: first}, block=0))

    reader = threading.Thread(target=wait)
    reader.start()
    with redis.Redis(host=server.host, port=server.port) as other:
        second = other.xadd(key, {"n": 2})
    reader.join(PATIENCE_S)
    assert [at for at, _ in entries(found[0])] == [second]


def test_consumers_of_a_group_share_entries_and_take_over_from_each_other(client: Any, key: str) -> None:
    client.xgroup_create(key, "g", id="0", mkstream=True)
    ids = [client.xadd(key, {"n": number}) for number in range(6)]
    first = entries(client.xreadgroup("g", "alice", {key: ">"}, count=4))
    second = entries(client.xreadgroup("g", "bob", {key: ">"}))
    assert [at for at, _ in first] + [at for at, _ in second] == ids
    assert client.xack(key, "g", *ids[:2]) == 2
    assert client.xpending(key, "g")["pending"] == 4
    assert [row["message_id"] for row in client.xpending_range(key, "g", "-", "+", 10, "alice")] == ids[2:4]
    claimed = client.xautoclaim(key, "g", "bob", 0)
    assert [at for at, _ in claimed[1]] == ids[2:]
    assert client.xclaim(key, "g", "alice", 0, [ids[2]], justid=True) == [ids[2]]
    facts = {row["name"]: row["pending"] for row in client.xinfo_consumers(key, "g")}
    assert facts == {b"alice": 1, b"bob": 3}
    (group,) = client.xinfo_groups(key)
    assert (group["entries-read"], group["lag"]) == (6, 0)
    assert client.xgroup_delconsumer(key, "g", "bob") == 3
    assert client.xgroup_destroy(key, "g") == 1


def test_logs_are_trimmed_and_deleted(client: Any, key: str) -> None:
    ids = [client.xadd(key, {"n": number}) for number in range(10)]
    assert client.xtrim(key, maxlen=8, approximate=False) == 2
    assert client.xdel(key, ids[5], ids[5], "1-1") == 1
    assert client.xtrim(key, minid=ids[4], approximate=False) == 2
    assert client.xinfo_stream(key)["length"] == 5
    client.xadd(key, {"n": 10}, maxlen=3, approximate=False)
    assert client.xlen(key) == 3
    assert client.exists(key) == 1
    assert client.delete(key) == 1
    assert client.exists(key) == 0


def test_errors_have_the_classes_that_redis_py_knows(client: Any, key: str) -> None:
    with pytest.raises(redis.ResponseError, match="requires the key to exist"):
        client.xgroup_create(key, "g")
    client.xgroup_create(key, "g", mkstream=True)
    with pytest.raises(redis.ResponseError, match="BUSYGROUP"):
        client.xgroup_create(key, "g")
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        client.xreadgroup("missing", "c", {key: ">"})
    with pytest.raises(redis.ResponseError, match="no such key"):
        client.xinfo_stream(f"{key}-missing")
