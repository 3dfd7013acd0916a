"""A hub that records, and a reader of its records."""

from __future__ import annotations

from typing import Any

from equipoise.access import Users
from equipoise.hub.locations.settings import CoordinatesSettings, TcpRttFor
from equipoise.hub.settings import Limits
from equipoise.hub.telemetry.settings import TelemetrySettings
from equipoise.telemetry import RecordKind
from hub.world import FakeClient, World
from telemetry.records import read_stream

Record = dict[str, Any]


class FakeProcess:
    def __init__(self) -> None:
        self.used_s = 5.0

    def cpu_s(self) -> float:
        return self.used_s

    work_s = cpu_s

    def resident_bytes(self) -> int:
        return 40_000_000

    def memory_bytes_max(self) -> int:
        return 900_000_000

    def network_bytes_per_s(self) -> float:
        return 0.0


class MeteredWorld(World):
    """Records from the beginning; `window` lets one pass."""

    def __init__(
        self,
        users: Users | None = None,
        *,
        limits: Limits | None = None,
        telemetry: TelemetrySettings | None = None,
        coordinates: CoordinatesSettings | None = None,
    ) -> None:
        coordinates = coordinates or CoordinatesSettings(tcp_rtt_for=TcpRttFor.ALL)
        super().__init__(users, limits=limits, telemetry=telemetry, coordinates=coordinates)
        self.process = FakeProcess()
        self.core.metering.start(self.process, lambda count: b"\x07" * count)

    def window(self) -> list[Record]:
        """Let the present window come to its end; its records."""
        end = self.core.metering.ring.end
        self.end_window()
        return [record for record in self.records() if record["sequence"] >= end]

    def end_window(self) -> None:
        ring = self.core.metering.ring
        end = ring.end
        while not any(block.kind is RecordKind.HUB for block, _ in ring.read(end)):
            self.advance(0.05)

    def topics(self) -> dict[bytes, Record]:
        """Let a window pass; its records of topics, by name."""
        return {record["topic"]: record for record in self.window() if record["kind"] == "topic"}

    def hub(self) -> Record:
        """Let a window pass; its record of the hub."""
        (record,) = [record for record in self.window() if record["kind"] == "hub"]
        return record

    def records(self) -> list[Record]:
        """All that the ring holds, read as an operator would."""
        reader = self.client(3)
        records = Reader(reader, self).read_all()
        reader.send("QUIT")
        self.advance()
        return records


class Reader:
    """Reads a hub's records by offset."""

    def __init__(self, client: FakeClient, world: World) -> None:
        self.client = client
        self._world = world
        self.incarnation = 0
        self.next = 0
        self.end = 0
        # Records that had fallen out before they could be read.
        self.missed = 0

    def ask(self, incarnation: int, sequence: int, bytes_max: int) -> Any:
        self.client.send("EQ.TELEMETRY", str(incarnation), str(sequence), str(bytes_max))
        # The reply is put together by turns.
        replies: list[Any] = []
        while not replies:
            self._world.advance()
            replies = self.client.read()
        (reply,) = replies
        return reply

    def read(self, bytes_max: int = 1 << 20) -> list[Record]:
        """The next records; none if there are none, or the hub has restarted."""
        incarnation, first, following, stream, end = self.ask(self.incarnation, self.next, bytes_max)
        if incarnation != self.incarnation:
            self.incarnation, self.next = incarnation, first
        self.missed += first - self.next
        self.next, self.end = following, end
        return read_stream(stream)

    def read_all(self, bytes_max: int = 1 << 20) -> list[Record]:
        records = self.read(bytes_max)
        while self.next < self.end:
            records += self.read(bytes_max)
        return records
