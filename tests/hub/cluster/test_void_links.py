"""A link with an error restarts: skipped messages are counted and reported, executed ones are not repeated."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from equipoise.hub.cluster.lanes import Lanes
from equipoise.hub.cluster.link.capabilities import Announcement, spell_greeting
from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.frames import LaneFrame
from equipoise.hub.settings import Limits
from equipoise.model import Mode
from equipoise.resp.replies import spell
from hub.cluster.hubs import HUB_USER, Hubs
from hub.world import FakeClient

# What no hub of this release understands.
POISON = spell((b"EQ.L.NEWER", b"word"))


def pair(**options: Any) -> Hubs:
    """The home of the topics t and u is h2, of s h1."""
    hubs = Hubs("h1", "h2", **options)
    for topic, home in (("t", "h2"), ("u", "h2"), ("s", "h1")):
        hubs.replicate(topic, Mode.SINGLE, home)
    return hubs


def payloads(client: FakeClient) -> list[bytes]:
    return [item[2] for item in client.read() if item[0] == b"message"]


def test_hubs_with_different_limits_lose_nothing_and_log_the_differences(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """
    1. h1 permits payloads of 200 kB, h2 of 100 kB, as while settings are changed hub by hub;
    2. one message of 150 kB for u and 200 small ones for t go from h1 to h2, and each is acknowledged;
    3. all of them arrive. (50 of the 200 used to vanish, uncounted.)
    """
    limits = {"h1": Limits(payload_bytes_max=200_000), "h2": Limits(payload_bytes_max=100_000)}
    with caplog.at_level(logging.WARNING):
        hubs = pair(limits=limits)
    named = "limits.payload_bytes_max is 200000 at h1 and 100000 at h2"
    assert sum(named in record.getMessage() for record in caplog.records) == 1
    assert all(link.differences for link in hubs.links.values())
    listener, publisher = hubs["h2"].client(), hubs["h1"].client()
    for topic in ("t", "u"):
        listener.send("SUBSCRIBE", topic)
    hubs.publish_first("h1", "t", "u")
    listener.read()
    sent = [b"%d" % i for i in range(200)]
    for i, payload in enumerate(sent):
        assert publisher.do("PUBLISH", "t", payload) == 0
        if i == 100:
            assert publisher.do("PUBLISH", "u", b"x" * 150_000) == 0
    hubs.settle()
    got = payloads(listener)
    assert [payload for payload in got if len(payload) < 10] == sent
    assert len(got) == 201
    assert hubs["h1"].cluster.ingress.lost == hubs["h2"].cluster.ingress.dropped == 0


def test_messages_behind_an_error_are_counted_as_lost_and_those_before_it_are_not_repeated() -> None:
    """
    1. three messages, something that h2 does not understand, and three more go to h2 in one piece;
    2. h2 executes the first three, and has the link restarted;
    3. the next messages arrive; the three between were not numbered, which is reported to their publisher.
    """
    hubs = pair()
    listener, publisher = hubs["h2"].client(), hubs["h1"].client(3)
    listener.send("SUBSCRIBE", "t")
    hubs.settle()
    listener.read()
    link = hubs.links["h1", "h2"]
    for payload in ("1", "2", "3"):
        publisher.send("PUBLISH", "t", payload)
    link.write(POISON)
    for payload in ("4", "5"):
        publisher.send("PUBLISH", "t", payload)
    publisher.send("EQ.PUBLISH", "t", "6")
    hubs.settle()
    assert payloads(listener) == [b"1", b"2", b"3"]
    assert (link.generation, link.voided) == (2, 1)
    assert hubs["h1"].cluster.ingress.lost >= 3
    assert str(publisher.read()[-1]).startswith("UNCERTAIN")
    publisher.send("PUBLISH", "t", "7")
    hubs.settle()
    assert payloads(listener) == [b"7"]
    assert not hubs["h1"].core.index.topics[b"t"].stream.admission.unresolved  # type: ignore[union-attr]  # it lives elsewhere


def test_positions_show_a_subscriber_the_messages_that_a_restarted_link_has_skipped() -> None:
    """
    1. a client of h2 follows s, whose home is h1, with positions;
    2. two messages, something that h2 does not understand, and two more are sent to h2 in one piece;
    3. the next message comes with its position, so the client knows that two are missing.
    """
    hubs = pair()
    listener, publisher = hubs["h2"].client(3), hubs["h1"].client()
    listener.send("EQ.SUBSCRIBE", "s")
    hubs.settle()
    listener.read()
    for payload in ("1", "2"):
        publisher.send("PUBLISH", "s", payload)
    hubs.links["h1", "h2"].write(POISON)
    for payload in ("3", "4"):
        publisher.send("PUBLISH", "s", payload)
    hubs.settle()
    publisher.send("PUBLISH", "s", "5")
    hubs.settle()
    got = [(item[3], item[4]) for item in listener.read() if item[0] == b"eq.message"]
    assert got == [(1, b"1"), (2, b"2"), (5, b"5")]


def test_a_fault_of_this_hub_is_raised_and_voids_the_link_instead_of_repeating_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hubs = pair()
    listener, publisher = hubs["h2"].client(), hubs["h1"].client()
    listener.send("SUBSCRIBE", "t")
    hubs.settle()
    listener.read()

    def fail(lanes: Lanes, hub: str, key: bytes) -> None:
        raise TypeError("a mistake in a program")

    monkeypatch.setattr(Lanes, "receive_lane", fail)
    publisher.send("PUBLISH", "t", "1")
    hubs.links["h1", "h2"].write(encode(LaneFrame(b"$lane/h1/t")))
    with pytest.raises(TypeError):
        hubs.settle()
    # As asyncio does with a connection whose protocol raises.
    end, _ = hubs.connections.pop(("h1", "h2"))
    end.wire.abort()
    hubs.links["h1", "h2"].suspend()
    publisher.send("PUBLISH", "t", "2")
    hubs.settle()
    assert hubs.links["h1", "h2"].generation == 2
    publisher.send("PUBLISH", "t", "3")
    hubs.settle()
    assert payloads(listener) == [b"1", b"3"]


def test_a_publish_command_on_a_link_is_an_error() -> None:
    hubs = pair()
    hubs.links["h1", "h2"].write(spell((b"PUBLISH", b"t", b"x")))
    hubs.settle()
    assert hubs.links["h1", "h2"].generation == 2
    assert b"t" not in hubs["h2"].core.index.topics or not hubs["h2"].core.index.topics[b"t"].n


def test_a_hub_that_is_declared_dead_gets_an_error_over_its_link_at_once() -> None:
    """
    1. h2 runs, but has lost its session: h1 learns that h2 is dead;
    2. h1 ends the connection that h2 has dialled, with an error. (If h2 learned of its death only when it dials again,
       it would acknowledge messages of its clients until then.)
    """
    hubs = pair()
    end, _ = hubs.connections["h2", "h1"]
    end.read()
    hubs.kill("h2")
    assert [str(reply)[:4] for reply in end.read()] == ["DEAD"]
    assert end.wire.is_closing
    core, h2 = hubs["h1"].core, hubs["h2"].core
    again = hubs["h1"].client(user=HUB_USER)
    greeting = spell_greeting(
        ("h2", h2.incarnation), Announcement.of(h2.limits), generation=1, peer=("h1", core.incarnation)
    )
    again.send_raw(greeting)
    assert str(again.read()[-1]).startswith("DEAD")
