"""Validation of the kernel's round trips."""

from __future__ import annotations

import pytest

from equipoise.hub.shell.tcp_info import Times, believed_us

MS = 1_000
# What the kernel says: the smoothed round trip, its deviation, the least; then how long ago something was sent to the
# client, and received from it. And what follows.
CASES = {
    "a listener next door": (Times(30, 9, 5, 56, 6_004), 5),
    "a listener whose way has always been that long": (Times(20_300, 200, 20_000, 20, 60_000), 20_000),
    "a listener whose way has become longer": (Times(40 * MS, 500, 5 * MS, 20, 60_000), 40 * MS),
    "one that is on its way there": (Times(20 * MS, 7 * MS, 5 * MS, 20, 60_000), 5 * MS),
    "a listener that has just asked something": (Times(40 * MS, 500, 5 * MS, 20, 400), 5 * MS),
    "one that gets a message now and then, and spoke before the last": (
        Times(29 * MS, MS, 5 * MS, 300, 2_000),
        5 * MS,
    ),
    "one that waits for 40 ms whenever it acknowledges": (Times(45 * MS, 500, 5 * MS, 20, 60_000), 5 * MS),
    "a listener that is farther by more than any wait": (Times(85 * MS, MS, 5 * MS, 20, 60_000), 45 * MS),
    # Measured on loopback.
    "a publisher of 100 messages a second": (Times(9_829, 1_111, 7, 8, 8), 7),
    "a publisher of 30 messages a second": (Times(33_123, 445, 18, 32, 32), 18),
    "a publisher that has stopped": (Times(33_123, 445, 18, 5_000, 5_000), 18),
    "one that listens and publishes": (Times(21_304, 6_259, 5, 12, 140), 5),
    # From before Linux 4.6; and nothing measured.
    "without the least": (Times(25 * MS, MS), 25 * MS),
    "nothing": (Times(0), 0),
}


@pytest.mark.parametrize(("times", "expected_us"), CASES.values(), ids=CASES.keys())
def test_a_round_trip_is_used_as_far_as_it_is_reliable(times: Times, expected_us: int) -> None:
    assert believed_us(times) == expected_us
