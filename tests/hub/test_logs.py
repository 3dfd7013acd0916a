"""Logs inside one hub: batching of appends, replies held until the commit, and the ends of waiting reads."""

from __future__ import annotations

import asyncio

from equipoise.hub.data.reply import REPLY_S
from hub.log_world import LogWorld
from hub.world import Error, FakeClient, World, pipeline, users

ALL = 'create = ["*"]\npublish = ["*"]\nsubscribe = ["*"]\ndurable = ["*"]\noperate = ["*"]'


def test_an_append_is_answered_when_it_is_committed() -> None:
    world = LogWorld()
    client = world.client()
    client.send("XADD", "t", "1-1", "f", "v")
    world.advance()
    assert client.read() == []
    world.confirm()
    assert client.read() == [b"1-1"]


def test_a_read_shows_nothing_that_is_not_committed() -> None:
    world = LogWorld()
    writer, reader = world.client(), world.client()
    writer.send("XADD", "t", "1-1", "f", "v")
    reader.send("XLEN", "t")
    world.advance()
    assert reader.read() == []
    world.confirm()
    assert reader.read() == [1]
    assert reader.do("XLEN", "t") == 1


def test_pipelined_appends_of_one_turn_are_one_append() -> None:
    world = LogWorld()
    client, other = world.client(), world.client()
    client.send_raw(pipeline(["XADD", "t", f"1-{n}", "f", "v"] for n in range(1, 101)))
    other.send("XADD", "t", "*", "f", "v")
    assert [len(run) for run in world.runs(b"t")] == [101]
    assert client.read() == [b"1-%d" % n for n in range(1, 101)]


def test_a_run_of_plain_appends_has_the_effects_of_single_ones() -> None:
    commands = [["XADD", "t", "*", "f", f"v{n}", "g", "x" * n] for n in range(40)]
    run, single = LogWorld(), LogWorld()
    client, other = run.client(), single.client()
    client.send_raw(pipeline(commands))
    for command in commands:
        other.send(*command)
    assert run.runs(b"t") == single.runs(b"t")
    ids = client.read()
    assert ids == other.read() and len(set(map(str, ids))) == 40
    assert client_sees(run, client) == client_sees(single, other)
    # Mixed with others, to several logs, or with options, they keep their order too.
    client.send_raw(
        pipeline(
            [
                ["XADD", "t", "*", "f", "v"],
                ["XLEN", "t"],
                ["XADD", "u", "*", "f", "v"],
                ["XADD", "t", "MAXLEN", "2", "*", "f", "v"],
                ["XLEN", "t"],
            ]
        )
    )
    run.confirm()
    replies = client.read()
    assert (replies[1], replies[4]) == (41, 2)


def client_sees(world: LogWorld, client: FakeClient) -> tuple[object, object]:
    return world.do(client, "XRANGE", "t", "-", "+"), world.do(client, "XLEN", "t")


def test_a_run_of_appends_ends_where_the_ids_do() -> None:
    world = LogWorld()
    client = world.client()
    most = 2**64 - 1
    world.do(client, "XADD", "t", f"{most}-{most - 2}", "f", "v")
    client.send_raw(pipeline(["XADD", "t", "*", "f", "v"] for _ in range(4)))
    world.confirm()
    first, second, *rest = client.read()
    assert (first, second) == (b"%d-%d" % (most, most - 1), b"%d-%d" % (most, most))
    assert [isinstance(reply, Error) for reply in rest] == [True, True]
    assert world.do(client, "XLEN", "t") == 3


def test_a_transaction_is_one_append_and_is_not_mixed_with_what_came_before() -> None:
    world = LogWorld()
    client = world.client()
    client.send_raw(
        pipeline(
            [
                ["XADD", "t", "1-1", "f", "v"],
                ["MULTI"],
                ["XADD", "t", "1-2", "f", "v"],
                ["XGROUP", "CREATE", "t", "g", "0"],
                ["XREAD", "BLOCK", "0", "STREAMS", "t", "1-1"],
                ["XADD", "t", "1-2", "f", "again"],
                ["EXEC"],
            ]
        )
    )
    world.confirm()
    world.confirm()
    assert [len(run) for run in world.runs(b"t")] == [1, 2]
    *_, last = client.read()
    assert last[:2] == [b"1-2", b"OK"]
    assert last[2] == [[b"t", [[b"1-2", [b"f", b"v"]]]]]
    assert "equal or smaller" in last[3]


def test_a_transaction_on_a_log_does_not_yield() -> None:
    world = LogWorld()
    client = world.client()
    world.do(client, "XADD", "t", "1-1", "f", "v")
    client.do("MULTI")
    for number in range(100):
        client.send("XADD", "t", f"2-{number}", "f", "v")
    client.read()
    world.shell.tick_s = 0.001
    client.send("EXEC")
    world.shell.tick_s = 0.0
    assert [len(run) for run in world.runs(b"t")] == [1, 100]


def test_a_failed_append_is_uncertain_and_the_log_continues_from_the_stored_entries() -> None:
    """1. A client's append is in flight when another hub fences the ledger; it was stored.
    2. The client gets UNCERTAIN.
    3. The log is opened again, and shows the entry.
    """
    world = LogWorld()
    client = world.client()
    world.do(client, "XADD", "t", "1-1", "f", "v")
    client.send("XADD", "t", "1-2", "f", "v")
    world.advance()
    asyncio.run(world.ledgers.recover(world.opened[b"t"][-1].ledger))
    world.confirm()
    (reply,) = client.read()
    assert isinstance(reply, Error)
    assert reply.startswith("UNCERTAIN")
    assert world.do(client, "XLEN", "t") == 2
    assert len(world.opened[b"t"]) == 2


def test_commands_wait_while_a_log_is_opened_and_keep_their_order() -> None:
    world = LogWorld()
    world.opens = False
    client = world.client()
    client.send_raw(pipeline([["XADD", "t", "1-1", "f", "v"], ["XADD", "t", "1-2", "f", "v"], ["XLEN", "t"]]))
    world.confirm()
    assert client.read() == []
    world.open_logs()
    world.confirm()
    assert client.read() == [b"1-1", b"1-2", 2]


def test_a_log_that_cannot_be_opened_refuses_after_a_while_and_stores_nothing() -> None:
    world = LogWorld()
    world.opens = False
    client = world.client()
    client.send("XADD", "t", "1-1", "f", "v")
    world.to_open[0].not_opened("no bookies")
    world.advance(REPLY_S + 1)
    (reply,) = client.read()
    assert reply.startswith("TRYAGAIN")
    assert "no bookies" in reply
    world.open_logs()
    assert world.do(client, "XLEN", "t") == 0


def test_a_command_rejected_on_several_logs_is_not_run_later() -> None:
    """1. A log cannot be opened, and the time of a DEL is up.
    2. The log is opened: it still has its entries.
    """
    world = LogWorld()
    client = world.client()
    world.do(client, "XADD", "t", "1-1", "f", "v")
    asyncio.run(world.ledgers.recover(world.opened[b"t"][-1].ledger))
    world.opens = False
    client.send("XADD", "t", "1-2", "f", "v")
    world.confirm()
    client.read()
    client.send("DEL", "t", "t")
    world.to_open[0].not_opened("no bookies")
    world.advance(REPLY_S + 1)
    (reply,) = client.read()
    assert reply.startswith("TRYAGAIN topic t")
    world.open_logs()
    assert world.do(client, "XLEN", "t") == 1


def test_a_command_executed_on_some_of_several_logs_is_uncertain() -> None:
    world = LogWorld()
    client = world.client()
    world.do(client, "XADD", "t", "1-1", "f", "v")
    world.opens = False
    client.send("DEL", "t", "u")
    world.confirm()
    world.advance(REPLY_S + 1)
    (reply,) = client.read()
    assert reply.startswith("UNCERTAIN not all")


def test_a_delete_of_a_disconnected_client_is_not_run_later() -> None:
    world = LogWorld()
    client = world.client()
    world.do(client, "XADD", "t", "1-1", "f", "v")
    asyncio.run(world.ledgers.recover(world.opened[b"t"][-1].ledger))
    world.opens = False
    client.send("XADD", "t", "1-2", "f", "v")
    world.confirm()
    client.read()
    client.send("DEL", "t")
    client.wire.abort()
    world.open_logs()
    assert world.do(world.client(), "XLEN", "t") == 1


def test_nothing_is_acknowledged_while_the_lease_has_run_out() -> None:
    world = LogWorld()
    client = world.client()
    world.do(client, "XADD", "t", "1-1", "f", "v")
    world.is_leased = False
    client.send("XADD", "t", "1-2", "f", "v")
    world.confirm()
    world.advance(1)
    assert client.read() == []
    world.is_leased = True
    world.advance(1)
    assert client.read() == [b"1-2"]


def test_without_the_store_a_read_waits_for_an_append_that_came_after_it() -> None:
    world = LogWorld()
    client, reader = world.client(), world.client()
    world.do(client, "XADD", "t", "1-1", "f", "v")
    world.is_sole = False
    reader.send("XLEN", "t")
    world.advance()
    assert reader.read() == []
    world.confirm()
    assert reader.read() == [1]
    assert world.runs(b"t")[-1] == []
    # In flight, and possibly confirmed before another hub fenced the ledger.
    client.send("XADD", "t", "1-2", "f", "v")
    world.advance()
    reader.send("XLEN", "t")
    world.advance()
    world.confirm_one()
    assert client.read() == [b"1-2"]
    assert reader.read() == []
    world.confirm()
    assert reader.read() == [2]


def test_without_the_store_nothing_old_is_read_once_another_hub_has_the_log() -> None:
    world = LogWorld()
    client = world.client()
    world.do(client, "XADD", "t", "1-1", "f", "v")
    world.is_sole = world.opens = False
    asyncio.run(world.ledgers.recover(world.opened[b"t"][-1].ledger))
    client.send("XLEN", "t")
    world.confirm()
    (reply,) = client.read()
    assert str(reply).startswith("UNCERTAIN")


def test_waiting_reads_get_committed_entries_in_the_order_of_waiting() -> None:
    world = LogWorld()
    first, second, writer = world.client(), world.client(), world.client()
    world.do(writer, "XGROUP", "CREATE", "t", "g", "$", "MKSTREAM")
    for client, name in ((first, "c"), (second, "d")):
        client.send("XREADGROUP", "GROUP", "g", name, "COUNT", "1", "BLOCK", "0", "STREAMS", "t", ">")
    world.advance()
    writer.send("XADD", "t", "1-1", "f", "v")
    world.advance()
    assert first.read() == []
    world.confirm()
    assert first.read() == [[[b"t", [[b"1-1", [b"f", b"v"]]]]]]
    assert second.read() == []
    assert writer.read() == [b"1-1"]
    world.do(writer, "XADD", "t", "1-2", "f", "v")
    assert second.read() == [[[b"t", [[b"1-2", [b"f", b"v"]]]]]]
    assert world.core.logs is not None
    assert not world.core.logs.waiting


def test_commands_behind_a_waiting_read_wait_too() -> None:
    world = LogWorld()
    client, writer = world.client(), world.client()
    client.send("XREAD", "BLOCK", "0", "STREAMS", "t", "$")
    client.send("PING")
    world.advance(60)
    assert client.read() == []
    world.do(writer, "XADD", "t", "1-1", "f", "v")
    world.advance()
    assert client.read() == [[[b"t", [[b"1-1", [b"f", b"v"]]]]], b"PONG"]


def test_a_read_that_times_out_is_answered_with_null_and_removed() -> None:
    world = LogWorld()
    client = world.client()
    client.send("XREAD", "BLOCK", "5000", "STREAMS", "t", "$")
    world.advance(4.9)
    assert client.read() == []
    world.advance(0.2)
    assert client.read() == [None]
    assert world.core.logs is not None
    assert not world.core.logs.of(b"t").readers


def test_a_disconnected_client_has_no_waiting_read() -> None:
    world = LogWorld()
    client, writer = world.client(), world.client()
    world.do(writer, "XGROUP", "CREATE", "t", "g", "$", "MKSTREAM")
    client.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "t", ">")
    world.advance()
    world.core.leave(client.session)
    world.do(writer, "XADD", "t", "1-1", "f", "v")
    assert world.do(writer, "XPENDING", "t", "g") == [0, None, None, None]


def test_a_waiting_consumer_gets_an_error_when_its_group_is_deleted() -> None:
    world = LogWorld()
    client, writer = world.client(), world.client()
    world.do(writer, "XGROUP", "CREATE", "t", "g", "$", "MKSTREAM")
    client.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "t", ">")
    world.do(writer, "XGROUP", "DESTROY", "t", "g")
    (reply,) = client.read()
    assert reply.startswith("NOGROUP")


def test_each_command_needs_its_grant() -> None:
    lists = {
        "writer": 'create = ["t"]\npublish = ["t", "u"]',
        "reader": 'subscribe = ["t"]',
        "consumer": 'subscribe = ["t"]\ndurable = ["t"]\ncreate = ["t"]',
    }
    world = LogWorld(root=ALL, **lists)
    writer, reader, consumer = (world.client(user=name) for name in lists)
    root = world.client(user="root")
    assert world.do(writer, "XADD", "t", "1-1", "f", "v") == b"1-1"
    assert world.do(writer, "XADD", "u", "1-1", "f", "v") == "NOPERM user 'writer' may not create 'u'"
    assert world.do(writer, "XLEN", "t") == "NOPERM user 'writer' may not subscribe 't'"
    assert world.do(reader, "XLEN", "t") == 1
    assert world.do(reader, "XADD", "t", "*", "f", "v") == "NOPERM user 'reader' may not publish 't'"
    assert world.do(reader, "XGROUP", "CREATE", "t", "g", "0") == "NOPERM user 'reader' may not durable 't'"
    assert world.do(consumer, "XGROUP", "CREATE", "t", "g", "0") == b"OK"
    assert world.do(consumer, "DEL", "t") == "NOPERM user 'consumer' may not operate 't'"
    assert (
        world.do(reader, "XREAD", "STREAMS", "t", "u", "0", "0")
        == "NOPERM user 'reader' may not subscribe 'u'"
    )
    assert world.do(root, "DEL", "t", "u") == 1


def test_a_revocation_ends_a_read_that_waits() -> None:
    world = LogWorld(reader='subscribe = ["t"]')
    client = world.client(user="reader")
    client.send("XREAD", "BLOCK", "0", "STREAMS", "t", "$")
    world.advance()
    world.core.reload_users(users(reader='subscribe = ["u"]'))
    world.advance()
    assert client.read() == ["NOPERM user 'reader' may not subscribe 't'"]


def test_a_reply_ends_where_it_is_full() -> None:
    world = LogWorld()
    client = world.client()
    payload = "x" * 900_000
    for number in range(1, 13):
        world.do(client, "XADD", "t", f"1-{number}", "f", payload)
    found = client.do("XRANGE", "t", "-", "+")
    assert 8 <= len(found) < 12
    rest = client.do("XRANGE", "t", f"({found[-1][0].decode()}", "+")
    assert len(found) + len(rest) == 12


def test_a_hub_without_storage_for_logs_replies_with_an_error() -> None:
    client = World().client()
    for words in (("XADD", "t", "*", "f", "v"), ("XREAD", "STREAMS", "t", "0"), ("DEL", "t")):
        assert "--data" in client.do(*words)


def test_metrics_count_logs_entries_and_outcomes_of_appends() -> None:
    world = LogWorld()
    client = world.client()
    assert world.do(client, "XADD", "t", "1-1", "f", "v") == b"1-1"
    client.send("XADD", "t", "1-2", "f", "v")
    logs = world.core.logs
    assert logs is not None
    world.shell.advance(2.0)
    world.confirm()
    found = logs.facts()
    assert (found["logs_open"], found["logs_opening"], found["log_entries"]) == (1, 0, 2)
    assert (found["log_commits"], found["log_failures"]) == (2, 0)
    assert found["log_commit_s"] == 2.0 and found["log_bytes"] > 0
    reader = world.client()
    reader.send("XREAD", "BLOCK", "0", "STREAMS", "t", "$")
    world.confirm()
    assert logs.facts()["log_reads_waiting"] == 1
