"""Seats of smart publishers among hubs without sockets: how they are assigned, and kept after a crash."""

from __future__ import annotations

from collections import Counter

from equipoise.hub.cluster.seats import LOOK_S
from equipoise.limits.seat_order import SeatOrder, pseudonym
from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.cluster.test_rate_limits import limited, pass_time
from hub.world import Error, FakeClient


def split(*homes: str, shares: tuple[int, ...] = ()) -> Hubs:
    hubs = limited("h1", "h2", "h3", rate=10_000.0, burst=1_000)
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, *homes, shares=shares)
    pass_time(hubs, 1.0)
    return hubs


class Publishers:
    """Smart clients that go where they are sent."""

    def __init__(self, hubs: Hubs, count: int, at: str, group: str = "") -> None:
        self._hubs = hubs
        self._names = [b"%016d" % number for number in range(count)]
        self.at = dict.fromkeys(self._names, at)
        self._group = group
        self._clients: dict[tuple[bytes, str], FakeClient] = {}

    def publish(self) -> None:
        for name in self._names:
            hub = self.at[name]
            client = self._clients.get((name, hub))
            if client is None:
                client = self._clients[name, hub] = self._hubs[hub].client(3)
                client.send("EQ.LINK", name + hub.encode().ljust(16, b"-"), "ROUTES")
                client.send("EQ.CORRELATE", self._group)
            client.send("PUBLISH", "x", "1")
        pass_time(self._hubs, 2 * LOOK_S)
        self._obey()

    def _obey(self) -> None:
        for (name, _), client in self._clients.items():
            for push in client.read():
                if isinstance(push, list) and push[0] == b"eq.seat":
                    self.at[name] = push[3].decode().partition(":")[0]

    def counts(self) -> Counter[str]:
        return Counter(self.at.values())


def test_the_trunks_home_assigns_publishers_of_every_hub() -> None:
    for came_to in ("h1", "h2"):
        publishers = Publishers(split("h1", "h2", "h3"), 12, came_to)
        for _ in range(3):
            publishers.publish()
        assert publishers.counts() == {"h1": 4, "h2": 4, "h3": 4}


def test_seats_follow_shares() -> None:
    hubs = split("h1", "h2", shares=(750_000, 250_000))
    publishers = Publishers(hubs, 12, "h2")
    for _ in range(3):
        publishers.publish()
    assert publishers.counts() == {"h1": 9, "h2": 3}
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h2", shares=(250_000, 750_000))
    for _ in range(4):
        publishers.publish()
    assert abs(publishers.counts()["h2"] - 9) <= 1


def test_members_of_a_group_are_spread_over_hubs() -> None:
    hubs = split("h1", "h2")
    for number, group in enumerate(("red", "blue")):
        publishers = Publishers(hubs, 6, "h1", group)
        publishers._names = [b"%d%015d" % (number, one) for one in range(6)]
        publishers.at = dict.fromkeys(publishers._names, "h1")
        for _ in range(3):
            publishers.publish()
        assert publishers.counts() == {"h1": 3, "h2": 3}


def test_after_a_crash_the_next_home_of_the_trunk_keeps_the_seats_of_publishers() -> None:
    hubs = split("h1", "h2", "h3")
    publishers = Publishers(hubs, 12, "h1")
    for _ in range(3):
        publishers.publish()
    before = dict(publishers.at)
    hubs.kill("h1")
    for name, hub in before.items():
        if hub == "h1":
            publishers.at[name] = "h2"
    for _ in range(6):
        publishers.publish()
    stayed = [name for name, hub in before.items() if hub != "h1" and publishers.at[name] == hub]
    assert len(stayed) >= 7, "at most one moves to even out"
    assert publishers.counts() == {"h2": 6, "h3": 6}
    dealt = hubs["h2"].cluster.redirects.seats._dealt[b"x"].seats
    assert {name: seat.home for name, seat in dealt.items()} == publishers.at


def test_publishers_without_a_group_are_assigned_by_the_fitted_order() -> None:
    hubs = split("h1", "h2", "h3")
    publishers = Publishers(hubs, 30, "h1")
    for _ in range(3):
        publishers.publish()
    # Three groups of ten, each of which happens to sit badly: the order names all of one home first.
    order = sorted(publishers.at, key=lambda name: publishers.at[name])
    before = dict(publishers.at)
    found = SeatOrder.of(1, b"k" * 32, (pseudonym(name, b"k" * 32) for name in order))
    for name in ("h1", "h2", "h3"):
        hubs[name].cluster.redirects.seats.ordered(b"x", found)
    for _ in range(6):
        publishers.publish()
    for first in range(0, 30, 10):
        together = Counter(publishers.at[name] for name in order[first : first + 10])
        assert max(together.values()) <= 5, "neighbours are apart"
    assert publishers.counts() == {"h1": 10, "h2": 10, "h3": 10}
    assert hubs["h1"].cluster.redirects.seats.dealt(b"x") == publishers.at
    assert publishers.at != before
    settled = dict(publishers.at)
    publishers.publish()
    assert publishers.at == settled, "once apart they stay"


def test_seats_follow_the_plans_parts_and_not_the_shares_that_follow_traffic() -> None:
    hubs = split("h1", "h2", shares=(500_000, 500_000))
    publishers = Publishers(hubs, 12, "h1")
    for _ in range(3):
        publishers.publish()
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h2", shares=(900_000, 100_000), seats=(500_000, 500_000))
    for _ in range(3):
        publishers.publish()
    assert publishers.counts() == {"h1": 6, "h2": 6}
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h2", shares=(900_000, 100_000), seats=(250_000, 750_000))
    for _ in range(4):
        publishers.publish()
    assert abs(publishers.counts()["h2"] - 9) <= 1


def test_a_topic_without_limit_or_with_one_home_has_no_seats() -> None:
    hubs = split("h1", "h2")
    hubs.replicate("free", Mode.ALL_SUBSCRIBERS, "h1", "h2")
    hubs.replicate("x2", Mode.SINGLE, "h1")
    client = hubs["h1"].client(3)
    client.send("EQ.LINK", b"f" * 32, "ROUTES")
    for topic in ("free", "x2"):
        client.send("PUBLISH", topic, "1")
    pass_time(hubs, 2.0)
    assert not [push for push in client.read() if isinstance(push, list) and push[0] == b"eq.seat"]


def test_a_group_has_a_bounded_name() -> None:
    client = split("h1", "h2")["h1"].client(3)
    assert client.do("EQ.CORRELATE", "x" * 256) == b"OK"
    assert isinstance(client.do("EQ.CORRELATE", "x" * 257), Error)
