"""The implementation of the cluster's interface at a hub without a cluster.

Always true: this hub is the home of every topic, no topic has a Stream, and every published message is numbered at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.data.other_hubs import EdgeFacts
from equipoise.stream.position import TRUNK

if TYPE_CHECKING:
    from equipoise.content.filter import Filter
    from equipoise.content.parsing import FilterRequest
    from equipoise.hub.cluster.link.incoming import InLink
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.streams import Stream
    from equipoise.hub.data.kinds import Kind
    from equipoise.hub.data.other_hubs import LeftOut
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.subscriber import Subscriber
    from equipoise.hub.data.topics import Topic

__all__ = ["Standalone"]


class _NoRedirects:
    def published(self, session: Session, topic: Topic) -> None: ...
    def subscribed(self, session: Session, names: list[bytes]) -> None: ...


class _OwnStreams:
    """Every stream is this hub's own."""

    def when_ready(
        self,
        session: Session,
        kind: Kind,
        names: Sequence[bytes],
        subscribe: Callable[[], bytes],
        left_out: LeftOut = lambda topic: (),
        *,
        filtered: Sequence[FilterRequest] = (),
    ) -> bytes | Reply:
        return subscribe()

    def keep_streams_of(self, patterns: Sequence[bytes]) -> None: ...
    def greet(self, session: Session, topic: Topic, kind: Kind) -> None: ...
    def own(self, topic: Topic) -> list[Topic]:
        return [topic]

    def not_own(self, topic: Topic) -> list[bytes]:
        return []

    def leave_out(self, session: Session, topic: Topic, names: Collection[bytes]) -> None:
        """Ignored: there is no other hub to receive a stream from."""

    def left_out(self, session: Session, topic: Topic) -> list[bytes]:
        return []


class _NoInterests:
    covers: Final = 0
    has_narrow: Final = False

    def filter_added(self, topic: Topic, filter: Filter) -> None: ...
    def filter_removed(self, topic: Topic, filter: Filter) -> None: ...


class _NoEdge:
    state: Final = ""
    facts: Final = EdgeFacts()
    session_compared: Final = ""
    cluster_state: Final = ""

    def probe_of(self, topic: bytes) -> None: ...
    def receive(self, session: Session, number: bytes, topic: bytes) -> bool:
        return False

    def subscribed(self, session: Session, number: bytes, came_in: tuple[str, int] | None) -> None: ...
    def unsubscribed(self, session: Subscriber, number: bytes) -> None: ...


class _AtOnce:
    """Acknowledge at once: a message has its position when `publish` returns."""

    def __init__(self) -> None:
        self.pending: dict[Session, int] = {}

    def when_acked(self, topic: Topic, count: int | None, call: Callable[[Tag, bool], object]) -> None:
        call(Tag(TRUNK, topic.epoch, topic.n), False)


class _NoLinks:
    """No client has a link to another hub."""

    def __init__(self) -> None:
        self.waiting: dict[Session, int] = {}
        self.next: dict[Session, Callable[[], None]] = {}

    def is_severed(self, link: bytes) -> bool:
        return False

    def sever(self, link: bytes, address: bytes, call: Callable[[], object]) -> None:
        call()


class _OneRoute:
    def keep_to(self, trunk: Topic, stream: bytes, at: tuple[int, int]) -> bool:
        return True

    def refuse_waiting(self, topic: Topic) -> None: ...

    def streams_of(self, trunk: Topic) -> list[bytes]:
        return [TRUNK]

    def position(
        self, trunk: Topic, stream: bytes, answer: Callable[[int, int], object], is_wanted: Callable[[], bool]
    ) -> None:
        answer(trunk.epoch, trunk.n)

    def await_epoch(
        self, trunk: Topic, epoch: int, answer: Callable[[int, int], object], is_wanted: Callable[[], bool]
    ) -> None:
        # No other hub can have opened the topic: this hub's clock was set back.
        answer(0, 0)


class _NoLimits:
    """Without a cluster there is no store and there are no specs."""

    def submit(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        raise AssertionError("no topic is limited")

    def submit_positioned(
        self,
        topic: Topic,
        payloads: Sequence[bytes],
        after: Sequence[Tag],
        receipt: Callable[[Tag, bool], bytes],
    ) -> bytes | Reply:
        raise AssertionError("no topic is limited")

    def ready(self, topic: Topic) -> int:
        raise AssertionError("no topic is limited")

    def charge(self, topic: Topic) -> bytes | None:
        return None

    def take(self, topic: Topic, count: int) -> bool:
        raise AssertionError("no topic is limited")

    def give_back(self, topic: Topic, count: int) -> None:
        raise AssertionError("no topic is limited")

    def publish(self, topic: Topic, payloads: Sequence[bytes]) -> bytes:
        raise AssertionError("no topic is limited")

    def specs_changed(self, done: Callable[[], object]) -> None:
        done()


class _OnlyHub:
    version: Final = None
    is_only_hub: Final = True

    def __init__(self, name: str) -> None:
        self._name = name

    def own_address(self, *, is_tls: bool) -> None:
        return None

    def home(self, topic: bytes) -> str:
        return self._name


class Standalone:
    """Owned by HubCore."""

    is_alone: Final = True
    out: Mapping[str, OutLink] = MappingProxyType({})
    incoming: Mapping[str, InLink] = MappingProxyType({})

    def __init__(self, name: str) -> None:
        self.router = _OnlyHub(name)
        self.redirects = _NoRedirects()
        self.subscriptions = _OwnStreams()
        self.interests, self.edge = _NoInterests(), _NoEdge()
        self.receipts = _AtOnce()
        self.severing = _NoLinks()
        self.ways = self.position_queries = self.named_positions = _OneRoute()
        self.limits = _NoLimits()

    def can_probe(self, peer: str) -> bool:
        return False

    def send_probe(self, peer: str, token: int) -> None: ...
    def send_echo(self, peer: str, token: int, coordinate: bytes) -> None: ...
    def adopt(self, topic: Topic) -> None: ...

    def submit(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply:
        raise AssertionError("only a hub among others has topics with a Stream")

    def admit(self, topic: Topic, payloads: Sequence[bytes], after: Sequence[Tag] = ()) -> bool:
        raise AssertionError("only a hub among others has topics with a Stream")

    def caught_up(self, stream: Stream) -> None:
        raise AssertionError("only a hub among others has topics with a Stream")

    def waiting_for(self, topic: Topic) -> str:
        return ""

    def close(self) -> None: ...
