"""Once: a subscriber receives every acknowledged message exactly once, or a gap that covers it.

For each subscription and topic the checker compares the sent messages, the received messages, and the gaps received in
between.

- No message is received twice, and no message that the hub rejected.
- An acknowledged message that was sent after the subscription was confirmed and was not received belongs to a gap that
  the subscriber received after the previous message and not later than the next one.
- A gap with a count has exactly that size: messages can be assigned to the gaps they may belong to so that every
  acknowledged message has a place and every place has a message, with uncertain messages used where needed.

The last is a matching of messages, each with an interval of gaps, to places. By the theorem of Mendelsohn and
Dulmage the two halves can be checked separately: if all messages can be placed, and all places can be filled, then both
can be done at once. Intervals are assigned in the order of their ends.

A plain subscriber receives no gaps. For it the loss of its connection is a gap of unknown size, which ends when the hub
confirms its next subscription: later messages do not belong to that gap. A loss counted by its hub is also a gap of
unknown size, within the time that messages from that hub may be in flight.

In a log, each message of a smart publisher is present once, at the position of its receipt, even if the publisher sent
it several times; and no such message stays uncertain.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from heapq import heappop, heappush

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import (
    Away,
    History,
    Live,
    Missed,
    PublishOutcome,
    Received,
    Sent,
    Track,
)
from equipoise.lab.workload.log_history import LogTrack

__all__ = ["NAME", "check"]

NAME = "once"

# Messages that a hub sent before it counted a loss reach a plain subscriber within this time: a few round trips with
# retransmissions.
IN_FLIGHT_S = 1.0


@dataclass(slots=True)
class _Gap:
    at: float
    # None: any number, 0 included, up to `span` if that is known.
    count: int | None
    span: int | None = None
    # Messages sent at this time or later do not belong to the gap.
    until: float = float("inf")


@dataclass(slots=True)
class _Lack:
    """A missing message, and the gaps it may belong to: from `first` to `end`, `end` excluded."""

    first: int
    end: int
    # Acknowledged, and sent after the subscription was confirmed.
    is_owed: bool
    # Its publish did not fail.
    is_possible: bool


@dataclass(slots=True)
class _Story:
    """One topic of one subscription."""

    # By publisher, the messages sent to the topic.
    senders: dict[str, list[Sent]]
    gaps: list[_Gap] = field(default_factory=list)
    # By publisher and sequence.
    lacks: dict[tuple[str, int], _Lack] = field(default_factory=dict)
    # By publisher: the highest sequence received, and the number of gaps before it.
    latest: dict[str, tuple[int, int]] = field(default_factory=dict)
    in_flight_s: float = 0.0

    def gaps_before(self, at: float) -> int:
        """Number of gaps before a message received now; for a plain subscriber without those of the last second."""
        before = len(self.gaps)
        while self.in_flight_s and before and self.gaps[before - 1].at > at - self.in_flight_s:
            before -= 1
        return before


def check(history: History) -> list[Violation]:
    by_topic: dict[str, dict[str, list[Sent]]] = {}
    for (publisher, topic), sent in history.sent.items():
        by_topic.setdefault(topic, {})[publisher] = sent
    violations: list[Violation] = []
    for track in history.tracks:
        wanted = {topic: senders for topic, senders in by_topic.items() if track.wants(topic)}
        counted = [] if track.is_smart else history.losses.get(track.via, [])
        violations += _check_track(track, wanted, counted)
    return violations + [
        Violation(NAME, f"log of {log.topic}: {text}")
        for log in history.logs
        for text in _wrong_receipts(log)
    ]


def _wrong_receipts(log: LogTrack) -> list[str]:
    wrong = [f"uncertain publish: {doubt}" for doubt in log.doubts[:1]]
    publishers = {publisher for publisher, *_ in log.receipts}
    values = [value for _, value in log.final if value.split(b".")[0].decode() in publishers]
    twice = [value for value in dict.fromkeys(values) if values.count(value) > 1] if log.receipts else []
    wrong += [f"{value!r} is in the log twice" for value in twice[:1]]
    place = {at: (n, value) for n, (at, value) in enumerate(log.final, 1)}
    for publisher, number, at, n in log.receipts:
        if place.get(at) != (n, f"{publisher}.{number}".encode()):
            wrong.append(
                f"the receipt of {publisher}.{number} has {at!r}, {n}, but the log has {place.get(at)}"
            )
            break
    return wrong


def _check_track(
    track: Track, wanted: dict[str, dict[str, list[Sent]]], counted: list[Missed]
) -> list[Violation]:
    in_flight_s = 0.0 if track.is_smart else IN_FLIGHT_S
    stories = {topic: _Story(senders, in_flight_s=in_flight_s) for topic, senders in wanted.items()}
    violations: list[Violation] = []
    live_at: float | None = None
    # Gaps of lost connections without a new subscription.
    away: list[_Gap] = []
    # A loss counted at the time of an event precedes the event.
    events = track.events if not counted else heapq.merge(counted, track.events, key=lambda event: event.at)
    for event in events:
        if type(event) is Received:
            problem = _receive(stories.get(event.topic), event, live_at, track)
            if problem is not None:
                violations.append(Violation(NAME, f"{track.name} at {event.at:.6f}: {problem}"))
        elif isinstance(event, Live):
            live_at = event.at if live_at is None else live_at
            for gap in away:
                gap.until = event.at
            away.clear()
        elif isinstance(event, Missed) and event.topic is not None:
            if event.topic in stories:
                stories[event.topic].gaps.append(_Gap(event.at, event.missed, event.span))
        else:
            # A gap of any topic, a lost connection, an ended subscription.
            for story in stories.values():
                story.gaps.append(_Gap(event.at, None))
                if isinstance(event, Away) and not track.is_smart:
                    away.append(story.gaps[-1])
    for topic, story in stories.items():
        if story.gaps or story.lacks:
            _close(story, live_at, track)
            texts = _match(story, is_exact=track.is_smart)
            violations += [Violation(NAME, f"{track.name} on {topic}: {text}") for text in texts]
    return violations


def _receive(story: _Story | None, event: Received, live_at: float | None, track: Track) -> str | None:
    """Record a message and the messages missing before it. Returns the violation of the message itself, if any."""
    at, topic, publisher, sequence = event
    sent = None if story is None else story.senders.get(publisher)
    if story is None or sent is None or sequence >= len(sent):
        return f"received {topic} {publisher} {sequence}, which no publisher sent to it"
    if track.where is not None and not track.is_match(publisher, sequence):
        return f"received {topic} {publisher} {sequence}, which its filter does not match"
    before, gaps_before = story.latest.get(publisher, (-1, 0))
    gaps_now = len(story.gaps)
    if sequence <= before:
        # A message that is late but not a duplicate is a violation of order, not of this property.
        if story.lacks.pop((publisher, sequence), None) is None:
            return f"received {topic} {publisher} {sequence} twice"
    else:
        if sequence > before + 1:
            _lack(story, sent, publisher, (before + 1, sequence), (gaps_before, gaps_now), live_at, track)
        story.latest[publisher] = (sequence, story.gaps_before(at) if gaps_now else 0)
    if sent[sequence].outcome is PublishOutcome.FAILED:
        return f"received {topic} {publisher} {sequence}, whose publish was rejected"
    return None


def _lack(
    story: _Story,
    sent: list[Sent],
    publisher: str,
    sequences: tuple[int, int],
    gaps: tuple[int, int],
    live_at: float | None,
    track: Track,
) -> None:
    for sequence in range(*sequences):
        if not track.is_match(publisher, sequence):
            continue
        message = sent[sequence]
        is_owed = (
            message.outcome is PublishOutcome.ACKNOWLEDGED
            and live_at is not None
            and message.began_at >= live_at
        )
        is_possible = message.outcome is not PublishOutcome.FAILED
        first, end = gaps
        while first < end and first < len(story.gaps) and story.gaps[first].until <= message.began_at:
            first += 1
        story.lacks[publisher, sequence] = _Lack(first, end, is_owed, is_possible)


def _close(story: _Story, live_at: float | None, track: Track) -> None:
    """Messages after the last received one may still be in flight: the progress checker covers them."""
    last = len(story.gaps)
    story.gaps.append(_Gap(float("inf"), None))
    for publisher, sent in story.senders.items():
        sequence, gaps_before = story.latest.get(publisher, (-1, 0))
        _lack(story, sent, publisher, (sequence + 1, len(sent)), (gaps_before, last + 1), live_at, track)


def _match(story: _Story, *, is_exact: bool) -> list[str]:
    """Try to place every owed message, and, if counts are exact, to fill every gap with a count."""
    problems = []
    names = {id(lack): f"{publisher} {sequence}" for (publisher, sequence), lack in story.lacks.items()}
    owed = [lack for lack in story.lacks.values() if lack.is_owed]
    capacities = [_most(gap) for gap in story.gaps]
    unplaced, _ = _assign(owed, capacities)
    for lack in unplaced:
        gaps = story.gaps[lack.first : lack.end]
        gaps_between = (
            f"gaps received in between are of {[(gap.count, gap.span) for gap in gaps]}"
            if gaps
            else "no gap was received"
        )
        problems.append(f"acknowledged {names[id(lack)]} was not received and {gaps_between}")
    if not is_exact:
        return problems
    places = [0 if gap.count is None else gap.count for gap in story.gaps]
    _, unfilled = _assign([lack for lack in story.lacks.values() if lack.is_possible], places)
    for number, count in unfilled.items():
        gap = story.gaps[number]
        problems.append(
            f"a gap of {gap.count} was received at {gap.at:.6f}, {count:g} more than can be missing"
        )
    return problems


def _most(gap: _Gap) -> float:
    """The largest number of messages missing in the gap."""
    if gap.count is not None:
        return gap.count
    return float("inf") if gap.span is None else gap.span


def _assign(lacks: list[_Lack], capacities: list[float] | list[int]) -> tuple[list[_Lack], dict[int, float]]:
    """Assign messages to gaps in the order of the ends of their intervals.

    Returns the messages without a place, and the number of free places by gap.
    """
    waiting = sorted(range(len(lacks)), key=lambda i: lacks[i].first, reverse=True)
    open_: list[tuple[int, int]] = []
    unplaced: list[_Lack] = []
    unfilled: dict[int, float] = {}
    for number, capacity in enumerate(capacities):
        while waiting and lacks[waiting[-1]].first <= number:
            index = waiting.pop()
            heappush(open_, (lacks[index].end, index))
        left = capacity
        while open_ and (left or open_[0][0] <= number):
            end, index = heappop(open_)
            if end <= number:
                unplaced.append(lacks[index])
            else:
                left -= 1
        if left and left != float("inf"):
            unfilled[number] = left
    unplaced += [lacks[index] for _, index in open_]
    return unplaced, unfilled
