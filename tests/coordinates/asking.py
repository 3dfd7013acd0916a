"""Hubs with coordinates, a client that probes them, and virtual time: no network, no loop."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinates import shapes
from equipoise.coordinates import Coordinate, CoordinateSettings, Finder, FinderSettings
from equipoise.coordinates.finder import Ask
from equipoise.errors import DisconnectedError, RefusedError

SPACE = CoordinateSettings()


@dataclass
class LinkInterest:
    at: float
    peer: str
    words: tuple[bytes, ...]

    @property
    def told(self) -> Coordinate | None:
        return Coordinate.from_bytes(self.words[2], SPACE) if len(self.words) == 3 else None


@dataclass
class World:
    """The last node of `truth` is the client; the others are hubs that found their places among themselves."""

    truth: shapes.Truth
    used: set[str] = field(default_factory=set)
    linked: set[str] = field(default_factory=set)
    settings: FinderSettings = field(default_factory=FinderSettings)
    seed: int = 1

    def __post_init__(self) -> None:
        # A story may change it.
        self.truth = [list(row) for row in self.truth]
        hubs = len(self.truth) - 1
        inner = [row[:hubs] for row in self.truth[:hubs]]
        cycles = 400
        self.nodes = shapes.converge(inner, cycles, self.seed)
        self.hubs = [f"hub-{i}:1" for i in range(hubs)]
        self.places = dict(zip(self.hubs, shapes.places_of(self.nodes), strict=True))
        self.rng = random.Random(self.seed)
        self.finder = Finder(self.rng.random, self.settings, SPACE)
        self.now = 100.0
        self.asked: list[LinkInterest] = []
        self.visits: list[tuple[float, str]] = []
        # What a peer answers, if not its place.
        self.answers: dict[str, Callable[[], object]] = {}
        self.gateway: Callable[[], object] | None = None
        self.access_s = 0.004
        self.jitter = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def rtt_s(self, peer: str) -> float:
        return self.truth[-1][self.hubs.index(peer)] * (1 + self.jitter * self.rng.random())

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + delay_s, self._count, call))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        self.step()
        while True:
            at = min(self._events[0][0] if self._events else math.inf, self.finder.next_at)
            if at > end:
                break
            self.now = max(self.now, at)
            if self._events and self._events[0][0] <= self.now:
                heapq.heappop(self._events)[2]()
            self.step()
        self.now = end

    def step(self) -> None:
        finder = self.finder
        links = {peer: peer in self.used for peer in sorted(self.linked | self.used)}
        step = finder.step(self.now, links, self.hubs)
        for ask in step.asks:
            self.ask(ask)
        if step.visit is not None:
            self.visit(step.visit)
        if step.guide:
            address = finder.guide.address
            assert address is not None
            if self.gateway is None:
                failure = DisconnectedError("unreachable")
                self.later(0.01, lambda: finder.guide_answered(address, failure, None, self.now))
            else:
                answer = self.gateway
                self.later(
                    self.access_s,
                    lambda: finder.guide_answered(address, answer(), self.access_s, self.now),
                )

    def ask(self, ask: Ask) -> None:
        self.asked.append(LinkInterest(self.now, ask.peer, ask.words))
        rtt_s = self.rtt_s(ask.peer)
        self.later(rtt_s, lambda: self.finder.answered(ask.peer, self.answer(ask.peer), rtt_s, self.now))

    def visit(self, peer: str) -> None:
        self.visits.append((self.now, peer))
        for _ in range(self.settings.visit_samples):
            self.finder.answered(peer, self.answer(peer), self.rtt_s(peer), self.now)
        is_answered = not isinstance(self.answer(peer), RefusedError)
        self.later(1.0, lambda: self.finder.visited(peer, is_answered=is_answered))

    def answer(self, peer: str) -> object:
        return self.answers[peer]() if peer in self.answers else self.places[peer].to_bytes()

    def wrongness(self, coordinate: Coordinate | None = None) -> list[float]:
        """By hub, how far the estimated round trip is off, relatively."""
        coordinate = coordinate or self.finder.coordinate
        assert coordinate is not None
        return [
            abs(coordinate.distance_s(self.places[peer]) - true) / true
            for peer, true in zip(self.hubs, self.truth[-1], strict=False)
        ]

    def told(self, peer: str) -> list[LinkInterest]:
        return [asked for asked in self.asked if asked.peer == peer and len(asked.words) == 3]
