"""Authorised only: no client receives a message that it may not have, or from a client that may not send it.

A message is fair if, at some moment between being sent and being received, the rules allowed its publisher to
publish it; and at some such moment its subscriber to receive it. Bytes that a kernel holds when a permission is
revoked cannot be called back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from equipoise.lab.scenarios import Rules
from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, Received, Track
from equipoise.model import Glob

__all__ = ["NAME", "check"]

NAME = "authorised only"


def check(history: History) -> list[Violation]:
    if not history.rules:
        return []
    return [violation for track in history.tracks for violation in _check_track(history, track)]


def _check_track(history: History, track: Track) -> Iterator[Violation]:
    for event in track.events:
        if type(event) is not Received:
            continue
        at, topic, publisher, sequence = event
        sent_at = history.sent[publisher, topic][sequence].began_at
        rules = list(_in_force(history.rules, sent_at, at))
        if not any(_may(version, track.user, topic, is_publish=False) for version in rules):
            what = f"{topic} {publisher} {sequence}, sent at {sent_at:.6f}"
            yield Violation(
                NAME, f"{track.name} as {track.user!r} received {what}, and might not at any time"
            )
        user = history.users.get(publisher, "")
        if not any(_may(version, user, topic, is_publish=True) for version in rules):
            what = f"{topic} {publisher} {sequence} from {user!r}, who might not publish it"
            yield Violation(NAME, f"{track.name} received {what}")


def _in_force(rules: dict[str, list[tuple[float, Rules]]], since: float, until: float) -> Iterator[Rules]:
    """The versions of the rules that held at some hub at some moment of an interval."""
    for versions in rules.values():
        for number, (at, version) in enumerate(versions):
            ends_at = versions[number + 1][0] if number + 1 < len(versions) else float("inf")
            if at <= until and ends_at >= since:
                yield version


@cache
def _may(rules: Rules, user: str, topic: str, *, is_publish: bool) -> bool:
    return any(
        Glob(pattern.encode()).matches(topic.encode())
        for grants in rules
        if grants.user == user
        for pattern in (grants.publish if is_publish else grants.subscribe)
    )
