"""The interface of the data plane to its cluster, implemented by `Cluster` and `Standalone`.

The core, the commands, telemetry and coordinates use the cluster through this interface only, so their code is the same
with and without other hubs. Code that does depend on it checks `is_alone`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from equipoise.model import Placement

if TYPE_CHECKING:
    from equipoise.content.filter import Filter
    from equipoise.content.parsing import FilterRequest
    from equipoise.hub.cluster.link.frames import Tag
    from equipoise.hub.cluster.link.incoming import InLink
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.content.topic_filters import RunProbe
    from equipoise.hub.data.kinds import Kind
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topics import Topic

__all__ = [
    "EdgeFacts",
    "EdgePlace",
    "LeftOut",
    "LimitedTopics",
    "OtherHubs",
    "PublishAcks",
    "PublishRoutes",
    "Redirects",
    "SentRedirect",
    "StreamPositions",
    "Subscriptions",
    "TopicRoutes",
]

# The streams of a topic that a client does not want from this hub; None: the hub will reject its subscription.
LeftOut: TypeAlias = "Callable[[Topic], Container[bytes] | None]"


class SentRedirect(NamedTuple):
    """The last redirect of a topic that a session received, and when."""

    placement: Placement
    at: float


class Redirects(Protocol):
    """Send smart clients the homes of their topics."""

    def published(self, session: Session, topic: Topic) -> None: ...
    def subscribed(self, session: Session, names: list[bytes]) -> None: ...


class Subscriptions(Protocol):
    """Follow all streams of a topic before its subscription is confirmed; notify smart clients of streams."""

    def when_ready(
        self,
        session: Session,
        kind: Kind,
        names: Sequence[bytes],
        subscribe: Callable[[], bytes],
        left_out: LeftOut = ...,
        *,
        filtered: Sequence[FilterRequest] = ...,
    ) -> bytes | Reply:
        """Call `subscribe` once a client that subscribes then misses no later message; return its reply.

        `filtered`: the filters among the subscriptions.
        """

    def keep_streams_of(self, patterns: Sequence[bytes]) -> None: ...
    def greet(self, session: Session, topic: Topic, kind: Kind) -> None: ...
    def own(self, topic: Topic) -> list[Topic]:
        """The streams of the topic that this hub numbers."""

    def not_own(self, topic: Topic) -> list[bytes] | None:
        """The streams of the topic that other hubs number; None if this hub numbers none."""

    def leave_out(self, session: Session, topic: Topic, names: Collection[bytes]) -> None: ...
    def left_out(self, session: Session, topic: Topic) -> list[bytes]: ...


class FilterInterests(Protocol):
    """Request from other hubs the messages that filters match."""

    @property
    def covers(self) -> int:
        """Number of filters that are requested from other hubs."""

    @property
    def has_narrow(self) -> bool:
        """Whether any topic is requested by filters only, instead of completely."""

    def filter_added(self, topic: Topic, filter: Filter) -> None:
        """A client has added a filter of the topic that no client of this hub had."""

    def filter_removed(self, topic: Topic, filter: Filter) -> None: ...


class EdgeFacts(NamedTuple):
    """How a hub shares subscribers of content topics: the keys of INFO and of the metrics."""

    content_input_ratio: float = 0.0
    content_output_ratio: float = 0.0
    content_delay_s: float = 0.0
    # Subscriptions by filter of the content topics that this hub serves, without those that are migrating away.
    content_subscriptions: int = 0
    # Completed sessions; subscriptions migrated away and subscriptions received in them; invalid messages.
    content_sessions: int = 0
    content_moved: int = 0
    content_came: int = 0
    content_nonsense: int = 0
    # Publishers that this head has redirected to the head of another cluster.
    content_publishers_moved: int = 0
    # New subscribers that this hub, not being an edge, has redirected to the edge with most room.
    content_placed: int = 0
    # Of the latest compared session: the load that was estimated for its end, and the load measured a window later.
    content_estimated_input_ratio: float = 0.0
    content_estimated_output_ratio: float = 0.0
    content_estimated_delay_s: float = 0.0
    content_realised_input_ratio: float = 0.0
    content_realised_output_ratio: float = 0.0
    content_realised_delay_s: float = 0.0


class EdgePlace(Protocol):
    """This hub as an edge: a hub that serves subscribers of content topics."""

    def probe_of(self, topic: bytes) -> RunProbe | None:
        """The probe of a content topic; None if this hub serves no subscribers of it."""

    def receive(self, session: Session, number: bytes, topic: bytes) -> bool:
        """Redirect a new smart subscriber by filter, soon; False: the caller has to redirect it."""

    def subscribed(self, session: Session, number: bytes, came_in: tuple[str, int] | None) -> None:
        """A smart client has subscribed by a filter. `came_in`: the session of two hubs that migrated it here, and the
        number of migrations in that session; None: it was not migrated."""

    def unsubscribed(self, session: Subscriber, number: bytes) -> None: ...
    @property
    def state(self) -> str:
        """State of this edge, as shown in INFO and sent to other hubs; empty: this hub is no edge."""

    @property
    def cluster_state(self) -> str:
        """State of the cluster that this hub is the head of; empty: it is no head with a neighbour."""

    @property
    def session_compared(self) -> str:
        """The latest session whose estimates were compared with the load after it; empty: none was."""

    @property
    def facts(self) -> EdgeFacts: ...


class PublishAcks(Protocol):
    """Notify when messages of this hub's clients have their positions."""

    @property
    def pending(self) -> dict[Session, int]:
        """By session, the number of its pending `when_acked` calls."""

    def when_acked(self, topic: Topic, count: int | None, call: Callable[[Tag, bool], object]) -> None: ...


class SeveredLinks(Protocol):
    """End links of clients that have reconnected to another hub."""

    @property
    def waiting(self) -> dict[Session, int]:
        """By session, the number of links whose end it awaits."""

    @property
    def next(self) -> dict[Session, Callable[[], None]]:
        """By session, the call to make when it awaits one link less."""

    def is_severed(self, link: bytes) -> bool: ...
    def sever(self, link: bytes, address: bytes, call: Callable[[], object]) -> None: ...


class PublishRoutes(Protocol):
    """Which stream of a topic the clients of this hub publish to."""

    def refuse_waiting(self, topic: Topic) -> None:
        """Fail the publishes of this hub's clients that have no position yet."""


class NamedDependencies(Protocol):
    def keep_to(self, trunk: Topic, stream: bytes, at: tuple[int, int]) -> bool:
        """Whether the client's next message is certain to follow that position of the stream without a dependency."""


class StreamPositions(Protocol):
    def streams_of(self, trunk: Topic) -> list[bytes]:
        """The streams of a topic in which a message that has a position may still be on its way to a hub."""

    def position(
        self, trunk: Topic, stream: bytes, answer: Callable[[int, int], object], is_wanted: Callable[[], bool]
    ) -> None: ...
    def await_epoch(
        self, trunk: Topic, epoch: int, answer: Callable[[int, int], object], is_wanted: Callable[[], bool]
    ) -> None: ...


class TopicRoutes(Protocol):
    """The homes of topics."""

    @property
    def version(self) -> int | None:
        """Version of the plan; None without a plan."""

    def own_address(self, *, is_tls: bool) -> bytes | None:
        """The address at which clients reach this hub, as published to other hubs."""

    @property
    def is_only_hub(self) -> bool:
        """Whether this is known to be the only hub, so that there is no distance to measure."""

    def home(self, topic: bytes) -> str | None:
        """The topic's home; None while no member of the plan is alive."""


class LimitedTopics(Protocol):
    """Publish to topics that have a rate envelope."""

    def submit(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        """Publish for a client: the reply to each message, or a pending reply to all."""

    def submit_positioned(
        self,
        topic: Topic,
        payloads: Sequence[bytes],
        after: Sequence[Tag],
        receipt: Callable[[Tag, bool], bytes],
    ) -> bytes | Reply:
        """Publish with one reply to all; `receipt` encodes the reply from the last message's position."""

    def charge(self, topic: Topic) -> bytes | None:
        """Take the token of an entry of the topic's log; the rejection if it is not admitted now."""

    def ready(self, topic: Topic) -> int:
        """Number of messages that a pipelining client may publish in one run now."""

    def take(self, topic: Topic, count: int) -> bool:
        """Take the tokens of `count` messages, if all may be sent at once; the caller then calls `publish`."""

    def give_back(self, topic: Topic, count: int) -> None:
        """Return tokens that were just taken and not used."""

    def publish(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Publish messages whose tokens were taken: the reply to each, empty where `own_replies` has the replies."""

    def specs_changed(self, done: Callable[[], object]) -> None:
        """The specs have changed; call `done` once they are applied to every topic."""


class OtherHubs(Protocol):
    """The interface to the cluster. `HubCore.cluster` always implements it."""

    @property
    def is_alone(self) -> bool:
        """Whether this hub belongs to no cluster."""

    @property
    def router(self) -> TopicRoutes: ...
    @property
    def out(self) -> Mapping[str, OutLink]: ...
    @property
    def incoming(self) -> Mapping[str, InLink]: ...
    @property
    def redirects(self) -> Redirects: ...
    @property
    def subscriptions(self) -> Subscriptions: ...
    @property
    def interests(self) -> FilterInterests: ...
    @property
    def edge(self) -> EdgePlace: ...
    @property
    def receipts(self) -> PublishAcks: ...
    @property
    def severing(self) -> SeveredLinks: ...
    @property
    def ways(self) -> PublishRoutes: ...
    @property
    def position_queries(self) -> StreamPositions: ...
    @property
    def named_positions(self) -> NamedDependencies: ...
    @property
    def limits(self) -> LimitedTopics: ...
    def can_probe(self, peer: str) -> bool:
        """Whether the peer can answer a probe."""

    def send_probe(self, peer: str, token: int) -> None: ...
    def send_echo(self, peer: str, token: int, coordinate: bytes) -> None: ...
    def adopt(self, topic: Topic) -> None:
        """Attach a topic that was just created at this hub to the cluster."""

    def submit(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        """Publish for a client to a topic that has a Stream: the reply to each message, or a pending reply to all."""

    def caught_up(self, stream: Stream) -> None:
        """A durable topic that this hub relays has received its missed messages."""

    def admit(self, topic: Topic, payloads: Sequence[bytes], after: Sequence[Tag] = ()) -> bool:
        """Publish like `submit`, without a reply; False if there is no room."""

    def waiting_for(self, topic: Topic) -> str:
        """The reason why messages to the topic wait at this hub; empty if none wait."""

    def close(self) -> None: ...
