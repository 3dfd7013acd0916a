"""The interfaces that the hub requires of its environment: a transport for each session; time, timers and secret
checking from the shell; and storage for the messages of durable topics.

Transports of asyncio and uvloop satisfy Wire. `hub/shell/server` implements Shell for a running loop; the simulator and
the tests have their own implementations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from equipoise.hub.data.reply import Reply


class Timer(Protocol):
    def cancel(self) -> None: ...


CallLater = Callable[..., Timer]


class Wire(Protocol):
    """The transport of a session."""

    def write(self, data: bytes, /) -> object: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def get_extra_info(self, name: str, default: Any = None) -> Any: ...


class MessageLog(Protocol):
    """Stores the messages of a durable topic: see hub/logs/durable_topic.py."""

    @property
    def is_numbered(self) -> bool: ...
    @property
    def may_begin(self) -> bool: ...
    @property
    def may_subscribe(self) -> bool: ...
    @property
    def waiters(self) -> list[Callable[[], None]]: ...
    def publish(self, payloads: Sequence[bytes]) -> bytes | Reply: ...
    def publish_positioned(
        self, payloads: Sequence[bytes], receipt: Callable[[int, int, int], bytes]
    ) -> bytes | Reply: ...
    def take_in(self, payloads: Sequence[bytes], done: Callable[[tuple[int, int]], object]) -> None: ...
    def publish_numbered(self, words: Sequence[bytes]) -> bytes | Reply: ...
    def relay(self, epoch: int, first: int, payloads: Sequence[bytes]) -> None: ...
    def take_over(self, end: int) -> int: ...
    def home_lost(self) -> None: ...


class SharedReply(Protocol):
    """A pending reply that several sessions share: to XADDs (`gathered_replies`), or to a read
    (hub/logs/shared_read.py)."""

    def set_apart(self, session: Any, /) -> None:
        """The session has sent further commands: make its reply an ordinary pending reply, in order."""

    def leave(self, session: Any, /) -> None:
        """The session was closed."""


class LinkEnd(Protocol):
    """The receiving end of a link between hubs."""

    @property
    def is_busy(self) -> bool: ...
    def receive(self, data: bytes) -> None: ...


class _NoWire:
    """The transport of a session before it is connected and after it is closed."""

    def write(self, data: bytes, /) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


NO_WIRE = _NoWire()


def discard(data: bytes) -> None:
    """The `write` of a session without a transport."""


class OutputTurns(Protocol):
    """Gather the output of all connections during one turn of the loop; send it at the end of the turn."""

    def turn(self, work: Callable[[], object], /) -> object:
        """Call work outside a turn of the loop; its output is gathered, too."""

    def gathered(self, write: Callable[[bytes], object], /) -> Callable[[bytes], object]:
        """The `write` of a transport of the loop: called at the end of a turn with all that the turn has written."""

    def sent(self) -> tuple[float, int] | None:
        """Seconds spent so far on sending gathered output, and its bytes; None: this shell gathers no output."""

    def renew_shares(self) -> None:
        """Other users or addresses than before are over their share of the hub's time (`shares.py`)."""


class Shell(Protocol):
    """The environment of the core: clocks, timers, secret checking, facts about the machine."""

    turns: OutputTurns

    def now(self) -> float:
        """Monotonic seconds."""

    def fine_now(self) -> float:
        """Monotonic seconds, read from the clock at each call, not once per turn: to measure less than a turn."""

    def work_s(self) -> float:
        """Clock for the duration of work: that of `fine_now`; CPU time in the simulator, where virtual time stands
        still while a hub works."""

    def cpu_s(self) -> float:
        """CPU time that this process has used so far."""

    def wall_time(self) -> float:
        """Seconds since 1970, by this machine's clock."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Timer: ...

    def verify_secret(
        self, encoded: str, password: bytes, done: Callable[[bool], None], is_wanted: Callable[[], bool]
    ) -> None:
        """Check a password in another thread, then call `done` on the loop, unless `is_wanted` is false by then."""

    def has_hung_up(self, wire: Wire) -> bool:
        """Whether the other end has closed or reset the connection; False where that is unknown."""

    def round_trip_s(self, wire: Wire) -> float | None:
        """Round-trip time of a connection in seconds; None where it is unknown."""

    def memory_bytes(self) -> int:
        """Memory of the machine in bytes."""

    def resident_bytes(self) -> int:
        """Resident memory of this process in bytes; 0 where it is unknown."""
