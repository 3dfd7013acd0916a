"""Lanes of topics at this hub: which exist, when they begin and end, and their subscribers.

A topic in mode `all-subscribers` has a lane at each home of its entry but the first (docs/decisions/0006). Lanes are
defined by the plan alone, so the barrier of each plan covers lanes too:

    a hub that applies a plan follows the new lanes of the topics that it needs, then sends DONE;
    the lane's hub, after DONE of all hubs, sends SETTLED: its lanes are open, and publishers may use them;
    a hub that applies a plan without the lane sends no more messages to it, then sends DONE;
    the lane's hub, after DONE of all hubs, ends the lane (OVER), then sends SETTLED.

So every hub has registered a lane from before its first message until after its last, and no subscriber misses a
message of it. A hub that joins receives the lanes when links are introduced, and confirms no subscription before.

Always true: a topic of this hub has a lane for each lane in `known` that has not ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.lane_announcements import LaneAnnouncements
from equipoise.hub.cluster.lane_followers import LaneFollowers
from equipoise.hub.cluster.lane_returns import LaneReturns
from equipoise.hub.cluster.lane_state import (
    Facts,
    Lane,
    TopicLanes,
    lane_key,
    parse_lane_key,
)
from equipoise.hub.cluster.link.frames import FollowFrame, LaneFrame, SettledFrame
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.streams import State, Stream
from equipoise.hub.telemetry.meter import gather_lanes
from equipoise.stream.position import TRUNK

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.position_query import PositionQueries
    from equipoise.hub.data.topics import Topic
    from equipoise.stream.submission import Budget

__all__ = ["Lanes"]


class _Ingress(Protocol):
    lost: int

    @property
    def budget(self) -> Budget: ...
    def discard(self, stream: Stream) -> None: ...
    def drain(self, stream: Stream) -> None: ...


class _Subscriptions(Protocol):
    def has_pattern_for(self, name: bytes) -> bool: ...
    def is_kept(self, topic: Topic) -> bool: ...
    def push(self, topic: Topic, frame: bytes) -> None: ...


class _Relays(Protocol):
    def drop_pending(self, stream: Stream) -> None: ...
    def lane_died(self, stream: Stream, hub: str) -> None: ...
    def torn(self, stream: Stream) -> None: ...


class _Dependencies(Protocol):
    def lane_died(self, lane: Lane) -> None: ...
    def forget(self, stream: Stream) -> None: ...
    def moved(self, topic: Topic) -> None: ...
    def tidy(self, trunk: Topic, known: Iterable[bytes]) -> None: ...


class _Routes(Protocol):
    def lane_gone(self, lane: Lane) -> None: ...
    def progressed(self, trunk: Topic) -> None: ...
    def retarget(self, topic: Topic) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def position_queries(self) -> PositionQueries: ...
    @property
    def ingress(self) -> _Ingress: ...
    @property
    def subscriptions(self) -> _Subscriptions: ...
    @property
    def merging(self) -> _Relays: ...
    @property
    def tags(self) -> _Dependencies: ...
    @property
    def ways(self) -> _Routes: ...
    @property
    def is_barrier_passed(self) -> bool: ...
    def announce_loss(self, trunk: Topic) -> None: ...
    def take_in(self, topic: Topic, link: OutLink, ticket: int) -> None: ...


class Lanes:
    """Part of one cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # By topic and hub, all lanes that may be open.
        self.known: dict[bytes, dict[str, Facts]] = {}
        # By hub, this one included, the version of its latest SETTLED.
        self.settled: dict[str, int] = {}
        self._version = 0
        self.announcements = LaneAnnouncements(cluster)
        self.followers = LaneFollowers(cluster)
        self.returns = LaneReturns(cluster)

    # Applying the plan.

    def apply(self) -> None:
        """The plan or the set of live hubs has changed: register its lanes, and create their topics where needed."""
        router = self._cluster.router
        named = router.lanes()
        for name, hubs in named.items():
            known = self.known.setdefault(name, {})
            for hub in hubs:
                self._name(known, hub, router.version)
        for name, known in self.known.items():
            for hub, facts in known.items():
                if not facts.dropped and hub not in named.get(name, ()):
                    facts.dropped = router.version
        self._version = router.version
        for name, known in self.known.items():
            is_wanted = self._cluster.name in known or self._cluster.subscriptions.has_pattern_for(name)
            if is_wanted and (topic := self._cluster.core.make_topic(name)) is not None:
                self.adopt(topic)
        self.followers.answer_waiting()

    def _name(self, known: dict[str, Facts], hub: str, version: int) -> None:
        facts = known.get(hub)
        if facts is None:
            known[hub] = Facts(version)
        elif facts.dropped or facts.is_over or self.settled.get(hub, 0) > self._version:
            # It may have ended under a plan that this hub did not receive: the current plan names a new lane.
            facts.since, facts.dropped, facts.is_over = version, 0, False

    def adopt(self, topic: Topic) -> None:
        """Create the registered lanes of a topic of this hub."""
        for hub, facts in self.known.get(topic.name, {}).items():
            beside = topic.beside = topic.beside or TopicLanes()
            if facts.is_over:
                continue
            if hub in beside.lanes:
                # Its end may still be pending here, while its state was removed and the plan names it again.
                beside.lanes[hub].facts = facts
                continue
            is_own = hub == self._cluster.name
            if is_own and facts.dropped:
                continue
            lane = Lane(topic, hub, facts, epoch=self._cluster.core.new_epoch() if is_own else 0)
            if not is_own:
                lane.stream = Stream(lane, State.REMOTE, hub, self._cluster.ingress.budget)
            beside.lanes[hub] = self._cluster.core.index.lanes[lane.key] = lane
            topic.renew()
            self._cluster.limits.adopt(lane, self._cluster.core.specs.of(lane))
            if is_own:
                self.announcements.begun(lane)

    def evaluate(self, topic: Topic) -> None:
        """Evaluate a topic's lanes after a change of the plan or of the live hubs, before DONE is sent."""
        if topic.beside is None and topic.name not in self.known:
            return
        self.adopt(topic)
        for lane in self.of(topic):
            stream = lane.stream
            if lane.named != lane.facts.since:
                lane.named = lane.facts.since
                self.announcements.begins_anew(lane)
            if stream is not None and lane.hub != self._cluster.name:
                stream.peer = lane.hub if lane.hub in self._cluster.out else None
                self.follow(lane)
                self._cluster.ingress.drain(stream)
        self._cluster.ways.retarget(topic)

    def of(self, topic: Topic) -> list[Lane]:
        return [] if topic.beside is None else list(topic.beside.lanes.values())

    def is_open(self, topic: Topic, hub: str) -> bool:
        """Whether publishers may use the lane: the plan names it, and its hub has sent SETTLED."""
        facts = self.known.get(topic.name, {}).get(hub)
        if facts is None or facts.dropped or facts.is_over:
            return False
        return facts.since <= self.settled.get(hub, 0) <= self._cluster.router.version

    # Following.

    def follow(self, lane: Lane) -> None:
        """Follow the lane if a client here needs it, unless this hub already follows the lane of the current plan."""
        stream = lane.stream
        if stream is None or stream.state is not State.REMOTE or lane.facts.is_over:
            return
        stream.is_kept = self._cluster.subscriptions.is_kept(lane)
        is_asked = stream.source is not None or stream.joining is not None
        if stream.is_wanted and not (is_asked and lane.asked == lane.facts.since):
            lane.asked = lane.facts.since
            if not stream.ticket:
                # A repeated request keeps its ticket: any reply to it is valid.
                stream.ticket = self._cluster.new_ticket()
            if stream.source is None:
                stream.joining = lane.hub
            self._cluster.tell(lane.hub, FollowFrame(lane.key, lane.asked, stream.ticket))

    def began(self, stream: Stream) -> None:
        """This hub now follows the lane."""
        lane = stream.topic
        assert isinstance(lane, Lane), "trunks are opened"
        self.announcements.begun(lane)

    def ended(self, stream: Stream, epoch: int, n: int) -> None:
        """The lane has ended, and all of it was delivered here. Epoch 0: there was no lane."""
        lane = stream.topic
        assert isinstance(lane, Lane), "trunks are closed"
        if self._cluster.core.index.lanes.get(lane.key) is not lane:
            return
        facts, has_died = lane.facts, not epoch and lane.deaths > 0
        if has_died:
            lane.deaths -= 1
            self._cluster.merging.torn(stream)
            self._cluster.tags.lane_died(lane)
        if (epoch and not facts.dropped and not facts.is_over) or (
            has_died and (lane.deaths or not facts.is_over)
        ):
            # The plan names it again, and this hub has sent FOLLOW for the new lane.
            self.announcements.ended(lane, epoch, n)
            stream.source, stream.joining, lane.has_ended = None, lane.hub, True
            # Beyond all of that epoch.
            lane.epoch, lane.n, lane.audience = max(lane.epoch, (epoch or lane.epoch) + 1), 0, None
            return
        facts.is_over = True
        self._remove(lane, epoch, n)

    def _remove(self, lane: Lane, epoch: int, n: int) -> None:
        """Remove an ended lane; streams that wait for it continue without it."""
        trunk, stream = lane.trunk, lane.stream
        gather_lanes(trunk)
        self._cluster.core.index.lanes.pop(lane.key, None)
        if trunk.beside is not None:
            trunk.beside.lanes.pop(lane.hub, None)
        self.announcements.removed(lane, epoch, n)
        waiters = []
        if stream is not None:
            self._cluster.tags.forget(stream)
            self._cluster.merging.drop_pending(stream)
            waiters, stream.waiters = stream.waiters, []
        self._cluster.ways.lane_gone(lane)
        if stream is not None:
            self._cluster.ingress.discard(stream)
        for proceed in waiters:
            proceed()
        self._cluster.tags.moved(trunk)

    def settle(self) -> None:
        """After DONE of all hubs: open this hub's lanes that the plan names, and end its others."""
        version, own = self._cluster.router.version, self._cluster.name
        if self.settled.get(own, 0) == version or not self.is_barrier_passed:
            return
        for name, known in list(self.known.items()):
            facts = known.get(own)
            if facts is not None and facts.dropped and not self._end_own(name):
                return
        self.settled[own] = version
        for link in self._cluster.out.values():
            link.send(SettledFrame(version))
        self.receive_settled(own, version)

    @property
    def is_barrier_passed(self) -> bool:
        """Whether all hubs have sent DONE for the current plan."""
        return self._cluster.is_barrier_passed

    def _end_own(self, name: bytes) -> bool:
        """End a lane of this hub; False if messages in it still wait to be numbered."""
        lane = self._cluster.core.index.lanes.get(lane_key(self._cluster.name, name))
        if lane is None:
            return True
        if not self.returns.give_back(lane):
            return False
        self._cluster.limits.lane_ended(lane)
        self.followers.tell_over(lane)
        self._remove(lane, lane.epoch, lane.n)
        return True

    def tidy(self, topic: Topic) -> None:
        """Remove state of lanes that have ended for good; wake the streams that no longer have to wait."""
        beside = topic.beside
        if beside is None:
            return
        self._cluster.tags.tidy(topic, {TRUNK, *(hub.encode() for hub in self.known.get(topic.name, ()))})
        if not (beside.lanes or beside.after or beside.absent or topic.name in self.known):
            topic.beside = None
            topic.renew()
        self._cluster.tags.moved(topic)

    def unfollowed(self, lane: Lane) -> None:
        """No client here needs the lane any more: if it is over, its hub may send no end."""
        if lane.facts.is_over and lane.stream is not None and not lane.stream.will_end:
            self._remove(lane, 0, 0)

    # Frames.

    def receive_settled(self, hub: str, version: int) -> None:
        """SETTLED: a hub has ended its lanes that this version does not name, and opened those that it names."""
        self.settled[hub] = version
        # First the state of all lanes: what follows may continue streams that settle lanes again.
        affected = [name for name, known in self.known.items() if hub in known]
        ended = {name for name in affected if 0 < self.known[name][hub].dropped <= version}
        for name in ended:
            self._forget(name, hub)
        for name in affected:
            topic = self._cluster.core.index.topics.get(name)
            if name in ended:
                self._cluster.position_queries.lane_over(name, hub)
                lane = None if topic is None or topic.beside is None else topic.beside.lanes.get(hub)
                # A followed lane with pending messages is removed when its end, which is behind them, is delivered.
                if lane is not None and not (lane.stream is not None and lane.stream.will_end):
                    self._remove(lane, 0, 0)
            if topic is not None:
                self._cluster.ways.retarget(topic)
        self._cluster.limits.routing_progressed()

    def receive_lane(self, hub: str, key: bytes) -> None:
        """LANE: a newly linked hub has a lane. If the plan here does not name it, it will end, or a later plan does."""
        parsed = parse_lane_key(key)
        if parsed is None or parsed[0] != hub:
            return
        name = parsed[1]
        known = self.known.setdefault(name, {})
        if hub not in known:
            known[hub] = Facts(0, dropped=max(1, self._version))
        topic = self._cluster.core.index.topics.get(name)
        if topic is None and self._cluster.subscriptions.has_pattern_for(name):
            topic = self._cluster.core.make_topic(name)
        if topic is not None:
            self.evaluate(topic)

    def introduced(self) -> None:
        """All hubs have introduced themselves: begin the lanes, in later epochs than those of former incarnations."""
        if self.followers.is_introduced:
            return
        for lane in self._cluster.core.index.lanes.values():
            if lane.hub == self._cluster.name:
                lane.epoch, lane.audience = self._cluster.core.new_epoch(), None
                self.announcements.begun(lane)
        self.followers.introduced()

    def introduce(self, link: OutLink) -> None:
        """Send the state of this hub's lanes to a newly linked hub."""
        link.send(SettledFrame(self.settled.get(self._cluster.name, 0)))
        for key, lane in self._cluster.core.index.lanes.items():
            if lane.hub == self._cluster.name:
                link.send(LaneFrame(key))

    def _forget(self, name: bytes, hub: str) -> None:
        """The hub's lane of the topic is over."""
        self.known[name].pop(hub).is_over = True
        if not self.known[name]:
            del self.known[name]

    def hub_died(self, hub: str) -> None:
        """The hub is dead: end its lanes, at an unknown position, after their pending messages."""
        self.settled.pop(hub, None)
        for name in [name for name, known in self.known.items() if hub in known]:
            self._forget(name, hub)
        for lane in [lane for lane in self._cluster.core.index.lanes.values() if lane.hub == hub]:
            self._cluster.news.tell(lane)
            self.announcements.hub_died(lane)
            stream = lane.stream
            if stream is not None and stream.pending:
                lane.deaths += 1
                self._cluster.ways.lane_gone(lane)
                self._cluster.merging.lane_died(stream, hub)
            else:
                self._remove(lane, 0, 0)
                self._cluster.tags.lane_died(lane)
