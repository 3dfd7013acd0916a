"""Assign seats: the home at which a smart publisher of a split topic publishes.

When a smart client publishes to a split, limited topic, its hub reports the client to the trunk's home (SIT). That home
assigns it a seat (`limits.seating`), and replies with the seat's home if it is another hub (SEAT). The client's hub
then redirects the client, and reports it again if it continues to publish here.

A client that changes its seat first waits until all its messages published here have positions, so its order is kept.
Plain clients stay at the hub that they are connected to.

Publishers that publish at the same time get different homes: those with the same stated group; and, without a group,
those that are neighbours in the order that the plan names, if there is one (`limits.seat_order`). A later order moves
publishers that share a home, a few at a time.

Only the trunk's home has the list of seats. It is rebuilt from reports: every hub reports its publishers and their
seats again when the trunk has another home, when a link restarts, and every few seconds while they publish.

Always true: the state is bounded by the number of connections; a publisher that is in no list keeps its seat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from equipoise.hub.cluster.link.frame import Frame
from equipoise.hub.cluster.link.seat_frames import SeatFrame, SitFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.limits.seat_order import Ranks, SeatOrder
from equipoise.limits.seating import Group, Seating
from equipoise.model import Entry, Mode
from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic

__all__ = ["Seats"]

# Bytes at the start of a link's id that identify the client.
CLIENT_BYTES = 16
# Interval of the check of seats in seconds, and most publishers of a topic that are moved at each: a split settles
# within seconds, and no home receives many at once.
LOOK_S = 0.5
MOVES_MAX = 20
# Most groups checked, and most publishers that get another group, at each check: some milliseconds.
GROUPS_MAX = 500
REGROUPED_MAX = 1_000
# Seconds after its last message at which a publisher counts as gone, or seated at another hub.
GONE_S = 10.0


class _Publisher(NamedTuple):
    """A client that publishes a split topic here."""

    session: Session
    group: bytes
    at: float
    # Whether it was redirected to another home; it may not have received that, or may not have been able to connect.
    is_told: bool = False


class Seats:
    """Part of one cluster."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        # By topic, the clients that publish here, by the client's id.
        self._here: dict[bytes, dict[bytes, _Publisher]] = {}
        # By topic, the link over which they were reported to the trunk's home: a restarted link may have lost the
        # reports.
        self._reported_over: dict[bytes, tuple[str, int, int]] = {}
        # The seats of topics whose trunk's home is this hub.
        self._dealt: dict[bytes, Seating] = {}
        # By topic, the order of its publishers; what the groups depend on (the order's number, and the number of
        # homes); and publishers whose groups have to be computed again.
        self._orders: dict[bytes, Ranks] = {}
        self._grouped_by: dict[bytes, tuple[int, int]] = {}
        self._regrouping: dict[bytes, list[bytes]] = {}
        self._timer: Timer | None = None

    @property
    def handlers(self) -> dict[type[Frame], Callable[[str, Any], None]]:
        """Handlers by type of frame."""
        return {SitFrame: self.sit, SeatFrame: lambda peer, frame: self.seated(frame)}

    # Publishing clients.

    def published(self, session: Session, topic: Topic) -> None:
        """A smart client publishes here to a limited topic."""
        if topic.limit is None or session.link is None or self._split(topic.name) is None:
            return
        now, client = self._cluster.core.now(), session.link[:CLIENT_BYTES]
        here = self._here.setdefault(topic.name, {})
        known = here.get(client)
        if known is not None and known.session is session and now - known.at < GONE_S / 4:
            return
        here[client] = _Publisher(session, session.group, now)
        # Report it repeatedly: a hub that it has left may have reported since that it is gone.
        is_known = known is not None and known.group == session.group and not known.is_told
        self._report(topic.name, client, is_seated=is_known)
        self._look_soon()

    # Frames of other hubs.

    def sit(self, peer: str, frame: SitFrame) -> None:
        """SIT: a client publishes at that hub, or has left it."""
        if self._home(frame.topic) != self._cluster.name or (entry := self._split(frame.topic)) is None:
            return
        seating = self._dealt.setdefault(frame.topic, Seating(self._shares(entry)))
        if not seating.shares:
            return
        known, group = seating.seats.get(frame.client), self._group(frame)
        if frame.is_gone:
            if known is not None and known.home == peer:
                seating.leave(frame.client)
            return
        if known is None and frame.is_seated and peer in seating.shares:
            seating.take(frame.client, group, peer)
        elif known is None or known.group != group or known.home not in seating.shares:
            seating.deal(frame.client, group)
        self._send_to_seat(frame.topic, frame.client, peer)
        self._look_soon()

    def seated(self, frame: SeatFrame) -> None:
        """SEAT: the trunk's home has assigned another home to a client of this hub."""
        one = self._here.get(frame.topic, {}).get(frame.client)
        if one is not None:
            self._here[frame.topic][frame.client] = one._replace(is_told=True)
        address = None if one is None else self._cluster.router.address(frame.home, is_tls=one.session.is_tls)
        if one is None or address is None or one.session.is_closing or one.session.proto != 3:
            return
        words = (bulk(b"eq.seat"), bulk(frame.topic), integer(self._cluster.router.version), bulk(address))
        one.session.write(push(words, 3))

    # The order of publishers.

    def ordered(self, topic: bytes, order: SeatOrder) -> None:
        """Assign publishers of the topic without a stated group by this order."""
        self._orders[topic] = order.ranks()
        self._look_soon()

    # Queries.

    def parts(self, topic: bytes) -> dict[str, float]:
        """By serving home, the share of the publishers that it should have."""
        entry = self._split(topic)
        return {} if entry is None else self._shares(entry)

    def deals(self, topic: bytes) -> bool:
        """Whether this hub assigns the topic's seats."""
        return topic in self._dealt and self._home(topic) == self._cluster.name

    def dealt(self, topic: bytes) -> dict[bytes, str]:
        """By publisher, the home of its seat; empty unless this hub assigns them."""
        seating = self._dealt.get(topic)
        return {} if seating is None else {client: seat.home for client, seat in seating.seats.items()}

    def seen(self, topic: bytes) -> dict[bytes, float]:
        """By publisher, the time at which its publishing here was last recorded."""
        return {client: one.at for client, one in self._here.get(topic, {}).items()}

    def has_order(self, topic: bytes) -> bool:
        return topic in self._orders

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Periodic check.

    def _look_soon(self) -> None:
        if self._timer is None:
            self._timer = self._cluster.core.shell.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._timer = None
        for topic in list(self._here):
            self._tidy(topic)
        for topic in list(self._dealt):
            self._settle(topic)
        for topic in [topic for topic in self._orders if self._split(topic) is None]:
            del self._orders[topic]
        if self._here or self._dealt:
            self._look_soon()

    def _tidy(self, topic: bytes) -> None:
        """Report a topic's publishers to its trunk's home if needed, and remove those that have left."""
        here, now = self._here[topic], self._cluster.core.now()
        for client in [
            client for client, one in here.items() if now - one.at > GONE_S or one.session.is_closing
        ]:
            self._report(topic, client, is_gone=True)
            del here[client]
        if not here or self._split(topic) is None:
            del self._here[topic]
            self._reported_over.pop(topic, None)
        elif (over := self._link_to_home(topic)) != self._reported_over.get(topic):
            self._reported_over[topic] = over
            for client in list(here):
                self._report(topic, client, is_seated=True)

    def _settle(self, topic: bytes) -> None:
        """Move a few publishers towards the plan's shares, and members of one group apart."""
        entry = self._split(topic)
        if entry is None or self._home(topic) != self._cluster.name:
            for kept in (self._dealt, self._grouped_by, self._regrouping):
                kept.pop(topic, None)
            return
        seating = self._dealt[topic]
        seating.shares = self._shares(entry)
        self._regroup(topic, seating)
        for _ in range(MOVES_MAX):
            client = seating.surplus() or seating.crowded(GROUPS_MAX)
            if client is None:
                return
            before = seating.seats[client]
            seating.deal(client, before.group)
            self._send_to_seat(topic, client, before.home)

    def _regroup(self, topic: bytes, seating: Seating) -> None:
        """Recompute groups in steps when the order or the number of homes has changed, on which they depend."""
        ranks = self._orders.get(topic)
        made_by = (0 if ranks is None else ranks.number, len(seating.shares))
        if self._grouped_by.get(topic, (0, made_by[1])) != made_by:
            self._regrouping[topic] = list(seating.seats)
        self._grouped_by[topic] = made_by
        due = self._regrouping.get(topic, [])
        for _ in range(min(REGROUPED_MAX, len(due))):
            client = due.pop()
            seat = seating.seats.get(client)
            if seat is None or (isinstance(seat.group, bytes) and seat.group):
                continue
            group = self._found_group(topic, client)
            if group != seat.group:
                seating.take(client, group, seat.home)

    def _group(self, frame: SitFrame) -> Group:
        return frame.group or self._found_group(frame.topic, frame.client)

    def _found_group(self, topic: bytes, client: bytes) -> Group:
        """The group by the order: as many neighbours as there are homes, so that each home gets one of them."""
        ranks, seating = self._orders.get(topic), self._dealt[topic]
        rank = None if ranks is None else ranks.of(client)
        return b"" if rank is None else rank // max(1, len(seating.shares))

    def _report(self, topic: bytes, client: bytes, *, is_seated: bool = False, is_gone: bool = False) -> None:
        home, group = self._home(topic), self._here[topic][client].group
        frame = SitFrame(topic, client, group, int(is_seated), int(is_gone))
        if home == self._cluster.name:
            self.sit(home, frame)
        elif home is not None:
            self._cluster.tell(home, frame)

    def _send_to_seat(self, topic: bytes, client: bytes, peer: str) -> None:
        """Send the hub that a client publishes at the client's seat, if it is at another home."""
        home = self._dealt[topic].seats[client].home
        if home == peer:
            return
        frame = SeatFrame(topic, client, home)
        if peer == self._cluster.name:
            self.seated(frame)
        else:
            self._cluster.tell(peer, frame)

    def _link_to_home(self, topic: bytes) -> tuple[str, int, int]:
        home = self._home(topic) or ""
        link = self._cluster.out.get(home)
        return (home, 0, 0) if link is None else (home, link.incarnation, link.generation)

    def _home(self, topic: bytes) -> str | None:
        return self._cluster.router.home(topic)

    def _split(self, topic: bytes) -> Entry | None:
        """The topic's entry, if it has several streams."""
        entry = self._cluster.router.routing.plan.entries.get(topic)
        is_split = entry is not None and entry.mode is Mode.ALL_SUBSCRIBERS and len(entry.homes) > 1
        return entry if is_split else None

    def _shares(self, entry: Entry) -> dict[str, float]:
        """The shares of the live homes: the share of a dead one is divided among them."""
        alive = self._cluster.router.placement(entry.topic).homes
        parts = zip(entry.homes, entry.seat_parts, strict=True)
        living = {home: part for home, part in parts if home in alive}
        return {home: part / sum(living.values()) for home, part in living.items()}
