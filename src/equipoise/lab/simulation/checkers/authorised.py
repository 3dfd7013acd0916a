"""Authorised only: subscriber and publisher of each received message had permission for its topic.

The rules must have allowed the publisher to publish at some time between send and receipt, and the subscriber to
receive at some such time. A hub cannot recall bytes in a kernel buffer when a permission is revoked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from equipoise.lab.scenarios import AclSync
from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, Received, Sent, Track
from equipoise.model import Glob

__all__ = ["NAME", "check"]

NAME = "authorised only"

Intervals: TypeAlias = list[tuple[float, float]]


def check(history: History) -> list[Violation]:
    if not history.rules:
        return []
    rules = _RulesInForce(history.rules)
    return [violation for track in history.tracks for violation in _check_track(history, track, rules)]


def _check_track(history: History, track: Track, rules: _RulesInForce) -> Iterator[Violation]:
    # By topic and publisher: the sent messages, and when publisher and subscriber were allowed.
    known: dict[tuple[str, str], tuple[list[Sent], Intervals, Intervals]] = {}
    for event in track.events:
        if type(event) is not Received:
            continue
        at, topic, publisher, sequence = event
        found = known.get((topic, publisher))
        if found is None:
            receives = rules.allowed(track.user, topic, is_publish=False)
            sends = rules.allowed(history.users.get(publisher, ""), topic, is_publish=True)
            found = known[topic, publisher] = (history.sent[publisher, topic], receives, sends)
        sent, receives, sends = found
        sent_at = sent[sequence].began_at
        if not _meets(receives, sent_at, at):
            what = f"{topic} {publisher} {sequence}, sent at {sent_at:.6f}"
            yield Violation(
                NAME, f"{track.name} as {track.user!r} received {what}, without permission at any time"
            )
        if not _meets(sends, sent_at, at):
            user = history.users.get(publisher, "")
            what = f"{topic} {publisher} {sequence} from {user!r}, which had no permission to publish"
            yield Violation(NAME, f"{track.name} received {what}")


class _RulesInForce:
    """When each version of the rules was in force at some hub. Results are cached per user and topic."""

    def __init__(self, rules: dict[str, list[tuple[float, AclSync]]]) -> None:
        self._held = [
            (since, versions[number + 1][0] if number + 1 < len(versions) else float("inf"), version)
            for versions in rules.values()
            for number, (since, version) in enumerate(versions)
        ]
        self._allowed: dict[tuple[str, str, bool], Intervals] = {}

    def allowed(self, user: str, topic: str, *, is_publish: bool) -> Intervals:
        """Intervals in which the user was allowed to publish to the topic, or to receive it."""
        allowed = self._allowed.get((user, topic, is_publish))
        if allowed is None:
            allowed = self._allowed[user, topic, is_publish] = [
                (begin, end)
                for begin, end, version in self._held
                if _may(version, user, topic, is_publish=is_publish)
            ]
        return allowed


def _meets(intervals: Intervals, since: float, until: float) -> bool:
    """Whether one of the intervals overlaps with `since` to `until`."""
    for begin, end in intervals:  # noqa: SIM110  # asked of every message: twice as fast as `any`
        if begin <= until and end >= since:
            return True
    return False


def _may(rules: AclSync, user: str, topic: str, *, is_publish: bool) -> bool:
    return any(
        Glob(pattern.encode()).matches(topic.encode())
        for grants in rules
        if grants.user == user
        for pattern in (grants.publish if is_publish else grants.subscribe)
    )
