"""A hub without sockets: virtual time, wires that record, clients that send and read RESP.

Always true: nothing happens by itself. Time passes by `advance`, secrets are checked by `check_secrets`, and a wire
that is `stuck` keeps what is written to it until `drain`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import hiredis

from equipoise.access import User, Users, parse_users
from equipoise.hub.commands.dispatch import Dispatch
from equipoise.hub.core import HubCore
from equipoise.hub.data.ports import OutputTurns, Wire
from equipoise.hub.data.session import Session
from equipoise.hub.data.turns import UngatheredTurns
from equipoise.hub.locations.settings import CoordinatesSettings
from equipoise.hub.settings import HubSettings, Limits
from equipoise.hub.telemetry.settings import TelemetrySettings

# Where asyncio's and uvloop's transports say that they are full, and that they have room again.
HIGH_WATER_BYTES = 64 * 1024
LOW_WATER_BYTES = 16 * 1024


class FakeTimer:
    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class FakeShell:
    """The world as the core sees it; the test moves it."""

    def __init__(self, memory_bytes: int) -> None:
        self._now = 1_000.0
        self._timers: list[tuple[float, int, FakeTimer, Callable[..., object], tuple[object, ...]]] = []
        self._order = count()
        self._memory_bytes = memory_bytes
        self.turns: OutputTurns = UngatheredTurns()
        self.wall_ahead_s = 1.7e9
        # Time that passes with each reading of the clock, so that work takes time.
        self.tick_s = 0.0
        # Checks asked for and not yet done: (encoded secret, password, what to call).
        self.checks: list[tuple[str, bytes, Callable[[bool], None]]] = []

    def now(self) -> float:
        self._now += self.tick_s
        return self._now

    def fine_now(self) -> float:
        return self._now

    def work_s(self) -> float:
        return self._now

    def cpu_s(self) -> float:
        return 0.0

    def wall_time(self) -> float:
        return self._now + self.wall_ahead_s

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> FakeTimer:
        timer = FakeTimer()
        heapq.heappush(self._timers, (self._now + delay_s, next(self._order), timer, callback, args))
        return timer

    def verify_secret(
        self, encoded: str, password: bytes, done: Callable[[bool], None], is_wanted: Callable[[], bool]
    ) -> None:
        assert is_wanted()
        self.checks.append((encoded, password, done))

    def round_trip_s(self, wire: Wire) -> float | None:
        return wire.get_extra_info("rtt_s")  # type: ignore[no-any-return]  # a number or None

    def has_hung_up(self, wire: Wire) -> bool:
        return bool(wire.get_extra_info("has_hung_up"))

    def memory_bytes(self) -> int:
        return self._memory_bytes

    def resident_bytes(self) -> int:
        return 123

    def advance(self, delay_s: float = 0.0) -> None:
        """Let time pass and run what falls due, in order."""
        until = self._now + delay_s
        while self._timers and self._timers[0][0] <= until:
            due_at, _, timer, callback, args = heapq.heappop(self._timers)
            self._now = max(self._now, due_at)
            if not timer.is_cancelled:
                callback(*args)
        self._now = max(self._now, until)

    def run_one(self) -> None:
        """Run the one that is due next, if it is due now."""
        if self._timers and self._timers[0][0] <= self._now:
            _, _, timer, callback, args = heapq.heappop(self._timers)
            if not timer.is_cancelled:
                callback(*args)

    def stall(self, delay_s: float) -> None:
        """Let time pass while nothing runs, as when the process is stopped."""
        self._now += delay_s

    @property
    def timers_pending(self) -> int:
        return sum(not timer.is_cancelled for _, _, timer, _, _ in self._timers)


class FakeWire:
    """A transport: buffers while `is_stuck`, calls back when it is full, and reports its end to the core."""

    def __init__(self, core: HubCore, session: Session) -> None:
        self._core = core
        self._session = session
        self.sent = bytearray()
        self.buffer = bytearray()
        self.is_stuck = False
        self.is_reading = True
        self.is_closing = False
        # The kernel's data about the connection.
        self.rtt_s: float | None = None
        self.has_hung_up = False
        self._is_gone = False
        self._is_full = False
        self._is_told = False

    def write(self, data: bytes, /) -> None:
        assert not self._is_told, "written to after the hub was told that it is gone"
        if self._is_gone:
            return
        (self.buffer if self.is_stuck or self.buffer else self.sent).extend(data)
        if len(self.buffer) > HIGH_WATER_BYTES and not self._is_full:
            self._is_full = True
            self._core.backlogs.pause(self._session)

    def drain(self, size: int | None = None) -> None:
        """The peer reads: everything, until nothing is left, or `size` bytes of what is buffered now."""
        is_everything = size is None
        self.is_stuck = not is_everything
        while self.buffer:
            taken = self.buffer[:size]
            del self.buffer[:size]
            self.sent += taken
            if self._is_full and len(self.buffer) <= LOW_WATER_BYTES:
                self._is_full = False
                self._core.backlogs.resume(self._session)
            if not is_everything:
                break
        if self.is_closing and not self.buffer:
            self._lose()

    def close(self) -> None:
        self.is_closing = True
        self.is_reading = False
        if not self.buffer:
            self._lose()

    def abort(self) -> None:
        self.is_closing = True
        self.is_reading = False
        self.buffer.clear()
        self._lose()

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = not self.is_closing

    def get_write_buffer_size(self) -> int:
        return len(self.buffer)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        known = {"rtt_s": self.rtt_s, "has_hung_up": self.has_hung_up}
        return known.get(name, default)

    def is_gone(self) -> bool:
        return self._is_gone

    def _lose(self) -> None:
        """As with real transports, the loss is reported later."""
        if not self._is_gone:
            self._is_gone = True
            self._core.shell.call_later(0, self._tell)

    def _tell(self) -> None:
        self._is_told = True
        self._core.lost(self._session)


class FakeClient:
    """What one client sends and has read."""

    def __init__(
        self, world: World, user: User | None, proto: int, *, certificate: Sequence[str] = ()
    ) -> None:
        self._world = world
        self.session = world.core.open_session()
        self.wire = FakeWire(world.core, self.session)
        self._read_bytes = 0
        self._reader = hiredis.Reader()
        self.session.address = f"192.0.2.1:{self.session.id}"
        world.core.join(self.session, self.wire, certificate)
        if user is not None:
            world.core.log_in(self.session, user)
        if proto == 3:
            self.do("HELLO", "3")

    def send(self, *words: str | bytes) -> None:
        self.send_raw(request(*words))

    def send_raw(self, data: bytes) -> None:
        if self.wire.is_closing:
            return
        self.session.receive(data)

    def read(self) -> list[Any]:
        """All replies and pushes that have come since the last call."""
        self._reader.feed(bytes(self.wire.sent[self._read_bytes :]))
        self._read_bytes = len(self.wire.sent)
        return decoded(self._reader)

    def do(self, *words: str | bytes) -> Any:
        """Send a command and return its one reply."""
        self.send(*words)
        (reply,) = self.read()
        return reply

    def do_all(self, *words: str | bytes) -> list[Any]:
        """Send a command and return all that came of it."""
        self.send(*words)
        return self.read()

    def text(self, *words: str) -> str:
        reply = self.do(*words)
        assert isinstance(reply, bytes)
        return reply.decode()

    def is_connected(self) -> bool:
        return self.session.id in self._world.core.sessions


class World:
    """A hub core with its shell."""

    def __init__(
        self,
        users: Users | None = None,
        *,
        limits: Limits | None = None,
        telemetry: TelemetrySettings | None = None,
        coordinates: CoordinatesSettings | None = None,
        memory_bytes: int = 1 << 30,
    ) -> None:
        self.shell = FakeShell(memory_bytes)
        settings = HubSettings(
            limits=limits or Limits(),
            telemetry=telemetry or TelemetrySettings(),
            coordinates=coordinates or CoordinatesSettings(),
            port=0,
        )
        self.core = HubCore(settings, users or Users.open(), self.shell, Dispatch)

    def client(self, proto: int = 2, *, user: str | None = None) -> FakeClient:
        """A connected client; `user` is who it is without being asked."""
        return FakeClient(self, self.core.users.get(user) if user else None, proto)

    def check_secrets(
        self, is_right: Callable[[bytes], bool] = lambda password: password == b"right"
    ) -> None:
        checks, self.shell.checks = self.shell.checks, []
        for _, password, done in checks:
            done(is_right(password))
        # Commands behind a login are executed in a turn of their own.
        self.advance()

    def advance(self, delay_s: float = 0.0) -> None:
        self.shell.advance(delay_s)

    def info(self, field: str) -> str:
        """A line of INFO as another connection sees it."""
        return self.info_as(None, field)

    def info_as(self, user: str | None, field: str) -> str:
        client = self.client(user=user)
        lines = client.text("INFO").splitlines()
        client.send("QUIT")
        self.advance()
        return next(line.partition(":")[2] for line in lines if line.startswith(f"{field}:"))


# A well-formed secret; the fake shell decides by the password alone whether it fits.
SECRET = "scrypt$1024$1$1$c2FsdHNhbHQ=$" + "aGFzaGhhc2hoYXNoaGFzaA=="


def users(**grants: str) -> Users:
    """Users by name, each with the lines of its table; all have a secret."""
    tables = (f'[users.{name}]\nsecret = "{SECRET}"\n{lines}\n' for name, lines in grants.items())
    return parse_users("\n".join(tables))


def request(*words: str | bytes) -> bytes:
    encoded = [word.encode() if isinstance(word, str) else word for word in words]
    bulks = (b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded)
    return b"*%d\r\n%b" % (len(encoded), b"".join(bulks))


def pipeline(commands: Iterable[Iterable[str | bytes]]) -> bytes:
    return b"".join(request(*command) for command in commands)


def decoded(reader: hiredis.Reader) -> list[Any]:
    """What the reader has complete. A reply of 0 equals the False that says there is no more, so ask for identity."""
    replies = []
    while (reply := reader.gets()) is not False:
        replies.append(plain(reply))
    return replies


def plain(reply: Any) -> Any:
    """Errors as `Error` values, pushes as plain lists: so that replies compare."""
    if isinstance(reply, hiredis.ReplyError):
        return Error(str(reply))
    return [plain(part) for part in reply] if isinstance(reply, list) else reply


class Error(str):
    """An error reply's text."""

    __slots__ = ()
