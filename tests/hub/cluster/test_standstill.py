"""A hub that has paused executes nothing for clients until its incarnation is confirmed."""

from __future__ import annotations

from equipoise.hub.cluster.standstill import LOOK_S, PATIENCE_S
from hub.world import FakeClient, pipeline, users

from .hubs import Hubs, Node

TERM_S = 3.0
STILL_S = 2 * TERM_S


class TimedHubs(Hubs):
    """Hubs that watch their clocks. There is no store: the test gives its replies."""

    def begin(self) -> None:
        for name in self.alive:
            self[name].core.lease.start(self[name].cluster)
            self[name].core.standstill.start()

    def stand_still(self, name: str, for_s: float = STILL_S) -> None:
        """The others continue; their frames reach the hub when it resumes."""
        self[name].shell.stall(for_s)


def two_hubs() -> tuple[TimedHubs, Node, FakeClient]:
    hubs = TimedHubs("a", "b")
    hubs.begin()
    client = hubs["a"].client()
    assert client.do("PING") == b"PONG"
    return hubs, hubs["a"], client


def confirm(node: Node) -> None:
    """The store carries out a write of the hub's that it has asked for now."""
    node.core.lease.store_answered(node.core.shell.fine_now())


def test_commands_after_a_pause_wait_for_the_store_and_are_answered_in_order() -> None:
    hubs, node, client = two_hubs()
    hubs.stand_still("a")
    client.send("ECHO", "1")
    client.send("ECHO", "2")
    client.session.receive(b"*2\r\n$4\r\nECHO\r\n$1\r\n3\r\n")
    other = node.client()
    other.send("PUBLISH", "t", "x")
    node.advance(LOOK_S)
    assert client.read() == other.read() == []
    assert (client.wire.is_reading, node.core.standstill.is_holding) == (False, True)
    confirm(node)
    node.advance(2 * LOOK_S)
    assert client.read() == [b"1", b"2", b"3"]
    assert (client.wire.is_reading, node.core.standstill.is_holding) == (True, False)
    assert client.do("ECHO", "4") == b"4"
    assert node.info("standstills") == "1"


def test_a_hub_that_is_merely_late_holds_nothing() -> None:
    hubs, node, client = two_hubs()
    hubs.stand_still("a", TERM_S / 2)
    assert client.do("PING") == b"PONG"
    node.advance(60.0)
    assert client.do("PING") == b"PONG"
    assert node.core.standstill.count == 0


def test_a_timer_detects_the_pause_too_if_it_runs_first() -> None:
    hubs, node, client = two_hubs()
    hubs.stand_still("a")
    node.advance(0.0)
    client.send("PING")
    assert client.read() == []


def test_a_reply_to_a_request_from_before_the_pause_confirms_nothing() -> None:
    hubs, node, client = two_hubs()
    asked_at = node.core.now()
    hubs.stand_still("a")
    client.send("PING")
    node.core.lease.store_answered(asked_at)
    node.advance(2 * LOOK_S)
    assert client.read() == []


def test_without_the_store_all_other_hubs_confirm_the_hub_but_not_at_once() -> None:
    hubs, node, client = two_hubs()
    lease = node.core.lease
    hubs.stand_still("a")
    client.send("PING")
    node.advance(lease.term_s / 2)
    hubs.settle()
    node.advance(2 * LOOK_S)
    assert client.read() == []
    hubs.held.add(("b", "a"))
    node.advance(lease.term_s / 2 + lease.interval_s)
    hubs.settle()
    assert client.read() == []
    hubs.release("b", "a")
    node.advance(2 * LOOK_S)
    assert client.read() == [b"PONG"]


def test_clients_are_disconnected_if_nothing_confirms_the_hub() -> None:
    hubs, node, client = two_hubs()
    silent = node.client()
    hubs.held.add(("a", "b"))
    hubs.stand_still("a")
    client.send("PING")
    node.advance(PATIENCE_S - 0.1)
    assert not client.wire.is_gone()
    node.advance(0.2)
    assert client.wire.is_gone()
    assert not silent.wire.is_gone()
    assert "not confirmed" in node.core.health.text
    confirm(node)
    node.advance(2 * LOOK_S)
    assert "not confirmed" not in node.core.health.text
    assert silent.do("PING") == b"PONG"


def test_commands_that_waited_for_their_turn_keep_waiting() -> None:
    hubs, node, client = two_hubs()
    node.shell.tick_s = 0.002
    client.send_raw(b"*2\r\n$4\r\nECHO\r\n$1\r\nx\r\n" * 200)
    node.shell.tick_s = 0.0
    executed = len(client.read())
    assert executed < 200
    hubs.stand_still("a")
    node.advance(0.0)
    assert client.read() == []
    confirm(node)
    while client.session.is_busy:
        node.advance(LOOK_S)
    assert len(client.read()) == 200 - executed


def test_links_between_hubs_are_not_held() -> None:
    hubs, _, client = two_hubs()
    hubs.stand_still("a")
    client.send("PING")
    subscriber = hubs["b"].client()
    subscriber.send("PSUBSCRIBE", "*")
    hubs.settle()
    assert [b"psubscribe", b"*", 1] in subscriber.read()
    assert client.read() == []


def test_a_hub_that_connects_meanwhile_is_accepted_and_confirms_it() -> None:
    hubs, node, client = two_hubs()
    hubs.stand_still("a")
    client.send("PING")
    # Its connection is lost, and it dials again.
    hubs.connections.pop(("b", "a"))
    node.advance(node.core.lease.term_s + 1.1 * node.core.lease.interval_s)
    hubs.settle()
    assert ("b", "a") in hubs.connections
    node.advance(2 * LOOK_S)
    assert client.read() == [b"PONG"]


def test_a_login_is_executed_and_the_commands_after_it_wait() -> None:
    world = Hubs("a", users=users(ann='publish = ["*"]'))
    node = world["a"]
    node.core.lease.start(node.cluster)
    node.core.standstill.start()
    node.shell.stall(STILL_S)
    client = node.client()
    client.send_raw(pipeline([["AUTH", "ann", "right"], ["PING"]]))
    node.check_secrets()
    assert client.read() == [b"OK"]
    confirm(node)
    node.advance(2 * LOOK_S)
    assert client.read() == [b"PONG"]


def test_an_incarnation_that_ends_disconnects_its_clients() -> None:
    hubs, node, client = two_hubs()
    hubs.stand_still("a")
    client.send("PING")
    node.core.begin_anew()
    node.core.standstill.start()
    assert client.wire.is_gone()
    assert node.client().do("PING") == b"PONG"
    assert not node.core.standstill.is_holding


def test_a_hub_that_stops_no_longer_watches_its_clock() -> None:
    _, node, _ = two_hubs()
    node.core.close()
    assert node.core.awake_until == float("inf")
