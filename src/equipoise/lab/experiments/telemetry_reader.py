"""Read the hubs' records as the pipeline does, EQ.TELEMETRY by offset, over the simulated network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import hiredis
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.

from equipoise.lab.experiments.fleet import PORT
from equipoise.resp.spelling import spell

__all__ = ["SimulatedTelemetryReader"]

# So few that a hub whose bandwidth is used up gets an answer through in time: what has come need not come again.
BYTES_MAX = 32 * 1024
# A hub that takes longer is left out of this round; what it recorded comes with the next. As the pipeline's.
PATIENCE_S = 2.0


class SimulatedTelemetryReader:
    """Reads from all hubs; each from where it last stopped. Runs on the host of whoever plans."""

    def __init__(self) -> None:
        self._hubs: dict[str, _HubReader] = {}
        # Records as they came over the wire, in Arrow's encoding.
        self.stream_bytes = 0

    async def read(self, hubs: Iterable[str]) -> list[pa.RecordBatch]:
        """What these hubs have recorded since they were last asked."""
        wanted = set(hubs)
        for name in self._hubs.keys() - wanted:
            self._hubs.pop(name).close()
        readers = [self._hubs.setdefault(name, _HubReader(name)) for name in sorted(wanted)]
        pieces = await asyncio.gather(*(reader.read() for reader in readers))
        self.stream_bytes += sum(reader.taken_bytes for reader in readers)
        return [batch for batches in pieces for batch in batches]


class _HubReader(asyncio.Protocol):
    """One hub's. Not more than one request is under way."""

    def __init__(self, hub: str) -> None:
        self._hub = hub
        self._incarnation = self._next = 0
        # Of the last reading.
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
        """All that there is, piece by piece; what came before it takes too long is kept."""
        if self._transport is None:
            await asyncio.get_running_loop().create_connection(lambda: self, self._hub, PORT)
        end = -1
        while self._next != end:
            incarnation, _, following, stream, end = await self._ask()
            if incarnation != self._incarnation:
                # Another life, or the first one met: it begins where the hub says.
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
