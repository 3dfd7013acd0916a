"""The filters that other hubs have requested for one topic here, and the stage that sends them the matching messages.

A hub that follows by filters receives *spans*: positions that a frame accounts for, with the messages of these that
match. Messages that do not match are accounted for with the next one that does, or by a frame of its own (`account`).
So the hub always learns the stream's position, and a hole means a loss as for other hubs.

Always true:
    for each such hub, `LinkFilters.n` is the last position that was accounted for to it, or that was lost here before;
    a span contains no position that was lost before it reached this hub.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from equipoise.content.attributes import AttributeSource, attributes_of
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode
from equipoise.content.index import FilterIndex
from equipoise.hub.cluster.link.codec import encode, runs
from equipoise.hub.cluster.link.frames import FilteredFrame, SpanFrame
from equipoise.hub.cluster.link.link import name_origin

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.stream.submission import Submission

__all__ = ["HubFilters", "LinkFilters", "LinkStats"]


class _Meter(Protocol):
    def note_egress(self, messages: int, sent_bytes: int) -> None: ...
    def note_matching(self, matches: int, matching_s: float, kept_off: int) -> None: ...


class _Topic(Protocol):
    """The topic that the filters are for."""

    name: bytes
    epoch: int
    n: int

    @property
    def meter(self) -> _Meter | None: ...
    @property
    def relays(self) -> Mapping[OutLink, None] | None: ...


class LinkStats(Protocol):
    """Counters over all topics of the hub, and the call when coverage is due."""

    # Messages that filters kept off links.
    kept_off: int

    def fine_now(self) -> float: ...
    def note_matching(self, matching_s: float) -> None: ...
    def note_silence(self, topic: Any) -> None:
        """Send the coverage of the topic to other hubs within COVERAGE_S."""


class HubFilter(FilterNode):
    """A filter and the links to the hubs that have requested it."""

    __slots__ = ("links",)

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        self.links: dict[OutLink, None] = {}


class LinkFilters:
    """The requests of one hub."""

    __slots__ = ("epoch", "filters", "is_narrow", "is_too_much", "n", "takes_all")

    def __init__(self, epoch: int, n: int) -> None:
        self.filters: dict[Filter, HubFilter] = {}
        # Whether the hub receives spans; and whether these contain all messages, until this hub itself receives
        # everything.
        self.is_narrow = False
        self.takes_all = False
        # Whether it has requested more filters than the topic's index has room for, or an unknown one.
        self.is_too_much = False
        self.epoch = epoch
        self.n = n


class HubFilters:
    """Owned by one topic; changed by hub/cluster/peer_filters.py alone."""

    __slots__ = ("_bytes_max", "_source", "_stats", "index", "links", "origin")

    def __init__(self, stats: LinkStats, source: Callable[[], AttributeSource], bytes_max: int) -> None:
        self._stats = stats
        self._source = source
        # Most payload bytes in one frame.
        self._bytes_max = bytes_max
        self.index: FilterIndex[HubFilter] = FilterIndex()
        self.links: dict[OutLink, LinkFilters] = {}
        # The run of another hub that was numbered last, whose origin has to be sent to followers.
        self.origin: Submission | None = None

    # Requests.

    def is_narrow(self, link: OutLink) -> bool:
        asked = self.links.get(link)
        return asked is not None and asked.is_narrow

    def is_partial(self, link: OutLink) -> bool:
        """Whether the hub needs less than everything."""
        asked = self.links.get(link)
        return asked is not None and asked.is_narrow and not asked.takes_all

    def add(self, link: OutLink, filters: Iterable[Filter]) -> tuple[list[Filter], bool]:
        """Add filters; return the new ones, and whether all were added: the topic's index may have no room."""
        asked = self.links[link]
        new: list[Filter] = []
        for filter in filters:
            node = self.index.get(filter)
            if node is None:
                if self.index.objection(filter) is not None:
                    return new, False
                node = HubFilter(filter)
                self.index.add(node)
                new.append(filter)
            node.links[link] = None
            asked.filters[filter] = node
        return new, True

    def remove(self, link: OutLink, filters: Iterable[Filter]) -> list[Filter]:
        """Remove filters; return those that no hub requests any more."""
        asked = self.links[link]
        gone: list[Filter] = []
        for filter in filters:
            node = asked.filters.pop(filter, None)
            if node is not None:
                del node.links[link]
                if not node.links:
                    self.index.remove(node)
                    gone.append(filter)
        return gone

    # Delivery.

    def deliver(self, topic: _Topic, links: Sequence[OutLink], first: int, payloads: Sequence[bytes]) -> None:
        """Send a run of messages to the links, the first of them at position `first`."""
        hits: dict[OutLink, list[int]] = {link: [] for link in links}
        began_at = self._stats.fine_now()
        source = self._source()
        for i, payload in enumerate(payloads):
            attributes = attributes_of(payload, source)
            for nodes, start, stop in () if attributes is None else self.index.match(attributes):
                for node in nodes[start:stop]:
                    for link in node.links:
                        found = hits.get(link)
                        if found is not None and (not found or found[-1] != i):
                            found.append(i)
        matching_s = self._stats.fine_now() - began_at
        self._stats.note_matching(matching_s)
        is_silent, kept_off = False, 0
        for link, found in hits.items():
            asked = self.links[link]
            if asked.takes_all:
                found = list(range(len(payloads)))
            if asked.epoch != topic.epoch:
                asked.epoch, asked.n = topic.epoch, first - 1
            kept_off += len(payloads) - len(found)
            if found:
                if self.origin is not None and self.origin.payloads is payloads:
                    # The hub counts as having received only the messages sent to it: see hub/cluster/failover.py.
                    name_origin((link,), topic.name, self.origin, found[-1])
                self._send(topic, link, asked, first, payloads, found)
            is_silent |= not found or found[-1] != len(payloads) - 1
        self.origin = None
        self._stats.kept_off += kept_off
        if topic.meter is not None:
            topic.meter.note_matching(0, matching_s, kept_off)
        if is_silent:
            self._stats.note_silence(topic)

    def _send(
        self,
        topic: _Topic,
        link: OutLink,
        asked: LinkFilters,
        first: int,
        payloads: Sequence[bytes],
        found: Sequence[int],
    ) -> None:
        chosen = [payloads[i] for i in found]
        sent = 0
        for start, part in runs(chosen, self._bytes_max):
            positions = [first + i for i in found[start : start + len(part)]]
            begin = asked.n + 1
            offsets = tuple([position - begin for position in positions])
            count = positions[-1] - asked.n
            data = encode(FilteredFrame(topic.name, topic.epoch, begin, count, offsets, part))
            asked.n = positions[-1]
            sent += len(data)
            link.write(data)
        if topic.meter is not None:
            topic.meter.note_egress(len(chosen), sent)

    def account(self, topic: _Topic, only: OutLink | None = None) -> None:
        """Send the hubs, or one of them, the span up to the current position, if it is not accounted for."""
        # A hub that waits to be attached has received nothing.
        for link in topic.relays or ():
            asked = self.links.get(link) if only in (None, link) else None
            if asked is not None and asked.is_narrow and asked.epoch == topic.epoch and asked.n < topic.n:
                link.write(encode(SpanFrame(topic.name, topic.epoch, asked.n + 1, topic.n - asked.n)))
                asked.n = topic.n

    def jump(self, topic: _Topic, epoch: int, n: int) -> None:
        """The topic continues after this position; the messages between were not received here."""
        self.account(topic)
        for asked in self.links.values():
            asked.epoch, asked.n = epoch, n
