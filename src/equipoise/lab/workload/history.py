"""The history of a run: what each client sent and received.

Clients record it, not the hubs: a publisher records the reply to each message, a subscriber records each event
as it takes it. Checkers read only the history.

Always true: a publisher's messages on one topic are numbered from 0 without holes, in the order it sent them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple, TypeAlias

from equipoise.content.attributes import path_of, values_at
from equipoise.content.parsing import parse_filter
from equipoise.lab.scenarios import AclSync
from equipoise.lab.workload.log_history import LedgerTrack, LogTrack
from equipoise.lab.workload.payload import attributes_of_message, decode_payload
from equipoise.model import Glob

__all__ = [
    "Admitted",
    "Away",
    "Event",
    "History",
    "Live",
    "Marker",
    "MemoryPeak",
    "Missed",
    "PublishOutcome",
    "Received",
    "Sent",
    "Stream",
    "SubscriptionEnded",
    "Track",
]


class PublishOutcome(Enum):
    """The outcome of a publish as its publisher knows it."""

    UNCERTAIN = auto()
    """The message may have been delivered. Also the outcome of a publish without a reply at the end of the run."""
    ACKNOWLEDGED = auto()
    FAILED = auto()
    """The message was certainly not delivered."""


class Sent:
    """One message. Publisher, topic and number identify it in the history."""

    __slots__ = ("answered_at", "began_at", "bus", "outcome")

    def __init__(self, began_at: float, outcome: PublishOutcome = PublishOutcome.UNCERTAIN) -> None:
        self.began_at = began_at
        self.outcome = outcome
        # Time of its receipt; None: it was sent without a receipt, or none arrived.
        self.answered_at: float | None = None
        # Number of earlier buses of a smart client. A bus ends when its user is removed, and the next bus is a new
        # publisher for all hubs.
        self.bus = 0


class Live(NamedTuple):
    """The hub has confirmed the whole subscription."""

    at: float


class Received(NamedTuple):
    at: float
    topic: str
    publisher: str
    sequence: int


class Missed(NamedTuple):
    """A smart client received a gap, or a hub counted missing messages."""

    at: float
    # None: any topic of the subscription.
    topic: str | None
    # Number of missed messages; None: unknown.
    missed: int | None
    # Upper bound of the number for a filter subscription; None: unknown.
    span: int | None = None


class Away(NamedTuple):
    """A plain client lost its connection, so it may miss any number of messages."""

    at: float


class SubscriptionEnded(NamedTuple):
    """The hub ended or rejected the subscription."""

    at: float
    reason: str


Event: TypeAlias = Live | Received | Missed | Away | SubscriptionEnded
Stream: TypeAlias = tuple[str, str]
"""A publisher and a topic."""


class Track:
    """One subscription of one client, and its events in order."""

    __slots__ = (
        "_absorbed",
        "_globs",
        "_latest",
        "events",
        "is_pattern",
        "is_smart",
        "name",
        "names",
        "user",
        "via",
        "where",
    )

    def __init__(
        self,
        name: str,
        names: tuple[str, ...],
        *,
        is_pattern: bool,
        is_smart: bool,
        user: str = "",
        via: str = "",
        where: str = "",
    ) -> None:
        """`via`: the hub of a plain client. Empty for a smart client, which may connect to several hubs."""
        self.name = name
        self.via = via
        self.names = names
        # The filter of a filter subscription.
        self.where = None if not where else parse_filter(where.encode())
        self.is_pattern = is_pattern
        self.is_smart = is_smart
        self.user = user
        self.events: list[Event] = []
        self._globs = [Glob(name.encode()) for name in names] if is_pattern else None

    def wants(self, topic: str) -> bool:
        """Whether the subscription includes this topic."""
        if self._globs is None:
            return topic in self.names
        return any(glob.matches(topic.encode()) for glob in self._globs)

    def is_match(self, publisher: str, sequence: int) -> bool:
        """Whether the subscription's filter, if it has one, matches this message."""
        if self.where is None:
            return True
        paths = [path_of(constraint.path) for constraint in self.where.constraints]
        return self.where.matches(values_at(attributes_of_message(publisher, sequence), paths))

    def can_match(self, publisher: str) -> bool:
        """Whether the filter, if any, matches at least one of three consecutive late messages of this publisher."""
        return any(self.is_match(publisher, sequence) for sequence in range(3_000, 3_003))

    def latest(self, stream: Stream) -> int:
        """The highest sequence received of a stream; -1 if none."""
        publisher, topic = stream
        return max(
            (
                event.sequence
                for event in self.events
                if type(event) is Received and event.publisher == publisher and event.topic == topic
            ),
            default=-1,
        )

    def has_reached(self, stream: Stream, sequence: int, since: float) -> bool:
        """Whether this or a later message of a stream was received at `since` or after."""
        for event in reversed(self.events):
            if event.at < since:
                return False
            if type(event) is Received and event.sequence >= sequence and event[1:3] == stream[::-1]:
                return True
        return False

    @property
    def is_live(self) -> bool:
        """Whether the subscription is confirmed and has not ended since."""
        for event in reversed(self.events):
            if type(event) is Live:
                return True
            if type(event) is Away or type(event) is SubscriptionEnded:
                return False
        return False

    @property
    def confirmed_at(self) -> float:
        """Time of the last confirmation of the subscription; 0 if there is none."""
        return max((event.at for event in self.events if type(event) is Live), default=0.0)

    def receiver(self, known: dict[bytes, tuple[str, int]]) -> Callable[[float, str, bytes], None]:
        """A function that records a message. It is called for every delivery.

        `known` is the history's `payloads`: most messages reach several subscribers and are decoded once.
        """
        # `tuple.__new__` is much faster than the constructor of the named tuple.
        add, new = self.events.append, tuple.__new__

        def receive(at: float, topic: str, payload: bytes) -> None:
            facts = known.get(payload)
            if facts is None:
                facts = known[payload] = decode_payload(payload)
            add(new(Received, (at, topic, *facts)))

        return receive


class Admitted(NamedTuple):
    """A hub gave positions to messages of a limited topic."""

    # Time at which they count as admitted.
    at: float
    messages: int
    hub: str


class Marker(NamedTuple):
    """The first message of a stream that was acknowledged after healing; `sequence` None: there is none."""

    stream: Stream
    sequence: int | None


@dataclass(slots=True)
class MemoryPeak:
    """The highest use of a bounded resource of a hub or client, and its bound."""

    peak: int
    bound: int


@dataclass(frozen=True, slots=True)
class SeatSample:
    """The seats of a split topic at one moment."""

    at: float
    topic: str
    # All inputs of the seat assignment; and by home, its share of the publishers.
    circumstances: tuple[object, ...]
    parts: dict[str, float]
    # By publisher, its seat; and the hub and time of its last publish.
    seats: dict[bytes, str]
    seen: dict[bytes, tuple[str, float]]


@dataclass(slots=True)
class History:
    """The recorded facts of one run, for checkers."""

    sent: dict[Stream, list[Sent]] = field(default_factory=dict)
    tracks: list[Track] = field(default_factory=list)
    # The user each publisher logs in as.
    users: dict[str, str] = field(default_factory=dict)
    # By hub, access rules and the time at which they took effect; empty: every client may do everything.
    rules: dict[str, list[tuple[float, AclSync]]] = field(default_factory=dict)
    # By hub, the losses that it counted for plain subscribers, which receive no gaps.
    losses: dict[str, list[Missed]] = field(default_factory=dict)
    # By limited topic, its messages per second and burst; and the admissions of its messages.
    envelopes: dict[str, tuple[float, int]] = field(default_factory=dict)
    admissions: dict[str, list[Admitted]] = field(default_factory=dict)
    # Seats of the publishers of split topics, in the order of time.
    seat_samples: list[SeatSample] = field(default_factory=list)
    # By hub or client, and resource.
    peaks: dict[tuple[str, str], MemoryPeak] = field(default_factory=dict)
    markers: list[Marker] = field(default_factory=list)
    # Time of healing.
    healed_at: float = 0.0
    # Payloads already decoded, see Track.receiver.
    payloads: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    # Ledgers as their writers and readers saw them.
    ledgers: list[LedgerTrack] = field(default_factory=list)
    logs: list[LogTrack] = field(default_factory=list)
    # Activities still unfinished at the end of the run, as text.
    unfinished: list[str] = field(default_factory=list)
    # Faults in the balance of subscribers over hubs, as text.
    unbalanced: list[str] = field(default_factory=list)

    def next_sequence(self, publisher: str, topic: str) -> int:
        return len(self.sent.setdefault((publisher, topic), []))

    def begin(self, publisher: str, topic: str, at: float, bus: int = 0) -> Sent:
        """Record that the publisher sends the next message of a stream."""
        sent = Sent(at)
        sent.bus = bus
        self.sent.setdefault((publisher, topic), []).append(sent)
        return sent

    def sample(self, owner: str, resource: str, amount: int, bound: int) -> None:
        """Record the current use of a resource, of which the peak is kept."""
        peak = self.peaks.get((owner, resource))
        if peak is None:
            self.peaks[owner, resource] = MemoryPeak(amount, bound)
        elif amount > peak.peak:
            peak.peak = amount

    @property
    def deliveries(self) -> int:
        return sum(list(map(type, track.events)).count(Received) for track in self.tracks)

    @property
    def messages(self) -> int:
        return sum(map(len, self.sent.values()))
