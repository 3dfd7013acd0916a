"""The state of one client's connection: user, protocol, subscriptions, names, transaction, and gathered replies.

Always true: `subscriptions` changes only through hub/data/subscribe.py, and the user only through HubCore.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

from equipoise.access import Action, User
from equipoise.hub.access.quotas import owner_of
from equipoise.hub.data.ports import NO_WIRE, Wire, discard
from equipoise.hub.data.reply import ReplyMode

if TYPE_CHECKING:
    from equipoise.hub.commands.spec import CommandSpec
    from equipoise.hub.content.topic_filters import TopicFilter
    from equipoise.hub.data.deferred_replies import DeferredReplies
    from equipoise.hub.data.held_subscriptions import HeldSubscriptions
    from equipoise.hub.data.other_hubs import SentRedirect
    from equipoise.hub.data.patterns import Pattern
    from equipoise.hub.data.ports import LinkEnd, SharedReply, Timer
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.session_host import SessionHost
    from equipoise.hub.data.topics import Topic
    from equipoise.resp import Command, RequestReader

__all__ = ["LINGER_S", "ClientState", "Transaction"]

# How long a client may take to read its last replies after QUIT or a protocol error, in seconds.
LINGER_S = 5.0


class Transaction:
    """Commands that wait for EXEC. Owned by the session's client state."""

    __slots__ = ("bytes", "commands", "is_aborted")

    def __init__(self) -> None:
        self.commands: list[tuple[CommandSpec, list[bytes]]] = []
        self.bytes = 0
        self.is_aborted = False


class ClientState:
    """The part of a session that commands read and change."""

    __slots__ = (
        "_core",
        "_crowd",
        "_output_bytes",
        "_replies",
        "address",
        "certificate",
        "command",
        "created_at",
        "deferred",
        "gathered",
        "group",
        "id",
        "input_bytes",
        "is_certified",
        "is_closing",
        "is_gathering",
        "is_never_evicted",
        "is_tls",
        "last_at",
        "lib_name",
        "lib_version",
        "link",
        "local_address",
        "name",
        "peer",
        "proto",
        "redirected",
        "reply_mode",
        "subscriptions",
        "tags",
        "timer",
        "transaction",
        "user",
        "wire",
        "write",
    )

    def __init__(self, core: SessionHost, session_id: int, user: User | None) -> None:
        self._core = core
        # By user or address, the clients that wait for their turn.
        self._crowd = core.turns.queue.waiting
        self.id = session_id
        # None until the client has authenticated, if it has to.
        self.user = user
        # The receiving end of the link, if another hub uses this connection as a link.
        self.peer: LinkEnd | None = None
        self.is_closing = False
        self.proto = 2
        self.name = self.lib_name = self.lib_version = b""
        # The client's id of its link, if this is the link's latest connection; see HubCore.follow.
        self.link: bytes | None = None
        # By topic, the dependencies of the client's next message with a receipt: (epoch, n) by stream.
        self.tags: dict[bytes, dict[bytes, tuple[int, int]]] | None = None
        # Replies out of command order; None: the client has not requested them (EQ.DEFER).
        self.deferred: DeferredReplies | None = None
        # A pending reply that is shared with other sessions.
        self.gathered: SharedReply | None = None
        # The client's group, as the client named it: members of one group publish together.
        self.group = b""
        # By topic, the last redirect that a smart client received; None: it has not requested redirects.
        self.redirected: dict[bytes, SentRedirect] | None = None
        # Common names in the client's certificate, and whether the user was found by one of them.
        self.certificate: Sequence[str] = ()
        self.is_certified = self.is_never_evicted = False
        # Whether the connection is encrypted: such a client receives TLS addresses.
        self.is_tls = False
        self.address = self.local_address = self.command = ""
        self.created_at = self.last_at = core.now()
        # Runs while the client has to authenticate, and while its last output is sent before the connection closes.
        self.timer: Timer | None = None
        # Replies that are not written yet; and the bytes written and read before the client authenticated.
        self._replies: list[bytes] = []
        self._output_bytes = self.input_bytes = 0
        self.reply_mode = ReplyMode.ON
        self.wire: Wire = NO_WIRE
        # The transport's own write, or a backlog's `hold` while the transport is full.
        self.write: Callable[[bytes], object] = discard
        # Commands since MULTI; and whether EXEC is gathering their replies, so that none is written yet.
        self.transaction: Transaction | None = None
        self.is_gathering = False
        # By kind and name; None without subscriptions, since most connections of a fleet only publish.
        self.subscriptions: HeldSubscriptions[Topic | Pattern | TopicFilter] | None = None

    def reply(self, reply: bytes) -> None:
        """Append a reply. Only for a fence that replies directly: no earlier reply is pending then."""
        if self.reply_mode is ReplyMode.ON:
            self._replies.append(reply)

    def push(self, frame: bytes) -> None:
        """Append a push frame. CLIENT REPLY does not suppress it, and it does not wait for pending replies."""
        self._replies.append(frame)

    def forget_deferred(self) -> None:
        """The session has ended or was reset: publishes without a reply so far are abandoned."""
        deferred, self.deferred = self.deferred, None
        if deferred is not None:
            deferred.forget()

    def take_gathered(self) -> list[bytes]:
        """Replies and pushes since EXEC began to gather, or since the last call."""
        gathered, self._replies = self._replies, []
        return gathered

    def may(self, action: Action, name: bytes) -> bool:
        return self._core.users.is_open or (self.user is not None and self.user.may(action, name))

    def read_as_stranger(self, reader: RequestReader, data: bytes) -> list[Command]:
        """Parse input of an unauthenticated client, no further than a login; count its bytes."""
        core = self._core
        size = reader.buffered_bytes + len(data)
        commands = reader.feed_exactly(data)
        self.input_bytes += size - reader.buffered_bytes
        unread_bytes = 0 if reader.has_more else reader.buffered_bytes
        if self.input_bytes + unread_bytes > core.limits.unauthenticated_input_bytes_max:
            core.cut(cast("Session", self), "too much input before AUTH")
            return []
        return commands

    @property
    def owner(self) -> str:
        """The key for fair sharing between clients: the user's name, else the client's IP address."""
        return owner_of(self.user) or self.address.rpartition(":")[0]

    @property
    def is_unrestricted(self) -> bool:
        return self._core.users.is_open

    @property
    def is_operator(self) -> bool:
        return self._core.users.is_open or (self.user is not None and self.user.is_operator)

    @property
    def may_link(self) -> bool:
        """Whether this connection may become a link of another hub."""
        return self._core.users.is_open or (self.user is not None and self.user.may_link)

    def subscription_count(self, counted_with: str) -> int:
        if self.subscriptions is None:
            return 0
        return sum(
            len(names) for kind, names in self.subscriptions.items() if kind.counted_with == counted_with
        )

    @property
    def is_subscribed(self) -> bool:
        return bool(self.subscriptions)

    @property
    def subscriptions_held(self) -> int:
        return 0 if self.subscriptions is None else len(self.subscriptions)

    def cut_after(self, delay_s: float, reason: str) -> None:
        """Disconnect the session after the delay, unless the timer is stopped or replaced before."""
        self.stop_timer()
        self.timer = self._core.shell.call_later(delay_s, self._core.cut, self, reason)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
