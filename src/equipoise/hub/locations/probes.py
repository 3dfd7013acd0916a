"""Probe a few peers at a time over open links to find this hub's coordinate.

The round trip must be that of the network alone. So a probe is sent only if it can be written at once and its reply can
be returned, and a hub replies only if the reply can be written at once. A sample during which either link reconnected
is discarded; delays of a busy loop are filtered by the estimator's median.

A peer has at most one probe in flight, however short the rounds are.

The coordinate is published in two ways. Probing hubs receive the current coordinate, which the algorithm needs; all
others receive one that changes only when it has moved significantly (`coordinates.Stability`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from statistics import median_low
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.coordinates import Coordinate, CoordinateSettings, Estimator, Stability
from equipoise.errors import CoordinateError

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.incoming import InLink
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.other_hubs import OtherHubs
    from equipoise.hub.data.ports import Shell, Timer
    from equipoise.hub.settings import HubSettings

__all__ = ["LocationProbes"]

# With more bytes in flight on a link, a probe would measure the queue: about 10 ms at 1 Gbit/s.
QUIET_BYTES_MAX = 1024 * 1024
# While the hub's own error is above this, rounds are more frequent by the factor, so that a new hub converges sooner.
UNSURE_ERROR = 0.25
HURRY_FACTOR = 4.0
# Round trips kept per peer: the median of five ignores two that were delayed by a busy loop.
RECENT = 5
# The near peer of a round is drawn from so many, so that not only the nearest is probed.
NEAREST = 4


class _Probe(NamedTuple):
    """A probe in flight, and the connections of both links that it depends on."""

    token: int
    sent_at: float
    out: OutLink
    out_connections: int
    incoming: InLink
    in_connections: int


class ProbeHost(Protocol):
    """The interface of the hub to its probes."""

    @property
    def settings(self) -> HubSettings: ...
    @property
    def shell(self) -> Shell: ...
    @property
    def cluster(self) -> OtherHubs: ...


class LocationProbes:
    """Owned by Locations. Probes from `start` to `stop`."""

    def __init__(self, core: ProbeHost, settings: CoordinateSettings) -> None:
        self._core = core
        self._settings = settings
        self._draw: Callable[[], float] = float
        self.estimator = Estimator(settings, self._drawn)
        # Whether clients' round trips have shown that this hub has no access line (no height).
        self.is_flat = False
        # The coordinate for all except probing hubs.
        self.stability = Stability()
        self._timer: Timer | None = None
        self._in_flight: dict[str, _Probe] = {}
        self._last_token = 0
        # By peer, the coordinate of its last reply: exactly the live peers that have replied.
        self._peers: dict[str, Coordinate] = {}
        # By the same peers, the latest round trips.
        self._rtts_s: dict[str, deque[float]] = {}
        # Whether the coordinate has changed since the last round.
        self._has_moved = False
        # Probes sent; replies used; and replies discarded, because they were late or invalid.
        self.sent = self.answered = self.discarded = 0

    @property
    def peers(self) -> int:
        """Number of live hubs that have replied."""
        return len(self._peers)

    def round_trip_s(self, peer: str) -> float | None:
        """The round trip to the peer over the links in use; None if the peer has not replied yet."""
        recent = self._rtts_s.get(peer)
        return None if recent is None else median_low(recent)

    def start(self, draw: Callable[[], float]) -> None:
        """Begin to probe. `draw` returns random numbers between 0 and 1."""
        self._draw = draw
        self._in_flight.clear()
        if self._timer is None:
            self._set_timer()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._in_flight.clear()

    def peer_gone(self, peer: str) -> None:
        """The peer is dead, or has a new incarnation."""
        self._in_flight.pop(peer, None)
        self._peers.pop(peer, None)
        self._rtts_s.pop(peer, None)
        self.estimator.forget(peer)

    def client_at(self, rtt_s: float) -> None:
        """A client's round trip was measured: if it is shorter than this hub's height, estimate without a height.

        Equal distances between sites can also be explained by long access lines; hubs alone cannot distinguish the two.
        A height stands for a line that all packets pass, so a nearer client disproves it. The hub then restarts its
        estimate without a height. Its announced coordinate stays until the new one has converged.
        """
        own = self.estimator.coordinate
        if not self.is_flat and rtt_s < own.height_s + own.adjustment_s:
            self.is_flat = True
            flat = replace(self._settings, adjustment_samples=0, height_s_max=self._settings.height_s_min)
            self.estimator = Estimator(flat, self._drawn)

    # --- rounds

    def _set_timer(self) -> None:
        delay_s = self._core.settings.coordinates.probe_interval_s
        if self.estimator.coordinate.error > UNSURE_ERROR:
            delay_s /= HURRY_FACTOR
        # Jitter, so that hubs do not probe at the same time.
        self._timer = self._core.shell.call_later(delay_s * (0.75 + 0.5 * self._draw()), self._round)

    def _round(self) -> None:
        self._set_timer()
        if self._has_moved:
            self._has_moved = False
            self.stability.consider(self.estimator.coordinate)
        cluster = self._core.cluster
        for peer in self._choose([name for name in cluster.out if self._may_probe(cluster, name)]):
            self._probe(cluster, peer)

    def _may_probe(self, cluster: OtherHubs, peer: str) -> bool:
        """Whether the peer can reply, and has no probe in flight that is still valid."""
        if not cluster.can_probe(peer):
            return False
        probe = self._in_flight.get(peer)
        if probe is None or not _is_unbroken(probe, cluster, peer):
            return True
        return self._core.shell.fine_now() - probe.sent_at > self._settings.rtt_s_max

    def _choose(self, peers: list[str]) -> Iterable[str]:
        """Choose the peers of one round, each once."""
        settings = self._core.settings.coordinates
        chosen: dict[str, None] = {}
        self._take([peer for peer in settings.seeds if peer in peers], chosen)
        if settings.probes_per_round > len(chosen) + 1:
            self._take(self._nearest(peers), chosen)
        while len(chosen) < min(settings.probes_per_round, len(peers)):
            self._take([peer for peer in peers if peer not in chosen], chosen)
        return chosen

    def _take(self, among: list[str], chosen: dict[str, None]) -> None:
        if among:
            chosen[among[int(self._draw() * len(among))]] = None

    def _nearest(self, peers: list[str]) -> list[str]:
        own, known = self.estimator.coordinate, self._peers
        replied = [peer for peer in peers if peer in known]
        return sorted(replied, key=lambda peer: own.distance_s(known[peer]))[:NEAREST]

    def _drawn(self) -> float:
        return self._draw()

    # --- probes and replies

    def _probe(self, cluster: OtherHubs, peer: str) -> None:
        out, incoming = cluster.out[peer], cluster.incoming[peer]
        if not _is_quiet(out):
            return
        self._last_token += 1
        sent_at = self._core.shell.fine_now()
        self._in_flight[peer] = _Probe(
            self._last_token, sent_at, out, out.connections, incoming, incoming.connections
        )
        self.sent += 1
        cluster.send_probe(peer, self._last_token)

    def receive_probe(self, cluster: OtherHubs, peer: str, token: int) -> None:
        """A peer probes this hub."""
        out = cluster.out.get(peer)
        if out is not None and _is_quiet(out):
            cluster.send_echo(peer, token, self.estimator.coordinate.to_bytes())

    def receive_echo(self, cluster: OtherHubs, peer: str, token: int, data: bytes) -> None:
        """A peer replies with its coordinate."""
        probe = self._in_flight.get(peer)
        if probe is None or probe.token != token:
            return
        del self._in_flight[peer]
        rtt_s = self._core.shell.fine_now() - probe.sent_at
        try:
            if not _is_unbroken(probe, cluster, peer):
                raise CoordinateError("a link has reconnected during the probe")
            coordinate = Coordinate.from_bytes(data, self._settings)
            self.estimator.observe(peer, coordinate, rtt_s)
        except CoordinateError:
            self.discarded += 1
            return
        self.answered += 1
        self._peers[peer] = coordinate
        self._rtts_s.setdefault(peer, deque(maxlen=RECENT)).append(rtt_s)
        self._has_moved = True
        if self.stability.announced is None:
            # Announce the first coordinate at once: any is better than none.
            self._has_moved = False
            self.stability.consider(self.estimator.coordinate)


def _is_quiet(link: OutLink) -> bool:
    """Whether a frame on the link would be sent at once."""
    return link.is_connected and not link.is_paused and link.kept_bytes <= QUIET_BYTES_MAX


def _is_unbroken(probe: _Probe, cluster: OtherHubs, peer: str) -> bool:
    out, incoming = cluster.out.get(peer), cluster.incoming.get(peer)
    return (
        out is probe.out
        and incoming is probe.incoming
        and out.connections == probe.out_connections
        and incoming.connections == probe.in_connections
    )
