"""One client's connection: commands in, replies and deliveries out.

The session orders its client's output. Replies to one batch of commands are written together; before a command that may
deliver to the same client, the gathered replies are written first. A reply without an outcome yet is pending (`reply`);
the commands after it are executed or held. They are read in either case, so that a disconnect is detected.

Pure: input arrives through `receive`, output leaves through `write`, time comes from the hub.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.access import User
from equipoise.hub.data.client_state import ClientState
from equipoise.hub.data.publish import as_commands, publish_batch, publish_run
from equipoise.hub.data.reply import OwedReplies, Reply, ReplyMode
from equipoise.hub.data.turns import TURN_S
from equipoise.resp import Command, Publishes, RequestReader, leading_publishes
from equipoise.resp.replies import bulk, error, integer, push

if TYPE_CHECKING:
    from equipoise.hub.data.session_host import SessionHost

# The clock is read once per so many commands, and after a long reply.
_TURN_COMMANDS = 16
# A reply of at least this size is written at once: a pipeline of short requests with long replies is not buffered.
_LONG_REPLY_BYTES = 4 * 1024
# Input that is read and held behind a command with a pending reply; above it, reading pauses.
_KEPT_BYTES = 64 * 1024
# Interval of the check of a session with pending replies: for timeouts, and for a client that has disconnected.
_WATCH_S = 1.0


class Session(ClientState):
    """Created and ended by HubCore; `subscriptions` changes only through hub/data/subscribe.py."""

    __slots__ = (
        "_held",
        "_holds_input",
        "_is_blocked",
        "_is_paused",
        "_owed",
        "_reader",
        "_waiting",
    )

    def __init__(self, core: SessionHost, session_id: int, user: User | None) -> None:
        super().__init__(core, session_id, user)
        self._reader = RequestReader(core.request_limits(is_authenticated=user is not None))
        self._owed: OwedReplies | None = None  # None: no reply is pending.
        # Commands that wait for pending replies before them (`_is_blocked`), or for their turn; None: none wait.
        self._waiting: list[Command] | Publishes | None = None
        self._held: list[bytes] | None = None  # Input received while commands wait; else None.
        self._is_blocked = self._is_paused = self._holds_input = False

    # --- in

    def receive(self, data: bytes) -> None:
        """Execute the complete commands in the client's bytes. Raises for no input."""
        if self.is_closing:
            return
        if self.gathered is not None:
            self.gathered.set_apart(self)
        if self._waiting is not None or (self._crowd and self._joins_crowd()):
            self._hold(data)
            return
        if self.peer is not None:
            self.peer.receive(data)
            return
        core, reader = self._core, self._reader
        self.last_at = core.now()
        core.stats.input_bytes += len(data)
        if self.user is None:
            self._execute(self.read_as_stranger(reader, data))
        else:
            batch = reader.feed(data)
            is_plain = self.subscriptions is None is self._owed and self.transaction is None
            takes_columns = is_plain and self.reply_mode is ReplyMode.ON
            if isinstance(batch, Publishes):
                if takes_columns:
                    self._publish(batch)
                else:
                    self._execute(as_commands(batch))
            elif batch:
                if takes_columns and batch[0][0] == b"PUBLISH" and len(batch[0]) == 3:
                    self._publish_then_execute(batch)
                elif not (takes_columns and core.commands.combine(self, batch, len(data))):
                    self._execute(batch)
        if reader.buffered_bytes or reader.error is not None:
            self._read_on()
        elif self._holds_input:
            self.note_input()

    def queue_up(self) -> None:
        """Hold further input until the client's turn: its owner is over its share."""
        if self._waiting is None and not self.is_closing:
            self._wait_for_turn([])

    def note_input(self) -> None:
        """Account for held input: an incomplete request, and the commands queued for EXEC."""
        queued = 0 if self.transaction is None else self.transaction.bytes
        reader = self._reader
        request = reader.unfinished if reader.buffered_bytes else 0
        self._holds_input = self._core.unfinished.note(self, reader.buffered_bytes + queued, request)

    # --- out

    def flush(self) -> None:
        """Write the replies gathered so far."""
        replies = self._replies
        if not replies or self.is_gathering:
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
        """Close the connection once all output has been sent, or after `LINGER_S`."""
        self.flush()
        self._core.leave(self)

    @property
    def is_busy(self) -> bool:
        """Whether commands wait, or replies are pending."""
        return self._waiting is not None or self._owed is not None or self.gathered is not None

    @property
    def unread_bytes(self) -> int:
        """Input that was received and not executed: incomplete, or waiting for a turn."""
        return self._reader.buffered_bytes + sum(map(len, self._held or ()))

    # --- who

    def log_in(self, user: User, *, is_certified: bool = False) -> None:
        """Set the user. Called through HubCore.log_in, which also applies the user's rules to subscriptions."""
        self.user, self.is_certified = user, is_certified
        self.input_bytes = self._output_bytes = 0
        self.stop_timer()
        self._reader.limits = self._core.request_limits(is_authenticated=True)

    def log_out(self) -> None:
        self.user, self.is_certified = None, False
        self._reader.limits = self._core.request_limits(is_authenticated=False)

    def _publish(self, batch: Publishes) -> None:
        """Publish a batch. Only while no reply is pending."""
        core = self._core
        if self.last_at > core.awake_until and self._is_held(batch):
            return
        self.command = "publish"
        if len(batch.topics) == 1:
            core.stats.commands += 1
            reply = publish_run(core, self, batch.topics[0], batch.payloads)
            if isinstance(reply, bytes):
                # By far the most frequent case: one more call would be measurable.
                self.write(reply)
            else:
                self._answer_run((reply,), batch)
            return
        replies, rest = publish_batch(core, self, batch, self.last_at + TURN_S)
        core.stats.commands += len(batch.topics) - (len(rest.topics) if rest is not None else 0)
        self._answer_run(replies, batch)
        if rest is not None and not self.is_closing:
            self._wait_for_turn(rest)

    def _answer_run(self, replies: Sequence[bytes | Reply], batch: Publishes) -> None:
        if Reply not in map(type, replies):
            self.write(replies[0] if len(replies) == 1 else b"".join(replies))  # type: ignore[arg-type]  # all are bytes
            return
        size = sum(map(len, batch.payloads)) // len(replies)
        for reply in replies:
            self.answer(reply, size, is_muted=False)
        self.flush()

    def _publish_then_execute(self, commands: list[Command]) -> None:
        """Publish the leading PUBLISHes as one batch, then execute the rest: a pipeline often ends with a PING."""
        burst = leading_publishes(commands)
        self._publish(burst)
        rest = commands[len(burst.topics) :]
        if self._waiting is not None:
            self._waiting = [*as_commands(self._waiting), *rest]
        elif not self.is_closing:
            self._execute(rest)

    def _execute(self, commands: list[Command]) -> None:
        core = self._core
        if self.last_at > core.awake_until and self._is_held(commands):
            return
        for i, command in enumerate(commands):
            if self.user is None and (objection := self._reader.limits.objection(command)):
                # Only after RESET: these commands were parsed under the limits of an authenticated client.
                self._fail(objection)
                return
            owed = self._owed
            if owed is not None and not (owed.may_grow and core.commands.is_pipelined(command)):
                self._suspend(commands[i:], is_blocked=True)
                break
            mode = self.reply_mode
            reply = core.commands.execute(self, command)
            if mode is ReplyMode.SKIP_NEXT and self.reply_mode is ReplyMode.SKIP_NEXT:
                self.reply_mode = ReplyMode.ON
            is_long = isinstance(reply, bytes) and len(reply) >= _LONG_REPLY_BYTES
            if owed is not None or not isinstance(reply, bytes):
                self.answer(reply, sum(map(len, command)), is_muted=mode is not ReplyMode.ON)
                if self._owed is not None and not core.commands.is_pipelined(command):
                    self.fence(commands[i + 1 :])
                    break
            elif reply and mode is ReplyMode.ON:
                self._replies.append(reply)
                if is_long:
                    self.flush()
            if self.is_closing:
                return
            if (is_long or (i + 1) % _TURN_COMMANDS == 0) and core.turns.queue.is_over(self.last_at):
                self._wait_for_turn(commands[i + 1 :])
                break
        self.flush()

    def answer(self, reply: bytes | Reply, size: int, *, is_muted: bool) -> None:
        """Write the reply to a command of `size` bytes when it and all earlier replies are complete."""
        pieces = (reply,) if isinstance(reply, bytes) else reply.pieces
        if pieces is not None and (is_muted or self._owed is None):
            self._replies += () if is_muted else pieces
            return
        if self._owed is None:
            self._owed = OwedReplies(self._core.shell.call_later(_WATCH_S, self._watch))
        if isinstance(reply, Reply):
            reply.owe(self._wake, self._core.now(), is_muted=is_muted)
        self._owed.add(reply, size)

    def fence(self, commands: list[Command]) -> None:
        """Hold the commands and all further input until the last reply: a login changes even the limits on input."""
        assert self._owed is not None, "the reply is not complete"
        self._owed.is_fenced = True
        self._suspend(commands, is_blocked=True)

    def _wake(self) -> None:
        """A pending reply is complete. Replies completed in one turn are written together; a fence's reply is written
        at once, before output that depends on it. The commands behind it run in a turn of their own."""
        owed = self._owed
        if owed is None or self.is_closing:
            return
        if owed.is_fenced:
            self._write_owed(owed)
            self.flush()
        if not owed.is_woken:
            owed.is_woken = True
            self._core.shell.call_later(0, self._answer_owed)

    def _write_owed(self, owed: OwedReplies) -> None:
        for piece in owed.take():
            self._replies.append(piece)
            if len(piece) >= _LONG_REPLY_BYTES:
                self.flush()

    def _answer_owed(self) -> None:
        owed = self._owed
        if owed is None or self.is_closing:
            return
        owed.is_woken = False
        self._write_owed(owed)
        self.flush()
        if owed.is_empty:
            self.forget_replies()
        if self._is_blocked and not self.is_closing and (self._owed is None or owed.has_room):
            self._go_on()

    def forget_replies(self) -> None:
        """All pending replies in order are complete, or the session has ended."""
        owed, self._owed = self._owed, None
        if self.gathered is not None:
            self.gathered.leave(self)
        if owed is not None:
            owed.timer.cancel()
            owed.forget()

    def _watch(self) -> None:
        owed, core = self._owed, self._core
        assert owed is not None, "the timer runs while replies are owed"
        owed.timer = core.shell.call_later(_WATCH_S, self._watch)
        owed.expire(core.now())
        if self.link is not None and self.proto == 3 and not owed.is_empty:
            # The client's pings wait behind the pending replies; this push tells it that the hub is alive.
            self.write(push((bulk(b"eq.wait"), integer(len(owed))), 3))
        if self._is_paused and core.shell.has_hung_up(self.wire):
            core.cut(self, "client disconnected")  # A transport with paused reading does not report it.

    def stand_by(self) -> None:
        """Hold all input until `proceed` is called."""
        self.stop_timer()
        self._suspend([])

    def proceed(self) -> None:
        """Begin to serve the client. The authentication timeout starts now."""
        if not self.is_closing and self.user is None:
            self._core.expect_login(self)
        self._go_on()

    def _suspend(self, commands: list[Command] | Publishes, *, is_blocked: bool = False) -> None:
        """Hold the commands and all further input until `_go_on`."""
        self._waiting = commands
        self._is_blocked = is_blocked
        self._held = self._held or []
        if not is_blocked:
            self._is_paused = True
            self.wire.pause_reading()

    def _wait_for_turn(self, commands: list[Command] | Publishes) -> None:
        self._suspend(commands)
        self._core.turns.queue.enter(self.owner, self._go_on)

    def _is_held(self, commands: list[Command] | Publishes) -> bool:
        """After a standstill of the hub: whether the client waits until the hub's session in the store is confirmed."""
        verb = b"PUBLISH" if isinstance(commands, Publishes) else commands[0][0] if commands else b""
        if not verb or not self._core.standstill.holds(self, verb, self._go_on):
            return False
        self._suspend(commands)
        return True

    def _joins_crowd(self) -> bool:
        """Whether the client queues behind several of its user or address; not in its own turn (`_held` is set)."""
        is_concerned = self.peer is None is self._held and self._core.turns.is_crowded(self.owner)
        if is_concerned:
            self._wait_for_turn([])
        return is_concerned

    def _hold(self, data: bytes) -> None:
        """Hold input while commands wait. A paused transport delivers at most one buffer that it had read before."""
        assert self._held is not None, "something waits"
        self._held.append(data)
        size = sum(map(len, self._held))
        if self._is_paused or size > min(_KEPT_BYTES, self._core.input_bytes_max // 2):
            # Also if it is paused already: uvloop loses the pause of a connection that was just made.
            self._is_paused = True
            self.wire.pause_reading()
        if size > self._core.input_bytes_max:
            self._core.cut(self, "more input while reading was paused")

    def _go_on(self) -> None:
        """Execute the waiting commands, then the held input, then resume reading; stop when a command has to wait."""
        waiting, self._waiting = self._waiting, None
        if self.is_closing or waiting is None:
            return
        self._is_blocked = False
        self.last_at = self._core.now()
        if isinstance(waiting, Publishes) and self._owed is None:
            self._publish(waiting)
        else:
            self._execute(as_commands(waiting))
        self._read_on()
        queue = self._core.turns.queue
        while self._held and self._waiting is None and not self.is_closing:
            self.receive(queue.take_piece(self._held))
            if queue.end_piece(self.last_at) and self._held and self._waiting is None:
                self._wait_for_turn([])
        if self._waiting is None and not self.is_closing:
            self._held, self._is_paused = None, False
            self.wire.resume_reading()

    def _read_on(self) -> None:
        """Execute the commands that the reader still has, and handle its errors."""
        core, reader, queue = self._core, self._reader, self._core.turns.queue
        while reader.has_more and self._waiting is None and not self.is_closing:
            if self.user is None:
                self._execute(self.read_as_stranger(reader, b""))
            else:
                # The fast parser has declined this chunk; trying it again on the remainder would waste time.
                self._execute(reader.feed_exactly(b""))
            if (
                reader.has_more
                and self._waiting is None
                and queue.is_over(self.last_at)
                and not self.is_closing
            ):
                self._wait_for_turn([])
        if self._waiting is not None or self.is_closing:
            return
        if reader.error is None and reader.buffered_bytes <= core.input_bytes_max:
            if reader.buffered_bytes or self._holds_input:
                self.note_input()
            return
        if self._owed is not None:
            self._suspend([], is_blocked=True)  # The replies to the valid commands come first.
        else:
            self._fail(reader.error or "Protocol error: request larger than the input limit")

    def _fail(self, text: str) -> None:
        if self.is_closing:
            return
        self._core.stats.protocol_errors += 1
        self._replies.append(error("ERR " + text))
        self.finish()
