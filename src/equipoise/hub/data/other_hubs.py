"""The interface of the data plane to its cluster, implemented by `Cluster` and `Standalone`.

The core, the commands, telemetry and coordinates call this face and nothing else of the cluster, so none of them asks
whether there are other hubs. Where it does matter they ask `is_alone`.
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

# The streams of a topic that a client does not want from this hub; None: its subscription will be refused.
LeftOut: TypeAlias = "Callable[[Topic], Container[bytes] | None]"


class SentRedirect(NamedTuple):
    """The last redirect of a topic that a session received, and when."""

    placement: Placement
    at: float


class Redirects(Protocol):
    """Tell smart clients where their topics live."""

    def published(self, session: Session, topic: Topic) -> None: ...
    def subscribed(self, session: Session, names: list[bytes]) -> None: ...


class Subscriptions(Protocol):
    """Follow all streams of a topic before a subscription is answered, and tell smart clients of the streams."""

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
        """Call `subscribe` once a client that subscribes misses nothing from then on; its reply.

        `filtered` has the filters among the subscriptions.
        """

    def heard_by(self, patterns: Sequence[bytes]) -> None: ...
    def greet(self, session: Session, topic: Topic, kind: Kind) -> None: ...
    def own(self, topic: Topic) -> list[Topic]:
        """The streams of the topic that this hub numbers."""

    def not_own(self, topic: Topic) -> list[bytes] | None:
        """The streams of the topic that other hubs number; None if this hub numbers none."""

    def leave_out(self, session: Session, topic: Topic, names: Collection[bytes]) -> None: ...
    def left_out(self, session: Session, topic: Topic) -> list[bytes]: ...


class FilterInterests(Protocol):
    """Ask other hubs for what filters match."""

    @property
    def covers(self) -> int:
        """Filters that they are asked for."""

    @property
    def has_narrow(self) -> bool:
        """Whether they are asked for less than everything of any topic."""

    def filter_added(self, topic: Topic, filter: Filter) -> None:
        """The topic has a filter that none of this hub's clients had."""

    def filter_removed(self, topic: Topic, filter: Filter) -> None: ...


class EdgeFacts(NamedTuple):
    """How a hub shares subscribers of content topics: the keys of INFO and of the metrics."""

    content_input_ratio: float = 0.0
    content_output_ratio: float = 0.0
    content_delay_s: float = 0.0
    # Subscriptions by filter of the content topics that it carries, without those that are leaving.
    content_subscriptions: int = 0
    # Sessions that are over; subscriptions sent away in them, and those that came; messages that were none.
    content_sessions: int = 0
    content_moved: int = 0
    content_came: int = 0
    content_nonsense: int = 0
    # Publishers that a head has sent to the head of another cluster.
    content_publishers_moved: int = 0
    # Newcomers that a hub which is no edge has sent to the edge with most room.
    content_placed: int = 0
    # Of the latest session that was compared: the load estimated for after it, and the load a window later.
    content_estimated_input_ratio: float = 0.0
    content_estimated_output_ratio: float = 0.0
    content_estimated_delay_s: float = 0.0
    content_realised_input_ratio: float = 0.0
    content_realised_output_ratio: float = 0.0
    content_realised_delay_s: float = 0.0


class EdgePlace(Protocol):
    """This hub as one of those that carry the subscribers of content topics."""

    def probe_of(self, topic: bytes) -> RunProbe | None:
        """What measures a content topic that this hub carries subscribers of; None: it carries none."""

    def receive(self, session: Session, number: bytes, topic: bytes) -> bool:
        """Redirect a new smart subscriber by filter, soon; False: the caller does."""

    def subscribed(self, session: Session, number: bytes, came_in: tuple[str, int] | None) -> None:
        """A smart client has subscribed by a filter; in which session of two hubs, of how many, if it was sent here."""

    def unsubscribed(self, session: Subscriber, number: bytes) -> None: ...
    @property
    def state(self) -> str:
        """What it is doing, as others are told; empty: this hub is no edge."""

    @property
    def cluster_state(self) -> str:
        """What the cluster that this hub is the head of is doing; empty: it is no head with a neighbour."""

    @property
    def session_compared(self) -> str:
        """The latest session whose estimates were compared with the load after it; empty: there was none."""

    @property
    def facts(self) -> EdgeFacts: ...


class PublishAcks(Protocol):
    """Call back when messages of this hub's clients have their positions."""

    @property
    def asking(self) -> dict[Session, int]:
        """By session, its questions that wait for an answer."""

    def when_acked(self, topic: Topic, count: int | None, call: Callable[[Tag, bool], object]) -> None: ...


class SeveredLinks(Protocol):
    """End links of clients that go on at another hub."""

    @property
    def waiting(self) -> dict[Session, int]:
        """By session, the links that it waits to be ended."""

    @property
    def next(self) -> dict[Session, Callable[[], None]]:
        """By session, what to do when it waits for one less."""

    def is_severed(self, link: bytes) -> bool: ...
    def sever(self, link: bytes, address: bytes, call: Callable[[], object]) -> None: ...


class PublishRoutes(Protocol):
    """Which stream of a topic the clients of this hub publish to."""

    def refuse_waiting(self, topic: Topic) -> None:
        """Give up messages of this hub's clients that have no position yet."""


class NamedDependencies(Protocol):
    def keep_to(self, trunk: Topic, stream: bytes, at: tuple[int, int]) -> bool:
        """Whether what a client publishes next comes after that position of the stream anyway."""


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
    """Where topics live."""

    @property
    def version(self) -> int | None:
        """Of the plan; None without one."""

    def own_address(self, *, is_tls: bool) -> bytes | None:
        """Where clients reach this hub, as the other hubs know it."""

    @property
    def is_only_hub(self) -> bool:
        """Whether it is known that there is no other hub to measure the distance to."""

    def home(self, topic: bytes) -> str | None:
        """The hub that the topic lives at; None while no member of the plan is alive."""


class LimitedTopics(Protocol):
    """Publish to topics that have a rate envelope."""

    def submit(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        """For a client: the reply to each message, or one to all, later."""

    def submit_positioned(
        self,
        topic: Topic,
        payloads: Sequence[bytes],
        after: Sequence[Tag],
        receipt: Callable[[Tag, bool], bytes],
    ) -> bytes | Reply:
        """The same with one reply; `receipt` makes it of the last message's position."""

    def ready(self, topic: Topic) -> int:
        """Messages that a pipelined client may publish in one run."""

    def take(self, topic: Topic, count: int) -> bool:
        """Take the tokens of so many messages, if they may go at once; `publish` is to follow."""

    def give_back(self, topic: Topic, count: int) -> None:
        """Tokens that were taken just now are not used after all."""

    def publish(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        """Publish what tokens were taken for: the reply to each message, empty where `own_replies` has them."""

    def specs_changed(self, done: Callable[[], object]) -> None:
        """Other specs hold; `done` once every topic goes by them."""


class OtherHubs(Protocol):
    """The face. `HubCore.cluster` is one, always."""

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
    def listening(self) -> Subscriptions: ...
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
    def asking(self) -> StreamPositions: ...
    @property
    def named(self) -> NamedDependencies: ...
    @property
    def limits(self) -> LimitedTopics: ...
    def can_probe(self, peer: str) -> bool:
        """Whether the peer can answer a probe."""

    def send_probe(self, peer: str, token: int) -> None: ...
    def send_echo(self, peer: str, token: int, coordinate: bytes) -> None: ...
    def adopt(self, topic: Topic) -> None:
        """A topic is new at this hub."""

    def submit(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        """Publish for a client to a topic that has a Stream: the reply to each message, or one to all, later."""

    def caught_up(self, stream: Stream) -> None:
        """A durable topic that another hub sends has got what it missed."""

    def admit(self, topic: Topic, payloads: Sequence[bytes], after: Sequence[Tag] = ()) -> bool:
        """The same without a reply; False if there is no room."""

    def waiting_for(self, topic: Topic) -> str:
        """Why messages to the topic wait at this hub; empty if none do."""

    def close(self) -> None: ...
