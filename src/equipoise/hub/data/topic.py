"""One topic at a hub: its stream, members, meters and delivery.

The hot path reads and writes the attributes directly. Membership and existence change through `TopicIndex` alone.

Fan-out: an audience is compiled when it is first needed. Most subscribers are in groups that get the same bytes:
`HubCore.publish` writes those itself. The others are served here, behind one comparison, `Audience.is_plain`: links to
the hubs that follow the topic, and stages, one for each kind of subscriber that one write of one encoding does not
serve.
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

# Names that begin so are those of lanes among hubs: no client may make such a topic.
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
        # In the order in which topics came to this hub, from 1; 0 for lanes and shard channels.
        self.number = number
        self.is_shard = is_shard
        # The user that made it, for whom its memory counts.
        self.owner = owner
        # The patterns that match it, of clients here and of other hubs, as of a version of the index.
        self.patterns: tuple[Pattern, ...] = ()
        self.pattern_relays: tuple[Pattern, ...] = ()
        self.patterns_at = -1
        # What it needs, as of a change of the specs; -1: not looked up. Read it through `TopicSpecs.of`.
        self.spec: TopicSpec | None = None
        self.spec_at = -1
        self.epoch = epoch
        # Position of the last message; 0 before the first.
        self.n = 0
        # Subscribers by name, in order of subscription, each with the kinds it subscribed by.
        self.members: dict[Subscriber, tuple[Kind, ...]] = {}
        # Subscribers by filter; None: there are none. They are no part of the audience but a stage of it.
        self.content: TopicFilters | None = None
        self.audience: Audience | None = None
        # Messages that got their positions here, and bytes of their payloads; messages written to subscribers, and
        # those bytes.
        self.published = 0
        self.bytes_in = 0
        self.delivered = 0
        self.bytes_out = 0
        # Subscribers cut for being too slow while messages of this topic waited for them, and those messages.
        self.cuts = 0
        self.drops = 0
        # Links to hubs that follow the stream, and what there is to know of it beside that it is open here.
        self.relays: dict[OutLink, None] | None = None
        # What those of them ask for that do not want everything; None for most.
        self.hub_filters: HubFilters | None = None
        self.stream: Stream | None = None
        # How much it has learned of what became of other hubs.
        self.news = 0
        # Its lanes and all that comes with them; None for most.
        self.beside: TopicLanes | None = None
        # Whether it is among those without subscribers, and n when it was last looked at there: an equal n on
        # the next visit means an idle topic.
        self.is_queued = False
        self.seen_n = -1
        # For telemetry: what this window began with, while there is anything to record; who published last in it;
        # whether every arrival is recorded.
        self.meter: TopicMeter | None = None
        self.publisher: int | None = None
        self.is_watched = False
        # Its rate envelope here; None for most. And whether what clients publish has to be looked at: it is watched,
        # limited or durable.
        self.limit: TopicLimit | None = None
        # Its log, where its spec is durable; None for most.
        self.log: MessageLog | None = None
        self.is_gated = False
        # Where its clients are; None until telemetry has asked.
        self.where: TopicLocations | None = None

    def gate(self) -> None:
        """It is watched, limited or durable from now on, or no longer."""
        self.is_gated = self.is_watched or self.limit is not None or self.log is not None

    @property
    def is_engaged(self) -> bool:
        """Whether other hubs listen, something is under way with them, or a rate limit counts on what has been."""
        if self.limit is not None and self.limit.is_engaged:
            return True
        has_lanes = self.beside is not None and bool(self.beside.lanes)
        return has_lanes or bool(self.relays) or (self.stream is not None and not self.stream.is_idle)

    @property
    def is_home(self) -> bool:
        """Whether messages get their positions here."""
        return self.stream is None or self.stream.state.is_home

    @property
    def trunk(self) -> Topic:
        """The topic itself; of a lane, the topic that it is a lane of."""
        return self

    @property
    def key(self) -> bytes:
        """How hubs name the stream among themselves."""
        return self.name

    @property
    def lane(self) -> bytes:
        """How clients tell the stream from others of the topic: the lane's hub, nothing for the trunk."""
        return b""

    @property
    def has_subscribers(self) -> bool:
        """Whether there is one by name or by filter."""
        return bool(self.members) or self.content is not None

    @property
    def has_followers(self) -> bool:
        """Whether a subscriber by name or by filter, or another hub, follows it."""
        return bool(self.members or self.relays or self.content)

    @property
    def shown_epoch(self) -> int:
        """What clients see: a durable topic has one epoch for ever, in which n is the number in its log."""
        return self.epoch if self.log is None else DURABLE_EPOCH

    @property
    def is_heard(self) -> bool:
        """Whether a subscriber by name or by filter does not get this stream elsewhere."""
        absent = None if self.beside is None else self.beside.absent
        if self.trunk.content is not None:
            return True
        if not absent:
            return bool(self.members)
        return any(session not in absent or kinds != (Kind.OWN,) for session, kinds in self.members.items())

    def jump(self, epoch: int, n: int) -> None:
        """The stream goes on after this position, which another hub gave; what lies between never came here."""
        if self.hub_filters is not None:
            self.hub_filters.jump(self, epoch, n)
        content = self.trunk.content
        if content is not None and content.spans is not None:
            content.spans.jump(self, epoch, n)
        if epoch != self.epoch:
            self.audience = None
        self.epoch, self.n = epoch, n

    def renew(self) -> None:
        """Who subscribes to the topic has changed: its audience, and those of its lanes, are compiled anew."""
        self.audience = None
        if self.beside is not None:
            for lane in self.beside.lanes.values():
                lane.audience = None


# --- fan-out ----------------------------------------------------------------------------------------------------------

# A form of delivery: protocol version, kind, and the pattern if it came by one.
Form = tuple[int, Kind, bytes | None]
# A message in many forms is written in pieces of this size: what transports take before they are full.
MIXED_PIECE_BYTES = 64 * 1024


class Listeners(Protocol):
    """What the index of all topics knows of who listens."""

    @property
    def version(self) -> int: ...
    @property
    def payload_bytes_max(self) -> int: ...
    def match(self, topic: Topic) -> None:
        """Bring the topic's patterns up to date."""

    def elsewhere(self, topic: Topic) -> int:
        """Receivers at other hubs."""


class MixedForms:
    """Subscribers that get a message in the same several forms: all of one message before the next."""

    __slots__ = ("_encoders", "sessions")

    def __init__(self, encoders: Sequence[Encoder], sessions: Sequence[Subscriber]) -> None:
        self._encoders = encoders
        self.sessions = sessions

    def deliver(self, backlogs: RunNotes, topic: Topic, first: int, payloads: Sequence[bytes]) -> None:
        """One client may have thousands of patterns that match the topic, so what a run becomes has no bound.

        It is written in pieces, and no further than a subscriber is left that takes it.
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
    """What PUBLISH answers for each message that was just delivered, where not all go to the same subscribers."""
    content, audience = topic.content, topic.audience
    assert content is not None and audience is not None, "the topic has filters"
    return content.replies(audience.receivers + audience.elsewhere)


def deliver_to_hubs(topic: Topic, audience: Audience, first: int, payloads: Sequence[bytes]) -> None:
    """What goes to other hubs is counted apart: it reaches clients there, and is counted as delivered there."""
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


def compile_audience(topic: Topic, index: Listeners) -> Audience:
    forms_of = _forms_by_name(topic)
    if not topic.is_shard:
        index.match(topic)
        for pattern in topic.patterns:
            for session, kinds in pattern.members.items():
                # The pattern was allowed as a whole; this holds even if that judgement were wrong.
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
    # A subscriber by pattern has one subscription to many topics; behind a link there may be any number of clients.
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
    """Who subscribes by name, but those that get this one of the topic's streams elsewhere."""
    absent = () if topic.beside is None else topic.beside.absent
    forms_of: dict[Subscriber, list[Form]] = {}
    for session, kinds in topic.members.items():
        forms: list[Form] = [
            (session.proto, kind, None) for kind in kinds if kind is not Kind.OWN or session not in absent
        ]
        if forms:
            forms_of[session] = forms
    return forms_of


def _relays(topic: Topic, index: Listeners) -> tuple[list[OutLink], list[OutLink]]:
    """Links to the hubs that follow the topic, or hear it by a pattern: that is for its home to see to.

    Apart, those to hubs that want only what their filters match.
    """
    filters = topic.hub_filters
    narrow = [] if filters is None else [link for link in topic.relays or () if filters.is_narrow(link)]
    links = dict(topic.relays or {})
    for link in narrow:
        del links[link]
    # Who hears the topic by a pattern follows its lanes by name.
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
