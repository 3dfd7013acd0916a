"""Change the hub's share of each rate limit with the plan: shrink at once, grow after the barrier.

The whole envelope comes from the spec, the shares from the plan. A hub that applies a plan shrinks its shares before it
sends DONE, and grows them once the barrier has passed, so the shares of all hubs never sum up to more than the whole.
A lane that the plan no longer names keeps its share until it has ended, and no share grows before that. Growth by the
share of a dead hub also waits until that hub's lease has ended. A lane that has to end before it got a share gets the
share of the last plan that all hubs applied: no other share has grown since.

A bucket without known history counts as empty at the time from which this hub alone may number the topic (`tenure`).
The trunk's level moves with the topic: the former home sends it before CLOSE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.frames import RemainderFrame, TokensFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.tenure import Tenure, has_lane
from equipoise.hub.cluster.topic_limit import CarriedLevel, TopicLimit
from equipoise.limits import Bucket, Share, equal_parts, nanoseconds, split
from equipoise.limits.shares import NOTHING
from equipoise.model import Entry, Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from equipoise.hub.cluster.lane_state import Facts
    from equipoise.hub.data.topic import Topic

__all__ = ["ShareKeeper"]

# Levels and depths are sent in millionths of a token.
_TOLD = 10**9


class _Lanes(Protocol):
    @property
    def known(self) -> Mapping[bytes, Mapping[str, Facts]]: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def is_barrier_passed(self) -> bool: ...


class ShareKeeper:
    """Owned by RateLimits."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self.tenure = Tenure(cluster.name, nanoseconds(cluster.core.lease.term_s))

    def applied(self, *, has_deaths: bool) -> None:
        """The plan or the live hubs have changed; `follow` then updates the shares topic by topic, before DONE."""
        router = self._cluster.router
        self.tenure.applied(router.routing.plan, router.serving, has_deaths=has_deaths)

    def passed(self) -> None:
        """The barrier of the current routing has passed."""
        self.tenure.passed(nanoseconds(self._cluster.core.shell.fine_now()))

    def follow(self, topic: Topic, limit: TopicLimit) -> None:
        """The plan, the specs or the stream's state may have changed: shrink at once; grow if that is possible."""
        if not topic.is_home:
            planned = self._planned(topic, limit) or limit.envelope.whole
            limit.give_up()
            limit.mirror_share(planned)
            self._shrink_carried(limit, planned)
            return
        limit.wanted = self._wanted(topic, limit)
        common = limit.share.least(limit.wanted)
        if common != limit.share:
            limit.resize(common)
        self.grow(topic, limit)

    def grow(self, topic: Topic, limit: TopicLimit) -> int | None:
        """Grow to the plan's share if no other hub can use it; else return the time of the next attempt, if known."""
        if limit.wanted == limit.share or not topic.is_home or not self._may_grow(topic):
            return None
        now, over_at = limit.now(), self.tenure.deaths_over_at
        if not limit.is_fresh:
            if over_at is None or now < over_at:
                return over_at
            self._grow_known(limit)
            return None
        sole = None if topic.lane or limit.is_claimed else self.tenure.of(topic.name)
        since = now if sole is None else max(sole.since, sole.hold_until)
        if sole is None:
            # A lane begins; or the former home numbered on after the barrier, and its bucket's level is unknown.
            if over_at is None or now < over_at:
                return over_at
        elif now < since:
            return since
        limit.is_fresh = limit.is_claimed = False
        limit.resize(limit.wanted)
        limit.bucket.fill((now - since) * limit.wanted.rate)
        return None

    def _grow_known(self, limit: TopicLimit) -> None:
        """Grow a bucket with known history: the added depth is empty, except for the tokens of ended lanes."""
        left = limit.remainders.take(self._cluster.router.version, limit.wanted.depth - limit.share.depth)
        limit.resize(limit.wanted)
        if left:
            limit.bucket.fill(limit.bucket.last_level + left)

    def _may_grow(self, topic: Topic) -> bool:
        """Whether every hub has shrunk by the current plan, and all lanes that it does not name have ended.

        A lane that the plan does not name waits only for lanes that were dropped before it.
        """
        known = self._cluster.lanes.known.get(topic.name, {})
        own = known.get(topic.lane.decode()) if topic.lane else None
        dropped = own.dropped if own is not None else 0
        others = [facts.dropped for facts in known.values() if facts.dropped]
        return self._cluster.is_barrier_passed and not any(not dropped or one < dropped for one in others)

    def _wanted(self, topic: Topic, limit: TopicLimit) -> Share:
        """The plan's share of the stream; if the plan no longer names it, the share that it needs to end."""
        planned = self._planned(topic, limit)
        if planned is not None or limit.share != NOTHING:
            return planned or limit.share
        entry = self.tenure.last_followed(topic.name, topic.lane.decode())
        return NOTHING if entry is None else _share(entry, topic, limit)

    def _planned(self, topic: Topic, limit: TopicLimit) -> Share | None:
        """The plan's share of the stream; None if the plan does not name it."""
        entry = self._cluster.router.routing.plan.entries.get(topic.name)
        if topic.lane and not has_lane(entry, topic.lane.decode()):
            return None
        if entry is None or entry.mode is not Mode.ALL_SUBSCRIBERS or len(entry.homes) == 1:
            return limit.envelope.whole
        return _share(entry, topic, limit)

    # The level of a topic that moves.

    def closing(self, topic: Topic, limit: TopicLimit, hub: str) -> None:
        """Send the next home the tokens that it takes over; this hub numbers nothing from now on."""
        rate, depth = limit.share
        level = min(limit.bucket.level(limit.now()), depth)
        self._cluster.tell(hub, TokensFrame(topic.name, rate, depth // _TOLD, level // _TOLD))
        limit.give_up()
        limit.carried = None

    def receive_tokens(self, topic: Topic, limit: TopicLimit, hub: str, frame: TokensFrame) -> None:
        """TOKENS: the home that is about to close sends its bucket's level.

        Until this hub opens the topic, the bucket fills at no more than the share of this hub's plan, since other
        shares may grow by what a later plan takes from it.
        """
        bucket = Bucket(frame.rate, frame.depth * _TOLD, limit.now(), level=frame.level * _TOLD)
        limit.carried = CarriedLevel(hub, bucket)
        self._shrink_carried(limit, self._planned(topic, limit) or limit.envelope.whole)

    def _shrink_carried(self, limit: TopicLimit, planned: Share) -> None:
        if limit.carried is not None:
            limit.carried.bucket.resize(*limit.carried.share.least(planned), limit.now())

    # Tokens of lanes that end.

    def lane_ended(self, lane: Topic, limit: TopicLimit) -> None:
        """This hub's lane ends: send its remaining tokens to the trunk's home, before the end of the lane."""
        router, left = self._cluster.router, min(limit.bucket.level(limit.now()), limit.share.depth) // _TOLD
        limit.give_up()
        homes = router.routing.plan.home_of(lane.name, router.serving).homes
        trunk = lane.trunk.limit
        if not homes or not left or trunk is None:
            return
        if homes[0] == self._cluster.name:
            self.receive_remainder(trunk, homes[0], router.version, left)
        else:
            self._cluster.tell(homes[0], RemainderFrame(lane.name, router.version, left))

    def receive_remainder(self, limit: TopicLimit, hub: str, version: int, level: int) -> None:
        """REMAINDER: a lane has ended under this version of the plan, with `level` tokens left."""
        limit.remainders.keep(version, hub, level * _TOLD)

    def opened(self, topic: Topic, limit: TopicLimit, hub: str) -> None:
        """This hub numbers the stream from now on. `hub`: the former home, empty if unknown."""
        carried, limit.carried = limit.carried, None
        limit.give_up()
        if carried is not None and carried.hub == hub and carried.share != NOTHING:
            limit.is_fresh = limit.is_claimed = False
            limit.share, limit.bucket = carried.share, carried.bucket
        elif hub:
            limit.is_claimed = True
        self.follow(topic, limit)


def _share(entry: Entry, topic: Topic, limit: TopicLimit) -> Share:
    """The stream's share by an entry with several homes."""
    shares = split(limit.envelope.whole, entry.shares or equal_parts(len(entry.homes)), entry.depths)
    return shares[entry.homes.index(topic.lane.decode()) if topic.lane else 0]
