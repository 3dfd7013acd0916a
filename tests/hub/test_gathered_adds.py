"""XADDs batched by the compiled part have the same effects, replies and counters as single ones in Python.

Both ways get the same bytes, turn by turn; in the compiled one several clients have something in the same turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equipoise.hub.data.reply import REPLY_S
from equipoise.hub.shell import listening
from hub.log_world import LogWorld
from hub.test_wires import WireClient, WireWorld, _Refusing, needs_wires
from hub.world import Error, pipeline

CLIENTS = 4


class LogWireWorld(WireWorld, LogWorld):
    """Logs in memory, clients at the other ends of real sockets."""

    def turn(self) -> None:
        super().turn()
        # Epoll checks the sockets that it reported last first: a turn without events resets the order.
        self.poller.run()


@contextmanager
def log_wire_world(**grants: str) -> Iterator[LogWireWorld]:
    world = LogWireWorld(**grants)
    try:
        yield world
        assert world.problems == []
    finally:
        world.close()


adds = st.builds(
    lambda verb, topic, fields, size: [verb, topic, "*", *(["f", "x" * size] * fields)],
    st.sampled_from(("XADD", "XADD", "XADD", "xadd", "Xadd")),
    st.sampled_from(("t", "t", "t", "u", "", "eq:x")),
    st.sampled_from((1, 1, 2, 0)),
    st.sampled_from((0, 1, 10, 100)),
)
others = st.sampled_from(
    [
        ["PING"],
        ["XLEN", "t"],
        ["XADD", "t", "MAXLEN", "2", "*", "f", "v"],
        ["XADD", "t", "1-1", "f", "v"],
        ["XADD", "t", "*", "f"],
        ["DEL", "t"],
        ["PUBLISH", "t", "x"],
        ["SUBSCRIBE", "c"],
        ["MULTI"],
        ["EXEC"],
        ["CLIENT", "REPLY", "OFF"],
        ["CLIENT", "REPLY", "ON"],
        ["QUIT"],
    ]
)
chunks = st.builds(
    lambda commands, cut: pipeline(commands)[: cut or None],
    st.lists(st.one_of(adds, adds, adds, others), min_size=1, max_size=5),
    st.one_of(st.none(), st.none(), st.integers(1, 80)),
)
# What each client sends in a turn, and whether all is committed afterwards.
turns = st.tuples(st.dictionaries(st.integers(0, CLIENTS - 1), chunks, min_size=1), st.booleans())


@needs_wires
@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.lists(turns, min_size=1, max_size=8))
@example(
    [
        (
            {0: pipeline([["XADD", "t", "*", "f", "v"]]), 1: pipeline([["XADD", "t", "*", "f", "w"]] * 3)},
            False,
        ),
        ({0: pipeline([["XLEN", "t"], ["XADD", "t", "*", "f", "v"]]), 2: pipeline([["DEL", "t"]])}, False),
    ]
)
def test_both_ways_add_answer_and_count_alike(sent: list[tuple[dict[int, bytes], bool]]) -> None:
    reference = LogWorld()
    expected = [reference.client() for _ in range(CLIENTS)]
    with log_wire_world() as world:
        clients = [WireClient(world) for _ in range(CLIENTS)]
        for by_client, is_committed in sent:
            for number, chunk in by_client.items():
                expected[number].send_raw(chunk)
                clients[number].put_raw(chunk)
            world.turn()
            for each in (reference, world):
                each.advance(0.001)
                if is_committed:
                    each.confirm()
            world.turn()
        for each in (reference, world):
            each.confirm()
        world.turn()
        for client, other in zip(clients, expected, strict=True):
            assert client.read() == bytes(other.wire.sent)
            assert client.session.is_closing == other.session.is_closing
        assert world.core.stats == reference.core.stats
        for topic in set(reference.opened) | set(world.opened):
            both = [list(chain.from_iterable(each.runs(topic))) for each in (world, reference)]
            assert both[0] == both[1]


@needs_wires
def test_plain_adds_of_a_turn_are_one_call_and_one_append() -> None:
    """Else the comparison above would compare one way with itself."""
    with log_wire_world() as world:
        clients = [WireClient(world) for _ in range(3)]
        clients[0].send_raw(pipeline([["XADD", "t", "1-1", "f", "v"]]))
        world.confirm()
        readers = [client.session._reader for client in clients]
        for client in clients:
            client.session._reader = _Refusing(client.session._reader)
        clients[2].put_raw(pipeline([["XADD", "t", "*", "f", "c"]]))
        clients[0].put_raw(pipeline([["XADD", "t", "*", "f", "a"]]))
        clients[1].put_raw(pipeline([["XADD", "t", "*", "f", "b"], ["xadd", "t", "*", "f", "b", "g", "b"]]))
        world.turn()
        assert clients[1].session.is_busy and clients[1].read() == b""
        world.confirm()
        for client, reader in zip(clients, readers, strict=True):
            client.session._reader = reader
        assert [len(run) for run in world.runs(b"t")] == [1, 4]
        assert [client.read().count(b"$15\r\n") for client in clients] == [1, 2, 1]
        assert not any(client.session.is_busy for client in clients)
        # What looks after them ends a moment later.
        world.advance(1.0)
        assert world.shell.timers_pending == 0


@needs_wires
def test_permissions_are_checked_if_there_are_users() -> None:
    with log_wire_world(writer='create = ["*"]\npublish = ["*"]', reader='subscribe = ["*"]') as world:
        writer, reader = WireClient(world, user="writer"), WireClient(world, user="reader")
        for client in (writer, reader):
            client.put_raw(pipeline([["XADD", "t", "*", "f", "v"]] * 2))
        world.turn()
        world.confirm()
        assert (writer.read().count(b"$15"), reader.read().count(b"-NOPERM")) == (2, 2)


@needs_wires
def test_a_failed_append_is_uncertain_for_each_command() -> None:
    with log_wire_world() as world:
        one, several, gone = WireClient(world), WireClient(world), WireClient(world)
        one.send_raw(pipeline([["XADD", "t", "1-1", "f", "v"]]))
        world.confirm()
        one.put_raw(pipeline([["XADD", "t", "*", "f", "v"]]))
        several.put_raw(pipeline([["XADD", "t", "*", "f", "v"]] * 3))
        gone.put_raw(pipeline([["XADD", "t", "*", "f", "v"]]))
        world.turn()
        world.core.cut(gone.session, "it is too slow")
        world.advance()
        asyncio.run(world.ledgers.recover(world.opened[b"t"][-1].ledger))
        world.confirm()
        assert [each.read().count(b"-UNCERTAIN") for each in (one, several, gone)] == [1, 3, 0]


@needs_wires
def test_an_append_that_the_ledger_refuses_at_once_is_uncertain_for_each_command() -> None:
    with log_wire_world() as world:
        one, several = WireClient(world), WireClient(world)
        one.send_raw(pipeline([["XADD", "t", "1-1", "f", "v"]]))
        world.confirm()
        asyncio.run(world.opened[b"t"][-1].close())
        one.put_raw(pipeline([["XADD", "t", "*", "f", "v"]]))
        several.put_raw(pipeline([["XADD", "t", "*", "f", "v"]] * 3))
        world.turn()
        assert [each.read().count(b"-UNCERTAIN") for each in (one, several)] == [1, 3]
        assert not one.session.is_busy and not several.session.is_busy


@needs_wires
def test_a_missing_reply_expires_in_its_place() -> None:
    with log_wire_world() as world:
        quiet, busy = WireClient(world), WireClient(world)
        quiet.send_raw(pipeline([["XADD", "t", "1-1", "f", "v"]]))
        world.confirm()
        for client in (quiet, busy):
            client.put_raw(pipeline([["XADD", "t", "*", "f", "v"]] * 2))
        world.turn()
        busy.send_raw(pipeline([["XLEN", "t"], ["PING"]]))
        world.advance(REPLY_S - 0.5)
        assert busy.read() == b""
        world.advance(2.0)
        assert [each.read().count(b"-UNCERTAIN") for each in (quiet, busy)] == [2, 3]
        assert busy.read().endswith(b"+PONG\r\n")
        world.confirm()
        # Nothing comes when it is too late.
        assert quiet.read().count(b"\r\n") == 4


def test_pipelined_adds_that_fail_are_uncertain_one_by_one() -> None:
    world = LogWorld()
    client = world.client()
    world.do(client, "XADD", "t", "1-1", "f", "v")
    client.send_raw(pipeline([["XADD", "t", "*", "f", "v"]] * 3))
    world.advance()
    asyncio.run(world.ledgers.recover(world.opened[b"t"][-1].ledger))
    world.confirm()
    replies = client.read()
    assert len(replies) == 3 and all(isinstance(reply, Error) for reply in replies)


@pytest.mark.skipif(listening.wires is None, reason="_sockets.c is not built")
def test_a_failed_call_ends_the_connections_of_its_commands() -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    world = LogWireWorld()
    try:
        world.poller = listening.wires.Poller(
            world.core, lambda call, *args: call(*args), world.problems.append
        )
        world.poller.gather(fail)
        client, other = WireClient(world), WireClient(world)
        client.send_raw(pipeline([["XADD", "t", "*", "f", "v"]]))
        assert client.session.is_closing and not other.session.is_closing
        assert [type(problem) for problem in world.problems] == [ZeroDivisionError]
    finally:
        world.close()
