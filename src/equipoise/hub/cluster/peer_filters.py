"""Filters that following hubs request from this hub, and the coverage that it sends them.

A follower may need only the messages that some filters match. If this hub numbers the topic, it applies the filters at
once. If it follows the topic itself, as a former home does for a while, it requests the same from its own source, and
confirms when the source has.

Always true:
    a hub that follows by filters receives the coverage of each position within `COVERAGE_S`, and before every frame
    that carries the stream's position: CLOSE, OPENED, AFTER, ENDED, AT, WANTED;
    the requests of a hub are void when it attaches again, detaches, or dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.content.filter import Filter
from equipoise.content.parsing import CANONICAL_BYTES_MAX, parse_filter
from equipoise.errors import FilterError
from equipoise.hub.cluster.link.frames import NarrowFrame, UnwantFrame, WantedFrame, WantFrame, WidenFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.content.hub_filters import HubFilters, LinkFilters

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.topics import Topic

__all__ = ["COVERAGE_S", "PeerFilters"]

# Longest delay, in seconds, of the coverage of messages that no filter matches: less than the quarter of a second after
# which subscribers may notice, during moves, that they wait for it.
COVERAGE_S = 0.2


class _Interests(Protocol):
    def filter_added(self, topic: Topic, filter: Filter) -> None: ...
    def filter_removed(self, topic: Topic, filter: Filter) -> None: ...
    def review(self, topic: Topic) -> None: ...
    def when_covered(
        self, topic: Topic, needed: Callable[[], Iterable[Filter] | None], proceed: Callable[[], None]
    ) -> None: ...


class _Handover(Protocol):
    def review(self, stream: Stream) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def handover(self) -> _Handover: ...
    @property
    def interests(self) -> _Interests: ...


class PeerFilters:
    """Part of one cluster. Implements LinkStats for all topics."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self.kept_off = 0
        # Number of different filters, over all topics.
        self.filters = 0
        # Topics with a position whose coverage some follower has not received.
        self._silent: dict[Topic, None] = {}
        self._timer: Timer | None = None

    # Requests of followers.

    def want(self, topic: Topic, link: OutLink, frame: WantFrame) -> None:
        if not self._is_following(topic, link):
            self._say_wanted(topic, link, frame.ticket, is_all=False)
            return
        held, asked = self._asked(topic, link)
        try:
            filters = [parse_filter(text, bytes_max=CANONICAL_BYTES_MAX) for text in frame.payloads]
        except FilterError:
            # A filter of a later release: send more than was requested.
            filters = None
        new, is_all_there = ([], False) if filters is None else held.add(link, filters)
        if not is_all_there:
            asked.takes_all = asked.is_too_much = True
            self._cluster.interests.review(topic)
        for filter in new:
            self.filters += 1
            self._cluster.interests.filter_added(topic, filter)
        self._answer(topic, link, frame.ticket, None if asked.is_too_much else filters)

    def unwant(self, topic: Topic, link: OutLink, frame: UnwantFrame) -> None:
        held = topic.hub_filters
        if held is None or link not in held.links:
            return
        filters: list[Filter] = []
        for text in frame.payloads:
            try:
                filters.append(parse_filter(text, bytes_max=CANONICAL_BYTES_MAX))
            except FilterError:
                continue
        self._remove(topic, held, link, filters)

    def narrow(self, topic: Topic, link: OutLink, frame: NarrowFrame) -> None:
        if self._is_following(topic, link):
            _, asked = self._asked(topic, link)
            asked.takes_all = asked.is_too_much
            if not asked.is_narrow:
                asked.is_narrow = True
                asked.epoch, asked.n = topic.epoch, topic.n
                topic.audience = None
            self._cluster.interests.review(topic)
            if topic.stream is not None and link in topic.stream.relays_waiting:
                # This hub may already receive what the follower requests now.
                self._cluster.handover.review(topic.stream)

    def widen(self, topic: Topic, link: OutLink, frame: WidenFrame) -> None:
        """The follower needs everything. Until this hub receives everything itself, send all it receives, in spans."""
        if not self._is_following(topic, link):
            self._say_wanted(topic, link, frame.ticket, is_all=False)
            return
        held = topic.hub_filters
        asked = None if held is None else held.links.get(link)
        if held is not None and asked is not None:
            asked.takes_all = True
            self._remove(topic, held, link, list(asked.filters))
            self._cluster.interests.review(topic)
        self._answer(topic, link, frame.ticket, None)

    def forget(self, topic: Topic, link: OutLink) -> None:
        """The follower attaches again, detaches, or is dead: discard its requests."""
        held = topic.hub_filters
        asked = None if held is None else held.links.get(link)
        if held is None or asked is None:
            return
        self._remove(topic, held, link, list(asked.filters))
        del held.links[link]
        topic.audience = None
        if not held.links:
            topic.hub_filters = None

    def taken_in(self, topic: Topic, link: OutLink) -> None:
        """The follower is attached: it receives the stream after the current position."""
        asked = None if topic.hub_filters is None else topic.hub_filters.links.get(link)
        if asked is not None:
            asked.epoch, asked.n = topic.epoch, topic.n

    # Coverage.

    def note_silence(self, topic: Topic) -> None:
        self._silent[topic] = None
        if self._timer is None:
            self._timer = self._cluster.core.shell.call_later(COVERAGE_S, self._break_silence)

    def _break_silence(self) -> None:
        self._timer = None
        silent, self._silent = self._silent, {}
        for topic in silent:
            if topic.hub_filters is not None:
                topic.hub_filters.account(topic)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Inside.

    def _is_following(self, topic: Topic, link: OutLink) -> bool:
        """Whether the hub has attached or waits to be; requests from before belong to an earlier attachment."""
        stream = topic.stream
        is_waiting = stream is not None and link in stream.relays_waiting
        return is_waiting or (topic.relays is not None and link in topic.relays)

    def _asked(self, topic: Topic, link: OutLink) -> tuple[HubFilters, LinkFilters]:
        held = topic.hub_filters
        core = self._cluster.core
        if held is None:
            held = HubFilters(self, lambda: core.filtering.source_of(topic), core.limits.payload_bytes_max)
            topic.hub_filters = held
        asked = held.links.get(link)
        if asked is None:
            asked = held.links[link] = LinkFilters(topic.epoch, topic.n)
        return held, asked

    def _remove(self, topic: Topic, held: HubFilters, link: OutLink, filters: Iterable[Filter]) -> None:
        for filter in held.remove(link, filters):
            self.filters -= 1
            self._cluster.interests.filter_removed(topic, filter)

    def note_matching(self, matching_s: float) -> None:
        self._cluster.core.filtering.matching_s += matching_s

    def fine_now(self) -> float:
        return self._cluster.core.shell.fine_now()

    def _answer(self, topic: Topic, link: OutLink, ticket: int, filters: Sequence[Filter] | None) -> None:
        """Confirm a request (WANTED) once the hub receives what it requested. None: everything."""
        is_all = filters is None
        if topic.is_home or topic.relays is None or link not in topic.relays:
            # A hub that waits to be attached receives no messages before this hub numbers the topic.
            self._say_wanted(topic, link, ticket, is_all=is_all)
        else:
            self._cluster.interests.when_covered(
                topic,
                lambda: self._needed(topic, link, filters),
                lambda: self._say_wanted(topic, link, ticket, is_all=is_all),
            )

    def _needed(
        self, topic: Topic, link: OutLink, filters: Sequence[Filter] | None
    ) -> Sequence[Filter] | None:
        """The part of a request that the follower still needs; None: everything.

        Between a WIDEN and the next NARROW the follower sends filters. After NARROW, this hub too requests less than
        everything, so waiting for everything would never end.
        """
        held = topic.hub_filters
        asked = None if held is None else held.links.get(link)
        if not self._is_following(topic, link):
            return ()
        if filters is None:
            return None if asked is None or asked.takes_all else ()
        return [filter for filter in filters if asked is not None and filter in asked.filters]

    def _say_wanted(self, topic: Topic, link: OutLink, ticket: int, *, is_all: bool) -> None:
        held = topic.hub_filters
        if held is not None and link in held.links:
            held.account(topic, link)
            if is_all and held.links[link].takes_all:
                # Filters that it has sent since take effect with its next NARROW.
                held.links[link].is_narrow = False
                topic.audience = None
        is_taken_in = topic.relays is not None and link in topic.relays
        at = (topic.epoch, topic.n) if is_taken_in else (0, 0)
        link.send(WantedFrame(topic.name, ticket, *at))
