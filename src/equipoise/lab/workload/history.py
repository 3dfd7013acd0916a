"""The history of a run: what each client sent and received.

Nothing in here is the system's own account of itself: a publisher notes the reply to each message, a
subscriber notes each event as it takes it. Checkers read this and nothing else.

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
    """What a publisher knows about a message."""

    UNCERTAIN = auto()
    """It may or may not have been delivered. Also what has not been answered when the run ends."""
    ACKNOWLEDGED = auto()
    FAILED = auto()
    """It was certainly not delivered."""


class Sent:
    """One message. Its publisher, topic and number say where it stands in the history."""

    __slots__ = ("answered_at", "began_at", "bus", "outcome")

    def __init__(self, began_at: float, outcome: PublishOutcome = PublishOutcome.UNCERTAIN) -> None:
        self.began_at = began_at
        self.outcome = outcome
        # When its receipt came; None: it was sent without one, or none came.
        self.answered_at: float | None = None
        # Of a smart client: how many buses it had had before. One whose user was removed is over, and the next one
        # is another publisher to all hubs.
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
    # None: any of the topics that the subscription is for.
    topic: str | None
    # How many; None: unknown.
    missed: int | None
    # Of a subscription with a filter: how many it may be at most; None: unknown.
    span: int | None = None


class Away(NamedTuple):
    """A plain client has lost its connection, and so may have lost anything."""

    at: float


class SubscriptionEnded(NamedTuple):
    """The hub has ended or refused the subscription."""

    at: float
    reason: str


Event: TypeAlias = Live | Received | Missed | Away | SubscriptionEnded
Stream: TypeAlias = tuple[str, str]
"""A publisher and a topic."""


class Track:
    """One subscription of one client, and what it saw, in order."""

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
        """`via`: the hub that a plain client is connected to; a smart one may be connected to several."""
        self.name = name
        self.via = via
        self.names = names
        # The filter of a subscription that is for some messages only.
        self.where = None if not where else parse_filter(where.encode())
        self.is_pattern = is_pattern
        self.is_smart = is_smart
        self.user = user
        self.events: list[Event] = []
        self._globs = [Glob(name.encode()) for name in names] if is_pattern else None

    def wants(self, topic: str) -> bool:
        """Whether the subscription is for this topic."""
        if self._globs is None:
            return topic in self.names
        return any(glob.matches(topic.encode()) for glob in self._globs)

    def is_match(self, publisher: str, sequence: int) -> bool:
        """Whether the subscription's filter, if it has one, matches this message."""
        if self.where is None:
            return True
        paths = [path_of(constraint.path) for constraint in self.where.constraints]
        return self.where.matches(values_at(attributes_of_message(publisher, sequence), paths))

    def is_for(self, publisher: str) -> bool:
        """Whether the filter, if there is one, matches some of three messages in a row of this publisher, far on."""
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
        """Whether this or a later message of a stream was received at `since` or after; looks back from the end."""
        for event in reversed(self.events):
            if event.at < since:
                return False
            if type(event) is Received and event.sequence >= sequence and event[1:3] == stream[::-1]:
                return True
        return False

    @property
    def is_live(self) -> bool:
        """Whether the last word on the subscription itself was that it stands."""
        for event in reversed(self.events):
            if type(event) is Live:
                return True
            if type(event) is Away or type(event) is SubscriptionEnded:
                return False
        return False

    @property
    def confirmed_at(self) -> float:
        """When the subscription was last confirmed; 0 if it never was."""
        return max((event.at for event in self.events if type(event) is Live), default=0.0)

    def receiver(self, known: dict[bytes, tuple[str, int]]) -> Callable[[float, str, bytes], None]:
        """A function that notes a message: the one call made for every delivery.

        `known` is the history's `payloads`: most messages reach several subscribers and are read once.
        """
        # Without the detour through the class, which takes longer than all the rest.
        add, new = self.events.append, tuple.__new__

        def receive(at: float, topic: str, payload: bytes) -> None:
            facts = known.get(payload)
            if facts is None:
                facts = known[payload] = decode_payload(payload)
            add(new(Received, (at, topic, *facts)))

        return receive


class Admitted(NamedTuple):
    """Messages of a limited topic got their positions at a hub."""

    # When they count as having come.
    at: float
    messages: int
    hub: str


class Marker(NamedTuple):
    """The first message of a stream that was acknowledged after healing; None if none was."""

    stream: Stream
    sequence: int | None


@dataclass(slots=True)
class MemoryPeak:
    """The most that a hub or client held of something, and its bound."""

    peak: int
    bound: int


@dataclass(frozen=True, slots=True)
class SeatSample:
    """The seats of a split topic at one moment."""

    at: float
    topic: str
    # All that seats depend on; and by home, its part of the publishers.
    circumstances: tuple[object, ...]
    parts: dict[str, float]
    # By publisher, where it sits; and where it was last seen to publish, and when.
    seats: dict[bytes, str]
    seen: dict[bytes, tuple[str, float]]


@dataclass(slots=True)
class History:
    """Everything about one run that a checker may ask."""

    sent: dict[Stream, list[Sent]] = field(default_factory=dict)
    tracks: list[Track] = field(default_factory=list)
    # The user each publisher logs in as.
    users: dict[str, str] = field(default_factory=dict)
    # By hub, access rules and when it took them; empty where every client may do everything.
    rules: dict[str, list[tuple[float, AclSync]]] = field(default_factory=dict)
    # By hub, the losses that it counted: when, of which topic, how many. For plain subscribers, which get no gap.
    losses: dict[str, list[Missed]] = field(default_factory=dict)
    # By limited topic, its messages per second and burst; and when messages of it got their positions, how many, where.
    envelopes: dict[str, tuple[float, int]] = field(default_factory=dict)
    admissions: dict[str, list[Admitted]] = field(default_factory=dict)
    # How publishers of split topics were seated, in the order of time.
    seat_samples: list[SeatSample] = field(default_factory=list)
    # By who holds and what.
    held: dict[tuple[str, str], MemoryPeak] = field(default_factory=dict)
    markers: list[Marker] = field(default_factory=list)
    # When everything was healed.
    healed_at: float = 0.0
    # Payloads already read, see Track.receiver.
    payloads: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    # Ledgers, each in the words of its writer and its readers.
    ledgers: list[LedgerTrack] = field(default_factory=list)
    logs: list[LogTrack] = field(default_factory=list)
    # What was still under way when the run was over, in words.
    unfinished: list[str] = field(default_factory=list)
    # What is wrong with how hubs share subscribers.
    unbalanced: list[str] = field(default_factory=list)

    def next_sequence(self, publisher: str, topic: str) -> int:
        return len(self.sent.setdefault((publisher, topic), []))

    def begin(self, publisher: str, topic: str, at: float, bus: int = 0) -> Sent:
        """Note that the next message of a stream is being sent."""
        sent = Sent(at)
        sent.bus = bus
        self.sent.setdefault((publisher, topic), []).append(sent)
        return sent

    def hold(self, who: str, what: str, amount: int, bound: int) -> None:
        """Note what is held now; the peak is kept."""
        held = self.held.get((who, what))
        if held is None:
            self.held[who, what] = MemoryPeak(amount, bound)
        elif amount > held.peak:
            held.peak = amount

    @property
    def deliveries(self) -> int:
        return sum(list(map(type, track.events)).count(Received) for track in self.tracks)

    @property
    def messages(self) -> int:
        return sum(map(len, self.sent.values()))
