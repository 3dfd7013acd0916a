"""EQ.TELEMETRY and EQ.ARRIVALS: read the hub's telemetry, and record arrivals on request.

EQ.TELEMETRY needs the permission `observe`, EQ.ARRIVALS `operate`. A user with the permission for some topics receives
the records of those. It does not receive the hub's own records, whose sums would reveal the others; the sequence
numbers of omitted records are skipped.

A reply is encoded in steps, each in a turn of its own, so that reading records does not affect the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from equipoise.access import Action
from equipoise.hub.access.denials import denial, too_long
from equipoise.hub.data.reply import Reply
from equipoise.hub.data.turns import LongWork
from equipoise.hub.telemetry.arrivals import KEY_BYTES
from equipoise.resp.replies import OK, integer
from equipoise.resp.requests import parse_integer, text_of
from equipoise.telemetry import Block, Part, TelemetryRing
from equipoise.telemetry.arrow import END, batch, schema_message

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

# Records encoded in one step: a fifth of a millisecond.
BATCH = 1_000
# Upper estimate of the bytes of a batch beside its records.
BATCH_BYTES = 4 * 1024
# The longest reply: passing it to the kernel takes at most a millisecond.
REPLY_BYTES_MAX = 1024 * 1024
# Names matched with a user's grants in one step: a fifth of a millisecond.
JUDGED_AT_ONCE = 256
_OFF = "ERR telemetry is off on this hub (telemetry.enabled)"


def telemetry(core: HubCore, session: Session, command: list[bytes]) -> bytes | str | Reply:
    """EQ.TELEMETRY incarnation from-sequence max-bytes → [incarnation, first, next, Arrow stream, end].

    The records from `first` to `next`, of those up to `end`. A reader that names another incarnation than the current
    one gets none, but the current incarnation and its first sequence number.
    """
    if not (core.users.is_open or (session.user is not None and session.user.may_observe)):
        return denial(session, Action.OBSERVE, b"*")
    numbers = [parse_integer(argument) for argument in command[1:]]
    if any(number is None or number < 0 for number in numbers):
        return "ERR incarnation, from-sequence and max-bytes must be numbers of 0 or more"
    if not core.metering.is_on:
        return _OFF
    incarnation, sequence, bytes_max = (number or 0 for number in numbers)
    ring = core.metering.ring
    if incarnation != ring.incarnation:
        return b"".join(_reply(ring, ring.oldest, ring.oldest, ()))
    if sequence > ring.end:
        return f"ERR there is no record {sequence} yet; continue from {ring.end}"
    first = max(sequence, ring.oldest)
    if not bytes_max:
        return b"".join(_reply(ring, first, first, ()))
    # Above output_soft_bytes the reader would be disconnected as a slow consumer.
    bytes_max = min(bytes_max, REPLY_BYTES_MAX, core.limits.output_soft_bytes)
    reading = TelemetryReply(core, session, first, bytes_max)
    core.shell.call_later(0, reading.begin)
    return reading.reply


def arrivals(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    """EQ.ARRIVALS topic ON [key] | OFF. `key`, in hexadecimal: the key of the publishers' pseudonyms."""
    name, word = command[1], command[2].upper()
    if len(name) > core.limits.topic_bytes_max:
        return too_long(core)
    if not session.may(Action.OPERATE, name):
        return denial(session, Action.OPERATE, name)
    if name.startswith(b"$"):
        return "ERR names starting with '$' belong to the system and are not recorded"
    if word not in (b"ON", b"OFF"):
        return f"ERR '{text_of(command[2])[:32]}' is neither ON nor OFF"
    key = _key(command[3]) if len(command) == 4 else b""
    if key is None or len(command) > 4 or (key and word == b"OFF"):
        return f"ERR syntax error: EQ.ARRIVALS topic ON [key of {KEY_BYTES} bytes in hexadecimal] | OFF"
    metering = core.metering
    if not metering.is_on or metering.randbytes is None:
        return _OFF
    if word == b"OFF":
        metering.arrivals.unwatch(name)
        return OK
    return metering.arrivals.watch(name, metering.randbytes, key) or OK


def _key(text: bytes) -> bytes | None:
    try:
        key = bytes.fromhex(text.decode())
    except ValueError:
        return None
    return key if len(key) == KEY_BYTES else None


class TelemetryReply:
    """One reply in progress."""

    def __init__(self, core: HubCore, session: Session, first: int, bytes_max: int) -> None:
        self._core = core
        self._session = session
        # The records are finite, so the reply needs no timeout.
        self.reply = Reply(wait_s=None)
        self._ring = core.metering.ring
        self._first = self._next = first
        self._bytes_left = bytes_max - len(END)
        # Columns of the stream; set when reading begins.
        self._columns: frozenset[str] = frozenset()
        self._batches: list[bytes] = []
        # Bytes per record in the last batch.
        self._row_bytes = 0
        self._access_version = core.users.version
        # None: the user may see all topics.
        sees_all = core.users.is_open or (session.user is not None and session.user.may_observe_all)
        self._may_see = None if sees_all else cache(self._is_visible)
        self._work = LongWork(core.turns)

    def begin(self) -> None:
        """Run the steps, each in a turn of its own; then complete the reply."""
        self._work.run(self._steps(), self._done)

    def _steps(self) -> Iterator[None]:
        if self._is_allowed():
            for _ in self._write():
                yield
                if not self._is_allowed():
                    return

    def _is_allowed(self) -> bool:
        """Whether the client still waits, and the access rules have not changed since the request."""
        core = self._core
        if self.reply.is_wanted and core.users.version != self._access_version:
            self.reply.complete(core.refuse("TRYAGAIN the access rules have changed meanwhile"))
        return self.reply.is_wanted

    def _done(self) -> None:
        if self.reply.is_wanted:
            # In pieces: joining them would take as long as sending them.
            reply = _reply(self._ring, self._first, self._next, self._batches, self._columns)
            self.reply.complete(*reply)

    def _write(self) -> Iterator[None]:
        """Encode batches until no more records fit. A batch has records of one kind, as each kind has its columns."""
        parts: list[Part] = []
        count, until = 0, self._first
        # The columns of the blocks that are read below; blocks that are added meanwhile are not read.
        self._columns = self._ring.filled
        self._bytes_left -= len(schema_message(self._columns))
        for block, start in self._ring.read(self._first):
            if parts and (count >= BATCH or block.kind is not parts[0].kind):
                is_whole = self._add(parts, until)
                yield
                if not is_whole:
                    return
                parts, count = [], 0
            part = block.part(start, block.count)
            if self._may_see is not None:
                rows: list[int] = []
                yield from self._judge(block, start, rows)
                part = block.chosen(rows)
            until = block.end
            if part.sequences:
                parts.append(part)
                count += len(part.sequences)
        self._add(parts, until)
        yield

    def _add(self, parts: Sequence[Part], until: int) -> bool:
        """Encode the parts: all records before `until` are then included. False if only some fit; at least one does."""
        if not parts:
            self._next = until
            return True
        rows = wanted = sum(len(part.sequences) for part in parts)
        if self._batches and rows * self._row_bytes > self._bytes_left:
            rows = max(1, (self._bytes_left - BATCH_BYTES) // self._row_bytes)
        data = self._encode(parts, rows)
        while len(data) > self._bytes_left and rows > 1:
            rows = max(1, min(rows - 1, rows * self._bytes_left // len(data)))
            data = self._encode(parts, rows)
        if self._batches and len(data) > self._bytes_left:
            return False
        self._batches.append(data)
        self._bytes_left -= len(data)
        self._row_bytes = len(data) // rows
        self._next = until if rows == wanted else _heads(parts, rows)[-1].sequences[-1] + 1
        return rows == wanted

    def _encode(self, parts: Sequence[Part], rows: int) -> bytes:
        """Encode the first `rows` records of the parts."""
        name, incarnation = self._core.settings.name, self._ring.incarnation
        return batch(name, incarnation, _heads(parts, rows), self._columns)

    def _judge(self, block: Block, start: int, rows: list[int]) -> Iterator[None]:
        """Find the rows that the client may see; the hub's own rows are not."""
        topics = block.topics()
        if topics is None or self._may_see is None:
            return
        for row in range(start, block.count):
            if self._may_see(topics[row]):
                rows.append(row)
            if not row % JUDGED_AT_ONCE:
                yield

    def _is_visible(self, name: bytes) -> bool:
        return self._session.may(Action.OBSERVE, name)


def _heads(parts: Sequence[Part], rows: int) -> list[Part]:
    heads: list[Part] = []
    for part in parts:
        if rows > 0:
            heads.append(part if len(part.sequences) <= rows else part.head(rows))
            rows -= len(part.sequences)
    return heads


def _reply(
    ring: TelemetryRing,
    first: int,
    until: int,
    batches: Sequence[bytes],
    columns: frozenset[str] = frozenset(),
) -> list[bytes]:
    """The reply in pieces, without copying the batches."""
    numbers = b"".join(map(integer, (ring.incarnation, first, until)))
    schema = schema_message(columns)
    size = len(schema) + sum(map(len, batches)) + len(END)
    head = b"*5\r\n%b$%d\r\n%b" % (numbers, size, schema)
    return [head, *batches, b"%b\r\n%b" % (END, integer(ring.end))]
