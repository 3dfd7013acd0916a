"""Assign seats: the home at which a smart publisher of a split topic publishes.

A hub that a smart client publishes a split, limited topic at reports it to the trunk's home (SIT), which deals it a
seat (`limits.seating`) and answers with another home if that is not the one (SEAT); the hub then tells the client, and
reports it again if it goes on publishing here.
A client that goes brings all that it has published here to its position first, so its order is kept. Plain clients stay
where they are connected.

Publishers that fire together get different homes: those that have stated one group; of those that have not, the ones
that are neighbours in the order that the plan names, if there is one (`limits.seat_order`). An order that comes later
moves those who sit together, a few at a time.

The list of seats lives at the trunk's home alone, and is rebuilt from the others: whenever the trunk has another home,
or a link begins anew, and every few seconds while they publish, every hub reports its publishers again, with the seats
that they have.

Always true: what is remembered is bounded by the connections there are; a publisher that no list knows keeps its seat.
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

# All links of a client begin with its own name.
CLIENT_BYTES = 16
# How often seats are looked at, and how many publishers of a topic are moved each time: a split settles within seconds,
# and no home gets a crowd at once.
LOOK_S = 0.5
MOVES_MAX = 20
# Groups that are looked at each time, and publishers that get a group by another order: some milliseconds.
GROUPS_MAX = 500
REGROUPED_MAX = 1_000
# A publisher that has not published here for so long has left, or sits elsewhere.
GONE_S = 10.0


class _Publisher(NamedTuple):
    """A client that publishes a split topic here."""

    session: Session
    group: bytes
    at: float
    # It was told to go elsewhere, and may not have heard, or may not have been able to.
    is_told: bool = False


class Seats:
    """Part of one cluster."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        # By topic, those who publish here, by the name of the client.
        self._here: dict[bytes, dict[bytes, _Publisher]] = {}
        # By topic, over which link they were reported to the trunk's home: one that begins anew has lost what was said.
        self._reported_over: dict[bytes, tuple[str, int, int]] = {}
        # Of topics whose trunk lives here.
        self._dealt: dict[bytes, Seating] = {}
        # By topic, the order of its publishers; what groups are made by (its number, and the number of homes); and
        # publishers that have to get their groups anew.
        self._orders: dict[bytes, Ranks] = {}
        self._grouped_by: dict[bytes, tuple[int, int]] = {}
        self._regrouping: dict[bytes, list[bytes]] = {}
        self._timer: Timer | None = None

    @property
    def handlers(self) -> dict[type[Frame], Callable[[str, Any], None]]:
        """By type of frame, what executes it."""
        return {SitFrame: self.sit, SeatFrame: lambda peer, frame: self.seated(frame)}

    # What clients do.

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
        # Again while it publishes here: another hub that it has left may have said since that it is gone.
        is_known = known is not None and known.group == session.group and not known.is_told
        self._report(topic.name, client, is_seated=is_known)
        self._look_soon()

    # What other hubs say.

    def sit(self, peer: str, frame: SitFrame) -> None:
        """A client publishes at that hub, or has left it."""
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
        """The trunk's home says where a client of this hub sits."""
        one = self._here.get(frame.topic, {}).get(frame.client)
        if one is not None:
            self._here[frame.topic][frame.client] = one._replace(is_told=True)
        address = None if one is None else self._cluster.router.address(frame.home, is_tls=one.session.is_tls)
        if one is None or address is None or one.session.is_closing or one.session.proto != 3:
            return
        words = (bulk(b"eq.seat"), bulk(frame.topic), integer(self._cluster.router.version), bulk(address))
        one.session.write(push(words, 3))

    # What the region knows.

    def ordered(self, topic: bytes, order: SeatOrder) -> None:
        """Deal publishers of the topic that have stated no group by this order."""
        self._orders[topic] = order.ranks()
        self._look_soon()

    # Seen from outside.

    def parts(self, topic: bytes) -> dict[str, float]:
        """Of homes that serve, the part of the publishers that each should have."""
        entry = self._split(topic)
        return {} if entry is None else self._shares(entry)

    def deals(self, topic: bytes) -> bool:
        """Whether the topic's seats are dealt here."""
        return topic in self._dealt and self._home(topic) == self._cluster.name

    def dealt(self, topic: bytes) -> dict[bytes, str]:
        """By publisher, the home of its seat; none unless they are dealt here."""
        seating = self._dealt.get(topic)
        return {} if seating is None else {client: seat.home for client, seat in seating.seats.items()}

    def seen(self, topic: bytes) -> dict[bytes, float]:
        """By publisher, when it was last noted to publish here."""
        return {client: one.at for client, one in self._here.get(topic, {}).items()}

    def has_order(self, topic: bytes) -> bool:
        return topic in self._orders

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # Looking after them.

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
        """Report the publishers of a topic where they have to be known, and forget those who have left."""
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
        """Keep to the parts of the plan, and groups apart, a few publishers at a time."""
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
        """Groups by an order depend on the order and on the number of homes: make those anew that were made before."""
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
        """As many neighbours in the order as there are homes: dealt like cards, each home gets one of them."""
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
        """Tell the hub that a client publishes at where it sits, if that is elsewhere."""
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
        """Of the homes that are alive: what a dead one had is divided among them."""
        alive = self._cluster.router.placement(entry.topic).homes
        parts = zip(entry.homes, entry.seat_parts, strict=True)
        living = {home: part for home, part in parts if home in alive}
        return {home: part / sum(living.values()) for home, part in living.items()}
