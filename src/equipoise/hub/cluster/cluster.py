"""One hub in a cluster: its peers, the links to them, and the parts that execute their frames.

Pure, like the core: `membership` brings views, `dialer` brings connections, and all work happens in callbacks of one
event loop.

Always true:
    there is an outgoing link to exactly the other hubs that are alive;
    a topic has a Stream unless this hub is its home and no other hub is involved.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from equipoise.hub.cluster.barrier import Barrier
from equipoise.hub.cluster.control_links import ControlLinks
from equipoise.hub.cluster.dependencies import Dependencies
from equipoise.hub.cluster.epoch_flush import EpochFlush
from equipoise.hub.cluster.failover import Failover
from equipoise.hub.cluster.feeders import Feeders
from equipoise.hub.cluster.followers import Followers
from equipoise.hub.cluster.frame_dispatch import FrameDispatch
from equipoise.hub.cluster.handover_engine import HandoverEngine
from equipoise.hub.cluster.handover_throttle import HandoverThrottle
from equipoise.hub.cluster.home_positions import HomePositions
from equipoise.hub.cluster.ingress import Ingress
from equipoise.hub.cluster.interests import Interests
from equipoise.hub.cluster.lanes import Lanes
from equipoise.hub.cluster.leaving import Leaving
from equipoise.hub.cluster.link.capabilities import capabilities_of_verbs
from equipoise.hub.cluster.link.capability import PROBE
from equipoise.hub.cluster.link.codec import unsent_messages
from equipoise.hub.cluster.link.frame import Frame, Life
from equipoise.hub.cluster.link.frames import DeadFrame, EchoFrame, ProbeFrame
from equipoise.hub.cluster.link.incoming import InLink
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.cluster.log_calls import LogCalls
from equipoise.hub.cluster.loss_disconnects import disconnect_on_loss
from equipoise.hub.cluster.named_positions import NamedPositions
from equipoise.hub.cluster.patterns import PatternSync
from equipoise.hub.cluster.peer_events import PeerEvents
from equipoise.hub.cluster.peer_filters import PeerFilters
from equipoise.hub.cluster.peer_greeting import PeerGreeting, death_notice
from equipoise.hub.cluster.ports import Dials
from equipoise.hub.cluster.position_query import PositionQueries
from equipoise.hub.cluster.publish_route import ClientAcks, PublishRouting
from equipoise.hub.cluster.rate_limits import RateLimits
from equipoise.hub.cluster.redirects import TopicRedirects
from equipoise.hub.cluster.relay_merge import RelayedStreams
from equipoise.hub.cluster.relays import Publish, Relays, relays_of
from equipoise.hub.cluster.router import Router, Routing
from equipoise.hub.cluster.severing import LinkSevering
from equipoise.hub.cluster.stream_gc import StreamGc
from equipoise.hub.cluster.streams import Stream
from equipoise.hub.cluster.subscriber_counts import SubscriberCounts
from equipoise.hub.cluster.subscription_barrier import SubscriptionBarrier
from equipoise.hub.cluster.trees import Trees
from equipoise.hub.content.content_edge import ContentEdge
from equipoise.resp import RequestReader
from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.topics import Topic

__all__ = ["Cluster"]

log = logging.getLogger("equipoise.hub")


class Cluster:
    """Owned by HubCore. Changes through `apply`, frames of other hubs, and calls of the core for its clients."""

    def __init__(self, core: HubCore, dials: Dials) -> None:
        settings = core.settings.cluster
        self.core, self.name = core, core.settings.name
        self.router = Router(self.name, core.incarnation)
        self.out: dict[str, OutLink] = {}
        self.incoming: dict[str, InLink] = {}
        self.failover, self.feeders = Failover(self), Feeders(self)
        self.leaving = Leaving(self)
        self.ingress = Ingress(self, settings.pending_bytes_max)
        self.merging = RelayedStreams(self, settings.pending_bytes_max)
        self.caught_up = self.merging.wake
        self.asked = PeerFilters(self)
        self.interests = Interests(self)
        self.trees, self.flushes = Trees(self), EpochFlush(self)
        self.followers: Followers = Followers(self)
        self.take_in, self.answer_waiting = self.followers.take_in, self.followers.answer_waiting
        self.handover = HandoverEngine(self)
        self.moves = HandoverThrottle(self, settings.moves_max, settings.handover_retry_s)
        self.news = PeerEvents()
        self.patterns = PatternSync(self)
        self.barrier, self.limits = Barrier(self), RateLimits(self)
        self.lanes = Lanes(self)
        self.tags = Dependencies(self)
        self.position_queries, self.named_positions = PositionQueries(self), NamedPositions(self)
        self.home_positions = HomePositions(self)
        self.ways = PublishRouting(self)
        self.admit = self.ways.admit
        self.subscriptions = SubscriptionBarrier(self)
        if settings.disconnect_on_loss:
            disconnect_on_loss(core)
        self.receipts = ClientAcks(self)
        self.severing = LinkSevering(self)
        self.redirects: TopicRedirects = TopicRedirects(self, settings)
        self.control = ControlLinks(self, dials)
        self.edge = ContentEdge(self)
        self.edge.head.publishers.count_for(self.redirects)
        self.counts = SubscriberCounts(core, self.out)
        self.calls: LogCalls = LogCalls(self)
        self._settings, self._dials, self._last_ticket = settings, dials, 0
        # Whether this incarnation is registered in the routing, and whether it has ended.
        self.is_seen = self._is_over = False
        self._stream_gc = StreamGc(self, settings.unsubscribe_delay_s)
        self.frames, self.greeting = FrameDispatch(self), PeerGreeting(self)
        self.relays: Relays | None = relays_of(self)
        self.submit: Publish = self.ways.publish if self.relays is None else self.relays.submit

    # --- routing

    def apply(self, routing: Routing) -> None:
        """Apply a new plan or a new set of live hubs.

        If this hub is no longer in the set, the other hubs have declared it dead, or will soon.
        """
        if self._is_over:
            return
        own = routing.hubs.get(self.name)
        is_seen = own is not None and own.incarnation == self.core.incarnation
        if self.is_seen and not is_seen:
            self.declared_dead()
            return
        self.is_seen = is_seen
        self._follow(self.router.apply(routing))

    def declare_dead(self, life: Life) -> None:
        """A peer reports that an incarnation has ended. Its next frames depend on that, so apply it before them."""
        if life == (self.name, self.core.incarnation):
            self.declared_dead()
        elif self.router.declare_dead(life):
            self._follow([life])

    def declared_dead(self) -> None:
        """The other hubs have declared this incarnation dead."""
        if not self._is_over:
            self._is_over = True
            self._dials.declared_dead()

    def _follow(self, ended: list[Life]) -> None:
        """The routing has changed: end links to dead hubs, open links to new ones, evaluate topics."""
        peers = self.router.peers
        self.limits.shares.applied(has_deaths=bool(ended))
        for life in ended:
            self.feeders.ended(life)
            self.failover.ended(life)
            for name in peers:
                self.tell(name, DeadFrame(*life))
        for name, link in list(self.out.items()):
            facts = peers.get(name)
            if facts is None or facts.incarnation != link.incarnation:
                self._drop_peer(name)
        for name, facts in peers.items():
            if name not in self.out:
                link = OutLink(name, facts.incarnation, self._settings.link_bytes_max, self._overflowed)
                link.capabilities = capabilities_of_verbs(facts.verbs)
                self.out[name] = link
                self.feeders.met(name)
                self._introduce(link)
                self._dials.dial(link, facts)
        for entry in self.router.replicated:
            if self.router.is_follower(entry.topic):
                self.core.make_topic(entry.topic)
        self.lanes.apply()
        self.barrier.follow()
        self.calls.routed()
        self.edge.routed()
        self.severing.routed()

    @property
    def is_barrier_passed(self) -> bool:
        return self.barrier.is_passed and self.failover.is_over

    def progressed(self) -> None:
        """Other hubs have reported progress: continue what waits for it."""
        if self.barrier.is_introduced:
            # First, because other hubs wait for it.
            self.failover.progressed()
            self.limits.routing_progressed()
            self.lanes.introduced()
            if self.is_seen:
                self.subscriptions.introduced()
            if self.barrier.has_progressed:
                self.handover.review_opening()
            self.lanes.settle()

    def _drop_peer(self, name: str) -> None:
        link = self.out.pop(name)
        self.control.peer_gone(name)
        has_left = self.leaving.has_left(name)
        self.leaving.forget(name)
        self.failover.peer_gone(name)
        self.failover.report_passed(name)
        self.counts.peer_gone(name)
        unsent = unsent_messages(link.end_for_good(), RequestReader(self.core.link_limits))
        self._dials.hang_up(link)
        if name in self.incoming and not has_left:
            # The hub may be running: it must accept nothing more from its clients.
            self.incoming[name].end(death_notice((name, link.incarnation)))
        self._discard_state(name, link, has_left=has_left)
        self.core.places.probing.peer_gone(name)

        def apply_event(topic: Topic) -> None:
            stream = self._detach(topic, name, link)
            if stream is not None:
                self.failover.report(stream, name)
                self.ingress.lost += stream.admission.origin_died(name)
                self.ingress.target_died(stream, name, unsent.get(topic.key, ()))
                self.merging.peer_gone(stream, name)

        self.news.add(apply_event)
        self.feeders.died(name, has_left=has_left)
        self.patterns.peer_died(name)
        self.lanes.hub_died(name)

    def renewed(self, name: str, link: OutLink) -> None:
        """A hub's link to this hub has restarted: its unreceived frames are void; this hub's own frames are not."""
        self._discard_state(name, link)
        self.failover.doubt(name)

        def apply_event(topic: Topic) -> None:
            stream = self._detach(topic, name, link)
            if stream is not None:
                self.ingress.void(stream, name, may_be_lost=False)
                self.merging.peer_gone(stream, name)

        self.news.add(apply_event)
        self.patterns.ask_again(name)
        self.barrier.evaluate_all()

    def _discard_state(self, name: str, link: OutLink, *, has_left: bool = False) -> None:
        if not has_left:
            self.merging.hub_lost()
        self.incoming.pop(name, None)
        self.barrier.forget(name)
        self.handover.forget_offers(name)
        self.core.index.remove_pattern_relays(link)
        self.lanes.followers.link_gone(link)
        self.followers.link_gone(link)
        self.position_queries.peer_gone(name)
        self.severing.peer_gone(name)
        self.calls.peer_gone(name)
        self.core.index.recount(self.core.index.counts.forget(name))

    def _detach(self, topic: Topic, name: str, link: OutLink) -> Stream | None:
        self.asked.forget(topic, link)
        if topic.relays and link in topic.relays:
            self.core.index.remove_relay(topic, link)
        stream = topic.stream
        if stream is not None:
            stream.relays_waiting.pop(link, None)
            if stream.peer == name:
                self.ways.unsure(topic)
            self.handover.hub_died(stream, name)
        return stream

    # --- links

    def tell(self, peer: str, frame: Frame) -> None:
        """Send a frame to a hub, if it is alive and has the frame's capability."""
        if (link := self.out.get(peer)) is not None:
            link.send(frame)

    def new_ticket(self) -> int:
        self._last_ticket += 1
        return self._last_ticket

    def _introduce(self, link: OutLink) -> None:
        """Send the first frames of a link: the state of this hub that the peer needs before all else."""
        for hub, incarnation in self.router.dead:
            link.send(DeadFrame(hub, incarnation))
        self.patterns.introduce(link)
        self.lanes.introduce(link)
        self.position_queries.introduce(link)
        self.severing.introduce(link.hub)
        self.barrier.introduce(link)
        self.failover.introduce(link)
        self.counts.sync(link, is_restarted=True)

    def _overflowed(self, link: OutLink) -> None:
        """The link has failed: its buffer is full, or the peer found an error in its frames.

        This may happen during any write, so the next generation begins in a turn of its own.
        """
        log.warning("link to %s restarts: frames not executed there are lost, and counted", link.hub)
        self._dials.redial(link)
        self.core.shell.call_later(0, self._restart_link, link)

    def _restart_link(self, link: OutLink) -> None:
        """Begin the next generation of a link: repeat all requests to the peer."""
        if self.out.get(link.hub) is not link:
            return
        link.is_fallen = False
        # The peer must receive the offers of streams that leave this hub before it receives DONE.
        self.barrier.withdraw()
        self._introduce(link)
        self.calls.peer_gone(link.hub)

        def apply_event(topic: Topic) -> None:
            if topic.stream is not None:
                self.ingress.void(topic.stream, link.hub, may_be_lost=True)
                self.merging.peer_gone(topic.stream, link.hub, is_gone=False)

        self.news.add(apply_event)
        # After that: messages that waited for room follow the lost ones.
        self.ingress.has_room(link)
        self.barrier.evaluate_all()

    # --- for the core and its clients

    is_alone: Final = False

    def can_probe(self, peer: str) -> bool:
        link = self.out.get(peer)
        return peer in self.incoming and link is not None and link.can(PROBE)

    def send_probe(self, peer: str, token: int) -> None:
        self.tell(peer, ProbeFrame(token))

    def send_echo(self, peer: str, token: int, coordinate: bytes) -> None:
        self.tell(peer, EchoFrame(token, coordinate))

    def adopt(self, topic: Topic) -> None:
        topic.news = self.news.latest
        self.handover.adopt(topic)
        self.lanes.adopt(topic)
        self.ways.retarget(topic)
        self.limits.adopt(topic, self.core.specs.of(topic))

    def waiting_for(self, topic: Topic) -> str:
        reason = self.ingress.reason(topic)
        return "" if reason is None else reason.value

    def announce(self, topic: Topic, epoch: int, after_epoch: int, after_n: int, at: int = 0) -> None:
        """Notify smart clients that the stream continues in another epoch, or after position `at` of it.

        An epoch without a known predecessor is announced by its first message. That is too late if the publisher's
        next message may be in a lane.
        """
        has_begun = topic.epoch > 0 and topic.beside is not None and len(topic.beside.lanes) > 0
        if after_epoch or has_begun:
            numbers = map(integer, (epoch, after_epoch, after_n, *((at,) if at else ())))
            self.subscriptions.push(topic, push((bulk(b"eq.opened"), bulk(topic.name), *numbers), 3))

    def announce_loss(self, trunk: Topic) -> None:
        """A lane begins: announce a loss that no message has followed yet, as the next message may be in the lane."""
        if trunk.epoch and not trunk.n and trunk.log is None:
            self.announce(trunk, trunk.epoch, 0, 0)

    def close(self) -> None:
        self._is_over = True
        timed = (self._stream_gc, self.asked, self.interests, self.limits, self.moves, self.redirects)
        for part in (*timed, self.followers, self.edge, self.counts, self.calls, self.control):
            part.close()
        for link in list(self.out.values()):
            link.end_for_good()
            self._dials.hang_up(link)
        self.out.clear()
        self.incoming.clear()
