"""What the hub needs of the world around it: a transport for each session, time, timers and secrets from the shell, and
what keeps the messages of durable topics.

asyncio's transports and uvloop's are Wires as they are; `hub/shell/server` has the Shell of a running loop, the
simulator and the tests have theirs.
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
    """What a session needs of its transport."""

    def write(self, data: bytes, /) -> object: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def get_extra_info(self, name: str, default: Any = None) -> Any: ...


class MessageLog(Protocol):
    """What keeps the messages of a durable topic: see hub/logs/durable_topic.py."""

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
    """What a session is owed together with others: replies to XADDs (`gathered_replies`), or to a read
    (hub/logs/shared_read.py)."""

    def set_apart(self, session: Any, /) -> None:
        """The session has sent more: it is owed its reply in order."""

    def leave(self, session: Any, /) -> None:
        """The session has ended."""


class LinkEnd(Protocol):
    """The receiving end of a link between hubs."""

    @property
    def is_busy(self) -> bool: ...
    def receive(self, data: bytes) -> None: ...


class _NoWire:
    """Before the connection is made and after it is lost."""

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
    """Gather what is written to connections in one turn, and send it at the end of the turn."""

    def turn(self, work: Callable[[], object], /) -> object:
        """Call work that is not part of a turn: what it writes is gathered, too."""

    def sent(self) -> tuple[float, int] | None:
        """Seconds spent so far on sending what was gathered, and the bytes; None: nothing is gathered here."""


class UngatheredTurns:
    """Of connections that send what is written at once, or gather by themselves."""

    def turn(self, work: Callable[[], object], /) -> object:
        return work()

    def sent(self) -> tuple[float, int] | None:
        return None


class Shell(Protocol):
    """What the core needs of the world."""

    turns: OutputTurns

    def now(self) -> float:
        """Monotonic seconds."""

    def fine_now(self) -> float:
        """The same, anew at each call: what tells neighbours from each other is less than a turn of the loop."""

    def work_s(self) -> float:
        """A clock that tells how long work takes: that of `fine_now`, or, where time stands still while a hub works, of
        a processor."""

    def cpu_s(self) -> float:
        """CPU time that this process has used so far."""

    def wall_time(self) -> float:
        """Seconds since 1970, as far as this machine knows."""

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Timer: ...

    def verify_secret(
        self, encoded: str, password: bytes, done: Callable[[bool], None], is_wanted: Callable[[], bool]
    ) -> None:
        """Check a password beside the loop and call back on it; not at all if the caller has gone."""

    def has_hung_up(self, wire: Wire) -> bool:
        """Whether the other end has closed or reset the connection; False where that is unknown."""

    def round_trip_s(self, wire: Wire) -> float | None:
        """To the other end of a connection and back; None where it is unknown."""

    def memory_bytes(self) -> int:
        """Of the machine."""

    def resident_bytes(self) -> int:
        """Of this process; 0 where it is unknown."""
