"""Scripted hubs on simulated hosts that report their coordinates, and record the reports of clients."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

from equipoise.coordinates import Coordinate, CoordinateSettings
from equipoise.lab.simulation import Simulation, Sites

from .peer import Peer, Session, always, bulk, push

PORT = 6399
SPACE = CoordinateSettings()


def place(*point_ms: float, height_ms: float = 0.1, error: float = 0.05) -> Coordinate:
    point = [ms / 1000 for ms in point_ms] + [0.0] * (SPACE.dimensions - len(point_ms))
    return Coordinate(tuple(point), error, height_ms / 1000)


class WhereHub(Peer):
    """A hub with a coordinate. `words` has the arguments of each EQ.WHERE, with its time of arrival."""

    def __init__(self, sim: Simulation, name: str, coordinate: Coordinate | None) -> None:
        super().__init__()
        self.sim = sim
        self.name = name
        self.coordinate = coordinate
        self.words: list[tuple[float, list[bytes]]] = []
        self.answers[b"EQ.LINK"] = lambda session, request: push(b"eq.here", self.address) + b"+OK\r\n"
        self.answers[b"EQ.WHERE"] = self._where
        self.answers[b"EQ.SETTLE"] = lambda session, request: (
            b"+OK\r\n" + push(b"eq.settled", request[1], b"", 1, 1)
        )
        self.answers[b"QUIT"] = always(b"+OK\r\n")

    @property
    def address(self) -> bytes:
        return b"%b:%d" % (self.name.encode(), PORT)

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Session(self), "0.0.0.0", PORT)

    def serve(self, place: str | None = None) -> None:
        self.sim.host(self.name, place=place or self.name).spawn(self.listen())

    def _where(self, session: Session, request: list[bytes]) -> bytes:
        self.words.append((self.sim.now, request[1:]))
        return b"_\r\n" if self.coordinate is None else bulk(self.coordinate.to_bytes())

    @property
    def told(self) -> list[tuple[float, int, Coordinate]]:
        """The time of a client's report, its round trip to here, and its coordinate."""
        return [
            (at, int(words[0]), Coordinate.from_bytes(words[1], SPACE)) for at, words in self.words if words
        ]

    @property
    def open_sessions(self) -> int:
        return sum(session.is_open for session in self.sessions)


def triangle(sim: Simulation, names: Sequence[str] = ("a", "b", "c")) -> list[WhereHub]:
    """Three hubs 30 ms from each other, each at its own site and with a true coordinate."""
    side_ms = 30.0
    points = [(0.0, 0.0), (side_ms, 0.0), (side_ms / 2, side_ms * 3**0.5 / 2)]
    hubs = [WhereHub(sim, name, place(x, y)) for name, (x, y) in zip(names, points, strict=True)]
    for hub in hubs:
        hub.serve(place=f"site-{hub.name}")
    return hubs


def sites(**client_ms: float) -> Sites:
    """The triangle's sites, and a place `client` so far, there and back, from each of them."""
    pairs = {("site-a", "site-b"): 0.030, ("site-a", "site-c"): 0.030, ("site-b", "site-c"): 0.030}
    pairs |= {("client", f"site-{name}"): ms / 1000 for name, ms in client_ms.items()}
    return Sites(pairs)


def reply_of(numbers: Sequence[float]) -> bytes:
    """What a hub would answer that is at these numbers."""
    return bulk(struct.pack(f"<{len(numbers)}d", *numbers))
