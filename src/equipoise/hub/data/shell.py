"""What the core needs of the world around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from equipoise.hub.data.backlog import Timer
from equipoise.hub.data.wire import Wire


class Shell(Protocol):
    """What the core needs of the world."""

    def now(self) -> float:
        """Monotonic seconds."""

    def fine_now(self) -> float:
        """The same, anew at each call: what tells neighbours from each other is less than a turn of the loop."""

    def wall_time(self) -> float:
        """Seconds since 1970, as far as this machine knows."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Timer: ...

    def verify_secret(
        self, encoded: str, password: bytes, done: Callable[[bool], None], is_wanted: Callable[[], bool]
    ) -> None:
        """Check a password beside the loop and call back on it; not at all if nobody wants to know any more."""

    def round_trip_s(self, wire: Wire) -> float | None:
        """To the other end of a connection and back; None where it cannot be told."""

    def memory_bytes(self) -> int:
        """Of the machine."""

    def resident_bytes(self) -> int:
        """Of this process; 0 where it cannot be told."""
