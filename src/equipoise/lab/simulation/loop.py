"""The asyncio event loop in virtual time, including its calls for sockets.

One loop replaces the loops of all simulated hosts; the context of a call determines its host. `engine` decides what
runs next; `outside_calls` rejects calls that would leave the simulation.

A task has a host and a number. asyncio keeps tasks in sets (`TaskGroup`, `asyncio.wait`), whose order depends on the
hashes of the tasks. Default hashes are memory addresses, which differ between runs; the number makes the order
repeatable.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, TypeVarTuple

from equipoise.errors import SimulationError
from equipoise.lab.simulation.engine import Engine
from equipoise.lab.simulation.incarnation import HERE, Incarnation, SimulatedHandle, SimulatedTimer
from equipoise.lab.simulation.server import SimulatedServer

if TYPE_CHECKING:
    from equipoise.lab.simulation.network import Network
    from equipoise.lab.simulation.transport import SimulatedTransport

__all__ = ["ExecutorCall", "SimulatedLoop", "SimulatedTask", "SocketCalls", "dispose", "where"]

T = TypeVar("T")

# A coroutine with a `finally` that awaits must be closed again. After this many attempts it is left open.
CLOSES_MAX = 32


class SimulatedTask(asyncio.Task[T]):
    """Created by the loop only."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T],
        *,
        number: int,
        incarnation: Incarnation,
        loop: asyncio.AbstractEventLoop,
        name: str | None,
        context: Context | None,
    ) -> None:
        # Set before the base class adds the task to a set.
        self._number = number
        self.incarnation = incarnation
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number


def dispose(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Close tasks that will never continue, without a warning.

    Python cannot destroy a suspended coroutine without running its `finally`. The caller makes sure
    that these blocks have no effect: loop closed, transports dropped, disk handles stale.
    """
    for task in tasks:
        # asyncio's own switch against "Task was destroyed but it is pending".
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does
        coroutine = task.get_coro()
        for _ in range(CLOSES_MAX):
            try:
                coroutine.close()
            except BaseException:
                continue
            break


def where(task: asyncio.Task[Any]) -> str:
    """Describe a waiting task: its name, its host and its line."""
    incarnation = getattr(task, "incarnation", None)
    place = incarnation.host.name if incarnation is not None else "?"
    frames = task.get_stack(limit=1)
    line = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "not started"
    return f"{task.get_name()} on {place} at {line}"


Factory = Callable[[], asyncio.BaseProtocol]


class SocketCalls(Engine):
    """The part of the loop that opens and accepts connections."""

    network: Network
    # The incarnation of code whose context names no host.
    outside: Incarnation

    async def getaddrinfo(  # type: ignore[override]  # results are IPv4 only
        self,
        host: str | bytes | None,
        port: str | bytes | int | None,
        *,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]]:
        """The address of a simulated host; raises gaierror like the real call."""
        name = host.decode() if isinstance(host, bytes) else host
        address = self.network.resolve(name, is_passive=bool(flags & socket.AI_PASSIVE))
        entry = (address, int(port or 0))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", entry)]

    async def create_connection(  # type: ignore[override]  # asyncio's overloads tell kinds of sock apart
        self,
        protocol_factory: Factory,
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        **_: Any,
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        _refuse_special(ssl, sock)
        if host is None and port is None:
            raise ValueError("host and port was not specified and no sock specified")
        address = (self.network.resolve(host), int(port or 0))
        handshake = self.network.connect(protocol_factory, address)
        try:
            await handshake.waiter
        except BaseException:
            handshake.abandon()
            raise
        transport = handshake.transport
        assert transport is not None
        return transport, transport.get_protocol()

    async def create_server(
        self,
        protocol_factory: Factory,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        start_serving: bool = True,
        **_: Any,
    ) -> SimulatedServer:
        _refuse_special(ssl, sock)
        names = [host] if host is None or isinstance(host, str) else list(host)
        incarnation = HERE.get(self.outside)
        bound = [self._bind(name, port or 0) for name in names]
        server = SimulatedServer(self, incarnation, bound, factory=protocol_factory, context=copy_context())
        if start_serving:
            server.serve()
            await asyncio.sleep(0)
        return server

    def _bind(self, name: str | None, port: int) -> tuple[str, int]:
        """Find a free address of the current host."""
        incarnation = HERE.get(self.outside)
        address = self.network.resolve(name, is_passive=True)
        if address not in ("0.0.0.0", incarnation.host.address) and not address.startswith("127."):
            raise OSError(errno.EADDRNOTAVAIL, f"error while attempting to bind on address {(address, port)}")
        if port == 0:
            port = incarnation.host.next_port()
        elif any(taken == port and at in (address, "0.0.0.0") for at, taken in incarnation.servers):
            raise OSError(
                errno.EADDRINUSE,
                f"error while attempting to bind on address {(address, port)}: address already in use",
            )
        return address, port


def _refuse_special(ssl: object, sock: object) -> None:
    if ssl:
        raise SimulationError("TLS cannot be simulated; test it on a real loop")
    if sock is not None:
        raise SimulationError("a real socket cannot be simulated; pass host and port")


Ts = TypeVarTuple("Ts")

TASKS_NAMED_MAX = 20


class ExecutorCall:
    """A simulated executor call: its duration, and the disk syncs that it performs."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._ends: list[Callable[[], None]] = []

    def wait(self, seconds: float, end: Callable[[], None]) -> None:
        self.seconds += seconds
        self._ends.append(end)

    def settle(self) -> None:
        """Apply the effects of the syncs that the call has waited for."""
        ends, self._ends = self._ends, []
        for end in ends:
            end()


def _set_result(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class SimulatedLoop(SocketCalls):
    """Owned by a `Simulation`, which sets `network` and `outside` first."""

    def __init__(
        self,
        seed: int,
        *,
        split: float = 0.0,
        shuffle: bool = False,
        time_s_max: float = 1e6,
        steps_max: int = 100_000_000,
        sink: TextIO | None = None,
    ) -> None:
        super().__init__(
            seed, split=split, shuffle=shuffle, time_s_max=time_s_max, steps_max=steps_max, sink=sink
        )
        # Errors that asyncio would log: exceptions of callbacks, exceptions that were never retrieved.
        self.unhandled: list[dict[str, Any]] = []
        # Tasks of `Host.spawn`, whose exceptions are checked at the end.
        self.spawned: list[asyncio.Task[Any]] = []
        # The current executor call, if any.
        self.executor_call: ExecutorCall | None = None
        self._tasks_made = 0
        self._owner = threading.get_ident()
        self._dead_tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        """Always False: asyncio's debug mode measures real time and keeps many tracebacks."""
        return False

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = SimulatedHandle(callback, args, self, context)
        incarnation = context.get(HERE, self.outside)
        # `enqueue` inlined, because this path is the most frequent.
        if not incarnation.is_dead:
            incarnation.ready.append(handle)
            if not incarnation.is_active:
                incarnation.is_active = True
                self._active.append(incarnation)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        incarnation = context.get(HERE, self.outside)
        timer = SimulatedTimer(when, callback, args, self, context, incarnation)
        if when <= self.now:
            self.enqueue(incarnation, timer)
        else:
            self.timeline.add(when, timer)
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        if threading.get_ident() != self._owner:
            raise SimulationError("a call from another thread cannot be simulated; do its work inline")
        return self.call_soon(callback, *args, context=context)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
        **_: object,
    ) -> asyncio.Task[T]:
        if self.is_closed():
            coro.close()
            raise RuntimeError("Event loop is closed")
        self._tasks_made += 1
        return SimulatedTask(
            coro,  # type: ignore[arg-type]  # generators are let through for asyncio's sake
            number=self._tasks_made,
            incarnation=HERE.get(self.outside) if context is None else context.get(HERE, self.outside),
            loop=self,
            name=None if name is None else str(name),
            context=context,
        )

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call the function at once. Its result is available at once, or after the duration of its disk syncs."""
        future: asyncio.Future[T] = self.create_future()
        call = self.executor_call = ExecutorCall()
        try:
            result = func(*args)
            finish = partial(_set_result, future, result)
        except Exception as error:
            finish = partial(_set_exception, future, error)
        finally:
            self.executor_call = None
        if not call.seconds:
            finish()
            return future
        # The disk works while the host is paused, so syncs complete outside of the host's context.
        self.timeline.add(self.now + call.seconds, call.settle)
        self.call_at(self.now + call.seconds, finish)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_closed():
            super().call_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Record an error that asyncio would log; `Simulation.run` then fails.

        A cancellation is not an error: streams of Python 3.11 report cancelled handlers by mistake.
        """
        if not isinstance(context.get("exception"), asyncio.CancelledError):
            self.unhandled.append(context)

    def collect_failures(self) -> None:
        """Add to `unhandled` the exceptions of spawned tasks that were not retrieved."""
        for task in self.spawned:
            # asyncio's flag for an exception that it would log when the task is collected.
            if task.done() and getattr(task, "_log_traceback", False):
                text = f"{where(task)} failed, and its result was never read"
                self.unhandled.append({"message": text, "exception": task.exception(), "task": task})
        self.spawned = [task for task in self.spawned if not task.done()]

    def retain_tasks(self, incarnation: Incarnation) -> None:
        """Keep references to the tasks of a crashed incarnation: garbage collection would run their `finally`."""
        self._dead_tasks.extend(task for task in self._pending() if task.incarnation is incarnation)

    def describe_waiting(self) -> str:
        return "".join(f"\n  {where(task)}" for task in self._pending()[:TASKS_NAMED_MAX])

    def close(self) -> None:
        """Close all remaining tasks and transports silently."""
        if self.is_closed():
            return
        pending = [*self._dead_tasks, *self._pending()]
        self._dead_tasks = []
        super().close()
        # `finally` blocks find this closed loop. Without a running loop asyncio would create a real one.
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            dispose(pending)
        finally:
            asyncio._set_running_loop(running)
        self._forget_everything()

    def _pending(self) -> list[SimulatedTask[Any]]:
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimulatedTask)]
        return sorted(tasks, key=hash)
