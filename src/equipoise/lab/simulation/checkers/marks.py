"""Marks: durable subscribers resume where they left off.

each entry of the log arrives at least once, unless it is in the dead-letter topic;
the first deliveries of a subscriber outside of a group are in the order of the log;
a redelivery is marked as one; members of a group may receive deliveries in another order, so one delivery may be
unmarked;
an entry whose acknowledgement was confirmed does not arrive at a process that starts later.
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History
from equipoise.lab.workload.log_history import LogTrack, SubscriberTrack

__all__ = ["NAME", "check"]

NAME = "marks"


def check(history: History) -> list[Violation]:
    return [
        Violation(NAME, f"{story.name} of {log.topic}: {text}")
        for log in history.logs
        for story in log.subscribers.values()
        for text in [*_wrong(log, story), *_dead(log, story)]
    ]


def _wrong(log: LogTrack, story: SubscriberTrack) -> list[str]:
    wrong: list[str] = []
    known = {at for at, _ in log.final}
    first: dict[bytes, None] = {}
    unmarked: set[bytes] = set()
    for number, got in enumerate(story.got):
        # Only the first violation of a delivery is reported, but later deliveries still count as received.
        if not wrong:
            is_again = got.at in (unmarked if story.is_shared else first)
            wrong += _wrong_delivery(log, story, number, is_known=got.at in known, is_again=is_again)
        first[got.at] = None
        if got.deliveries < 2:
            unmarked.add(got.at)
    order = [_key(at) for at in first]
    if not story.is_shared and order != sorted(order):
        wrong.append("the first deliveries are not in the order of the log")
    dead = {value for value, _ in log.dead}
    missing = [value for at, value in log.final if at not in first and value not in dead]
    if missing:
        wrong.append(
            f"{len(missing)} entries never arrived, the first is {missing[0]!r}: {story.troubles[-3:]}"
        )
    return wrong


def _wrong_delivery(
    log: LogTrack, story: SubscriberTrack, number: int, *, is_known: bool, is_again: bool
) -> list[str]:
    got = story.got[number]
    if not is_known and not log.is_consumed:
        return [f"it received {got.value!r} as {got.at!r}, which is not in the log"]
    if is_again and got.deliveries < 2:
        return [f"{got.value!r} was redelivered without a mark"]
    if story.settled.get(got.at, number + 1) <= story.born.get((got.subscriber, got.life), -1):
        return [f"{got.value!r} was redelivered to a process that started after its acknowledgement"]
    return []


def _dead(log: LogTrack, story: SubscriberTrack) -> list[str]:
    """The dead-letter topic has each entry that every subscriber rejects, once and with a reason."""
    wrong: list[str] = []
    values = [value for value, _ in log.dead]
    if len(values) != len(set(values)):
        wrong.append("the dead-letter topic has an entry twice")
    if any(not reason for _, reason in log.dead):
        wrong.append("the dead-letter topic has an entry without a reason")
    if log.poison and not log.poison <= set(values):
        wrong.append(f"{min(log.poison - set(values))!r} is not in the dead-letter topic")
    return wrong


def _key(at: bytes) -> tuple[int, int]:
    ms, _, seq = at.partition(b"-")
    return int(ms), int(seq or 0)
