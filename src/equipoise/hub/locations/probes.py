"""Probe a few peers at a time over open links to find this hub's coordinate.

A round trip is to be the network's and nothing else's. So a probe is sent only where it goes out at once and its answer
can come back, and a hub that is asked answers only where the answer goes at once. A sample that crossed a reconnection
of either link waited for that, and is left out; one that waited for a busy loop is what the estimator's median is for.
A peer has one question at a time, however short rounds are: an answer that is on its way is worth more than another.

Others hear two things. Hubs that probe receive the coordinate as it is at the moment, which the algorithm needs;
all others get one that changes only when there is news (`coordinates.Stability`).
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

# With more on its way on a link, a probe would rather measure that: some 10 ms of a line of 1 Gbit/s.
QUIET_BYTES_MAX = 1024 * 1024
# As long as the own error is above this, rounds come so many times as often: a new hub finds its coordinate sooner.
UNSURE_ERROR = 0.25
HURRY_FACTOR = 4.0
# Round trips of a peer that are remembered: the median of five leaves out two that waited for a busy loop.
RECENT = 5
# The near one is drawn among so many, so that not only the nearest is ever asked.
NEAREST = 4


class _Probe(NamedTuple):
    """A question under way, and which connections of which links it relies on."""

    token: int
    sent_at: float
    out: OutLink
    out_connections: int
    incoming: InLink
    in_connections: int


class ProbeHost(Protocol):
    """What probing needs of the hub."""

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
        # Whether clients have shown that this hub is behind no access line.
        self.is_flat = False
        # The coordinate for all but the hubs that probe.
        self.stability = Stability()
        self._timer: Timer | None = None
        self._under_way: dict[str, _Probe] = {}
        self._last_token = 0
        # Where each peer said it was when it was last asked. Exactly those that are alive and have answered.
        self._peers: dict[str, Coordinate] = {}
        # Of the same peers, the latest round trips.
        self._rtts_s: dict[str, deque[float]] = {}
        # Whether there is anything to consider since the last round.
        self._has_moved = False
        # Probes sent; answers taken in; answers that were late, lies or no coordinates.
        self.sent = self.answered = self.discarded = 0

    @property
    def peers(self) -> int:
        """Hubs that have answered, and are alive."""
        return len(self._peers)

    def round_trip_s(self, peer: str) -> float | None:
        """The round trip to the peer as measured over the links in use; None if the peer has not answered yet."""
        recent = self._rtts_s.get(peer)
        return None if recent is None else median_low(recent)

    def start(self, draw: Callable[[], float]) -> None:
        """`draw` gives random numbers between 0 and 1."""
        self._draw = draw
        self._under_way.clear()
        if self._timer is None:
            self._set_timer()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._under_way.clear()

    def peer_gone(self, peer: str) -> None:
        """The peer is dead, or has begun another life."""
        self._under_way.pop(peer, None)
        self._peers.pop(peer, None)
        self._rtts_s.pop(peer, None)
        self.estimator.forget(peer)

    def client_at(self, rtt_s: float) -> None:
        """A client is so far away: shorter than the access line that this hub has placed itself behind?

        Equal distances between sites are explained as well by long access lines, and among themselves hubs cannot tell.
        A height stands for a line that all packets pass; a client that is nearer shows that there is none. So
        the hub begins anew without a height. Its reported coordinate holds until the new one has converged.
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
        # Not all hubs at the same moment.
        self._timer = self._core.shell.call_later(delay_s * (0.75 + 0.5 * self._draw()), self._round)

    def _round(self) -> None:
        self._set_timer()
        if self._has_moved:
            self._has_moved = False
            self.stability.consider(self.estimator.coordinate)
        cluster = self._core.cluster
        for peer in self._choose([name for name in cluster.out if self._may_ask(cluster, name)]):
            self._probe(cluster, peer)

    def _may_ask(self, cluster: OtherHubs, peer: str) -> bool:
        """Whether it can answer, and no answer of it is on its way that would count."""
        if not cluster.can_probe(peer):
            return False
        probe = self._under_way.get(peer)
        if probe is None or not _is_unbroken(probe, cluster, peer):
            return True
        return self._core.shell.fine_now() - probe.sent_at > self._settings.rtt_s_max

    def _choose(self, peers: list[str]) -> Iterable[str]:
        """The peers of one round, each once."""
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
        heard = [peer for peer in peers if peer in known]
        return sorted(heard, key=lambda peer: own.distance_s(known[peer]))[:NEAREST]

    def _drawn(self) -> float:
        return self._draw()

    # --- questions and answers

    def _probe(self, cluster: OtherHubs, peer: str) -> None:
        out, incoming = cluster.out[peer], cluster.incoming[peer]
        if not _is_quiet(out):
            return
        self._last_token += 1
        sent_at = self._core.shell.fine_now()
        self._under_way[peer] = _Probe(
            self._last_token, sent_at, out, out.connections, incoming, incoming.connections
        )
        self.sent += 1
        cluster.send_probe(peer, self._last_token)

    def asked(self, cluster: OtherHubs, peer: str, token: int) -> None:
        """A peer probes this hub."""
        out = cluster.out.get(peer)
        if out is not None and _is_quiet(out):
            cluster.send_echo(peer, token, self.estimator.coordinate.to_bytes())

    def heard(self, cluster: OtherHubs, peer: str, token: int, data: bytes) -> None:
        """A peer answers, and says where it is."""
        probe = self._under_way.get(peer)
        if probe is None or probe.token != token:
            return
        del self._under_way[peer]
        rtt_s = self._core.shell.fine_now() - probe.sent_at
        try:
            if not _is_unbroken(probe, cluster, peer):
                raise CoordinateError("what waited for a connection is no round trip")
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
            # The first is announced at once: any coordinate is better than none.
            self._has_moved = False
            self.stability.consider(self.estimator.coordinate)


def _is_quiet(link: OutLink) -> bool:
    """Whether what is written to the link goes out at once."""
    return link.is_connected and not link.is_paused and link.kept_bytes <= QUIET_BYTES_MAX


def _is_unbroken(probe: _Probe, cluster: OtherHubs, peer: str) -> bool:
    out, incoming = cluster.out.get(peer), cluster.incoming.get(peer)
    return (
        out is probe.out
        and incoming is probe.incoming
        and out.connections == probe.out_connections
        and incoming.connections == probe.in_connections
    )
