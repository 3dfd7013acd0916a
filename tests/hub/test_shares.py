"""Clients over their share of the hub's time: who they are, and that the others do not wait for them."""

from __future__ import annotations

import pytest

from equipoise.hub.data.session import Session
from equipoise.hub.data.shares import CHECK_S, NOTED_S, MeteredInput, Shares
from equipoise.hub.data.turns import UngatheredTurns
from equipoise.hub.shell.accepted_connection import AcceptedConnection
from hub.test_wires import WireClient, WireWorld, needs_wires, wire_world
from hub.world import FakeShell, World, pipeline, request


class CountingTurns(UngatheredTurns):
    """Output turns that count how often they were told that the owners over their share have changed."""

    def __init__(self) -> None:
        self.renewed = 0

    def renew_shares(self) -> None:
        self.renewed += 1


def shares() -> tuple[FakeShell, Shares, CountingTurns]:
    shell = FakeShell(1 << 30)
    turns = shell.turns = CountingTurns()
    return shell, Shares(shell), turns


@pytest.mark.parametrize(
    ("use_s", "every_s", "is_over"),
    [
        (0.0003, 0.1, False),  # Little.
        (0.0005, 0.01, False),  # Exactly the free share.
        (0.0010, 0.01, True),  # Twice the free share.
        (0.0015, 1.0, False),  # A burst now and then.
        (0.0025, 1.0, True),  # A long burst.
        (1.0, 1.0, True),  # Everything.
    ],
)
def test_an_owner_is_over_its_share_by_what_it_uses(use_s: float, every_s: float, is_over: bool) -> None:
    shell, owners, _ = shares()
    for _ in range(50):
        number = owners.note("app", use_s)
        shell.advance(every_s / 2)
        shell.advance(every_s / 2)
    assert bool(number) == is_over


def test_an_owner_that_pauses_is_within_its_share_after_a_tenth_of_a_second() -> None:
    shell, owners, turns = shares()
    assert owners.note("flood", 100.0) == 1
    assert owners.note("other", NOTED_S) == 0
    assert list(owners.limited) == ["flood"] and turns.renewed == 1
    shell.advance(CHECK_S)
    assert list(owners.limited) == ["flood"]
    shell.advance(0.1)
    assert not owners.limited and turns.renewed == 2
    assert owners.note("flood", NOTED_S) == 0
    assert owners.note("flood", 100.0) == 2, "a new number"


def test_nothing_is_kept_of_owners_that_use_nothing() -> None:
    shell, owners, _ = shares()
    for number in range(100):
        owners.note(f"owner{number}", NOTED_S)
    assert shell.timers_pending == 1
    shell.advance(1.0)
    assert shell.timers_pending == 0 and not owners._uses


class TimedWorld(World):
    """A hub for which each ECHO is 20 µs of work."""

    def __init__(self) -> None:
        super().__init__()
        execute = self.core.commands.execute

        def timed(session, command):  # type: ignore[no-untyped-def]  # as Commands.execute
            self.shell.stall(20e-6)
            return execute(session, command)

        self.core.commands.execute = timed  # type: ignore[method-assign]  # only its time differs


def test_input_over_the_share_is_executed_in_short_turns() -> None:
    """
    1. A client sends 4,000 commands, 80 ms of work: from 2 ms on its turns are short.
    2. Another client of another address is answered at once meanwhile, and never waits longer than a short turn.
    3. All replies come, in order.
    """
    world = TimedWorld()
    flood, modest = world.client(), world.client()
    flood.session.address, modest.session.address = "192.0.2.7:1", "192.0.2.8:1"
    feed = MeteredInput(world.core.turns.shares, world.shell.work_s, flood.session)
    feed_modest = MeteredInput(world.core.turns.shares, world.shell.work_s, modest.session)
    for start in range(0, 4_000, 100):
        feed(pipeline(["ECHO", str(number)] for number in range(start, start + 100)))
        assert list(world.core.turns.shares.limited) in ([], ["192.0.2.7"])
        began_at = world.shell.work_s()
        world.shell.run_one()
        if start > 1_000:
            assert "192.0.2.7" in world.core.turns.shares.limited
            # A step is 16 commands.
            assert world.shell.work_s() - began_at < 0.001
        feed_modest(request("PING"))
        assert modest.read() == [b"PONG"]
    while flood.session.is_busy:
        world.advance(0.0)
    assert flood.read() == [b"%d" % number for number in range(4_000)]


def test_transports_other_than_wires_are_metered() -> None:
    world = World()
    metered = AcceptedConnection(world.core)
    assert isinstance(metered.data_received, MeteredInput)
    assert not hasattr(AcceptedConnection(world.core, is_on_wire=True), "data_received") or not isinstance(
        AcceptedConnection(world.core, is_on_wire=True).data_received, MeteredInput
    )


def sharing(world: WireWorld, owners: dict[str, int]) -> None:
    """Let the poller ask for the numbers of sessions by their address; ignore the reported times."""
    world.poller.share(
        lambda session, used_s: owners.get(session.address, 0),
        lambda session: owners.get(session.address, 0),
    )


@needs_wires
def test_a_wire_over_its_share_is_read_in_pieces_and_after_the_others() -> None:
    """
    1. A flood has 10,000 commands in its socket, a modest client one.
    2. The turn of the wires within their share answers the modest client, and nothing of the flood.
    3. Each turn of the others executes a small part of the flood, and answers the modest client at once.
    4. Within its share again, the flood is read as all others are; nothing is lost.
    """
    owners = {"flood": 1}
    with wire_world() as world:
        sharing(world, owners)
        flood, modest = WireClient(world), WireClient(world)
        flood.session.address = "flood"
        flood.put_raw(b"PING\r\n" * 10_000)
        modest.put_raw(request("PING"))
        world.poller.run()
        assert modest.read() == b"+PONG\r\n" and flood.read() == b""
        for number in range(2, 4):
            modest.put_raw(request("PING"))
            before = flood.read().count(b"PONG")
            world.poller.run_limited()
            assert 0 < flood.read().count(b"PONG") - before < 2_000
            assert modest.read() == b"+PONG\r\n" * number
        owners.clear()
        world.poller.renew_shares()
        for _ in range(1_000):
            world.poller.run_limited()
            world.advance()
            world.turn()
            if flood.read().count(b"PONG") == 10_000:
                break
        assert flood.read() == b"+PONG\r\n" * 10_000


@needs_wires
def test_wires_over_their_share_take_turns_by_owner() -> None:
    owners = {"crowd": 1, "other": 2}
    with wire_world() as world:
        sharing(world, owners)
        crowd = [WireClient(world) for _ in range(20)]
        other = WireClient(world)
        for client in crowd:
            client.session.address = "crowd"
        other.session.address = "other"
        for client in (*crowd, other):
            client.put_raw(b"PING\r\n" * 10_000)
        world.poller.run()
        for _ in range(40):
            world.poller.run_limited()
        answered = [client.read().count(b"PONG") for client in crowd]
        assert min(answered) > 0
        assert other.read().count(b"PONG") > 5 * max(answered)


@needs_wires
@pytest.mark.parametrize("payload_bytes", [10, 100, 3_000])
def test_a_piece_of_messages_ends_with_a_message(payload_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that a read cuts in two is joined in Python, at the cost of dozens of messages."""
    message = request("PUBLISH", "t", "x" * payload_bytes)
    count = 100_000 // len(message)
    joined: list[Session] = []
    receive = Session.receive

    def counting(session: Session, data: bytes) -> None:
        joined.append(session)
        receive(session, data)

    monkeypatch.setattr(Session, "receive", counting)
    with wire_world() as world:
        sharing(world, {"flood": 1})
        flood, modest = WireClient(world), WireClient(world)
        flood.session.address = "flood"
        # The first message creates the topic.
        flood.put_raw(message)
        for number in range(1, 1_000):
            modest.put_raw(request("PING"))
            world.poller.run_limited()
            assert modest.read() == b"+PONG\r\n" * number
            answered = flood.read().count(b":0")
            if number == 2:
                joined.clear()
                flood.put_raw(message * count)
            if answered == count + 1:
                break
        assert flood.read() == b":0\r\n" * (count + 1)
        assert flood.session not in joined


@needs_wires
def test_a_wire_over_its_share_is_read_as_all_others_while_no_other_client_has_input() -> None:
    """Short pieces would cost its hub CPU time, and help no other client."""
    with wire_world() as world:
        sharing(world, {"flood": 1})
        flood, modest = WireClient(world), WireClient(world)
        flood.session.address = "flood"
        modest.put_raw(request("PING"))
        world.poller.run()
        waiting = most = 0
        # Some 20 ms of turns pass before the hub is quiet.
        for _ in range(10_000):
            if most == 5_000:
                break
            if not waiting:
                flood.put_raw(b"PING\r\n" * 5_000)
                waiting = 5_000
            world.poller.run_limited()
            world.advance()
            answered = flood.read().count(b"PONG")
            flood.received.clear()
            waiting, most = waiting - answered, max(most, answered)
        assert most == 5_000


@needs_wires
def test_the_hub_itself_finds_out_which_wires_are_over_their_share() -> None:
    with wire_world() as world:
        world.shell.turns = world.poller
        world.poller.share(world.core.turns.used, world.core.turns.limit_of)
        flood, modest = WireClient(world), WireClient(world)
        flood.session.address, modest.session.address = "192.0.2.7:1", "192.0.2.8:1"
        for _ in range(20):
            modest.put_raw(request("PING"))
            flood.put_raw(b"PING\r\n" * 1_000)
            world.poller.run()
            world.poller.run_limited()
            world.advance()
        assert list(world.core.turns.shares.limited) == ["192.0.2.7"]
        assert modest.read() == b"+PONG\r\n" * 20


@needs_wires
def test_the_time_of_links_is_not_metered() -> None:
    reported: list[object] = []
    with wire_world() as world:

        def report(session: object, used_s: float) -> int:
            reported.append(session)
            return 1

        world.poller.share(report, lambda session: 1)
        client = WireClient(world)
        client.session.peer = _Link()
        for _ in range(100):
            client.send_raw(b"x" * 10_000)
        assert reported == [] and client.session.peer.bytes == 1_000_000
        client.session.peer = None


class _Link:
    is_busy = False

    def __init__(self) -> None:
        self.bytes = 0

    def receive(self, data: bytes) -> None:
        self.bytes += len(data)
