"""Safeguards of filter subscriptions in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from equipoise.client.routing.channel import TopicChannel
from equipoise.client.wire.link_subscription import LinkSubscription
from equipoise.content.cover_set import CoverSet
from equipoise.content.filter import Filter
from equipoise.content.groups import Found
from equipoise.content.index import FilterIndex
from equipoise.content.interest import InterestNode
from equipoise.hub.cluster import interests
from equipoise.hub.cluster.epoch_flush import EpochFlush
from equipoise.hub.cluster.followers import Followers
from equipoise.hub.cluster.interests import Interests
from equipoise.hub.cluster.latch import Wait
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.cluster.peer_filters import PeerFilters
from equipoise.hub.cluster.relay_merge import RelayedStreams
from equipoise.hub.cluster.streams import FollowRequest, State, Stream
from equipoise.hub.cluster.subscription_barrier import SubscriptionBarrier
from equipoise.hub.content.hub_filters import HubFilters
from equipoise.hub.content.spans import FilterSpans, SpannedStream
from equipoise.hub.content.topic_filters import TopicFilter
from equipoise.hub.data.topic import Topic
from equipoise.lab.simulation.ablation import Ablation, replaced
from equipoise.lab.simulation.checkers import needless_gap, once, progress
from equipoise.stream.merge import TopicMerge
from equipoise.stream.parts import FilteredRun
from equipoise.stream.relay import RelayMerge, Switch
from equipoise.stream.sources import MergedStream, MergedStreams

__all__ = ["CONTENT_ABLATIONS", "arrived_when_answered"]


def _match_all(index: FilterIndex[TopicFilter], attributes: dict[str, Any]) -> Found[TopicFilter]:
    nodes: Sequence[TopicFilter] = list(index)
    return [(nodes, 0, len(nodes))]


def _match_half(index: FilterIndex[TopicFilter], attributes: dict[str, Any]) -> Found[TopicFilter]:
    """The filter index finds no filter for every other message."""
    return [] if int(attributes.get("number", 0)) % 2 else _match(index, attributes)


_match = FilterIndex.match


def _stand_nowhere(
    listening: SubscriptionBarrier, session: object, name: bytes, left_out: object, wait: object
) -> None:
    """The hub confirms a subscription whether or not it follows the topic."""


def _without_span(merging: RelayedStreams, stream: Stream, run: FilteredRun) -> None:
    """A relay takes the messages of a span and ignores its omitted positions."""
    for first, payloads in run.runs(stream.topic.n if run.epoch == stream.topic.epoch else 0):
        merging._deliver(stream, run.epoch, first, payloads)


def _hold_nothing(
    interests: Interests, topic: Topic, filter: Filter | None, wait: Wait
) -> Callable[[], None]:
    """The hub confirms a subscription before other hubs send the messages it needs."""
    return lambda: None


def _switch_at_once(merge: RelayMerge, *, is_behind: bool) -> Switch | None:
    """A relay leaves its source as soon as the next source sends."""
    join_at, left = merge.join_at, merge.source
    if join_at is None:
        return None
    merge.source, merge.joining, merge.join_at = merge.joining, None, None
    return Switch(left, join_at if left is None else None)


def _await_what_was_asked(
    peers: PeerFilters, topic: Topic, link: OutLink, ticket: int, filters: Sequence[Filter] | None
) -> None:
    """A hub waits for the whole topic if a peer once requested it, although the peer has sent filters since."""
    held = topic.hub_filters
    asked = None if held is None else held.links.get(link)
    wanted = None if asked is not None and asked.takes_all else filters
    peers._cluster.interests.when_covered(
        topic, lambda: wanted, lambda: peers._say_wanted(topic, link, ticket, is_all=wanted is None)
    )


@contextmanager
def _covers_leave_at_once() -> Iterator[None]:
    """A hub stops requesting a removed cover before other covers replace it for its children."""
    leave = CoverSet._leave

    def drop(covers: CoverSet[InterestNode], node: InterestNode) -> None:
        leave(covers, node)
        covers.changes[node] = False

    # As slow as with thousands of children.
    slowly = replaced(interests, "STEPS", 1), replaced(interests, "STEP_S", 0.3)
    with replaced(CoverSet, "_leave", drop), slowly[0], slowly[1]:
        yield


@contextmanager
def _account_by_time_only() -> Iterator[None]:
    account = HubFilters.account

    def break_silence(asked: PeerFilters) -> None:
        asked._timer = None
        silent, asked._silent = asked._silent, {}
        for topic in silent:
            if topic.hub_filters is not None:
                account(topic.hub_filters, topic)

    def keep_silent(filters: HubFilters, topic: Topic, only: object = None) -> None: ...

    with (
        replaced(HubFilters, "account", keep_silent),
        replaced(PeerFilters, "_break_silence", break_silence),
    ):
        yield


def _take_messages_only(merge: TopicMerge, stream: MergedStream, run: FilteredRun) -> None:
    """A client takes the messages of a span and ignores its omitted positions."""
    for first, payloads in run.runs(0):
        verdict = stream.cursor.accept(run.epoch, first, len(payloads))
        merge._pass_on(verdict, run.epoch, first, payloads)


def _ask_nothing(subscription: LinkSubscription[TopicChannel]) -> None:
    """A client does not request the position; it waits for the next message that matches its filter."""


def arrived_when_answered(merge: TopicMerge) -> bool:
    """A client leaves a hub as soon as the next hub has answered."""
    return bool(merge.wanted) and all(merge.sources.get(source) for source in merge.wanted)


def _account_nothing(spans: FilterSpans, stream: SpannedStream) -> None:
    """Smart clients learn the position of a stream only with a matching message, or on request."""


def _jump_unseen(topic: Topic, epoch: int, n: int) -> None:
    """Spans include lost positions within an epoch."""
    if epoch != topic.epoch:
        _jump(topic, epoch, n)
    else:
        topic.n = n


_jump = Topic.jump


def _follow_under_any_plan(followers: Followers, stream: Stream, request: FollowRequest) -> bool:
    """A hub forwards a stream as soon as it follows any hub, even if the plan versions of the two hubs differ."""
    is_following = stream.state is State.REMOTE and stream.is_ready
    return stream.state.is_home or (is_following and not request.needs_home)


def _await_no_home(listening: SubscriptionBarrier, name: bytes, wait: Wait, answers: object) -> None:
    """An edge confirms subscriptions at its own position."""


CONTENT_ABLATIONS = (
    Ablation(
        "tree-version",
        "A hub of a tree forwards a stream only after it follows its own parent under the requester's "
        "plan version.",
        progress.NAME,
        "content-trees",
        lambda: replaced(Followers, "_may_follow", _follow_under_any_plan),
        seed=30,
    ),
    Ablation(
        "tree-position",
        "An edge confirms a subscription after it has reached the home's position at the time of the "
        "subscription.",
        once.NAME,
        "content-trees-wanderers",
        lambda: replaced(SubscriptionBarrier, "_await_home", _await_no_home),
    ),
    Ablation(
        "filter-match",
        "A filter subscriber receives only matching messages.",
        once.NAME,
        "content-moves",
        lambda: replaced(FilterIndex, "match", _match_all),
    ),
    Ablation(
        "filter-complete",
        "A filter subscriber receives all matching messages.",
        once.NAME,
        "content-moves",
        lambda: replaced(FilterIndex, "match", _match_half),
    ),
    Ablation(
        "filter-barrier",
        "A hub confirms a filter subscription after it follows the topic.",
        once.NAME,
        "content-relays",
        lambda: replaced(SubscriptionBarrier, "_await_streams_by_name", _stand_nowhere),
    ),
    Ablation(
        "filter-heard",
        "A hub follows a topic as long as one of its clients has a filter on it.",
        progress.NAME,
        "content-alone",
        lambda: replaced(Topic, "is_heard", property(lambda topic: bool(topic.members))),
    ),
    Ablation(
        "filter-span",
        "A hub that follows by filters learns which positions its source omitted on purpose.",
        needless_gap.NAME,
        "content-links",
        lambda: replaced(RelayedStreams, "_deliver_span", _without_span),
    ),
    Ablation(
        "filter-stale",
        "A hub accepts filtered runs only from a hub that has its current filters.",
        once.NAME,
        "content-trees-routed",
        lambda: replaced(RelayMerge, "has_attached", lambda stream, hub: True),
        seed=174,
    ),
    Ablation(
        "tree-stray",
        "A parent that a hub leaves before it follows it brings no messages ahead of the home.",
        needless_gap.NAME,
        "content-trees",
        lambda: replaced(RelayMerge, "is_void", lambda stream, arrival: False),
        seed=774,
    ),
    Ablation(
        "tree-flush",
        "A hub opens a topic when the hubs above it in the tree have nothing more of the former epoch.",
        progress.NAME,
        "content-trees-crashes",
        lambda: replaced(EpochFlush, "look", lambda flushes, stream: None),
        seed=972,
    ),
    Ablation(
        "filter-cover",
        "A hub confirms a subscription after all followed hubs send the messages it needs.",
        once.NAME,
        "content-covers",
        lambda: replaced(Interests, "hold", _hold_nothing),
        seed=3,
    ),
    Ablation(
        "filter-answer",
        "A hub confirms a request for filters after it receives what the requester still needs.",
        progress.NAME,
        "content-trees-wanderers",
        lambda: replaced(PeerFilters, "_answer", _await_what_was_asked),
        seed=910,
    ),
    Ablation(
        "filter-drain",
        "A hub that follows by filters leaves a home when it has reached the first position of the "
        "next home.",
        needless_gap.NAME,
        "content-links",
        lambda: replaced(RelayMerge, "switch", _switch_at_once),
        seed=4,
    ),
    Ablation(
        "filter-leaving",
        "A hub requests a removed cover until other covers replace it.",
        once.NAME,
        "content-covers",
        _covers_leave_at_once,
        seed=1,
    ),
    Ablation(
        "filter-close",
        "A hub that follows by filters learns the position of a stream before it learns that the "
        "stream continues elsewhere.",
        needless_gap.NAME,
        "content-links",
        _account_by_time_only,
        seed=1,
    ),
    Ablation(
        "client-span",
        "A smart client with a filter learns which positions the hub omitted on purpose.",
        needless_gap.NAME,
        "content-moves",
        lambda: replaced(TopicMerge, "_take_run", _take_messages_only),
    ),
    Ablation(
        "client-drain",
        "A smart client with a filter leaves a hub when it has reached the first position of the next hub.",
        needless_gap.NAME,
        "content-routed",
        lambda: replaced(TopicMerge, "_has_arrived", arrived_when_answered),
    ),
    Ablation(
        "client-cover",
        "A smart client with a filter requests the position of a stream when it waits for that position.",
        needless_gap.NAME,
        "content-routed-alone",
        lambda: replaced(LinkSubscription, "ask_cover", _ask_nothing),
        seed=4,
    ),
    Ablation(
        "filter-loss",
        "A span contains no lost position.",
        once.NAME,
        "content-narrow",
        lambda: replaced(Topic, "jump", _jump_unseen),
    ),
    Ablation(
        "client-bookmark",
        "A smart client that returns to a lagging hub receives no message twice.",
        once.NAME,
        "content-routed-comers",
        lambda: replaced(MergedStreams, "bookmark", lambda streams: MergedStreams()),
        seed=26,
    ),
    Ablation(
        "client-close",
        "A smart client with a filter learns the position of a stream before it learns that the stream "
        "continues elsewhere.",
        needless_gap.NAME,
        "content-moves",
        lambda: replaced(FilterSpans, "account", _account_nothing),
    ),
)
