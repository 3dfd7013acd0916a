"""The filters of one topic at a hub, and the stage that delivers to their subscribers.

Filters are not members of a compiled audience: they are added and removed by the thousand, and a message matches few of
them. They are one stage of the audience, so topics without filters pay nothing for them.

This module writes to plain subscribers; `spans` writes to those with positions.

Always true:
    each filter here has a subscriber; a topic without filters has no `TopicFilters`;
    a subscriber receives a message once for each of its filters that match, with the text that it sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from equipoise.content.attributes import AttributeSource, attributes_of
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode
from equipoise.content.index import FilterIndex, listed
from equipoise.hub.content.spans import FilterSpans, SmartMembers, SpannedStream
from equipoise.resp.replies import bulk, integer

if TYPE_CHECKING:
    from equipoise.hub.data.subscriber import Subscriber

__all__ = ["FilterStats", "MatchedRun", "RunProbe", "RunStart", "TopicFilter", "TopicFilters"]


class FilterStats(Protocol):
    """Counters of matching, over all topics of the hub."""

    # Messages evaluated, subscriptions that they matched, and seconds of matching.
    messages: int
    matches: int
    matching_s: float

    def fine_now(self) -> float: ...
    def call_soon(self, work: Callable[[], None]) -> object:
        """Call `work` in the next turn."""


class _RunNotes(Protocol):
    messages: int


class _Meter(Protocol):
    def note_matching(self, matches: int, matching_s: float) -> None: ...


class _Trunk(Protocol):
    @property
    def meter(self) -> _Meter | None: ...


class _Topic(SpannedStream, Protocol):
    """The topic of a run, or a lane of it."""

    name: bytes
    delivered: int

    @property
    def trunk(self) -> _Trunk: ...


class RunStart(NamedTuple):
    """At the start of a run: the clock of work and the CPU time in seconds, and the counter of bytes written."""

    work_s: float
    cpu_s: float
    bytes_out: int


class RunProbe(Protocol):
    """Measures the cost of runs of messages, while this hub is an edge of the topic."""

    def begin(self, topic: _Topic) -> RunStart: ...
    def delivered(self, filters: TopicFilters, topic: _Topic, run: MatchedRun, start: RunStart) -> None: ...


class MatchedRun(NamedTuple):
    """Messages that were matched and written: the attributes, or None, and the filters of each."""

    payloads: Sequence[bytes]
    matched: Sequence[tuple[dict[str, Any] | None, Sequence[TopicFilter]]]
    # Number of subscriptions that each message was delivered to.
    counts: Sequence[int]


class TopicFilter(FilterNode):
    """A filter and its subscribers, each with the texts by which it subscribed and the heads of its frames."""

    __slots__ = ("members", "owner", "smart", "topic")

    def __init__(self, filter: Filter, topic: bytes, owner: str) -> None:
        super().__init__(filter)
        self.topic = topic
        # The user that subscribed first; the filter counts towards this user's quota until it is removed.
        self.owner = owner
        self.members: dict[Subscriber, tuple[tuple[bytes, bytes], ...]] = {}
        # Its subscribers with positions; None for most.
        self.smart: SmartMembers | None = None

    @property
    def is_wanted(self) -> bool:
        return bool(self.members) or self.smart is not None

    @property
    def subscriptions(self) -> int:
        return sum(map(len, self.members.values())) + (0 if self.smart is None else self.smart.count)

    @property
    def leaving(self) -> int:
        """Number of subscriptions that migrate to another hub and are still here."""
        return 0 if self.smart is None else self.smart.leaving

    def add(self, session: Subscriber, text: bytes) -> None:
        known = self.members.get(session, ())
        self.members[session] = (*known, (text, _head(session.proto, text, self.topic)))

    def remove(self, session: Subscriber, text: bytes) -> None:
        left = tuple(form for form in self.members[session] if form[0] != text)
        if left:
            self.members[session] = left
        else:
            del self.members[session]

    def renew(self, session: Subscriber) -> None:
        """The subscriber's RESP version has changed: encode the heads of its frames again."""
        if session in self.members:
            texts = [text for text, _ in self.members[session]]
            self.members[session] = tuple((text, _head(session.proto, text, self.topic)) for text in texts)


class TopicFilters:
    """Owned by one topic; changed by `Filtering` alone. A stage of the topic's audience."""

    __slots__ = (
        "_sessions",
        "_source",
        "_stats",
        "counts",
        "index",
        "leaving",
        "probe",
        "spans",
        "subscriptions",
    )

    def __init__(self, stats: FilterStats, source: Callable[[], AttributeSource]) -> None:
        self._stats = stats
        # Where messages of the topic carry their attributes.
        self._source = source
        self.index: FilterIndex[TopicFilter] = FilterIndex()
        # Subscribers, each with the number of its subscriptions here.
        self._sessions: dict[Subscriber, int] = {}
        # Pushes to subscribers with positions; None while there are none.
        self.spans: FilterSpans | None = None
        # By message of the run that was delivered last, the number of matching subscriptions.
        self.counts: list[int] = []
        self.subscriptions = 0
        # Number of these that migrate to another edge and are still here.
        self.leaving = 0
        # Set while this hub is an edge of the topic.
        self.probe: RunProbe | None = None

    @property
    def sessions(self) -> Collection[Subscriber]:
        return self._sessions.keys()

    def plain_sessions(self) -> list[Subscriber]:
        """Subscribers with a subscription without positions."""
        smart = {} if self.spans is None else self.spans.sessions
        return [session for session, count in self._sessions.items() if count > smart.get(session, 0)]

    def note(self, session: Subscriber, step: int) -> None:
        """Add `step` to the subscriber's number of subscriptions."""
        self.subscriptions += step
        count = self._sessions.get(session, 0) + step
        if count:
            self._sessions[session] = count
        else:
            del self._sessions[session]

    def add_smart(
        self, node: TopicFilter, session: Subscriber, number: bytes, streams: Iterable[SpannedStream]
    ) -> None:
        """Add a subscriber with positions, which has these streams up to their current positions."""
        if self.spans is None:
            self.spans = FilterSpans(self._stats.call_soon)
        if node.smart is None:
            node.smart = SmartMembers()
        self.spans.add(node.smart, session, number, streams)

    def remove_smart(self, node: TopicFilter, session: Subscriber, number: bytes) -> None:
        assert self.spans is not None and node.smart is not None, "the filter has subscribers with positions"
        self.spans.remove(node.smart, session, number)
        if not node.smart.numbers:
            node.smart = None
        if not self.spans.filters:
            self.spans = None

    def deliver(self, backlogs: _RunNotes, topic: _Topic, first: int, payloads: Sequence[bytes]) -> None:
        """Deliver a run of messages. `topic` may be a lane of the filters' topic."""
        stats, probe = self._stats, self.probe
        start = None if probe is None else probe.begin(topic)
        matched: list[tuple[dict[str, Any] | None, Sequence[TopicFilter]]] = []
        source = self._source()
        counts: list[int] = []
        hits: dict[SmartMembers, list[int]] = {}
        backlogs.messages = 1
        matching_s = 0.0
        for i, payload in enumerate(payloads):
            began_at = stats.fine_now()
            attributes = attributes_of(payload, source)
            # A copy, because a subscriber may be disconnected by the write, and its filters removed.
            found = [] if attributes is None else listed(self.index.match(attributes))
            matching_s += stats.fine_now() - began_at
            count = 0
            if probe is not None:
                matched.append((attributes, found))
            if self.spans is not None:
                for node in found:
                    if node.smart is not None:
                        hits.setdefault(node.smart, []).append(i)
                        count += node.smart.count
            counts.append(count + (_write(topic, found, payload) if found else 0))
        if self.spans is not None:
            self.spans.deliver(backlogs, topic, first, payloads, hits)
        stats.messages += len(payloads)
        stats.matching_s += matching_s
        delivered = sum(counts)
        stats.matches += delivered
        if (meter := topic.trunk.meter) is not None:
            meter.note_matching(delivered, matching_s)
        topic.delivered += delivered
        self.counts = counts
        if probe is not None and start is not None:
            probe.delivered(self, topic, MatchedRun(payloads, matched, counts), start)

    def count(self, payloads: Sequence[bytes]) -> None:
        """Count the subscribers that each message matches, if `deliver` has not, because the home is another hub."""
        if len(self.counts) == len(payloads):
            return
        source, counts = self._source(), []
        for payload in payloads:
            attributes = attributes_of(payload, source)
            found = [] if attributes is None else listed(self.index.match(attributes))
            counts.append(sum(filter.subscriptions for filter in found))
        self.counts = counts

    def replies(self, others: int) -> bytes:
        """The replies to PUBLISH for the messages of the last run; `others`: receivers other than by filter."""
        return b"".join([integer(others + count) for count in self.counts])


def _write(topic: _Topic, found: list[TopicFilter], payload: bytes) -> int:
    tail = b"$%d\r\n%b\r\n" % (len(payload), payload)
    count = sent = 0
    for filter in found:
        for session, forms in tuple(filter.members.items()):
            for _, head in forms:
                frame = head + tail
                session.write(frame)
                sent += len(frame)
            count += len(forms)
    topic.bytes_out += sent
    return count


def _head(proto: int, text: bytes, name: bytes) -> bytes:
    """The bytes before the payload in a `pmessage`."""
    mark = b">" if proto == 3 else b"*"
    return b"%b4\r\n%b%b%b" % (mark, bulk(b"pmessage"), bulk(text), bulk(name))
