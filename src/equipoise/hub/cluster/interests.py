"""Filters that this hub requests from the hubs that it follows: everything, or its subscribers' covering set.

A hub that attaches receives everything. If only filters need the stream here, filters of this hub's clients and those
that other hubs have requested from it, the hub sends the covering set of the filters (WANT), then NARROW: it needs
nothing else. A subscription that needs more waits until each source has confirmed that it sends more (WANTED), and
until the stream here has reached the position where that began. Filters that are no longer needed are removed a little
later: too broad a request costs only traffic.

Always true:
    a confirmed subscription is covered by what was requested from each source;
    of several changes, those that request more are sent first;
    a topic's filters are sent at most every `PACE_S`, and at most `STEPS` of them are processed in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import CONTENT
from equipoise.hub.cluster.link.codec import runs
from equipoise.hub.cluster.link.frames import NarrowFrame, UnwantFrame, WantedFrame, WantFrame, WidenFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.stream_interest import NEVER, LinkInterest, StreamInterest

if TYPE_CHECKING:
    from equipoise.content.filter import Filter
    from equipoise.hub.cluster.latch import Wait
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.topics import Topic

__all__ = ["PACE_S", "STEPS", "Interests"]

# Interval between changes of a topic's requested filters, in seconds: at most twenty per second.
PACE_S = 0.05
# Filters processed in one go: about 4 ms, and no more than that if they are costly, but for the last few; and the pause
# between two goes, in seconds.
STEPS = 200
STEPS_AT_ONCE = 5
SETTLE_S = 0.004
STEP_S = 0.01


class _Subscriptions(Protocol):
    def has_pattern_for(self, name: bytes) -> bool: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def subscriptions(self) -> _Subscriptions: ...


class Interests:
    """Part of one cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._is_on = cluster.core.settings.cluster.filtered_links
        # Streams of which a source was requested to send less than everything.
        self._narrow: dict[Stream, None] = {}
        # Streams that waiting clients need completely.
        self._widened: dict[Stream, None] = {}
        # Streams with filters to settle or changes to send.
        self._changed: dict[Stream, None] = {}
        self._timer: Timer | None = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What is needed here.

    def filter_added(self, topic: Topic, filter: Filter) -> None:
        """A client here has added the filter, or another hub has requested it."""
        stream = topic.stream
        if stream is None:
            return
        if stream.interest is not None:
            stream.interest.set.add(filter)
            self._touch(stream)
        else:
            self.review(topic)

    def filter_removed(self, topic: Topic, filter: Filter) -> None:
        stream = topic.stream
        if stream is not None and stream.interest is not None:
            stream.interest.set.remove(filter)
            self._touch(stream)

    def review(self, topic: Topic) -> None:
        """Something other than a filter may have changed what is needed of the topic."""
        stream = topic.stream
        if stream is not None and not stream.state.is_home and self._interest_of(stream) is not None:
            self._touch(stream)

    def _interest_of(self, stream: Stream) -> StreamInterest | None:
        """The stream's interest; created if less than everything is needed of the stream."""
        topic = stream.topic
        is_partial = _has_filters(topic) and not topic.lane and self._is_on
        if stream.interest is None and is_partial and not self._needs_all(stream):
            interest = stream.interest = StreamInterest()
            interest.set.load(_filters_of(topic))
            interest.asks = {
                hub: LinkInterest() for hub in (stream.source, stream.joining) if hub is not None
            }
        return stream.interest

    def hold(self, topic: Topic, filter: Filter | None, wait: Wait) -> Callable[[], None]:
        """Claim what a client is about to subscribe to, by a filter or everything; wait until sources send it.

        Returns a function that releases the claim. Call it before attaching to the topic's home.
        """
        stream = topic.stream
        interest = None if stream is None else stream.interest
        if stream is None or interest is None:
            return _nothing
        if filter is None:
            interest.whole_claims += 1
            self._widened[stream] = None
        else:
            interest.set.add(filter)
        if not interest.is_covered(filter):
            wait.join(interest.waiters)
            self._touch(stream)

        def release() -> None:
            if filter is None:
                interest.whole_claims -= 1
                if not interest.whole_claims:
                    self._widened.pop(stream, None)
            else:
                interest.set.remove(filter)
            self._touch(stream)

        return release

    def when_covered(
        self, topic: Topic, needed: Callable[[], Iterable[Filter] | None], proceed: Callable[[], None]
    ) -> None:
        """Call `proceed` once every source sends what the filters `needed()` match; None: everything."""

        def again() -> None:
            interest = None if topic.stream is None else topic.stream.interest
            if interest is None or self.is_covered(topic, needed()):
                proceed()
            else:
                interest.waiters.append(again)

        again()

    def is_covered(self, topic: Topic, filters: Iterable[Filter] | None) -> bool:
        """Whether every source sends what these filters match; None: everything."""
        stream = topic.stream
        if stream is None or stream.interest is None:
            return True
        return all(map(stream.interest.is_covered, [None] if filters is None else filters))

    def when_changed(self, topic: Topic, proceed: Callable[[], None]) -> None:
        """Call `proceed` at the next change that may make sources send more."""
        interest = None if topic.stream is None else topic.stream.interest
        if interest is not None:
            interest.waiters.append(proceed)

    def narrow_topics(self) -> list[Topic]:
        """Topics that sources send in part, or completely only for clients that are about to subscribe.

        A subscriber by pattern waits for several of them at once: a topic that was widened for it stays so until the
        others are widened too. Otherwise it might wait for one or the other for ever.
        """
        return [stream.topic for stream in {**self._narrow, **self._widened}]

    def is_narrow(self, topic: Topic) -> bool:
        return topic.stream is not None and topic.stream in self._narrow

    @property
    def covers(self) -> int:
        """Number of filters that are requested from other hubs."""
        return sum(stream.interest.covers for stream in self._narrow if stream.interest is not None)

    @property
    def has_narrow(self) -> bool:
        return bool(self._narrow)

    # Sources.

    def attached(self, stream: Stream, hub: str) -> None:
        """The stream is requested from the hub: completely, until filters are sent."""
        interest = self._interest_of(stream)
        if interest is not None:
            interest.asks[hub] = LinkInterest()
            interest.sent_at = NEVER
            self._go_on(stream, interest)

    def left(self, stream: Stream, hub: str) -> None:
        """The hub is no longer a source, or it has lost what was requested from it."""
        interest = stream.interest
        if interest is not None and interest.asks.pop(hub, None) is not None:
            self._mind(stream, interest)
            self._wake(interest)

    def wanted(self, stream: Stream | None, hub: str, frame: WantedFrame) -> None:
        """WANTED arrived: the hub now sends what was requested."""
        interest = None if stream is None else stream.interest
        ask = None if interest is None else interest.asks.get(hub)
        if stream is not None and interest is not None and ask is not None:
            ask.answered(frame.ticket, (frame.epoch, frame.n))
            self.moved(stream)

    def moved(self, stream: Stream) -> None:
        """The stream has advanced."""
        interest = stream.interest
        if interest is not None and interest.settle(stream.position):
            self._wake(interest)

    def _wake(self, interest: StreamInterest) -> None:
        waiters = interest.waiters[:]
        interest.waiters.clear()
        for proceed in waiters:
            proceed()

    # Requests.

    def _needs_all(self, stream: Stream) -> bool:
        topic = stream.topic
        filters = topic.hub_filters
        return bool(
            topic.members
            or any(
                filters is None or not filters.is_partial(link)
                for link in (*(topic.relays or ()), *stream.joining_links)
            )
            # Subscribers of several streams wait in one stream for positions of another.
            or (topic.beside is not None and topic.beside.lanes)
            or self._cluster.subscriptions.has_pattern_for(topic.name)
        )

    def _is_whole(self, stream: Stream, interest: StreamInterest) -> bool:
        wanted = interest.set
        return (
            not self._is_on
            or interest.whole_claims > 0
            or not wanted.is_loaded
            or not wanted.asked
            or wanted.is_too_large
            or self._needs_all(stream)
        )

    def _touch(self, stream: Stream) -> None:
        self._changed[stream] = None
        if self._timer is None:
            self._timer = self._cluster.core.shell.call_later(0, self._tick)

    def _tick(self) -> None:
        self._timer = None
        changed, self._changed = self._changed, {}
        for stream in changed:
            interest = stream.interest
            if interest is not None and stream.topic.stream is stream and self._go_on(stream, interest):
                # A waiting filter may have got another cover, which is requested already.
                self._wake(interest)
        if self._changed and self._timer is None:
            self._timer = self._cluster.core.shell.call_later(STEP_S, self._tick)

    def _go_on(self, stream: Stream, interest: StreamInterest) -> bool:
        """Process some filters, and send changes if PACE_S has passed; return whether any were sent."""
        self._settle(interest)
        now = self._cluster.core.shell.now()
        is_time, has_said = now >= interest.sent_at + PACE_S, False
        if is_time:
            interest.take(interest.set.take_changes())
            has_said = self._send(stream, interest)
            interest.sent_at = now if has_said else interest.sent_at
        if not is_time or not interest.set.is_settled:
            self._changed[stream] = None
            if self._timer is None:
                self._timer = self._cluster.core.shell.call_later(STEP_S, self._tick)
        return has_said

    def _settle(self, interest: StreamInterest) -> None:
        fine_now = self._cluster.core.shell.fine_now
        until = fine_now() + SETTLE_S
        for _ in range(0, STEPS, STEPS_AT_ONCE):
            interest.set.settle(min(STEPS, STEPS_AT_ONCE))
            if interest.set.is_settled or fine_now() > until:
                return

    def _send(self, stream: Stream, interest: StreamInterest) -> bool:
        """Send changes to all sources; return whether there were any."""
        is_whole = self._is_whole(stream, interest)
        changes, interest.changes = interest.changes, {}
        has_said = False
        for hub, ask in interest.asks.items():
            link = self._cluster.out.get(hub)
            if link is None or not link.can(CONTENT):
                continue
            if not is_whole:
                has_said |= self._ask_for(stream.topic, interest, link, ask, changes)
            elif ask.is_narrow:
                ask.widen(self._cluster.new_ticket())
                link.send(WidenFrame(stream.topic.name, ask.widened))
                has_said = True
        self._mind(stream, interest)
        return has_said

    def _ask_for(
        self,
        topic: Topic,
        interest: StreamInterest,
        link: OutLink,
        ask: LinkInterest,
        changes: dict[Filter, bool],
    ) -> bool:
        wanted = interest.set.asked
        added = [filter for filter in (changes if ask.is_narrow else wanted) if filter in wanted]
        added = [filter for filter in added if filter not in ask.sent]
        gone = [filter for filter in (changes if ask.is_narrow else list(ask.sent)) if filter not in wanted]
        gone = [filter for filter in gone if filter in ask.sent]
        for texts, filters in self._pieces(added):
            ticket = self._cluster.new_ticket()
            ask.want(filters, ticket)
            link.send(WantFrame(topic.name, ticket, texts))
        is_new = not ask.is_narrow
        if is_new:
            ask.narrow()
            link.send(NarrowFrame(topic.name))
        for texts, filters in self._pieces(gone):
            for filter in filters:
                del ask.sent[filter]
            link.send(UnwantFrame(topic.name, texts))
        return bool(added or gone or is_new)

    def _pieces(self, filters: Sequence[Filter]) -> Iterator[tuple[Sequence[bytes], Sequence[Filter]]]:
        """The texts of the filters in parts that fit a frame, each with its filters."""
        if filters:
            texts = [str(filter).encode() for filter in filters]
            for start, part in runs(texts, self._cluster.core.limits.payload_bytes_max):
                yield part, filters[start : start + len(part)]

    def _mind(self, stream: Stream, interest: StreamInterest) -> None:
        """Update the set of streams that sources send in part."""
        if any(ask.is_narrow for ask in interest.asks.values()):
            self._narrow[stream] = None
        else:
            self._narrow.pop(stream, None)


def _has_filters(topic: Topic) -> bool:
    return topic.content is not None or topic.hub_filters is not None


def _filters_of(topic: Topic) -> Iterator[Filter]:
    for index in (topic.content, topic.hub_filters):
        if index is not None:
            yield from (node.filter for node in index.index)


def _nothing() -> None:
    """The release of a claim that needs none."""
