"""Admission: how many connections there may be, and how fast they come."""

from __future__ import annotations

import pytest

from equipoise.hub.access.connection_limits import Admission, is_loopback
from equipoise.hub.settings import Limits

AWAY = "192.0.2.7"


def test_connections_are_counted_and_released() -> None:
    admission = Admission(Limits(connections_max=2))
    for address in (AWAY, "127.0.0.1"):
        assert admission.refusal(address) is None
        admission.admit(address, 0.0)
    assert admission.refusal(AWAY) == "ERR max number of clients reached"
    admission.release(AWAY)
    assert admission.refusal("198.51.100.1") is None


def test_one_address_may_have_so_many_and_others_still_come() -> None:
    admission = Admission(Limits(connections_per_address_max=3))
    for _ in range(3):
        admission.admit(AWAY, 0.0)
    assert admission.refusal(AWAY) == "ERR max number of clients per address reached (3)"
    assert admission.refusal("192.0.2.8") is None
    admission.release(AWAY)
    assert admission.refusal(AWAY) is None


def test_loopback_is_exempt_unless_told_otherwise() -> None:
    exempt = Admission(Limits(connections_per_address_max=1, accepts_per_s=1))
    assert [exempt.admit("127.0.0.1", 0.0) for _ in range(5)] == [0.0] * 5
    assert exempt.refusal("::1") is None
    counted = Admission(Limits(connections_per_address_max=1, loopback_is_exempt=False))
    counted.admit("127.0.0.1", 0.0)
    assert counted.refusal("127.0.0.1") is not None


def test_a_crowd_is_served_one_interval_after_the_other() -> None:
    admission = Admission(Limits(accepts_per_s=10))
    waits = [admission.admit(AWAY, 100.0) for _ in range(30)]
    assert waits[:10] == [0.0] * 10
    assert waits[10:] == pytest.approx([0.1 * i for i in range(1, 21)])
    assert admission.admit(AWAY, 102.0) == pytest.approx(0.1)
    assert admission.admit(AWAY, 200.0) == 0.0


@pytest.mark.parametrize("now", [0.0, 1e9])
def test_the_first_connection_never_waits_whatever_the_clock_says(now: float) -> None:
    assert Admission(Limits(accepts_per_s=1)).admit(AWAY, now) == 0.0


def test_nothing_is_kept_of_addresses_that_have_gone() -> None:
    admission = Admission(Limits())
    for i in range(1_000):
        admission.admit(f"192.0.2.{i}", float(i))
    for i in range(1_000):
        admission.release(f"192.0.2.{i}")
    assert admission.count == 0
    assert admission.addresses == 0


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.0.2.1", False),
        ("", False),
        ("example.org", False),
    ],
)
def test_loopback_is_told_from_the_rest(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected
