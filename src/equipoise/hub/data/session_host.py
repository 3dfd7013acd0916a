"""The interface of HubCore to sessions, publishing and subscribing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from equipoise.access import Users
    from equipoise.hub.access.quotas import Quotas
    from equipoise.hub.access.unfinished_input import UnfinishedInput
    from equipoise.hub.client_limits import Limits
    from equipoise.hub.content.filtering import Filtering
    from equipoise.hub.data.audience import Audience
    from equipoise.hub.data.backlog import Backlogs
    from equipoise.hub.data.other_hubs import OtherHubs
    from equipoise.hub.data.ports import Shell
    from equipoise.hub.data.reply import Reply
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic, TopicIndex
    from equipoise.hub.data.turns import Turns
    from equipoise.hub.telemetry.stats import Stats
    from equipoise.resp import Command, RequestLimits

__all__ = ["ClientHold", "Commands", "SessionHost", "SubscriptionMeter"]


class Commands(Protocol):
    """Executes the commands of clients: see hub/commands/dispatch.py."""

    def execute(self, session: Session, command: Command) -> bytes | Reply: ...
    def combine(self, session: Session, commands: list[Command], size: int) -> bool: ...
    def add_gathered(
        self,
        topic: bytes,
        sessions: list[Session],
        counts: list[int],
        bodies: list[bytes],
        size: int,
        is_last: bool = False,
        /,
    ) -> None: ...
    def is_pipelined(self, command: Command) -> bool: ...


class SubscriptionMeter(Protocol):
    def subscribed(self, topic: Topic) -> None:
        """A client has subscribed to the topic or unsubscribed from it."""


class ClientHold(Protocol):
    def holds(self, client: Session, verb: bytes, go_on: Callable[[], None]) -> bool:
        """Whether commands read after a standstill, `verb` the first of them, wait until `go_on` is called."""


class SessionHost(Protocol):
    """A hub, to the sessions of its clients."""

    # Commands read after this time were received after a standstill.
    awake_until: float

    @property
    def shell(self) -> Shell: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def input_bytes_max(self) -> int: ...
    @property
    def users(self) -> Users: ...
    @property
    def quotas(self) -> Quotas: ...
    @property
    def stats(self) -> Stats: ...
    @property
    def index(self) -> TopicIndex: ...
    @property
    def backlogs(self) -> Backlogs: ...
    @property
    def unfinished(self) -> UnfinishedInput[Session]: ...
    @property
    def metering(self) -> SubscriptionMeter: ...
    @property
    def cluster(self) -> OtherHubs: ...
    @property
    def filtering(self) -> Filtering: ...
    @property
    def turns(self) -> Turns: ...
    @property
    def standstill(self) -> ClientHold: ...
    @property
    def commands(self) -> Commands: ...

    def now(self) -> float: ...
    def request_limits(self, *, is_authenticated: bool) -> RequestLimits: ...

    # Ending sessions.

    def cut(self, session: Session, reason: str, *, is_slow: bool = False) -> None: ...
    def leave(self, session: Session) -> None: ...
    def expect_login(self, session: Session) -> None: ...

    # Topics.

    def new_topic(self, session: Session, name: bytes, *, is_shard: bool = False) -> Topic | str: ...
    def topic_to_publish(self, session: Session, name: bytes) -> Topic | str: ...
    def audience_of(self, topic: Topic) -> Audience: ...
    def submit(self, topic: Topic, payloads: Sequence[bytes]) -> bytes | Reply: ...
    def refuse(self, text: str, *, times: int = 1) -> bytes: ...
