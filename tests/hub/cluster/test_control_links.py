"""Control links: messages of edges overtake those that wait on the ordinary link, and no reset loses them."""

from __future__ import annotations

from itertools import count

from equipoise.content.balancing.messages import LoadWanted, encode
from equipoise.hub.cluster.link.capabilities import spell_greeting
from equipoise.hub.cluster.link.capability import CAPABILITIES, CONTROL
from equipoise.hub.cluster.link.codec import encode as spelled
from equipoise.hub.cluster.link.frames import ControlFrame, EgressFrame, RunFrame
from equipoise.hub.cluster.link.link_session import LINK_TURN_S, LinkSession
from equipoise.model import Mode
from hub.cluster.hubs import HUB_USER, Hubs


def begun() -> Hubs:
    """Edges that have exchanged their load, so that their control links are connected."""
    hubs = Hubs("h1", "h2", "h3")
    hubs.replicate("t", Mode.CONTENT, "h1", "h2", "h3")
    for _ in range(8):
        for node in hubs.nodes.values():
            node.shell.advance(1.0)
        hubs.settle()
    return hubs


def heard(hubs: Hubs, hub: str) -> int:
    return hubs[hub].cluster.edge.control.received


def test_edges_exchange_messages_while_the_ordinary_link_between_them_is_blocked() -> None:
    hubs = begun()
    assert hubs.links["h2", "h3", "control"].connections == 1
    before = heard(hubs, "h3")
    hubs.held.add(("h2", "h3"))
    hubs[("h2")].cluster.edge.control.send("h3", LoadWanted(hub="h2"))
    hubs.settle()
    assert heard(hubs, "h3") == before + 1


def test_a_hub_without_the_capability_receives_edge_messages_on_the_ordinary_link() -> None:
    hubs = Hubs("h1", "h2", "h3")
    for node in hubs.nodes.values():
        for link in node.cluster.out.values():
            link.capabilities = CAPABILITIES - {CONTROL}
    hubs["h2"].cluster.edge.control.send("h3", LoadWanted(hub="h2"))
    hubs["h3"].cluster.edge.control.open()
    hubs["h2"].cluster.edge.control.send("h3", LoadWanted(hub="h2"))
    hubs.settle()
    assert ("h2", "h3", "control") not in hubs.links
    assert heard(hubs, "h3") >= 1


def test_messages_lost_in_a_reset_of_a_control_link_are_resent_once() -> None:
    hubs = begun()
    link, before = hubs.links["h2", "h3", "control"], heard(hubs, "h3")
    hubs.connections.pop(("h2", "h3", "control"))
    link.suspend()
    hubs["h2"].cluster.edge.control.send("h3", LoadWanted(hub="h2"))
    hubs.settle()
    assert (heard(hubs, "h3"), link.connections) == (before + 1, 2)


def test_control_links_end_with_the_hub_and_with_the_last_content_topic() -> None:
    hubs = begun()
    hubs.kill("h3")
    assert "h3" not in hubs["h2"].cluster.control.out and "h3" not in hubs["h2"].cluster.control.incoming
    hubs.replicate("t", Mode.ALL_PUBLISHERS, "h1", "h2")
    assert hubs["h2"].cluster.control.out == {}


def test_a_full_control_link_restarts_and_sends_later_messages() -> None:
    hubs = begun()
    link, before = hubs.links["h2", "h3", "control"], heard(hubs, "h3")
    hubs.held.add(("h2", "h3", "control"))
    while link.generation == 1:
        hubs["h2"].cluster.edge.control.send("h3", LoadWanted(hub="h2"))
    hubs.held.clear()
    hubs.settle()
    hubs["h2"].cluster.edge.control.send("h3", LoadWanted(hub="h2"))
    hubs.settle()
    assert heard(hubs, "h3") == before + 1
    assert hubs["h3"].cluster.control.incoming["h2"].id.generation == 2
    assert hubs["h3"].cluster.incoming["h2"].id.generation == 1, "the ordinary link goes on"


def test_only_topics_of_the_hub_itself_are_published_on_a_control_link() -> None:
    hubs = begun()
    control = hubs["h3"].cluster.edge.control
    nonsense = control.invalid
    for topic in (b"t", b"$at/h2/content"):
        frame = ControlFrame(topic, [encode(LoadWanted(hub="h2"))])
        hubs.links["h2", "h3", "control"].write(spelled(frame))
    hubs.settle()
    assert control.invalid == nonsense + 2


def test_a_greeting_may_end_with_the_word_control_only() -> None:
    hubs = begun()
    end = hubs["h3"].client(user=HUB_USER)
    lives = ("h2", hubs["h2"].core.incarnation), ("h3", hubs["h3"].core.incarnation)
    words = spell_greeting(lives[0], None, generation=1, peer=lives[1], is_control=True)
    end.send_raw(words.replace(b"$7\r\ncontrol", b"$7\r\nanother"))
    assert str(end.read()[0]).startswith("ERR")


class TestTurns:
    """Frames of one chunk that take long are executed in several turns."""

    @staticmethod
    def slow_chunk(hubs: Hubs) -> bytes:
        """Forty messages for t, whose home is h2. Two thirds of a turn pass between two readings of the clock."""
        session = hubs["h2"].cluster.incoming["h1"].latest
        assert isinstance(session, LinkSession)
        session._clock = count(0.0, LINK_TURN_S / 1.5).__next__
        return b"".join(spelled(RunFrame(b"t", 1, 0, [b"%d" % number])) for number in range(40))

    @staticmethod
    def begun() -> tuple[Hubs, bytes]:
        hubs = Hubs("h1", "h2")
        hubs.replicate("t", Mode.SINGLE, "h2")
        hubs.publish_first("h1", "t")
        return hubs, TestTurns.slow_chunk(hubs)

    def test_a_long_chunk_is_executed_in_several_turns_and_acknowledged_at_its_end(self) -> None:
        hubs, chunk = self.begun()
        topic, incoming = hubs["h2"].core.index.topics[b"t"], hubs["h2"].cluster.incoming["h1"]
        before, (end, _) = incoming.offset, hubs.connections["h1", "h2"]
        first = topic.n
        end.send_raw(chunk)
        assert first < topic.n < first + 40 and incoming.offset == before
        assert (incoming.is_busy, end.wire.is_reading) == (True, False)
        # Messages that arrive now wait for their turn, too.
        end.send_raw(spelled(RunFrame(b"t", 1, 0, [b"last"])))
        for _ in range(30):
            hubs["h2"].shell.advance()
        assert (topic.n, incoming.is_busy, end.wire.is_reading) == (first + 41, False, True)
        assert incoming.offset > before + len(chunk)

    def test_a_sender_that_reconnects_meanwhile_has_to_wait_and_nothing_is_executed_twice(self) -> None:
        hubs, chunk = self.begun()
        topic, link = hubs["h2"].core.index.topics[b"t"], hubs.links["h1", "h2"]
        first = topic.n
        end, _ = hubs.connections.pop(("h1", "h2"))
        link.suspend()
        link.resume(link.base, lambda data: None)
        link.write(chunk)
        link.suspend()
        end.send_raw(chunk)
        hubs["h2"].core.lost(end.session)
        again = hubs["h2"].client(user=HUB_USER)
        lives = ("h1", hubs["h1"].core.incarnation), ("h2", hubs["h2"].core.incarnation)
        again.send_raw(spell_greeting(lives[0], None, generation=link.generation, peer=lives[1]))
        assert str(again.read()[0]).startswith("UNKNOWN")
        hubs.settle()
        assert topic.n == first + 40
        assert link.connections == 3 and link.base <= link.end

    def test_while_a_chunk_is_executed_the_sender_gets_heartbeats(self) -> None:
        hubs, chunk = self.begun()
        end, _ = hubs.connections["h1", "h2"]
        end.send_raw(chunk)
        end.read()
        hubs["h2"].shell.stall(1.0)
        hubs["h2"].shell.run_one()
        hubs["h2"].shell.run_one()
        assert hubs["h2"].cluster.incoming["h1"].is_busy
        assert end.read() == [hubs["h2"].cluster.incoming["h1"].offset]


def test_a_fault_in_a_later_turn_voids_the_link_and_ends_its_connection() -> None:
    hubs, chunk = TestTurns.begun()
    end, _ = hubs.connections["h1", "h2"]
    end.send_raw(chunk + spelled(EgressFrame(b"t", 1, 1, [b"x"])) + b"nonsense\r\n")
    for _ in range(30):
        hubs["h2"].shell.advance()
    assert hubs["h2"].cluster.incoming["h1"].is_void and end.wire.is_closing
