"""One topic at a hub: its stream, members, meters and delivery.

The hot path reads and writes the attributes directly. Only `TopicIndex` creates and removes topics and changes members.

Fan-out: an audience is compiled when it is first needed. Most subscribers are in groups that receive the same bytes;
`HubCore.publish` writes to these itself. This module delivers to all others, behind one check, `Audience.is_plain`: the
links to the hubs that follow the topic, and the stages, one for each kind of subscriber that needs more than one write
of a shared encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.access import Action
from equipoise.hub.cluster.link.codec import egress_encoder
from equipoise.hub.data.audience import Audience
from equipoise.hub.data.kinds import Kind
from equipoise.resp.replies import Encoder, interleaved, plain_encoder, positioned_encoder
from equipoise.stream.position import DURABLE_EPOCH

if TYPE_CHECKING:
    from equipoise.hub.cluster.lane_state import TopicLanes
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.cluster.topic_limit import TopicLimit
    from equipoise.hub.content.hub_filters import HubFilters
    from equipoise.hub.content.topic_filters import TopicFilters
    from equipoise.hub.data.audience import RunNotes, Stage
    from equipoise.hub.data.patterns import Pattern
    from equipoise.hub.data.ports import MessageLog
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.locations.topic_locations import TopicLocations
    from equipoise.hub.telemetry.meter import TopicMeter
    from equipoise.model import TopicSpec

__all__ = [
    "LANE_PREFIX",
    "MixedForms",
    "Topic",
    "compile_audience",
    "deliver_in_stages",
    "deliver_to_hubs",
    "own_replies",
]

# Prefix of the names of lanes between hubs: no client may create such a topic.
LANE_PREFIX = b"$lane/"


class Topic:
    """One topic's stream, members and meters. The hot path reads and writes the attributes directly."""

    __slots__ = (
        "audience",
        "beside",
        "bytes_in",
        "bytes_out",
        "content",
        "cuts",
        "delivered",
        "drops",
        "epoch",
        "hub_filters",
        "is_gated",
        "is_queued",
        "is_shard",
        "is_watched",
        "limit",
        "log",
        "members",
        "meter",
        "n",
        "name",
        "news",
        "number",
        "owner",
        "pattern_relays",
        "patterns",
        "patterns_at",
        "published",
        "publisher",
        "relays",
        "seen_n",
        "spec",
        "spec_at",
        "stream",
        "where",
    )

    def __init__(self, name: bytes, epoch: int, *, is_shard: bool, owner: str = "", number: int = 0) -> None:
        self.name = name
        # Sequence number of the topic's creation at this hub, from 1; 0 for lanes and shard channels.
        self.number = number
        self.is_shard = is_shard
        # The user that created it; its memory counts towards this user's quota.
        self.owner = owner
        # The matching patterns of this hub's clients and of other hubs, and the version of the index they are from.
        self.patterns: tuple[Pattern, ...] = ()
        self.pattern_relays: tuple[Pattern, ...] = ()
        self.patterns_at = -1
        # Its spec, and the change of specs it is from; -1: not looked up. Read it through `TopicSpecs.of`.
        self.spec: TopicSpec | None = None
        self.spec_at = -1
        self.epoch = epoch
        # Position of the last message; 0 before the first.
        self.n = 0
        # Subscribers by name, in order of subscription, each with its kinds of subscription.
        self.members: dict[Subscriber, tuple[Kind, ...]] = {}
        # Subscribers by filter, a stage of the audience; None: there are none.
        self.content: TopicFilters | None = None
        self.audience: Audience | None = None
        # Messages numbered here, and bytes of their payloads; messages written to subscribers, and bytes written.
        self.published = 0
        self.bytes_in = 0
        self.delivered = 0
        self.bytes_out = 0
        # Slow consumers that were disconnected with messages of this topic in their backlog; and messages dropped.
        self.cuts = 0
        self.drops = 0
        # Links to hubs that follow the stream.
        self.relays: dict[OutLink, None] | None = None
        # The filters of the hubs among them that request a part of the topic only; None for most topics.
        self.hub_filters: HubFilters | None = None
        # State of the stream in the cluster; None: the topic is open here and no other hub is involved.
        self.stream: Stream | None = None
        # Sequence number of the last event of another hub (PeerEvents) that was applied to the topic.
        self.news = 0
        # State of its lanes; None for most topics.
        self.beside: TopicLanes | None = None
        # Whether it is in the queue of topics without subscribers, and n at its last visit there: an equal n at the
        # next visit means that the topic is idle.
        self.is_queued = False
        self.seen_n = -1
        # For telemetry: the meter of this window, while there is anything to record; the id of the session that
        # published last; whether every arrival is recorded.
        self.meter: TopicMeter | None = None
        self.publisher: int | None = None
        self.is_watched = False
        # Its rate envelope at this hub; None for most topics.
        self.limit: TopicLimit | None = None
        # Its log, if its spec is durable; None for most topics.
        self.log: MessageLog | None = None
        # Whether publishes need a check: the topic is watched, limited or durable.
        self.is_gated = False
        # Locations of its clients; None until telemetry requests them.
        self.where: TopicLocations | None = None

    def gate(self) -> None:
        """Update `is_gated` after a change of `is_watched`, `limit` or `log`."""
        self.is_gated = self.is_watched or self.limit is not None or self.log is not None

    @property
    def is_engaged(self) -> bool:
        """Whether other hubs follow the topic, an exchange with them is in progress, or a rate limit has state."""
        if self.limit is not None and self.limit.is_engaged:
            return True
        has_lanes = self.beside is not None and bool(self.beside.lanes)
        return has_lanes or bool(self.relays) or (self.stream is not None and not self.stream.is_idle)

    @property
    def is_home(self) -> bool:
        """Whether this hub numbers the messages."""
        return self.stream is None or self.stream.state.is_home

    @property
    def trunk(self) -> Topic:
        """The topic itself; of a lane, the topic that it is a lane of."""
        return self

    @property
    def key(self) -> bytes:
        """The name of the stream between hubs."""
        return self.name

    @property
    def lane(self) -> bytes:
        """The name of the stream for clients: the lane's hub; empty for the trunk."""
        return b""

    @property
    def has_subscribers(self) -> bool:
        """Whether it has a subscriber by name or by filter."""
        return bool(self.members) or self.content is not None

    @property
    def has_followers(self) -> bool:
        """Whether a subscriber by name or by filter, or another hub, follows it."""
        return bool(self.members or self.relays or self.content)

    @property
    def shown_epoch(self) -> int:
        """The epoch shown to clients: a durable topic has one constant epoch, in which n is the number in its log."""
        return self.epoch if self.log is None else DURABLE_EPOCH

    @property
    def is_heard(self) -> bool:
        """Whether a subscriber by name or by filter needs this stream from this hub."""
        absent = None if self.beside is None else self.beside.absent
        if self.trunk.content is not None:
            return True
        if not absent:
            return bool(self.members)
        return any(session not in absent or kinds != (Kind.OWN,) for session, kinds in self.members.items())

    def jump(self, epoch: int, n: int) -> None:
        """Continue the stream after this position, assigned by another hub; this hub skips the messages between."""
        if self.hub_filters is not None:
            self.hub_filters.jump(self, epoch, n)
        content = self.trunk.content
        if content is not None and content.spans is not None:
            content.spans.jump(self, epoch, n)
        if epoch != self.epoch:
            self.audience = None
        self.epoch, self.n = epoch, n

    def renew(self) -> None:
        """The topic's subscribers have changed: discard its audience and those of its lanes."""
        self.audience = None
        if self.beside is not None:
            for lane in self.beside.lanes.values():
                lane.audience = None


# --- fan-out ----------------------------------------------------------------------------------------------------------

# A form of delivery: protocol version, kind, and the pattern of a subscription by pattern.
Form = tuple[int, Kind, bytes | None]
# A message in many forms is written in pieces of this size, which transports accept before they are full.
MIXED_PIECE_BYTES = 64 * 1024


class SubscriberIndex(Protocol):
    """The part of the index of topics that compiling an audience needs."""

    @property
    def version(self) -> int: ...
    @property
    def payload_bytes_max(self) -> int: ...
    def match(self, topic: Topic) -> None:
        """Bring the topic's patterns up to date."""

    def elsewhere(self, topic: Topic) -> int:
        """The number of receivers at other hubs."""


class MixedForms:
    """Subscribers that receive a message in the same several forms: all forms of one message before the next."""

    __slots__ = ("_encoders", "sessions")

    def __init__(self, encoders: Sequence[Encoder], sessions: Sequence[Subscriber]) -> None:
        self._encoders = encoders
        self.sessions = sessions

    def deliver(self, backlogs: RunNotes, topic: Topic, first: int, payloads: Sequence[bytes]) -> None:
        """Write a run in pieces, as long as a subscriber is connected.

        A client may have thousands of patterns that match the topic, so the encoded size of a run has no bound.
        """
        takers = self.sessions
        for frames, piece in interleaved(self._encoders, first, payloads, MIXED_PIECE_BYTES):
            backlogs.messages = frames
            topic.bytes_out += len(piece) * len(takers)
            for session in takers:
                session.write(piece)
            takers = [session for session in takers if not session.is_closing]
            if not takers:
                break


def deliver_in_stages(
    backlogs: RunNotes, topic: Topic, audience: Audience, first: int, payloads: Sequence[bytes]
) -> None:
    for stage in audience.stages:
        stage.deliver(backlogs, topic, first, payloads)


def own_replies(topic: Topic) -> bytes:
    """The replies to PUBLISH for the messages just delivered, if filters make their receivers differ."""
    content, audience = topic.content, topic.audience
    assert content is not None and audience is not None, "the topic has filters"
    return content.replies(audience.receivers + audience.elsewhere)


def deliver_to_hubs(topic: Topic, audience: Audience, first: int, payloads: Sequence[bytes]) -> None:
    """Send a run to other hubs. Counted as egress: the other hubs count the deliveries to their clients."""
    if audience.narrow_hubs and topic.hub_filters is not None:
        topic.hub_filters.deliver(topic, audience.narrow_hubs, first, payloads)
    links = audience.hubs
    if not links:
        return
    data = audience.encode_for_hubs(first, payloads)
    if (meter := topic.trunk.meter) is not None:
        meter.note_egress(len(payloads) * len(links), len(data) * len(links))
    for link in links:
        link.write(data)


def compile_audience(topic: Topic, index: SubscriberIndex) -> Audience:
    forms_of = _forms_by_name(topic)
    if not topic.is_shard:
        index.match(topic)
        for pattern in topic.patterns:
            for session, kinds in pattern.members.items():
                # The pattern was permitted as a whole; checking the topic as well is a second line of defence.
                if session.may(Action.SUBSCRIBE, topic.name):
                    forms = forms_of.setdefault(session, [])
                    forms.extend((session.proto, kind, pattern.glob.pattern) for kind in kinds)
    grouped: dict[tuple[Form, ...], list[Subscriber]] = {}
    for session, forms in forms_of.items():
        grouped.setdefault(tuple(forms), []).append(session)
    encoder_of = _encoder_cache(topic)
    groups = [(encoder_of(forms[0]), members) for forms, members in grouped.items() if len(forms) == 1]
    stages: list[Stage] = [
        MixedForms([encoder_of(form) for form in forms], members)
        for forms, members in grouped.items()
        if len(forms) > 1
    ]
    content = topic.trunk.content
    if content is not None:
        stages.append(content)
    relays, narrow = _relays(topic, index)
    audience = Audience(
        groups,
        stages,
        relays,
        narrow,
        egress_encoder(topic.key, topic.epoch, index.payload_bytes_max) if relays else _nothing,
        receivers=sum(map(len, forms_of.values())),
        elsewhere=index.elsewhere(topic),
        version=index.version,
        has_own_replies=content is not None,
    )
    # A subscription by pattern may match many topics, and a link may serve any number of clients.
    audience.is_exclusive = (
        audience.is_plain
        and topic.beside is None
        and len(forms_of) == len(topic.members)
        and all(session.subscriptions_held == 1 for session in forms_of)
    )
    return audience


def _nothing(first: int, payloads: Sequence[bytes]) -> bytes:
    return b""


def _forms_by_name(topic: Topic) -> dict[Subscriber, list[Form]]:
    """Subscribers by name and their forms, without those that receive this stream from another hub."""
    absent = () if topic.beside is None else topic.beside.absent
    forms_of: dict[Subscriber, list[Form]] = {}
    for session, kinds in topic.members.items():
        forms: list[Form] = [
            (session.proto, kind, None) for kind in kinds if kind is not Kind.OWN or session not in absent
        ]
        if forms:
            forms_of[session] = forms
    return forms_of


def _relays(topic: Topic, index: SubscriberIndex) -> tuple[list[OutLink], list[OutLink]]:
    """Links to the hubs that receive all of the topic; and links to those that receive only what their filters match.

    The home also sends the topic to hubs that follow it by a pattern.
    """
    filters = topic.hub_filters
    narrow = [] if filters is None else [link for link in topic.relays or () if filters.is_narrow(link)]
    links = dict(topic.relays or {})
    for link in narrow:
        del links[link]
    # Hubs that follow the topic by a pattern follow its lanes by name.
    if not topic.lane and topic.is_home:
        for pattern in topic.pattern_relays:
            links.update(pattern.relays)
    return list(links), [link for link in narrow if link not in links]


def _encoder_cache(topic: Topic) -> Callable[[Form], Encoder]:
    made: dict[Form, Encoder] = {}

    def encoder_of(form: Form) -> Encoder:
        encoder = made.get(form)
        if encoder is None:
            proto, kind, pattern = form
            names = (topic.name,) if pattern is None else (pattern, topic.name)
            if kind.is_positioned and topic.lane:
                encoder = positioned_encoder(topic.epoch, kind.lane_message, *names, topic.lane)
            elif kind.is_positioned:
                encoder = positioned_encoder(topic.shown_epoch, kind.message, *names)
            else:
                encoder = plain_encoder(proto, kind.message, *names)
            made[form] = encoder
        return encoder

    return encoder_of
