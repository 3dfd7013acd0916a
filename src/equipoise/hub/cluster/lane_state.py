"""State of a topic beside its trunk at one hub: lanes, marks, and followers of each stream.

A lane is a stream of the topic that a home other than the first numbers (docs/decisions/0006). It is a Topic object of
its own that shares the name and the subscribers of the trunk, so that code for topics serves lanes too, and code that
checks or counts by name applies to the topic. Hubs identify a lane by its key, which no client may use as the name of a
topic; clients identify it by the name of its hub.

Always true: a lane is in `TopicIndex.lanes` and among its trunk's `beside.lanes`, or has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.data.topic import LANE_PREFIX, Topic
from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.data.subscriber import Subscriber

__all__ = ["Facts", "Lane", "TopicLanes", "ended_push", "lane_key", "lane_push", "parse_lane_key"]


def lane_key(hub: str, topic: bytes) -> bytes:
    """The key of a lane. It can be parsed because the name of a hub has no slash."""
    return b"%b%b/%b" % (LANE_PREFIX, hub.encode(), topic)


def parse_lane_key(key: bytes) -> tuple[str, bytes] | None:
    """Hub and topic of a lane; None if the key is the name of a topic."""
    if not key.startswith(LANE_PREFIX):
        return None
    hub, _, topic = key[len(LANE_PREFIX) :].partition(b"/")
    return hub.decode("utf-8", "replace"), topic


class Facts:
    """State of a lane from plans and from the lane's hub, at any hub, with or without the topic."""

    __slots__ = ("dropped", "is_over", "since")

    def __init__(self, since: int, *, dropped: int = 0) -> None:
        # Version of the first plan of the unbroken sequence, up to the current one, that names the lane.
        self.since = since
        # Version of the first plan that no longer names it; 0: the current plan names it.
        self.dropped = dropped
        # Whether its hub has ended it; a plan that names it again begins a new lane.
        self.is_over = False


class TopicLanes:
    """State of a topic beside its trunk. Owned by the topic, created when needed. `lanes` is empty for a lane."""

    __slots__ = ("absent", "after", "lanes", "opened", "over")

    def __init__(self) -> None:
        # Lanes by hub.
        self.lanes: dict[str, Lane] = {}
        # Dependencies of every further message of this stream: (epoch, n) by the name of the other stream.
        self.after: dict[bytes, tuple[int, int]] = {}
        # Streams among those that had ended at the last clean-up.
        self.over: set[bytes] = set()
        # Smart subscribers of the topic that receive this stream from another hub.
        self.absent: set[Subscriber] = set()
        # Of a trunk that was opened here: its epoch, and the end (epoch, n) of the previous one.
        self.opened: tuple[int, int, int] | None = None


class Lane(Topic):
    """One lane at one hub: the hub's own lane, or another hub's. Created and ended by `lanes`."""

    __slots__ = ("_trunk", "asked", "deaths", "due", "facts", "has_ended", "hub", "named", "told_epoch")

    def __init__(self, trunk: Topic, hub: str, facts: Facts, *, epoch: int) -> None:
        super().__init__(trunk.name, epoch, is_shard=False)
        self.hub = hub
        self.facts = facts
        # Version of the plan that began it, as far as this hub has applied plans.
        self.named = facts.since
        self._trunk = trunk
        # Another hub's lane: the plan's version of this hub's FOLLOW, and the epoch announced to subscribers.
        self.asked = 0
        self.told_epoch = 0
        # Subscribers that had left the lane out before the plan named it again: they need its beginning.
        self.due: set[Subscriber] = set()
        # Another hub's lane: number of dead incarnations of that hub whose last messages of the lane wait here.
        self.deaths = 0
        # Another hub's lane: it has ended, and the plan names it again. The new lane begins with its first message.
        self.has_ended = False
        # The same object: subscribers of the topic are subscribers of its lanes.
        self.members = trunk.members

    def begins(self, epoch: int) -> bool:
        """Whether this hub has not followed the lane before; if so, start at its first message.

        After a lane has ended, its successor is a new lane, without a gap between the two.
        """
        is_new = not self.epoch or self.has_ended
        if is_new:
            self.has_ended = False
            self.jump(epoch, 0)
        return is_new

    @property
    def trunk(self) -> Topic:
        return self._trunk

    @property
    def key(self) -> bytes:
        return lane_key(self.hub, self.name)

    @property
    def lane(self) -> bytes:
        return self.hub.encode()


def lane_push(lane: Lane) -> bytes:
    """The push that announces a lane: the subscriber receives the lane from the next position on."""
    words = (bulk(b"eq.lane"), bulk(lane.name), bulk(lane.lane))
    return push((*words, integer(lane.epoch), integer(lane.n)), 3)


def ended_push(lane: Lane, epoch: int, n: int) -> bytes:
    words = (bulk(b"eq.ended"), bulk(lane.name), bulk(lane.lane))
    return push((*words, integer(epoch), integer(n)), 3)
