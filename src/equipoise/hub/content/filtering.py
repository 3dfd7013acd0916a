"""Filters of a hub's clients: `PSUBSCRIBE '$filter TOPIC FILTER'`, EQ.FSUBSCRIBE, and their limits.

A filter is written as a pattern so that every Redis client can use one; its messages name the text that the client
sent. Names that begin with `$` are reserved, so no ordinary pattern is mistaken for a filter. Smart clients use a
command of their own, because they need positions.

Always true: each filter is counted once against `filters_max`, for the user of its first subscriber.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from equipoise.access import Action
from equipoise.content.attributes import AttributeSource
from equipoise.content.filter import Filter
from equipoise.content.groups import SCANNED_MAX
from equipoise.content.index import SHAPES_MAX
from equipoise.content.parsing import FilterRequest, parse_filter, read_name
from equipoise.errors import FilterError
from equipoise.hub.access.denials import denial
from equipoise.hub.access.quotas import Quotas, Resource, owner_of
from equipoise.hub.content.topic_filters import RunProbe, TopicFilter, TopicFilters

if TYPE_CHECKING:
    from equipoise.hub.client_limits import Limits
    from equipoise.hub.data.ports import Shell
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topic import Topic
    from equipoise.hub.data.topic_specs import TopicSpecs
    from equipoise.hub.data.topics import TopicIndex

__all__ = ["FILTER_WORD", "Filtering", "denied", "read_request", "streams_of"]

FILTER_WORD = b"$filter"


def read_request(text: bytes, topic_bytes_max: int) -> FilterRequest | str:
    """Parse the request; return the error text, with the byte offset of the error, if it is invalid."""
    begin = len(FILTER_WORD) + 1
    try:
        if text[begin - 1 : begin] != b" ":
            raise FilterError(begin - 1, "a space, the name of a topic, a space, and a filter")
        topic, at = read_name(text, begin)
        if len(topic) > topic_bytes_max:
            return f"ERR topic name longer than {topic_bytes_max} bytes (topic_bytes_max)"
        return FilterRequest(topic, parse_filter(text, at))
    except FilterError as problem:
        return f"ERR {problem}"


class _Interests(Protocol):
    def filter_added(self, topic: Topic, filter: Filter) -> None: ...
    def filter_removed(self, topic: Topic, filter: Filter) -> None: ...


class _Edge(Protocol):
    def probe_of(self, topic: bytes) -> RunProbe | None: ...
    def unsubscribed(self, session: Subscriber, number: bytes) -> None: ...


class _OtherHubs(Protocol):
    @property
    def edge(self) -> _Edge: ...
    @property
    def interests(self) -> _Interests: ...


class _Hub(Protocol):
    # Replaced when the hub begins a new incarnation.
    quotas: Quotas
    specs: TopicSpecs

    @property
    def limits(self) -> Limits: ...
    @property
    def shell(self) -> Shell: ...
    @property
    def cluster(self) -> _OtherHubs: ...


class Filtering:
    """Owned by HubCore. Changed by hub/data/subscribe.py."""

    def __init__(self, core: _Hub) -> None:
        self._core = core
        self.fine_now = core.shell.fine_now
        # Number of different filters of all topics, and of subscriptions to them.
        self.filters = 0
        self.subscriptions = 0
        # Messages evaluated, subscriptions that they matched, and seconds of matching.
        self.messages = 0
        self.matches = 0
        self.matching_s = 0.0

    def call_soon(self, work: Callable[[], None]) -> None:
        self._core.shell.call_later(0, work)

    def source_of(self, topic: Topic) -> AttributeSource:
        spec = self._core.specs.of(topic)
        return AttributeSource.PAYLOAD if spec is None or spec.attributes is None else spec.attributes

    def facts(self) -> dict[str, float]:
        """Counters for INFO and metrics."""
        return {
            "filters": self.filters,
            "filter_subscriptions": self.subscriptions,
            "filtered_messages": self.messages,
            "filter_matches": self.matches,
            "matching_s": self.matching_s,
        }

    def objection(
        self, session: Session, requests: Collection[FilterRequest], index: TopicIndex
    ) -> str | None:
        """The error text if the session may not subscribe to all of these; else None."""
        new = 0
        for request in requests:
            if problem := denied(session, request.topic):
                return problem
            topic = index.topics.get(request.topic)
            content = None if topic is None else topic.content
            if content is not None and content.index.get(request.filter) is not None:
                continue
            new += 1
            problem = None if content is None else self._no_room(content, request.filter, session)
            if problem is not None:
                return problem
        return self._core.quotas.objection(Resource.FILTERS, owner_of(session.user), new) if new else None

    def _no_room(self, content: TopicFilters, filter: Filter, session: Subscriber) -> str | None:
        """The error text if the topic's index has no room for the filter, in total or for this user; else None."""
        if (excess := content.index.objection(filter)) is not None:
            return f"ERR this topic has {excess} already, which is the maximum"
        owner, user_share = owner_of(session.user), self._core.limits.user_share
        least = int(min(SHAPES_MAX, SCANNED_MAX) * user_share)
        for room in content.index.scarce(filter, least) if owner else ():
            share = max(1, int(room.most * user_share))
            if sum(node.owner == owner for node in room.holders) + room.needed > share:
                return f"ERR user '{owner}' may hold {share} {room.noun} of this topic (user_share)"
        return None

    def attach(
        self,
        session: Subscriber,
        text: bytes,
        topic: Topic,
        filter: Filter,
        index: TopicIndex,
        *,
        is_smart: bool = False,
    ) -> TopicFilter | str:
        """Add a subscription; return the error text if the topic has no room for it.

        `text`: the text that the client sent, or the number of a subscription with positions.
        """
        content = topic.content
        if content is None:
            content = TopicFilters(self, lambda: self.source_of(topic))
            content.probe = self._core.cluster.edge.probe_of(topic.name)
            index.set_content(topic, content)
        node = content.index.get(filter)
        if node is None:
            # Checked again, because one command may add thousands of filters.
            problem = self._no_room(content, filter, session)
            if problem is not None:
                return problem
            node = TopicFilter(filter, topic.name, owner_of(session.user))
            content.index.add(node)
            self.filters += 1
            self._core.quotas.take(Resource.FILTERS, node.owner)
            self._core.cluster.interests.filter_added(topic, filter)
        if is_smart:
            content.add_smart(node, session, text, streams_of(topic))
        else:
            node.add(session, text)
        content.note(session, 1)
        self.subscriptions += 1
        return node

    def detach(
        self,
        session: Subscriber,
        text: bytes,
        node: TopicFilter,
        index: TopicIndex,
        *,
        is_smart: bool = False,
    ) -> None:
        topic = index.topics[node.topic]
        content = topic.content
        assert content is not None, "the topic of a filter has filters"
        if is_smart:
            self._core.cluster.edge.unsubscribed(session, text)
            content.remove_smart(node, session, text)
        else:
            node.remove(session, text)
        content.note(session, -1)
        self.subscriptions -= 1
        if node.is_wanted:
            return
        content.index.remove(node)
        self.filters -= 1
        self._core.quotas.give_back(Resource.FILTERS, node.owner)
        self._core.cluster.interests.filter_removed(topic, node.filter)
        if not len(content.index):
            index.set_content(topic, None)


def streams_of(topic: Topic) -> list[Topic]:
    """The trunk and the lanes."""
    return [topic, *(() if topic.beside is None else topic.beside.lanes.values())]


def denied(session: Session, topic: bytes) -> str | None:
    """The error text if the session may not use filters on the topic; else None."""
    for action in (Action.SUBSCRIBE, Action.FILTER):
        if not session.may(action, topic):
            return denial(session, action, topic)
    return None
