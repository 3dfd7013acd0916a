"""XREAD BLOCK of many sessions as one shared read: each gets the same replies, in the same order, as by itself.

Three hubs get the same bytes, turn by turn: one that shares nothing, one that shares in Python, and one where the
compiled part lets sessions join.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from equipoise.access import Users
from hub.log_world import LogWorld
from hub.test_gathered_adds import log_wire_world
from hub.test_wires import WireClient, _Refusing, needs_wires
from hub.world import FakeClient, pipeline, request

CLIENTS = 4
_WAIT = ["XREAD", "BLOCK", "0", "STREAMS", "t", "1-1"]

reads = st.builds(
    lambda verb, count, block, topic, start: [verb, *count, "BLOCK", block, "STREAMS", topic, start],
    st.sampled_from(("XREAD", "XREAD", "XREAD", "xread", "Xread")),
    st.sampled_from(([], [], ["COUNT", "1"])),
    st.sampled_from(("0", "0", "5", "x")),
    st.sampled_from(("t", "t", "t", "u", "$lane/x")),
    st.sampled_from(("1-1", "1-1", "2-1", "0", "$", "nonsense")),
)
others = st.sampled_from(
    [
        ["XADD", "t", "1-1", "f", "v"],
        ["XADD", "t", "2-1", "f", "v"],
        ["XADD", "t", "3-1", "f", "v"],
        ["XADD", "u", "1-2", "f", "v"],
        ["XDEL", "t", "2-1"],
        ["DEL", "t"],
        ["PING"],
        ["HELLO", "3"],
        ["SUBSCRIBE", "c"],
        ["MULTI"],
        ["EXEC"],
        ["CLIENT", "REPLY", "OFF"],
        ["QUIT"],
    ]
)
chunks = st.builds(
    lambda commands, cut: pipeline(commands)[: cut or None],
    st.lists(st.one_of(reads, others), min_size=1, max_size=3),
    st.one_of(st.none(), st.none(), st.integers(1, 80)),
)
# What each client sends in a turn, how long it takes, and whether all is committed afterwards.
turns = st.tuples(
    st.dictionaries(st.integers(0, CLIENTS - 1), chunks, min_size=1),
    st.sampled_from((0.001, 0.001, 0.006)),
    st.booleans(),
)
_READ, _ADD = request(*_WAIT), request("XADD", "t", "2-1", "f", "v")


@needs_wires
@settings(derandomize=True, max_examples=80, deadline=None)
@given(st.lists(turns, min_size=1, max_size=8))
@example([({0: _READ, 1: _READ, 2: _READ}, 0.001, True), ({3: _ADD}, 0.001, True)])
@example(
    [
        ({0: _READ}, 0.001, True),
        ({1: _READ, 2: _READ}, 0.001, True),
        ({2: request("PING"), 3: _ADD}, 0.001, False),
        ({1: _READ}, 0.001, True),
    ]
)
def test_shared_or_not_sessions_get_the_same(
    sent: list[tuple[dict[int, bytes], float, bool]],
) -> None:
    alone, shared = LogWorld(), LogWorld()
    alone.core.commands.combine = lambda *given: False  # type: ignore[method-assign]  # the safeguard under test
    both = [[world.client() for _ in range(CLIENTS)] for world in (alone, shared)]
    with log_wire_world() as wired:
        clients = [WireClient(wired) for _ in range(CLIENTS)]
        for world in (alone, shared, wired):
            _open(world)
        for by_client, wait_s, is_committed in sent:
            for number, chunk in by_client.items():
                for each in both:
                    each[number].send_raw(chunk)
                clients[number].put_raw(chunk)
            wired.turn()
            for world in (alone, shared, wired):
                world.advance(wait_s)
                if is_committed:
                    world.confirm()
            wired.turn()
        for world in (alone, shared, wired):
            world.confirm()
        wired.turn()
        for client, one, other in zip(clients, *both, strict=True):
            assert client.read() == bytes(one.wire.sent) == bytes(other.wire.sent)
        assert wired.core.stats == alone.core.stats == shared.core.stats


def _open(world: LogWorld) -> None:
    """So that opening logs is not part of the comparison."""
    logs = world.core.logs
    assert logs is not None
    for name in (b"t", b"u"):
        logs.of(name)
        world.confirm()


def _waiting(world: LogWorld, count: int) -> list[FakeClient]:
    publisher = world.client()
    world.do(publisher, "XADD", "t", "1-1", "f", "v")
    readers = [world.client() for _ in range(count)]
    for reader in readers:
        reader.send(*_WAIT)
    return [publisher, *readers]


def test_a_hundred_readers_are_one_read_and_one_reply() -> None:
    world = LogWorld()
    publisher, *readers = _waiting(world, 100)
    logs = world.core.logs
    assert logs is not None
    assert len(logs.waiting) == len(logs.shared) == 1
    assert len(logs.of(b"t").readers) == 1
    assert logs.facts()["log_reads_waiting"] == logs.blocked_clients == 100
    world.do(publisher, "XADD", "t", "2-1", "f", "w")
    (first,) = readers[0].read()
    assert first == [[b"t", [[b"2-1", [b"f", b"w"]]]]]
    assert all(reader.read() == [first] for reader in readers[1:])
    assert not logs.waiting and not logs.shared and not logs.of(b"t").readers


def test_no_session_joins_between_wake_up_and_reply() -> None:
    """1. A reader waits. 2. An entry is added, not committed. 3. Another one. 4. A second reader asks the same."""
    world = LogWorld()
    publisher, reader = _waiting(world, 1)
    late = world.client()
    publisher.send("XADD", "t", "2-1", "f", "v")
    world.advance()
    publisher.send("XADD", "t", "3-1", "f", "v")
    late.send(*_WAIT)
    world.confirm()
    assert [at for at, _ in reader.read()[0][0][1]] == [b"2-1"]
    assert [at for at, _ in late.read()[0][0][1]] == [b"2-1", b"3-1"]


def test_no_entry_is_sent_before_it_is_committed() -> None:
    world = LogWorld()
    publisher, *readers = _waiting(world, 3)
    publisher.send("XADD", "t", "2-1", "f", "v")
    world.advance(1.0)
    assert all(reader.read() == [] for reader in readers)
    world.confirm()
    assert all(len(reader.read()) == 1 for reader in readers)


def test_a_read_ends_with_its_last_session() -> None:
    world = LogWorld()
    _, *readers = _waiting(world, 3)
    logs = world.core.logs
    assert logs is not None
    readers[1].send("PING")
    for reader in readers:
        assert logs.waiting and logs.of(b"t").readers
        reader.wire.abort()
        world.advance()
    assert not logs.waiting and not logs.shared and not logs.of(b"t").readers
    assert not world.core.sessions or len(world.core.sessions) == 1


def test_each_session_waits_for_its_own_timeout() -> None:
    world = LogWorld()
    publisher = world.client()
    world.do(publisher, "XADD", "t", "1-1", "f", "v")
    first, second, third = (world.client() for _ in range(3))
    words = ["XREAD", "BLOCK", "1000", "STREAMS", "t", "1-1"]
    first.send(*words)
    world.advance(0.5)
    second.send(*words)
    third.send(*words)
    third.send("PING")
    world.advance(0.6)
    assert first.read() == [None] and second.read() == third.read() == []
    world.advance(0.5)
    assert second.read() == [None] and third.read() == [None, b"PONG"]
    logs = world.core.logs
    assert logs is not None and not logs.waiting and not logs.shared


def test_a_session_that_loses_its_permission_gets_an_error_at_once() -> None:
    world = LogWorld()
    _, *readers = _waiting(world, 2)
    readers[1].send("PING")
    logs = world.core.logs
    assert logs is not None
    world.core.users = _Closed(world.core.users)  # type: ignore[assignment]  # only what rules allow
    for reader in readers:
        reader.session.user = None
    logs.reauthorize()
    world.advance()
    assert [str(reader.read()[0])[:6] for reader in readers] == ["NOPERM"] * 2
    assert not logs.waiting and not logs.shared


class _Closed:
    """A hub that has rules."""

    is_open = False

    def __init__(self, users: Users) -> None:
        self._users = users

    def __getattr__(self, name: str) -> object:
        return getattr(self._users, name)


@needs_wires
def test_the_request_of_a_read_that_waits_is_not_parsed() -> None:
    """Else the comparison above would compare one way with itself."""
    with log_wire_world() as world:
        clients = [WireClient(world) for _ in range(4)]
        clients[0].send_raw(pipeline([["XADD", "t", "1-1", "f", "v"]]))
        world.confirm()
        clients[0].read()
        clients[1].send_raw(_READ)
        readers = [client.session._reader for client in clients]
        for client in clients:
            client.session._reader = _Refusing(client.session._reader)
        clients[2].send_raw(_READ)
        clients[3].send_raw(_READ)
        for client, reader in zip(clients, readers, strict=True):
            client.session._reader = reader
        assert all(client.session.is_busy for client in clients[1:])
        clients[0].send_raw(_ADD)
        world.confirm()
        answers = [client.read() for client in clients[1:]]
        assert answers[0] and answers == [answers[0]] * 3
