"""One topic at a hub: its stream of positions, its members and its meters.

The hot path reads and writes the attributes directly. Membership and existence change through `TopicIndex` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.data.kinds import Kind

if TYPE_CHECKING:
    from equipoise.hub.cluster.lane_state import Beside
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.cluster.topic_limit import TopicLimit
    from equipoise.hub.content.topic_filters import TopicFilters
    from equipoise.hub.data.audience import Audience
    from equipoise.hub.data.patterns import Pattern
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.locations.topic_locations import Whereabouts
    from equipoise.hub.telemetry.meter import TopicMeter
    from equipoise.log.records import EntryAdded
    from equipoise.model import TopicSpec

# Names that begin so are those of lanes among hubs: no client may make such a topic.
LANE_PREFIX = b"$lane/"


class MessageLog(Protocol):
    """What keeps the messages of a durable topic: see hub/logs/durable_topics.py."""

    def publish(self, payloads: Sequence[bytes]) -> bytes | Reply: ...
    def publish_positioned(
        self, payloads: Sequence[bytes], receipt: Callable[[int, int, int], bytes]
    ) -> Reply: ...
    def deliver(self, added: Sequence[EntryAdded]) -> None: ...


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
        self.stream: Stream | None = None
        # How much it has been told of what became of other hubs.
        self.news = 0
        # Its lanes and all that comes with them; None for most.
        self.beside: Beside | None = None
        # Whether it is among those that nobody subscribes to, and n when it was last looked at there: an equal n on
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
        # Where its clients are; None as long as nobody has asked.
        self.where: Whereabouts | None = None

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
    def is_heard(self) -> bool:
        """Whether a subscriber by name or by filter does not get this stream elsewhere."""
        absent = None if self.beside is None else self.beside.absent
        if self.trunk.content is not None:
            return True
        if not absent:
            return bool(self.members)
        return any(session not in absent or kinds != (Kind.OWN,) for session, kinds in self.members.items())

    def renew(self) -> None:
        """Who subscribes to the topic has changed: its audience, and those of its lanes, are compiled anew."""
        self.audience = None
        if self.beside is not None:
            for lane in self.beside.lanes.values():
                lane.audience = None
