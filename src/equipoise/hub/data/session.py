"""One client's connection as the hub sees it: commands in, replies and deliveries out.

The session owns the order of what its client sees. Replies of one batch of commands are written together; before
a command that may deliver to this very client, what has been answered so far goes first.

Pure: bytes come in through `receive`, go out through `write`, and time is the hub's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from equipoise.access import Action, User
from equipoise.hub.data.kinds import Kind
from equipoise.hub.data.ports import NO_WIRE, Wire, discard
from equipoise.hub.data.publish import publish_batch, publish_run
from equipoise.resp import Command, Publishes, RequestReader, leading_publishes
from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.handshake import LinkSession
    from equipoise.hub.cluster.redirects import Told
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.patterns import Pattern
    from equipoise.hub.data.ports import Timer
    from equipoise.hub.data.topics import Topic

# How long a client may take to read its last replies after QUIT or a protocol error, in seconds.
LINGER_S = 5.0
# How long one client's commands may keep the loop, in seconds; then everybody else has a turn.
TURN_S = 0.01
# The clock is read once in so many commands, and after a long reply.
_TURN_COMMANDS = 16
_LOOK_AT = _TURN_COMMANDS - 1
# A reply of this size is written at once, so that a pipeline of short requests with long replies is not gathered.
_LONG_REPLY_BYTES = 4 * 1024


class Replies(Enum):
    """CLIENT REPLY."""

    ON = "on"
    OFF = "off"
    # The next command's reply is left out, then ON again.
    SKIP_NEXT = "skip"


class Deferred:
    """Returned by a command whose reply comes later through `Session.settle`; what follows it waits."""


DEFERRED = Deferred()


class Session:
    """Created and ended by HubCore; `subscriptions` changes only through hub/data/subscribe.py."""

    __slots__ = (
        "_core",
        "_held",
        "_output_bytes",
        "_reader",
        "_replies",
        "_waiting",
        "address",
        "certificate",
        "command",
        "created_at",
        "id",
        "input_bytes",
        "is_certified",
        "is_closing",
        "is_never_evicted",
        "last_at",
        "lib_name",
        "lib_version",
        "link",
        "local_address",
        "name",
        "peer",
        "proto",
        "reply_mode",
        "subscriptions",
        "tags",
        "timer",
        "told",
        "user",
        "wire",
        "write",
    )

    def __init__(self, core: HubCore, session_id: int, user: User | None) -> None:
        self._core = core
        self.id = session_id
        # None until the client has said who it is, where it must.
        self.user = user
        self.proto = 2
        self.name = self.lib_name = self.lib_version = b""
        # The client's own name for the link that this connection is the latest of; see HubCore.follow.
        self.link: bytes | None = None
        # By topic, what its next message with a receipt comes after: by stream, epoch and n.
        self.tags: dict[bytes, dict[bytes, tuple[int, int]]] | None = None
        # By topic, what a smart client was told about where it lives; None: it has not asked to be told.
        self.told: dict[bytes, Told] | None = None
        # The other hub's end, where this is the connection of a link between hubs.
        self.peer: LinkSession | None = None
        # Common names in the client's certificate, and whether the user was found by one of them.
        self.certificate: Sequence[str] = ()
        self.is_certified = False
        # Runs while the client has to log in, and while it reads what it is owed before it goes.
        self.timer: Timer | None = None
        self.address = self.local_address = self.command = ""
        self.created_at = self.last_at = core.now()
        self.reply_mode = Replies.ON
        self.is_closing = self.is_never_evicted = False
        self.input_bytes = 0
        # By kind and name; None until the first, since most connections of a fleet only publish.
        self.subscriptions: dict[Kind, dict[bytes, Topic | Pattern]] | None = None
        self.wire: Wire = NO_WIRE
        # The transport's own write, or a backlog's `hold` while the transport is full.
        self.write: Callable[[bytes], object] = discard
        self._reader = RequestReader(core.request_limits(is_authenticated=user is not None))
        self._replies: list[bytes] = []
        self._output_bytes = 0
        # Commands that wait behind one whose reply comes later, or for their turn. None: nothing waits.
        self._waiting: list[Command] | Publishes | None = None
        # What came though the transport had been told to pause; None while it reads.
        self._held: list[bytes] | None = None

    # --- in

    def receive(self, data: bytes) -> None:
        """Execute what is complete in the client's bytes. Never raises for anything they contain."""
        if self.is_closing:
            return
        if self._waiting is not None:
            self._hold(data)
            return
        if self.peer is not None:
            self.peer.receive(data)
            return
        core, reader = self._core, self._reader
        self.last_at = core.now()
        core.stats.input_bytes += len(data)
        if self.user is None:
            self._execute(self._read_as_stranger(data))
        else:
            batch = reader.feed(data)
            takes_columns = self.subscriptions is None and self.reply_mode is Replies.ON
            if isinstance(batch, Publishes):
                if takes_columns:
                    self._publish(batch)
                else:
                    self._execute(_spelled_out(batch))
            elif batch:
                if takes_columns and batch[0][0] == b"PUBLISH" and len(batch[0]) == 3:
                    self._publish_then_execute(batch)
                else:
                    self._execute(batch)
        if reader.buffered_bytes or reader.error is not None:
            self._read_on()

    def settle(self, reply: bytes) -> None:
        """The reply of a deferred command has come; go on with what waited behind it."""
        if self.reply_mode is Replies.SKIP_NEXT:
            self.reply_mode = Replies.ON
        else:
            self.reply(reply)
        self._go_on()

    # --- out

    def reply(self, reply: bytes) -> None:
        if self.reply_mode is Replies.ON:
            self._replies.append(reply)

    def push(self, frame: bytes) -> None:
        """Like a reply in order, but CLIENT REPLY does not silence it."""
        self._replies.append(frame)

    def flush(self) -> None:
        """Write the replies gathered so far."""
        replies = self._replies
        if not replies:
            return
        data = replies[0] if len(replies) == 1 else b"".join(replies)
        replies.clear()
        if self.user is None:
            self._output_bytes += len(data)
            if self._output_bytes > self._core.limits.unauthenticated_output_bytes_max:
                self._core.cut(self, "its replies before AUTH exceeded unauthenticated_output_bytes_max")
                return
        self._core.stats.reply_bytes += len(data)
        self.write(data)

    def finish(self) -> None:
        """Close once everything written has been sent, or after a while."""
        self.flush()
        self._core.leave(self)

    @property
    def unread_bytes(self) -> int:
        """What has come and not been executed, for want of the rest or of a turn."""
        return self._reader.buffered_bytes + sum(map(len, self._held or ()))

    # --- who

    def log_in(self, user: User, *, is_certified: bool = False) -> None:
        """Through HubCore.log_in, which also judges subscriptions by the new user's rules."""
        self.user = user
        self.is_certified = is_certified
        self.input_bytes = self._output_bytes = 0
        self.stop_timer()
        self._reader.limits = self._core.request_limits(is_authenticated=True)

    def log_out(self) -> None:
        self.user = None
        self.is_certified = False
        self._reader.limits = self._core.request_limits(is_authenticated=False)

    def cut_after(self, delay_s: float, reason: str) -> None:
        """Unless the timer is stopped first, or set anew."""
        self.stop_timer()
        self.timer = self._core.shell.call_later(delay_s, self._core.cut, self, reason)

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def may(self, action: Action, name: bytes) -> bool:
        return self._core.users.is_open or (self.user is not None and self.user.may(action, name))

    @property
    def is_unrestricted(self) -> bool:
        return self._core.users.is_open

    @property
    def is_operator(self) -> bool:
        return self._core.users.is_open or (self.user is not None and self.user.is_operator)

    def subscription_count(self, counted_with: str) -> int:
        if self.subscriptions is None:
            return 0
        return sum(
            len(names) for kind, names in self.subscriptions.items() if kind.counted_with == counted_with
        )

    @property
    def is_subscribed(self) -> bool:
        return self.subscriptions is not None and any(self.subscriptions.values())

    @property
    def subscriptions_held(self) -> int:
        return 0 if self.subscriptions is None else sum(map(len, self.subscriptions.values()))

    # --- inside

    def _publish(self, batch: Publishes) -> None:
        core = self._core
        self.command = "publish"
        if len(batch.topics) == 1:
            core.stats.commands += 1
            self.write(publish_run(core, self, batch.topics[0], batch.payloads))
            return
        replies, rest = publish_batch(core, self, batch, self.last_at + TURN_S)
        core.stats.commands += len(batch.topics) - (len(rest.topics) if rest is not None else 0)
        self.write(replies)
        if rest is not None and not self.is_closing:
            self._wait_for_turn(rest)

    def _publish_then_execute(self, commands: list[Command]) -> None:
        """A burst of publishes often has something else behind it: a PING that asks whether all have come."""
        burst = leading_publishes(commands)
        self._publish(burst)
        rest = commands[len(burst.topics) :]
        waiting = self._waiting
        if waiting is not None:
            self._waiting = [*(_spelled_out(waiting) if isinstance(waiting, Publishes) else waiting), *rest]
        elif not self.is_closing:
            self._execute(rest)

    def _execute(self, commands: list[Command]) -> None:
        core = self._core
        for i, command in enumerate(commands):
            if self.user is None and (objection := self._reader.limits.objection(command)):
                # Only behind RESET: these were read under the limits of whoever the client was.
                self._fail(objection)
                return
            mode = self.reply_mode
            reply = core.execute(self, command)
            if isinstance(reply, Deferred):
                self._suspend(commands[i + 1 :])
                break
            is_long = len(reply) >= _LONG_REPLY_BYTES
            if reply and mode is Replies.ON:
                self._replies.append(reply)
                if is_long:
                    self.flush()
            elif mode is Replies.SKIP_NEXT and self.reply_mode is Replies.SKIP_NEXT:
                self.reply_mode = Replies.ON
            if self.is_closing:
                return
            if (is_long or i % _TURN_COMMANDS == _LOOK_AT) and core.now() - self.last_at > TURN_S:
                self._wait_for_turn(commands[i + 1 :])
                break
        self.flush()

    # --- waiting

    def stand_by(self) -> None:
        """Serve the client only after `proceed`."""
        self.stop_timer()
        self._suspend([])

    def proceed(self) -> None:
        """It is the client's turn. A stranger's time to log in begins now."""
        if not self.is_closing and self.user is None:
            self._core.expect_login(self)
        self._go_on()

    def _suspend(self, commands: list[Command] | Publishes) -> None:
        """Let the commands, and whatever comes after them, wait for `_go_on`."""
        self._waiting = commands
        if self._held is None:
            self._held = []
            self.wire.pause_reading()

    def _wait_for_turn(self, commands: list[Command] | Publishes) -> None:
        self._suspend(commands)
        self._core.shell.call_later(0, self._go_on)

    def _hold(self, data: bytes) -> None:
        """Transports may bring what they had read already; more than a buffer of it is no accident."""
        held = self._held
        assert held is not None, "something waits, so reading is paused"
        held.append(data)
        # uvloop forgets that reading was paused when a connection has just been made.
        self.wire.pause_reading()
        if sum(map(len, held)) > self._core.input_bytes_max:
            self._core.cut(self, "it sent on though reading was paused")

    def _go_on(self) -> None:
        """Execute what waits, then what was held, then read again; unless something has to wait once more."""
        waiting, self._waiting = self._waiting, None
        if self.is_closing or waiting is None:
            return
        self.last_at = self._core.now()
        self._publish(waiting) if isinstance(waiting, Publishes) else self._execute(waiting)
        self._read_on()
        while self._held and self._waiting is None and not self.is_closing:
            self.receive(self._held.pop(0))
        if self._waiting is None and not self.is_closing:
            self._held = None
            self.wire.resume_reading()

    def _read_on(self) -> None:
        """Take what the reader has left over, and act on what it found wrong."""
        core, reader = self._core, self._reader
        while reader.has_more and self._waiting is None and not self.is_closing:
            if core.now() - self.last_at > TURN_S:
                self._wait_for_turn([])
            elif self.user is None:
                self._execute(self._read_as_stranger(b""))
            else:
                # Once a chunk was not ordinary, trying the fast way with what is left of it is time lost.
                self._execute(reader.feed_exactly(b""))
        if self._waiting is not None or self.is_closing:
            return
        if reader.error is not None:
            self._fail(reader.error)
        elif reader.buffered_bytes > core.input_bytes_max:
            self._fail("Protocol error: request larger than the input limit")

    def _read_as_stranger(self, data: bytes) -> list[Command]:
        """Read no further than a login, and count what was read."""
        core, reader = self._core, self._reader
        size = reader.buffered_bytes + len(data)
        commands = reader.feed_exactly(data)
        self.input_bytes += size - reader.buffered_bytes
        unread_bytes = 0 if reader.has_more else reader.buffered_bytes
        if self.input_bytes + unread_bytes > core.limits.unauthenticated_input_bytes_max:
            core.cut(self, "it sent too much before AUTH")
            return []
        return commands

    def _fail(self, text: str) -> None:
        if self.is_closing:
            return
        self._core.stats.protocol_errors += 1
        self._replies.append(error("ERR " + text))
        self.finish()


def _spelled_out(batch: Publishes | list[Command]) -> list[Command]:
    if isinstance(batch, Publishes):
        return [[b"PUBLISH", *message] for message in zip(*batch, strict=True)]
    return batch
