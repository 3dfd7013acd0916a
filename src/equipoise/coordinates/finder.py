"""Decide which peers a client probes and which hubs it reports its coordinate to, and when.

A client sends EQ.WHERE to hubs, which reply with their coordinates, and measures the round trip. The request to a hub
that serves the client carries the client's own coordinate, so every report is a probe. Connections, round trips and
time are arguments: the bus, light clients of experiments and gateways use one finder.

    sought   a probe every `probe_s` to the peer probed longest ago, and short visits to hubs without a connection
    found    probes as rare as reports, visits every minute; sought again after a change of the network
    guided   behind a gateway: its reply counts, hubs get reports and are not measured; sought if it stays silent

One hub alone gives no direction. Until a second hub has replied, the client has that hub's point, with the round trip
as height: an upper bound of the distance to every other hub.

Always true: a peer has at most one request unanswered; a peer that has refused is not asked; no report contains an
unknown coordinate.

`peers.py` holds the state of peers and schedules visits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from equipoise.coordinates.coordinate import Coordinate
from equipoise.coordinates.estimator import Estimator
from equipoise.coordinates.peer import Peer, above, way_s
from equipoise.coordinates.peers import Guide, Peers, Visits
from equipoise.coordinates.settings import CoordinateSettings, FinderSettings
from equipoise.coordinates.stability import Stability
from equipoise.errors import CoordinateError, RefusedError

__all__ = ["WHERE", "Ask", "Finder", "FinderStep"]

WHERE = b"EQ.WHERE"
# The error of coordinates is a tenth of the longest round trip.
_FAR = 0.1
# The longest time between two steps.
_TURN_S = 0.01


class Ask(NamedTuple):
    """A request to send on the open connection to a peer."""

    peer: str
    words: tuple[bytes, ...]


class FinderStep(NamedTuple):
    """What to do now."""

    asks: list[Ask]
    # A hub to connect to, probe `visit_samples` times, and leave.
    visit: str | None
    # Whether to ask the gateway.
    guide: bool


class Finder:
    """Owned by one client, which executes each step, no later than `next_at`."""

    def __init__(
        self,
        draw: Callable[[], float],
        settings: FinderSettings | None = None,
        space: CoordinateSettings | None = None,
    ) -> None:
        """`draw` returns random numbers between 0 and 1, as for the estimator."""
        self.settings = settings or FinderSettings()
        self._space = space or CoordinateSettings()
        self._draw = draw
        self.guide = Guide()
        self._peers = Peers()
        self._visits = Visits(draw, self.settings)
        # Number of the latest news for all hubs, such as a new place.
        self._news = 0
        self._probed_at = -math.inf
        # When the next step is due, unless an event needs one before.
        self.next_at = math.inf
        self._is_guided = False
        self._start_anew()

    def _start_anew(self, own: Coordinate | None = None) -> None:
        """The client has moved: earlier measurements are void. `own` is used until a better coordinate is known."""
        self._estimator = Estimator(self._space, self._draw)
        self._stability = Stability()
        self._own = own
        # Whether that was estimated from several peers.
        self._has_direction = False
        self.samples = 0
        self._young_until = self.settings.young_samples
        self._visits.start_anew()
        self._peers.start_anew()

    # The coordinate.

    @property
    def coordinate(self) -> Coordinate | None:
        """None if unknown. The last coordinate from a silent gateway is used until a better one is known."""
        if self._is_guided:
            return self.guide.coordinate
        return self._own or self.guide.coordinate

    @property
    def is_found(self) -> bool:
        return self._is_guided or self.samples >= self._young_until

    @property
    def visiting(self) -> str | None:
        """The hub that is being visited."""
        return self._visits.under_way

    def use_gateway(self, address: str | None, now: float) -> None:
        """The client is behind this gateway from now on; None: behind no gateway."""
        if address == self.guide.address:
            return
        self.guide.choose(address, now)
        self._is_guided = address is not None
        self._start_anew()

    # Steps.

    def step(self, now: float, links: Mapping[str, bool], known: Sequence[str] = ()) -> FinderStep:
        """What to do now. `links`: open connections, and whether topics are served there; `known`: other hubs."""
        if self._probed_at == -math.inf:
            # A client that exits within a second has probed no hub.
            self._probed_at = now
        self._check_guide(now)
        self._visits.begin(now)
        for name in links:
            self._peers.meet(name)
        asks = [
            self._report(name, now) for name, is_used in links.items() if is_used and self._is_due(name, now)
        ]
        if not self._is_guided and now >= self._probed_at + self._interval_s:
            asks += self._probe(links, now)
        may_visit = self._visits.may_be and not self._is_guided
        others = self._peers.unconnected(known, links) if may_visit else {}
        visit = self._visits.choose(others, now, is_found=self.is_found)
        guide = self.guide.is_free and self._guide_at <= now
        if guide:
            self.guide.asking(now)
        self._peers.forget(links)
        self.next_at = self._next_at(now, links, are_others=bool(others))
        return FinderStep(asks, visit, guide)

    @property
    def _interval_s(self) -> float:
        return self.settings.report_s if self.is_found else self.settings.probe_s

    @property
    def _guide_at(self) -> float:
        guide = self.guide
        is_awaited = self._is_guided and not guide.has_replied
        return guide.asked_at + (self.settings.probe_s if is_awaited else self.settings.report_s)

    def _check_guide(self, now: float) -> None:
        leads = self.guide.leads(now, self.settings.gateway_patience_s)
        if leads != self._is_guided:
            self._is_guided = leads
            self.guide.has_replied &= leads
            self._start_anew()

    def _report_at(self, peer: Peer) -> float:
        """When the next report to the peer is due."""
        is_news = peer.news != self._news
        settings = self.settings
        return peer.reported_at + (
            min(settings.report_s_min, settings.report_s) if is_news else settings.report_s
        )

    def _is_due(self, name: str, now: float) -> bool:
        peer = self._peers[name]
        if self.coordinate is None or peer.is_refusing or peer.is_asked:
            return False
        return self._report_at(peer) <= now

    def _report(self, name: str, now: float) -> Ask:
        peer = self._peers[name]
        peer.reported_at, peer.news = now, self._news
        return self._ask(name, now, self.words_to(name))

    def words_to(self, name: str) -> tuple[bytes, ...]:
        """The request to a peer, with the report: as much as is known."""
        coordinate, peer = self.coordinate, self._peers.get(name)
        if coordinate is None:
            return (WHERE,)
        rtt_s = None if peer is None else peer.rtt_s
        rtt_us = 0 if rtt_s is None else max(1, round(rtt_s * 1e6))
        return (WHERE, b"%d" % rtt_us, coordinate.to_bytes())

    def _ask(self, name: str, now: float, words: tuple[bytes, ...] = (WHERE,)) -> Ask:
        peer = self._peers[name]
        peer.asked_at = now
        peer.is_asked = True
        return Ask(name, words)

    def _probe(self, links: Mapping[str, bool], now: float) -> list[Ask]:
        name = self._peers.longest_idle(links, self._interval_s, now)
        if name is None:
            return []
        self._probed_at = now
        return [self._ask(name, now)]

    def _next_at(self, now: float, links: Mapping[str, bool], *, are_others: bool) -> float:
        """When the next step is due, if no reply comes before. A peer replies or is dropped."""
        free = self._peers.free(links)
        will_visit = are_others and self.visiting is None
        times = [self._visits.due_at(is_found=self.is_found)] if will_visit else []
        if self.coordinate is not None:
            times += [self._report_at(peer) for name, peer in free.items() if links[name]]
        if self.guide.is_free:
            times.append(self._guide_at)
        if self._is_guided:
            times.append(self.guide.leads_until(self.settings.gateway_patience_s))
        elif free:
            oldest = min(peer.asked_at for peer in free.values())
            times.append(max(self._probed_at, oldest) + self._interval_s)
        return max(now + _TURN_S, min(times, default=math.inf))

    # Replies.

    def answered(self, name: str, reply: object, rtt_s: float | None, now: float) -> None:
        """A peer has replied after `rtt_s`; None if that includes other delays than the network's.

        A RefusedError means that it does not know the command.
        """
        peer = self._peers.meet(name)
        if peer.is_stale:
            peer.is_stale, rtt_s = False, None
        peer.is_asked = False
        if isinstance(reply, RefusedError):
            peer.is_refusing = True
            return
        at = self._read(reply)
        if rtt_s is not None and rtt_s > self._space.rtt_s_max:
            # This client or the hub stalled: no valid round trip, and the peer would reject it, too.
            rtt_s = None
        if rtt_s is not None:
            peer.rtts_s.append(rtt_s)
        if at is not None and rtt_s is not None:
            peer.at = at
            if not self._is_guided:
                self._observe(name, at, rtt_s)

    def guide_answered(self, address: str, reply: object, access_s: float | None, now: float) -> None:
        """A gateway has replied: a RefusedError if it refuses, another exception if it cannot be reached."""
        guide = self.guide
        if address != guide.address:
            return
        guide.is_asked = False
        guide.is_refusing = isinstance(reply, RefusedError)
        at = self._read(reply)
        if at is not None and guide.replied(at, access_s, now):
            # A node that has moved reports at once, without regard to the last report.
            self._news += 1
            self._peers.report_all_anew()

    def lost(self, name: str) -> None:
        """The connection to a peer is lost; the next one may reach another peer."""
        peer = self._peers.get(name)
        if peer is not None:
            peer.is_asked = peer.is_stale = peer.is_refusing = False
            peer.reported_at = -math.inf

    def visited(self, name: str, *, is_answered: bool) -> None:
        """A visit has ended."""
        self._visits.over(name, is_answered=is_answered)

    def _read(self, reply: object) -> Coordinate | None:
        """The coordinate in a reply; None if the peer has none or sent an invalid one."""
        try:
            return Coordinate.from_bytes(reply, self._space) if isinstance(reply, bytes) else None
        except CoordinateError:
            return None

    def _observe(self, name: str, at: Coordinate, rtt_s: float) -> None:
        try:
            found = self._estimator.observe(name, at, rtt_s)
        except CoordinateError:
            return
        if self.is_found and self._peers.show_another_place(name):
            # A coordinate with a small error takes minutes to cross a continent; a new one takes half a minute.
            self._start_anew(self._own)
            return
        self.samples += 1
        announced = self._stability.consider(found)
        if self.samples < self.settings.known_samples:
            return
        if not self._has_direction and self._peers.measured < 2:
            self._own = above(at, self._peers[name].rtt_s or rtt_s, self._space.height_s_min)
        elif announced is not None or not self._has_direction:
            announced = announced or found
            if self.is_found and self._own is not None and self._is_far(self._own, announced):
                # The change is permanent: probe more often for a while.
                self._young_until = self.samples + self.settings.young_samples // 2
            self._own, self._has_direction = announced, True
        if announced is not None:
            self._news += 1

    def _is_far(self, former: Coordinate, latter: Coordinate) -> bool:
        """Whether distances have changed by more than their error."""
        return way_s(former, latter) > _FAR * self._peers.rtt_s_max
