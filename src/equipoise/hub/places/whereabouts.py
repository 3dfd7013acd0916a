"""Where the clients of one topic are, and who has published to it lately.

A publisher counts for a while after its last message: one that publishes every few seconds would come and go with every
record otherwise, and the topic's place with it.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from equipoise.hub.meter import PUBLISHERS_MAX
from equipoise.hub.rows import PUBLISHED

if TYPE_CHECKING:
    from equipoise.hub.audience import Audience
    from equipoise.hub.places.sides import Side
    from equipoise.hub.session import Session
    from equipoise.hub.topics import Topic

__all__ = ["LATELY_S", "REFRESH_S", "Whereabouts"]

# Clients tell where they are every 5 s (ePulsar 3.2); looking more often finds little that is new.
REFRESH_S = 5.0
# Who published within this time is a publisher: twice as long, since a lone publisher is noted only at a refresh.
LATELY_S = 10.0
# Nobody is looked at more often than this allows, whatever changes: at most 2,000 clients of a topic in a second.
PER_CLIENT_S = 0.0005


class Whereabouts:
    """Owned by Places; lives as long as its topic, once the topic was used while somebody's place was known."""

    __slots__ = (
        "_publisher",
        "_publishers",
        "audience",
        "is_changed",
        "publishers",
        "renewed_at",
        "size",
        "subscribers",
        "until",
    )

    def __init__(self) -> None:
        # By the session's number, when it was last seen to have published.
        self._publishers: dict[int, float] = {}
        self._publisher: int | None = None
        # The audience that `subscribers` was made from.
        self.audience: Audience | None = None
        # When the two below were made, when they are due again, and of how many clients.
        self.renewed_at = self.until = float("-inf")
        self.size = 0
        # Whether somebody has come or gone since.
        self.is_changed = True
        self.publishers: Side | None = None
        self.subscribers: Side | None = None

    def is_quiet(self, topic: Topic, now: float) -> bool:
        """Whether there is nothing to note or renew, as in most windows."""
        return (
            now < self.until
            and not self.is_changed
            and self._publisher == topic.publisher
            and self.audience is topic.audience
            and (topic.meter is None or topic.meter.seen is None)
        )

    def note(self, topic: Topic, now: float) -> None:
        """Take in who has published in the present window, and forget who has not for long."""
        publishers, meter = self._publishers, topic.meter
        before = len(publishers)
        if meter is not None and meter.seen is not None:
            publishers.update(dict.fromkeys(meter.seen, now))
        elif topic.publisher is not None and _has_published(topic):
            publishers[topic.publisher] = now
        self._publisher = topic.publisher
        self.is_changed |= len(publishers) != before or self.audience is not topic.audience
        if len(publishers) > PUBLISHERS_MAX or now >= self.until:
            recent = sorted(publishers.items(), key=lambda item: -item[1])[:PUBLISHERS_MAX]
            self._publishers = {publisher: at for publisher, at in recent if at > now - LATELY_S}

    def is_due(self, now: float) -> bool:
        return now >= (self.renewed_at + PER_CLIENT_S * self.size if self.is_changed else self.until)

    def published_by(self, sessions: dict[int, Session]) -> list[Session]:
        """The publishers that are still connected."""
        return [session for number in self._publishers if (session := sessions.get(number)) is not None]

    def renewed(self, sides: tuple[Side | None, Side | None], size: int, now: float) -> None:
        """`sides`: publishers, subscribers."""
        self.publishers, self.subscribers = sides
        self.size, self.is_changed = size, False
        self.renewed_at, self.until = now, now + max(REFRESH_S, PER_CLIENT_S * size)


def subscribed_by(topic: Topic, audience: Audience) -> list[Session]:
    """The clients that get the topic here, or one of its lanes."""
    audiences = [audience]
    if topic.beside is not None:
        audiences += [lane.audience for lane in topic.beside.lanes.values() if lane.audience is not None]
    groups = chain.from_iterable((*one.groups, *one.mixed) for one in audiences)
    sessions = list(chain.from_iterable(members for _, members in groups))
    return sessions if len(audiences) == 1 else list(dict.fromkeys(sessions))


def _has_published(topic: Topic) -> bool:
    meter = topic.meter
    return meter is not None and (topic.published != meter.counted[PUBLISHED] or meter.ingress_messages > 0)
