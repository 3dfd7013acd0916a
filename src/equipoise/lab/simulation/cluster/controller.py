"""The real controller of a simulated region, and its views.

`SimulatedTelemetryReader` reads records like the pipeline: EQ.TELEMETRY by offset. A simulation has no worker
processes, so `LiveViews` validates, samples and sums the records in one thread, as the pipeline's driver does on one
machine. `TelemetryViews` reads and sums the records once a second for a controller.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import hiredis
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.control.controller import Controller, ViewSource
from equipoise.control.provision import NoProvisioner, StoreProvisioner
from equipoise.control.settings import ControllerSettings
from equipoise.lab.simulation.cluster.region import TREE, Region
from equipoise.lab.simulation.host import Host
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.pipeline.samples import sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import SlidingWindow
from equipoise.pipeline.validation import judged
from equipoise.plan import PlannerSettings, Policy
from equipoise.plan.planner import Planner
from equipoise.resp.replies import spell
from equipoise.store import LeaderFacts
from equipoise.view import View
from equipoise.view.codec import from_tables

__all__ = [
    "LiveViews",
    "SimulatedTelemetryReader",
    "TelemetryViews",
    "ViewFeed",
    "run_controller",
    "start_controller",
]

# Small, so that a hub without free bandwidth still completes an answer in time. A retry resumes behind the last answer.
BYTES_MAX = 32 * 1024
# A hub that takes longer is skipped in this round; its records arrive in the next. The same as in the pipeline.
PATIENCE_S = 2.0
# Time between two reads.
INTERVAL_S = 1.0
# Short, so that the planner removes a dead hub from the plan within a run of a few seconds.
DEAD_WAIT_S = 2.0


class ViewFeed(ViewSource, Protocol):
    """A controller's source of views that needs a task of its own on the controller's host."""

    async def run(self) -> None:
        """Run until cancelled."""


def run_controller(
    region: Region, policy: Policy, views: ViewFeed, settings: ControllerSettings, host: Host
) -> asyncio.Task[None]:
    """Run a controller of the region on this host until cancelled. It writes its requests for hubs to the store."""

    async def run() -> None:
        store = await region.open()
        controller = Controller(
            store,
            TREE,
            settings,
            policy=policy,
            views=views,
            provisioner=StoreProvisioner(store, TREE) if settings.hubs_max else NoProvisioner(),
            facts=LeaderFacts(name=settings.name, site=settings.site),
            clock=host.clock.time,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(views.run())
            group.create_task(controller.run())

    return host.spawn(run(), name="control")


def start_controller(region: Region, host: Host, planning: Mapping[str, float]) -> None:
    """Run a controller in a world of a few seconds: it plans by load, and starts no hubs.

    `planning`: settings of the planner, by name.
    """
    if not host.is_up:
        host.restart()
    settings = ControllerSettings(name=host.name, period_s=0.5, urgent_period_s=0.2)
    policy = Planner(PlannerSettings(**{"dead_wait_s": DEAD_WAIT_S, **planning}))  # type: ignore[arg-type]  # by name
    run_controller(region, policy, TelemetryViews(lambda: region.alive, host.clock.time), settings, host)


class TelemetryViews:
    """A controller's source of views: telemetry of hubs, read over the network. Runs on the controller's host."""

    def __init__(
        self, hubs: Callable[[], Iterable[str]], clock: Callable[[], float], views: LiveViews | None = None
    ) -> None:
        """`hubs`: the hubs to read. `views` builds views from the records."""
        self.latest: View | None = None
        self.news = asyncio.Event()
        self._hubs = hubs
        self._clock = clock
        self._views = views or LiveViews()

    async def run(self) -> None:
        """Read and build a view once a second until cancelled."""
        reader, loop = SimulatedTelemetryReader(), asyncio.get_running_loop()
        at = loop.time()
        while True:
            at += INTERVAL_S
            await asyncio.sleep(max(0.0, at - loop.time()))
            view = self._views.view(await reader.read(self._hubs()), self._clock())
            if view is not None:
                self.latest = view
                self.news.set()


_US = 1e6


class LiveViews:
    """Takes records, and builds a view of the last ten seconds every second."""

    def __init__(self) -> None:
        self._window = SlidingWindow()
        self._plausible = Plausible()

    def view(self, batches: Sequence[pa.RecordBatch], now: float) -> View | None:
        """The view with these records; None while no hub has recorded anything. `now` is the wall clock's."""
        now_us = int(now * _US)
        records = [judged(batch, now_us=now_us, plausible=self._plausible) for batch in _joined(batches)]
        self._window.add(sampled(records, Counter()))
        made = self._window.view()
        return None if made is None else from_tables(made.time_s, made.tables, window_s=made.window_s)


def _joined(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One batch for each schema: each batch costs a call for each of its columns, whatever its length."""
    found: dict[pa.Schema, list[pa.RecordBatch]] = {}
    for batch in batches:
        found.setdefault(batch.schema, []).append(batch)
    return [pa.concat_batches(alike) for alike in found.values()]


class SimulatedTelemetryReader:
    """Reads from all hubs, each from its last offset. Runs on the controller's host."""

    def __init__(self) -> None:
        self._hubs: dict[str, _HubReader] = {}
        # Size of the records on the wire, in Arrow's encoding.
        self.stream_bytes = 0

    async def read(self, hubs: Iterable[str]) -> list[pa.RecordBatch]:
        """The new records of these hubs since the last read."""
        wanted = set(hubs)
        for name in self._hubs.keys() - wanted:
            self._hubs.pop(name).close()
        readers = [self._hubs.setdefault(name, _HubReader(name)) for name in sorted(wanted)]
        pieces = await asyncio.gather(*(reader.read() for reader in readers))
        self.stream_bytes += sum(reader.taken_bytes for reader in readers)
        return [batch for batches in pieces for batch in batches]


class _HubReader(asyncio.Protocol):
    """The reader of one hub. At most one request is in flight."""

    def __init__(self, hub: str) -> None:
        self._hub = hub
        self._incarnation = self._next = 0
        # Bytes of the last read.
        self.taken_bytes = 0
        self._parser = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._reply: asyncio.Future[list[object]] | None = None

    async def read(self) -> list[pa.RecordBatch]:
        self.taken_bytes = 0
        batches: list[pa.RecordBatch] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._read(batches)
        except (OSError, TimeoutError):
            self.close()
        return batches

    async def _read(self, batches: list[pa.RecordBatch]) -> None:
        """Read all new records in several requests. Records read before a timeout are kept."""
        if self._transport is None:
            await asyncio.get_running_loop().create_connection(lambda: self, self._hub, PORT)
        end = -1
        while self._next != end:
            incarnation, _, following, stream, end = await self._ask()
            if incarnation != self._incarnation:
                # A new incarnation, or the first read: start at the offset that the hub states.
                self._incarnation, self._next, end = incarnation, following, -1
                continue
            self._next = following
            self.taken_bytes += len(stream)
            with pa.ipc.open_stream(stream) as reader:
                batches.extend(reader)

    async def _ask(self) -> tuple[int, int, int, bytes, int]:
        assert self._transport is not None, "connected before"
        self._reply = asyncio.get_running_loop().create_future()
        words = (self._incarnation, self._next, BYTES_MAX)
        self._transport.write(spell([b"EQ.TELEMETRY", *(b"%d" % word for word in words)]))
        match await self._reply:
            case [int(incarnation), int(first), int(following), bytes(stream), int(end)]:
                return incarnation, first, following, stream, end
            case other:
                raise OSError(f"{self._hub} answers {other!r}")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._parser = hiredis.Reader()

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        reply = self._parser.gets()
        if reply is not False and self._reply is not None and not self._reply.done():
            self._reply.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(exc or ConnectionResetError("the hub closed the connection"))
