"""The filters that other hubs ask of one topic here, and the stage that sends these hubs what matches.

A hub that follows by filters gets *spans*: positions that a frame accounts for, and of these the messages it wants.
What matches nothing is accounted for with the next message that does, or by a frame of its own (`account`), so the hub
always learns how far the stream is, and a hole is a loss as it is for others.

Always true:
    for each such hub, `LinkFilters.n` is the last position that it knows of, or that was lost here before;
    a span that is sent holds no position that was lost on its way here.
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
    """What is counted of all topics of the hub, and what to call when a hub has yet to learn of messages."""

    # Messages that other hubs did not have to be sent.
    kept_off: int

    def fine_now(self) -> float: ...
    def note_matching(self, matching_s: float) -> None: ...
    def note_silence(self, topic: Any) -> None:
        """Another hub has to learn within a quarter of a second how far the topic is."""


class HubFilter(FilterNode):
    """A filter and the links to the hubs that asked for it."""

    __slots__ = ("links",)

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        self.links: dict[OutLink, None] = {}


class LinkFilters:
    """What one hub has asked for."""

    __slots__ = ("epoch", "filters", "is_narrow", "is_too_much", "n", "takes_all")

    def __init__(self, epoch: int, n: int) -> None:
        self.filters: dict[Filter, HubFilter] = {}
        # Whether it gets spans; and, of a hub that does, whether all messages are wanted: it is to get everything as
        # soon as this hub does.
        self.is_narrow = False
        self.takes_all = False
        # Whether it has asked for more than the topic's index can take, or for what this hub cannot read.
        self.is_too_much = False
        self.epoch = epoch
        self.n = n


class HubFilters:
    """Owned by one topic; changed by hub/cluster/peer_filters.py alone."""

    __slots__ = ("_bytes_max", "_source", "_stats", "index", "links", "origin")

    def __init__(self, stats: LinkStats, source: Callable[[], AttributeSource], bytes_max: int) -> None:
        self._stats = stats
        self._source = source
        # What one frame may hold of payloads.
        self._bytes_max = bytes_max
        self.index: FilterIndex[HubFilter] = FilterIndex()
        self.links: dict[OutLink, LinkFilters] = {}
        # The run of another hub that was numbered last: hubs have to know where it comes from.
        self.origin: Submission | None = None

    # What hubs ask for.

    def is_narrow(self, link: OutLink) -> bool:
        asked = self.links.get(link)
        return asked is not None and asked.is_narrow

    def is_partial(self, link: OutLink) -> bool:
        """Whether the hub needs less than everything."""
        asked = self.links.get(link)
        return asked is not None and asked.is_narrow and not asked.takes_all

    def add(self, link: OutLink, filters: Iterable[Filter]) -> tuple[list[Filter], bool]:
        """Those that no hub asked for before; and whether all are there: the topic may not be able to take so many."""
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
        """Those that no hub asks for any more."""
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

    # What they get.

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
                    # What the hub does not get it has not seen: see hub/cluster/failover.py.
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
        """Tell the hubs, or one of them, of all positions up to the present one that they do not know of."""
        # A hub that has asked and waits to be taken in has been sent nothing.
        for link in topic.relays or ():
            asked = self.links.get(link) if only in (None, link) else None
            if asked is not None and asked.is_narrow and asked.epoch == topic.epoch and asked.n < topic.n:
                link.write(encode(SpanFrame(topic.name, topic.epoch, asked.n + 1, topic.n - asked.n)))
                asked.n = topic.n

    def jump(self, topic: _Topic, epoch: int, n: int) -> None:
        """The topic goes on after this position, and what lies between is not known here."""
        self.account(topic)
        for asked in self.links.values():
            asked.epoch, asked.n = epoch, n
