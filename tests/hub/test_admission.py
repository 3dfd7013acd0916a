"""Admission of connections: how many, and how fast."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equipoise.hub.access.connection_limits import ConnectionLimits, is_loopback
from equipoise.hub.settings import Limits
from hub.world import FakeShell

AWAY = "192.0.2.7"
OTHER = "192.0.2.8"


class Door:
    """Admission on virtual time, and when each connection was served, in seconds after it came."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.shell = FakeShell(1 << 30)
        self.admission = ConnectionLimits(
            limits or Limits(), now=self.shell.now, call_later=self.shell.call_later
        )
        self.waits: dict[int, float] = {}
        self._serves: dict[int, tuple[str, Callable[[], None]]] = {}

    def come(self, address: str) -> int:
        number, came_at = len(self._serves), self.shell.now()

        def serve() -> None:
            self.waits[number] = self.shell.now() - came_at

        self._serves[number] = address, serve
        if self.admission.admit(address, serve):
            serve()
        return number

    def go(self, number: int) -> None:
        self.admission.release(*self._serves[number])


def test_connections_are_counted_and_released() -> None:
    door = Door(Limits(connections_max=2))
    for address in (AWAY, "127.0.0.1"):
        assert door.admission.refusal(address) is None
        door.come(address)
    assert door.admission.refusal(AWAY) == "ERR max number of clients reached"
    door.go(0)
    assert door.admission.refusal("198.51.100.1") is None


def test_one_address_is_limited_and_others_still_connect() -> None:
    door = Door(Limits(connections_per_address_max=3))
    for _ in range(3):
        door.come(AWAY)
    assert door.admission.refusal(AWAY) == "ERR max number of clients per address reached (3)"
    assert door.admission.refusal(OTHER) is None
    door.go(0)
    assert door.admission.refusal(AWAY) is None


def test_loopback_is_exempt_by_default() -> None:
    exempt = Door(Limits(connections_per_address_max=1, accepts_per_s=1))
    for _ in range(5):
        exempt.come("127.0.0.1")
    assert list(exempt.waits.values()) == [0.0] * 5
    assert exempt.admission.refusal("::1") is None
    counted = Door(Limits(connections_per_address_max=1, loopback_is_exempt=False))
    counted.come("127.0.0.1")
    assert counted.admission.refusal("127.0.0.1") is not None


def test_a_crowd_is_served_one_connection_per_interval() -> None:
    door = Door(Limits(accepts_per_s=10))
    for _ in range(30):
        door.come(AWAY)
    door.shell.advance(10)
    assert [door.waits[i] for i in range(10)] == [0.0] * 10
    assert [door.waits[i] for i in range(10, 30)] == pytest.approx([0.1 * i for i in range(1, 21)])
    assert door.waits[door.come(AWAY)] == 0.0
    assert door.shell.timers_pending == 0


def test_a_flood_from_one_address_makes_no_other_address_wait() -> None:
    """
    1. One address opens connections as fast as it can, closes each at once, and continues for a minute.
    2. Every second a connection comes from another address. Each is served within two turns.
    """
    door = Door(Limits(accepts_per_s=200))
    others = []
    for _ in range(60):
        others.append(door.come(OTHER))
        for _ in range(50):
            crowd = [door.come(AWAY) for _ in range(14)]
            door.shell.advance(0.02)
            for number in crowd:
                door.go(number)
    door.shell.advance(0.1)
    assert max(door.waits[number] for number in others) <= 2 / 200 + 1e-6


def test_a_flood_that_stays_makes_no_other_address_wait() -> None:
    door = Door(Limits(accepts_per_s=10, connections_per_address_max=500))
    for _ in range(500):
        door.come(AWAY)
    others = [door.come(f"198.51.100.{i}") for i in range(3)]
    door.shell.advance(60)
    assert max(door.waits[number] for number in others) <= 0.5
    assert len(door.waits) == 503


def test_addresses_of_one_ipv6_network_are_one() -> None:
    door = Door(Limits(connections_per_address_max=2))
    door.come("2001:db8:1:2::1")
    door.come("2001:db8:1:2:ffff::9")
    assert door.admission.refusal("2001:db8:1:2::77") is not None
    assert door.admission.refusal("2001:db8:1:3::1") is None
    door.come("::ffff:192.0.2.7")
    door.come("::ffff:192.0.2.7")
    assert door.admission.refusal(AWAY) is not None
    assert door.admission.refusal("::ffff:192.0.2.8") is None


def test_a_connection_that_closes_while_it_waits_is_not_served() -> None:
    door = Door(Limits(accepts_per_s=1))
    first, second, third = (door.come(AWAY) for _ in range(3))
    door.go(second)
    door.shell.advance(1.0)
    assert set(door.waits) == {first, third}
    assert door.admission.waiting == 0


def test_the_first_connection_never_waits() -> None:
    door = Door(Limits(accepts_per_s=1))
    assert door.waits[door.come(AWAY)] == 0.0


def test_no_state_is_kept_of_addresses_without_connections() -> None:
    door = Door()
    for i in range(1_000):
        door.come(f"192.0.2.{i}")
        door.shell.advance(0.001)
    for i in range(1_000):
        door.go(i)
    assert door.admission.count == 0
    assert door.admission.addresses == door.admission.waiting == door.shell.timers_pending == 0


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.0.2.1", False),
        ("", False),
        ("example.org", False),
    ],
)
def test_loopback_addresses_are_recognised(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected
