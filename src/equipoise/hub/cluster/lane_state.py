"""State of a topic beside its trunk at one hub: lanes, marks, and followers of each stream.

A lane is a stream of the topic that another home than the first numbers (docs/decisions/0006). Here it is a topic of
its own that shares the name and the subscribers of the trunk, so that everything that serves topics serves lanes, and
code that judges or counts by name means the topic. Hubs name it among themselves by its key, which no client may use as
the name of a topic; clients know it by the name of its hub.

Always true: a lane is in `TopicIndex.lanes` and among its trunk's `beside.lanes`, or over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.data.topic import LANE_PREFIX, Topic
from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.data.subscriber import Subscriber

__all__ = ["Facts", "Lane", "TopicLanes", "ended_push", "lane_key", "lane_push", "parse_lane_key"]


def lane_key(hub: str, topic: bytes) -> bytes:
    """The name of a hub has no slash."""
    return b"%b%b/%b" % (LANE_PREFIX, hub.encode(), topic)


def parse_lane_key(key: bytes) -> tuple[str, bytes] | None:
    """Hub and topic of a lane; None if the key is the name of a topic."""
    if not key.startswith(LANE_PREFIX):
        return None
    hub, _, topic = key[len(LANE_PREFIX) :].partition(b"/")
    return hub.decode("utf-8", "replace"), topic


class Facts:
    """What a hub knows of a lane from its plans and from the lane's hub, whether or not it has the topic."""

    __slots__ = ("dropped", "is_over", "since")

    def __init__(self, since: int, *, dropped: int = 0) -> None:
        # The first of the plans, without a break up to the present one, that name it.
        self.since = since
        # The plan that named it no more; 0: the present one does.
        self.dropped = dropped
        # Whether its hub has said that it has ended; a plan that names it begins another.
        self.is_over = False


class TopicLanes:
    """Owned by one topic: made when there is anything to hold. `lanes` is empty for a lane."""

    __slots__ = ("absent", "after", "lanes", "opened", "over")

    def __init__(self) -> None:
        # By hub.
        self.lanes: dict[str, Lane] = {}
        # Positions that every message of this stream from now on comes after: by the other stream, epoch and n.
        self.after: dict[bytes, tuple[int, int]] = {}
        # Streams among those that were known to be over when this was last looked at.
        self.over: set[bytes] = set()
        # Smart subscribers of the topic that get this stream elsewhere.
        self.absent: set[Subscriber] = set()
        # Of a trunk that lives here: its epoch, and the end that it follows.
        self.opened: tuple[int, int, int] | None = None


class Lane(Topic):
    """One lane at one hub, its own or another's. Made and ended by `lanes`."""

    __slots__ = ("_trunk", "asked", "deaths", "due", "facts", "has_ended", "hub", "named", "told_epoch")

    def __init__(self, trunk: Topic, hub: str, facts: Facts, *, epoch: int) -> None:
        super().__init__(trunk.name, epoch, is_shard=False)
        self.hub = hub
        self.facts = facts
        # The plan that began it, as far as this hub knows.
        self.named = facts.since
        self._trunk = trunk
        # Another hub's: the plan under which we have asked to follow it, and the epoch that subscribers have received.
        self.asked = 0
        self.told_epoch = 0
        # Subscribers that left the lane out before the plan named it again: they have not received its beginning.
        self.due: set[Subscriber] = set()
        # Another hub's: lives of that hub that are over, and whose last messages of the lane wait here.
        self.deaths = 0
        # Another hub's: the lane has ended, and the plan names it again. The next one begins with its first message.
        self.has_ended = False
        # The very same: who subscribes to the topic subscribes to its lanes.
        self.members = trunk.members

    def begins(self, epoch: int) -> bool:
        """Whether this hub has not followed the lane before: then go to its first message.

        A lane that has ended is another one: nothing is missing between it and this.
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
    """A subscriber that receives this gets the lane from the position after the one it stands at."""
    words = (bulk(b"eq.lane"), bulk(lane.name), bulk(lane.lane))
    return push((*words, integer(lane.epoch), integer(lane.n)), 3)


def ended_push(lane: Lane, epoch: int, n: int) -> bytes:
    words = (bulk(b"eq.ended"), bulk(lane.name), bulk(lane.lane))
    return push((*words, integer(epoch), integer(n)), 3)
