"""The one place where moves in hand are known.

Whoever wants to change where a topic is served, the planner, content balancing, an operator, asks here first. A topic
that is in hand belongs to whoever has it until its move has been seen to end; nobody else touches it.

Always true:
    a topic is in at most one hand;
    no more topics are in hand than the bound, and no claim takes more than a round's bound.

A value: `claim` and `settled` return the next one. Carrying moves out belongs to the hubs.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["Arbiter", "Held"]


class Held(msgspec.Struct, frozen=True, array_like=True):
    """One move: whose it is, since when, and the version of the plan that says it."""

    by: str
    since_s: float
    version: int


class Arbiter(msgspec.Struct, frozen=True):
    """What is in hand. Never changed in place."""

    in_hand: dict[bytes, Held] = {}

    def is_free(self, topic: bytes, by: str) -> bool:
        """Whether `by` may ask for it: nobody has it. Its own unfinished moves count as somebody's."""
        held = self.in_hand.get(topic)
        return held is None or (held.by == by and held.version == 0)

    def room(self, *, round_max: int, total_max: int) -> int:
        """How many topics may still be taken."""
        return max(0, min(round_max, total_max - len(self.in_hand)))

    def claim(
        self,
        by: str,
        topics: Iterable[bytes],
        *,
        now: float,
        version: int = 0,
        round_max: int = 256,
        total_max: int = 1024,
    ) -> tuple[Arbiter, tuple[bytes, ...]]:
        """The next arbiter, and those of the topics that were granted, in the order asked, as far as there is room.

        `version` is that of the plan that moves them; 0 reserves them until a later claim names one.
        """
        room = self.room(round_max=round_max, total_max=total_max)
        granted: dict[bytes, Held] = {}
        for topic in topics:
            if len(granted) >= room:
                break
            if topic not in granted and self.is_free(topic, by):
                granted[topic] = Held(by, now, version)
        return Arbiter({**self.in_hand, **granted}), tuple(granted)

    def settled(
        self, *, now: float, plan_version_min: int, settle_s: float, move_timeout_s: float
    ) -> Arbiter:
        """Without the moves that have ended: all live hubs go by their plan and views had time to show it.

        `plan_version_min` is the oldest plan that a live hub goes by, 0 if one of them does not tell; then, and if a
        hub stays behind, `move_timeout_s` ends a move. Reservations end by it too.
        """

        def is_over(held: Held) -> bool:
            age_s = now - held.since_s
            is_applied = 0 < held.version <= plan_version_min
            return age_s >= move_timeout_s or (is_applied and age_s >= settle_s)

        left = {topic: held for topic, held in self.in_hand.items() if not is_over(held)}
        return self if len(left) == len(self.in_hand) else Arbiter(left)

    def let_go(self, by: str, topics: Iterable[bytes]) -> Arbiter:
        """Without these, as far as they are in `by`'s hand: the move was given up or is known to have ended."""
        gone = {topic for topic in topics if (held := self.in_hand.get(topic)) and held.by == by}
        return Arbiter({topic: held for topic, held in self.in_hand.items() if topic not in gone})
