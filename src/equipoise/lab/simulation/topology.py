"""The network between two places: latency, bandwidth, loss.

A topology returns the `LinkSpec` from one place to another. Each host has a place, by default its own
name. Latencies are one-way; round-trip times include both directions.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

from equipoise.errors import SettingsError
from equipoise.lab.simulation.cities import CITIES, distance_km

__all__ = [
    "TOPOLOGIES",
    "Cities",
    "Lan",
    "LinkSpec",
    "LongWay",
    "Matrix",
    "Sites",
    "Star",
    "Topology",
    "Uneven",
    "matrix_from_file",
    "topology_by_name",
]

# Light in glass: two thirds of its speed in vacuum.
FIBRE_KM_PER_S = 299_792.458 * 2 / 3


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """Properties of one direction between two hosts."""

    latency_s: float = 0.000_25
    # Added to the latency of each segment, uniformly between zero and this.
    jitter_s: float = 0.0
    # None means without limit.
    bandwidth_bytes_per_s: float | None = None
    # Queue in front of a limited bandwidth; beyond it senders keep data in their buffers.
    queue_bytes_max: int = 1024 * 1024
    # The chance that a packet is lost and arrives late by a retransmission timeout.
    loss: float = 0.0
    # Bytes that a connection may have sent and the receiving program has not read: the buffers of both
    # kernels. Grows with bandwidth × round trip, as receive windows do.
    window_bytes: int = 256 * 1024
    # Interval at which the receiving machine reads all received data in one piece, as a game does once per frame;
    # 0 means at once. Reduces the number of events for many small messages.
    gather_s: float = 0.0
    # Senders over this link do not queue for a full pipe, up to twice its queue limit: TCP over a short path uses free
    # capacity before connections over long paths detect it.
    goes_first: bool = False


class Topology(Protocol):
    """The interface of topologies to the network."""

    def link(self, source: str, target: str) -> LinkSpec:
        """The properties of the link from one place to another, which may be the same place."""
        ...


@dataclass(frozen=True)
class Lan:
    """All hosts on one switch."""

    spec: LinkSpec = field(default_factory=LinkSpec)

    def link(self, source: str, target: str) -> LinkSpec:
        return self.spec


@dataclass(frozen=True)
class Star:
    """Every host has its own access line; traffic between two hosts uses both lines."""

    # Access lines by place; other places have the default.
    access: Mapping[str, LinkSpec] = field(default_factory=dict)
    default: LinkSpec = field(default_factory=lambda: LinkSpec(latency_s=0.010))

    def link(self, source: str, target: str) -> LinkSpec:
        up, down = self.access.get(source, self.default), self.access.get(target, self.default)
        rates = [rate for rate in (up.bandwidth_bytes_per_s, down.bandwidth_bytes_per_s) if rate is not None]
        return LinkSpec(
            latency_s=up.latency_s + down.latency_s,
            jitter_s=up.jitter_s + down.jitter_s,
            bandwidth_bytes_per_s=min(rates, default=None),
            queue_bytes_max=min(up.queue_bytes_max, down.queue_bytes_max),
            loss=up.loss + down.loss,
            window_bytes=max(up.window_bytes, down.window_bytes),
        )


@dataclass(frozen=True)
class Sites:
    """Sites with a LAN each, and round-trip times between them."""

    # Seconds, keyed by the two sites in either order.
    round_trip_s: Mapping[tuple[str, str], float]
    within: LinkSpec = field(default_factory=LinkSpec)
    # Properties of links between sites, without the latency.
    between: LinkSpec = field(default_factory=LinkSpec)

    def link(self, source: str, target: str) -> LinkSpec:
        if source == target:
            return self.within
        for pair in ((source, target), (target, source)):
            if pair in self.round_trip_s:
                return replace(self.between, latency_s=self.round_trip_s[pair] / 2)
        raise SettingsError(f"no round-trip time between {source!r} and {target!r}")


@dataclass(frozen=True)
class Cities:
    """Cities of the world, with latencies from great-circle distances."""

    # Measured paths are 1.5 to 2.5 times as long as the great circle, routers and queues included.
    stretch: float = 2.0
    # Access latency of both ends together.
    access_s: float = 0.001
    within: LinkSpec = field(default_factory=LinkSpec)
    between: LinkSpec = field(default_factory=LinkSpec)

    def link(self, source: str, target: str) -> LinkSpec:
        if source == target:
            return self.within
        for place in (source, target):
            if place not in CITIES:
                raise SettingsError(f"no city {place!r} in the table; places must be cities")
        latency_s = distance_km(source, target) / FIBRE_KM_PER_S * self.stretch + self.access_s
        return replace(self.between, latency_s=latency_s)


@dataclass(frozen=True)
class Matrix:
    """Measured one-way latencies from each place to each other."""

    latency_s: Mapping[tuple[str, str], float]
    within: LinkSpec = field(default_factory=LinkSpec)
    between: LinkSpec = field(default_factory=LinkSpec)

    def link(self, source: str, target: str) -> LinkSpec:
        if (source, target) in self.latency_s:
            return replace(self.between, latency_s=self.latency_s[source, target])
        if source == target:
            return self.within
        raise SettingsError(f"the matrix has no latency from {source!r} to {target!r}")


def matrix_from_file(path: str | Path, *, is_round_trip: bool = True, **specs: LinkSpec) -> Matrix:
    """Read a square table of milliseconds: commas or blanks between values, `#` begins a comment.

    If the first row names the places, the first column of every other row must too. Otherwise places
    are "0", "1" and so on. Negative values, which data sets use for "not measured", are left out.
    """
    rows = _rows(Path(path))
    if not rows:
        raise SettingsError(f"{path} contains no matrix")
    has_names = not _is_number(rows[0][-1])
    if has_names:
        names = [name for name in rows[0] if name][-(len(rows) - 1) :]
        rows = [row[1:] for row in rows[1:]]
    else:
        names = [str(index) for index in range(len(rows))]
    scale = 0.001 / (2 if is_round_trip else 1)
    latencies: dict[tuple[str, str], float] = {}
    for source, row in zip(names, rows, strict=True):
        if len(row) != len(names):
            raise SettingsError(f"{path}: the row of {source!r} has {len(row)} values, not {len(names)}")
        for target, text in zip(names, row, strict=True):
            if source != target and float(text) >= 0:
                latencies[source, target] = float(text) * scale
    return Matrix(latencies, **specs)


def _rows(path: Path) -> list[list[str]]:
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    lines = [line for line in lines if line]
    if any("," in line for line in lines):
        return [[value.strip() for value in row] for row in csv.reader(lines)]
    return [line.split() for line in lines]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


TOPOLOGIES: dict[str, Callable[..., Topology]] = {
    "lan": Lan,
    "star": Star,
    "sites": Sites,
    "cities": Cities,
    "matrix": matrix_from_file,
}


def topology_by_name(name: str, **settings: Any) -> Topology:
    """Create a topology by its name with its settings."""
    if name not in TOPOLOGIES:
        raise SettingsError(f"unknown topology {name!r}; known topologies: {', '.join(TOPOLOGIES)}")
    return TOPOLOGIES[name](**settings)


class Uneven:
    """Latencies between hubs differ up to a hundredfold; if scattered, latencies of clients differ too."""

    def __init__(self, seed: int, hubs: tuple[str, ...], *, is_scattered: bool = False) -> None:
        self._seed = seed
        self._hubs = hubs
        self._is_scattered = is_scattered
        self._known: dict[tuple[str, str], LinkSpec] = {}

    def link(self, source: str, target: str) -> LinkSpec:
        spec = self._known.get((source, target))
        if spec is None:
            is_drawn = self._is_scattered or (source in self._hubs and target in self._hubs)
            drawn = Random(f"{self._seed} {source} {target}").random() if is_drawn else 0.0
            spec = self._known[source, target] = LinkSpec(latency_s=0.001 * 100**drawn)
        return spec


class LongWay:
    """Each direction has its own latency. The latency from h1 to h3 is the largest, so that h3 receives later frames of
    h2 before earlier frames of h1."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._known: dict[tuple[str, str], LinkSpec] = {}

    def link(self, source: str, target: str) -> LinkSpec:
        spec = self._known.get((source, target))
        if spec is None:
            drawn = Random(f"{self._seed} {source} {target}").random()
            latency_s = 0.001 + 0.01 * drawn
            if (source, target) == ("h1", "h3"):
                latency_s += 0.04
            spec = self._known[source, target] = LinkSpec(latency_s=latency_s)
        return spec
