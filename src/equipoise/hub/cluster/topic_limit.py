"""One rate-limited stream at one hub: its bucket, its queue and its counters.

Two kinds of parties wait. Messages of other hubs are in the stream's admission, by path. Commands of this hub's own
clients wait in a `ClientQueue` at the trunk; in the ring of turns they are one party, weighted by their number.

The bucket may be lent to the compiled part for some milliseconds, to admit messages while none waits (`lend`). The
first access from Python takes it back.

Always true: the bucket's tokens belong to this hub alone; if another hub numbers the stream, this hub's share is zero.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from equipoise.hub.cluster.stall_watch import CREDIT_NS, StallWatch
from equipoise.limits import TOKEN, Bucket, Envelope, Remainders, Share, TokenReserve, TurnRing
from equipoise.limits.shares import NOTHING
from equipoise.stream.submission import Path

if TYPE_CHECKING:
    from equipoise.hub.cluster.client_queue import ClientQueue
    from equipoise.stream.admission import Admission
    from equipoise.stream.parts import Dependency

__all__ = [
    "CLIENTS",
    "Admissions",
    "CarriedLevel",
    "LimitWindow",
    "TopicLimit",
    "limit_window",
    "waiting_messages",
]

# More than a round trip between continents: a home that takes longer to acknowledge has messages waiting.
SLOW_ACK_NS = 250_000_000
# The least number of messages that a client may have pending, for topics with a low rate.
AHEAD_MIN = 64
# The party that stands for all clients of this hub.
CLIENTS: Path = (("\0clients", 0),)


class CarriedLevel(NamedTuple):
    """The bucket of a former home, sent before CLOSE: it continues to fill until the topic is opened here."""

    hub: str
    bucket: Bucket

    @property
    def share(self) -> Share:
        return Share(self.bucket.rate, self.bucket.depth)


# A level or a depth for the compiled part: whole tokens, and the remaining units.
Parts = tuple[int, int]


class LentBucket(Protocol):
    """Holds a bucket's state while it is lent to the compiled part: created and used by `hub/shell/_sockets.c`."""

    def lend(
        self, level: Parts, at: int, depth: Parts, rate: int, until: int, stalls: StallWatch, /
    ) -> None: ...
    def take_back(self) -> tuple[Parts, int, int, Parts] | None:
        """Level, its time, messages admitted, and the lowest level since; None if the bucket is not lent."""


class Admissions:
    """Counts the admitted messages of all limited topics of one hub. Owned by RateLimits."""

    __slots__ = ("_count", "lent")

    def __init__(self) -> None:
        self._count = 0
        # Limits whose buckets are lent, whose latest messages are not counted yet.
        self.lent: set[TopicLimit] = set()

    def add(self, count: int) -> None:
        self._count += count

    def take_back(self) -> None:
        """Take back all lent buckets."""
        for limit in list(self.lent):
            limit.take_back()

    @property
    def count(self) -> int:
        self.take_back()
        return self._count


class TopicLimit:
    """Owned by one topic, or one lane, that has an envelope. Changes through `RateLimits`."""

    __slots__ = (
        "_admissions",
        "_admitted",
        "_bucket",
        "_drained",
        "ack_ns",
        "carried",
        "client_turns",
        "delay_ns",
        "delay_ns_max",
        "delayed",
        "due_at",
        "envelope",
        "granted",
        "is_claimed",
        "is_fresh",
        "is_served",
        "lent",
        "mirror",
        "now",
        "owed_after",
        "queue",
        "refused",
        "refused_before",
        "remainders",
        "remote_share",
        "reserve",
        "ring",
        "sent_at",
        "share",
        "wait_ns",
        "waited_ns",
        "waiting_at",
        "wanted",
    )

    def __init__(
        self, envelope: Envelope, wait_ns: int, now: Callable[[], int], admissions: Admissions
    ) -> None:
        self._admissions = admissions
        # None: the compiled part has not requested the bucket.
        self.lent: LentBucket | None = None
        self.envelope = envelope
        self.wait_ns = wait_ns
        self.now = now
        at = now()
        # The share in use, and the plan's share: the first is smaller until no other hub can use the difference.
        self.share = NOTHING
        self.wanted = NOTHING
        self._bucket = Bucket(0, 0, at)
        # Whether the bucket's history is unknown: see Tenure.
        self.is_fresh = True
        # Whether another hub has offered the topic, and so may have numbered it after the barrier passed.
        self.is_claimed = False
        self.carried: CarriedLevel | None = None
        # Tokens of lanes that have ended, until the trunk's share grows here.
        self.remainders = Remainders()
        # If another hub numbers the stream: its share by the plan, and an estimate of its bucket, as if all messages
        # came from this hub.
        self.remote_share = envelope.whole
        self.mirror = Bucket(*envelope.whole, at, level=envelope.whole.depth)
        # Parties that wait for tokens here: paths of messages, and CLIENTS.
        self.ring: TurnRing[Path] = TurnRing()
        self.queue: ClientQueue | None = None
        # The token, of the bucket or of the mirror, that is reserved for a connection that was rejected.
        self.reserve: TokenReserve[int] = TokenReserve()
        # Turns of the connections in the queue; kept while there is no queue.
        self.client_turns: TurnRing[int] = TurnRing()
        # By connection, dependencies of its next message that a rejected command had.
        self.owed_after: dict[int, Sequence[Dependency]] = {}
        # By hub, the number of connections that wait there.
        self.waiting_at: dict[str, int] = {}
        # Tokens of the turn in progress; 0: none is.
        self.granted = 0
        # Whether waiting parties are being served.
        self.is_served = False
        # Time at which it is served next; None: not scheduled.
        self.due_at: int | None = None
        # Send times of unacknowledged messages to the home; and the time until the last acknowledgement.
        self.sent_at: deque[int] = deque()
        self.ack_ns = 0
        self._admitted = 0
        self.refused = 0
        # The same at the start of the window of telemetry.
        self.refused_before = 0
        # Commands of this hub's clients that were admitted after waiting; the sum and the maximum of their waits.
        self.delayed = 0
        self.delay_ns = 0
        self.delay_ns_max = 0
        # In this window of telemetry: the longest such wait; and the most units that were missing from a full bucket.
        self.waited_ns = 0
        self._drained = 0

    @property
    def bucket(self) -> Bucket:
        """The bucket, taken back if it was lent. Do not keep a reference: it may be lent again."""
        if self in self._admissions.lent:
            self.take_back()
        return self._bucket

    @bucket.setter
    def bucket(self, bucket: Bucket) -> None:
        self.take_back()
        self._bucket = bucket

    @property
    def admitted(self) -> int:
        self.take_back()
        return self._admitted

    def lend(self, now: int, until: int, stalls: StallWatch) -> None:
        """Let the compiled part take tokens, at most until the time `until`."""
        lent, bucket = self.lent, self.bucket
        if lent is not None:
            level = divmod(bucket.level(now, stalls.since(now)), TOKEN)
            lent.lend(level, now, divmod(bucket.depth, TOKEN), bucket.rate, until, stalls)
            self._admissions.lent.add(self)

    def take_back(self) -> None:
        """Take the bucket back from the compiled part, and count the tokens that it has taken."""
        self._admissions.lent.discard(self)
        found = None if self.lent is None else self.lent.take_back()
        if found is None:
            return
        level, at, admitted, least = found
        self._bucket.go_on(level[0] * TOKEN + level[1], at)
        if admitted:
            self._note_admitted(admitted, least[0] * TOKEN + least[1])

    def _note_admitted(self, count: int, level: int) -> None:
        self._admitted += count
        self._admissions.add(count)
        missing = self._bucket.depth - level
        if missing > self._drained:
            self._drained = missing

    def take(self, count: int, now: int, since: int) -> bool:
        """Take the tokens of `count` messages, which are numbered now; False, and none taken, if there are too few."""
        bucket = self.bucket
        if not bucket.take(count, now, since):
            return False
        self._note_admitted(count, bucket.level(now))
        return True

    @property
    def can_overflow(self) -> bool:
        """Whether a stall of the loop could cost tokens: the bucket could become full within CREDIT_NS."""
        bucket = self._bucket
        return bucket.last_level + bucket.rate * CREDIT_NS > bucket.depth

    def give_back(self, count: int) -> None:
        """Return tokens that were just taken and not used."""
        bucket, now = self.bucket, self.now()
        bucket.fill(bucket.level(now) + count * TOKEN)
        self._admitted -= count
        self._admissions.add(-count)

    @property
    def is_direct(self) -> bool:
        """Whether a message may take any available token: no other message waits, and no token is reserved."""
        return self.queue is None and not (self.owed_after or self.ring) and self.reserve.party is None

    @property
    def is_engaged(self) -> bool:
        """Whether the limit has state that must be kept: a bucket that is not full, or waiting clients."""
        if self.ring or self.queue is not None or self.wanted != self.share:
            return True
        return bool(self.share.rate) and not self.bucket.is_full(self.now())

    def window(self, share: Share) -> int:
        """Messages that a relay may send ahead of acknowledgements: the home's depth, and 0.1 s of its rate.

        If the home is slow to acknowledge, messages wait there already: then 0.1 s of the rate, at least one.
        """
        oldest_ns = self.now() - self.sent_at[0] if self.sent_at else 0
        is_slow = max(self.ack_ns, oldest_ns) > SLOW_ACK_NS
        return max(1, -(-((0 if is_slow else share.depth) + share.rate * 10**8) // TOKEN))

    @property
    def ahead(self) -> int:
        """Messages that a client may have pending here: enough that no token is unused."""
        return max(AHEAD_MIN, self.envelope.whole.rate * 10**8 // TOKEN)

    def note_sent(self, count: int) -> None:
        """`count` messages were sent ahead to the home."""
        self.sent_at.extend([self.now()] * count)

    def note_acked(self, outstanding: int) -> None:
        """`outstanding` of the messages sent ahead are not acknowledged."""
        while len(self.sent_at) > outstanding:
            self.ack_ns = self.now() - self.sent_at.popleft()

    def resize(self, share: Share) -> None:
        self.share = share
        self.bucket.resize(*share, self.now())

    def mirror_share(self, share: Share) -> None:
        """Another hub numbers the stream, with this share."""
        if share != self.remote_share:
            self.remote_share = share
            self.mirror.resize(*share, self.now())

    def give_up(self) -> None:
        """This hub does not number the stream, or not yet."""
        self.resize(NOTHING)
        self.wanted, self.is_fresh = NOTHING, True
        self.ring, self.reserve = TurnRing(), TokenReserve()
        self.waiting_at.clear()

    def note_delay(self, waited_ns: int) -> None:
        self.delayed += 1
        self.delay_ns += waited_ns
        self.delay_ns_max = max(self.delay_ns_max, waited_ns)
        self.waited_ns = max(self.waited_ns, waited_ns)

    def drained(self) -> int:
        """The most units that were missing from a full bucket in this window; begins the next window."""
        self.take_back()
        drained, self._drained = self._drained, 0
        return drained

    def retry_ms(self, wait_ns: int | None) -> int:
        """Milliseconds until a retry, for the error text."""
        return max(1, -(-(self.wait_ns if wait_ns is None else wait_ns) // 1_000_000))


class _AnyStream(Protocol):
    @property
    def admission(self) -> Admission: ...


class LimitedStream(Protocol):
    """A topic or a lane."""

    @property
    def limit(self) -> TopicLimit | None: ...
    @property
    def is_home(self) -> bool: ...
    @property
    def stream(self) -> _AnyStream | None: ...


def waiting_messages(streams: Sequence[LimitedStream]) -> int:
    """Number of messages that wait for tokens, of streams numbered here and of this hub's own clients."""
    held = [
        item.messages
        for stream in streams
        if stream.stream is not None and stream.is_home
        for items in stream.stream.admission.waiting.values()
        for item in items
    ]
    queues = (stream.limit.queue for stream in streams if stream.limit is not None)
    return sum(held) + sum(queue.messages for queue in queues if queue is not None)


class LimitWindow(NamedTuple):
    """Measurements of a topic's rate limit at this hub in a window of telemetry."""

    # The longest wait of a message of this hub's clients.
    throttle_us: int
    # If the hub numbers a stream of the topic: the most tokens that were missing from a full bucket, plus waiting
    # messages.
    drained: int
    # Messages that wait at the end of the window: of streams numbered here, and of this hub's clients.
    waiting: int
    # Messages of this hub's clients that were rejected.
    refused: int


def limit_window(streams: Sequence[LimitedStream]) -> LimitWindow:
    """The window of a limited topic and its lanes; begins the next window."""
    limits = [(stream, stream.limit) for stream in streams if stream.limit is not None]
    waited_ns = drained = refused = 0
    for stream, limit in limits:
        waited_ns, limit.waited_ns = max(waited_ns, limit.waited_ns), 0
        refused, limit.refused_before = refused + limit.refused - limit.refused_before, limit.refused
        missing = limit.drained()
        drained += missing if stream.is_home else 0
    is_numbering = any(stream.is_home for stream, _ in limits)
    waiting = waiting_messages(streams)
    drained = -(-drained // TOKEN) + waiting if is_numbering else 0
    return LimitWindow(waited_ns // 1_000, drained, waiting, refused)
