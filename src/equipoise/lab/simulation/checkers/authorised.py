"""Authorised only: no client receives a message that it may not have, or from a client that may not send it.

A message is fair if, at some moment between being sent and being received, the rules allowed its publisher to
publish it; and at some such moment its subscriber to receive it. Bytes that a kernel holds when a permission is
revoked cannot be called back.
"""

from __future__ import annotations

from collections.abc import Iterator

from equipoise.lab.scenarios import Rules
from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, Received, Track
from equipoise.model import Glob

__all__ = ["NAME", "check"]

NAME = "authorised only"


def check(history: History) -> list[Violation]:
    if not history.rules:
        return []
    rules = _RulesInForce(history.rules)
    return [violation for track in history.tracks for violation in _check_track(history, track, rules)]


def _check_track(history: History, track: Track, rules: _RulesInForce) -> Iterator[Violation]:
    for event in track.events:
        if type(event) is not Received:
            continue
        at, topic, publisher, sequence = event
        sent_at = history.sent[publisher, topic][sequence].began_at
        if not rules.may(track.user, topic, sent_at, at, is_publish=False):
            what = f"{topic} {publisher} {sequence}, sent at {sent_at:.6f}"
            yield Violation(
                NAME, f"{track.name} as {track.user!r} received {what}, and might not at any time"
            )
        user = history.users.get(publisher, "")
        if not rules.may(user, topic, sent_at, at, is_publish=True):
            what = f"{topic} {publisher} {sequence} from {user!r}, who might not publish it"
            yield Violation(NAME, f"{track.name} received {what}")


class _RulesInForce:
    """When each version of the rules held at some hub, and for whom it allows a topic: asked once for each."""

    def __init__(self, rules: dict[str, list[tuple[float, Rules]]]) -> None:
        self._held = [
            (since, versions[number + 1][0] if number + 1 < len(versions) else float("inf"), version)
            for versions in rules.values()
            for number, (since, version) in enumerate(versions)
        ]
        # By user, topic and whether it publishes, the intervals in which it may.
        self._allowed: dict[tuple[str, str, bool], list[tuple[float, float]]] = {}

    def may(self, user: str, topic: str, since: float, until: float, *, is_publish: bool) -> bool:
        """Whether the user was allowed to at some moment of an interval."""
        allowed = self._allowed.get((user, topic, is_publish))
        if allowed is None:
            allowed = [
                (begin, end)
                for begin, end, version in self._held
                if _may(version, user, topic, is_publish=is_publish)
            ]
            self._allowed[user, topic, is_publish] = allowed
        return any(begin <= until and end >= since for begin, end in allowed)


def _may(rules: Rules, user: str, topic: str, *, is_publish: bool) -> bool:
    return any(
        Glob(pattern.encode()).matches(topic.encode())
        for grants in rules
        if grants.user == user
        for pattern in (grants.publish if is_publish else grants.subscribe)
    )
