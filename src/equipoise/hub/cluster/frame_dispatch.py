"""Execute frames of other hubs: find the topic of a frame and call the responsible part."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from equipoise.errors import ProtocolError
from equipoise.hub.cluster.filter_dispatch import filter_handlers
from equipoise.hub.cluster.link.frames import (
    AfterFrame,
    AgainFrame,
    AskFrame,
    AtFrame,
    AttachedFrame,
    CancelFrame,
    CloseFrame,
    CountsFrame,
    DeadFrame,
    DoneFrame,
    EchoFrame,
    EgressFrame,
    FollowFrame,
    Frame,
    FromFrame,
    IngressFrame,
    LaneFrame,
    LeaseFrame,
    LeaveFrame,
    LossFrame,
    MissedFrame,
    NoPatternFrame,
    NumberedFrame,
    OpenedFrame,
    OverFrame,
    PatternedFrame,
    PatternFrame,
    PreparedFrame,
    PrepareFrame,
    ProbeFrame,
    RecountedFrame,
    RecountFrame,
    RemainderFrame,
    RenewedFrame,
    ResentFrame,
    RunFrame,
    SeenFrame,
    SettledFrame,
    SeveredFrame,
    SeverFrame,
    Tag,
    TearFrame,
    TokensFrame,
    WaitingFrame,
)
from equipoise.hub.cluster.streams import State, Stream
from equipoise.hub.data.region_counts import parse_count
from equipoise.hub.data.topics import LANE_PREFIX
from equipoise.stream.handover_events import CancelReceived, CloseReceived, OpenedReceived, PreparedReceived
from equipoise.stream.parts import Again
from equipoise.stream.relay import Arrival
from equipoise.stream.submission import NOWHERE, Path, Submission

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.data.topics import Topic

__all__ = ["FrameDispatch"]

AnyFrame = TypeVar("AnyFrame", bound=Frame)


class FrameDispatch:
    """Owned by one cluster. Always true: every type of frame has a handler."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._handlers: dict[type[Frame], Callable[[str, Any], None]] = {}
        self._handle_messages()
        self._handle_streams()
        self._handle_plans()
        self._handle_questions()
        self._handlers.update(filter_handlers(cluster, self._find))
        self._handlers.update(cluster.calls.handlers)
        self._handlers.update(cluster.redirects.seats.handlers)
        self._handlers.update(
            cluster.followers.handlers(lambda key, is_made: self._find(key, is_made=is_made))
        )

    def execute(self, peer: str, frame: Frame) -> None:
        """Execute a frame of a live peer."""
        self._handlers[type(frame)](peer, frame)

    def _on(self, frame_type: type[AnyFrame], handler: Callable[[str, AnyFrame], None]) -> None:
        self._handlers[frame_type] = handler

    # Handlers by type of frame.

    def _handle_messages(self) -> None:
        self._on(IngressFrame, self._ingress)
        self._on(RunFrame, self._run)
        self._on(FromFrame, self._from)
        self._on(SeenFrame, self._seen)
        self._on(LossFrame, self._loss)
        self._on(TearFrame, self._loss)
        self._on(NumberedFrame, self._numbered)
        self._on(RecountFrame, self._recount)
        self._on(RecountedFrame, self._recounted)
        self._on(MissedFrame, lambda peer, frame: self._cluster.patterns.missed(frame.topic))
        self._on(EgressFrame, self._egress)

    def _handle_streams(self) -> None:
        lanes, patterns, trees = self._cluster.lanes, self._cluster.patterns, self._cluster.trees
        self._on(AttachedFrame, self._attached)
        self._on(RenewedFrame, lambda peer, frame: trees.renewed(self._stream(frame.topic), peer, frame))
        self._on(OpenedFrame, self._opened)
        self._on(AfterFrame, self._after)
        self._on(AgainFrame, self._again)
        self._handlers.update(self._cluster.flushes.handlers(self._find))
        self._on(PatternFrame, lambda peer, frame: patterns.added(peer, frame.pattern, frame.ticket))
        self._on(NoPatternFrame, lambda peer, frame: patterns.removed(peer, frame.pattern))
        self._on(PatternedFrame, lambda peer, frame: patterns.confirmed(peer, frame.pattern, frame.ticket))
        self._on(SettledFrame, lambda peer, frame: lanes.receive_settled(peer, frame.version))
        self._on(LaneFrame, lambda peer, frame: lanes.receive_lane(peer, frame.key))
        self._on(FollowFrame, self._follow)
        self._on(OverFrame, self._over)
        self._handlers.update(lanes.returns.handlers(self._find))

    def _handle_plans(self) -> None:
        self._on(DoneFrame, self._done)
        self._on(DeadFrame, self._dead)
        self._on(ResentFrame, self._resent)
        self._on(LeaveFrame, lambda peer, frame: self._cluster.leaving.receive(peer, frame.step))
        self._on(PrepareFrame, self._prepare)
        self._on(PreparedFrame, self._prepared)
        self._on(CancelFrame, self._cancel)
        self._on(CloseFrame, self._close)
        self._on(TokensFrame, self._tokens)
        self._on(RemainderFrame, self._remainder)
        self._on(WaitingFrame, self._waiting)

    def _handle_questions(self) -> None:
        cluster, probing = self._cluster, self._cluster.core.places.probing
        self._on(
            AskFrame,
            lambda peer, frame: cluster.position_queries.receive_query(
                peer, frame.key, self._find(frame.key)
            ),
        )
        self._on(AtFrame, self._at)
        self._on(SeverFrame, lambda peer, frame: cluster.severing.receive_sever(peer, frame.link))
        self._on(SeveredFrame, lambda peer, frame: cluster.severing.severed(peer, frame.link))
        self._on(CountsFrame, self._counts)
        self._on(LeaseFrame, lambda peer, frame: cluster.core.lease.receive(cluster, peer, frame))
        self._on(ProbeFrame, lambda peer, frame: probing.receive_probe(cluster, peer, frame.token))
        self._on(
            EchoFrame, lambda peer, frame: probing.receive_echo(cluster, peer, frame.token, frame.coordinate)
        )

    def _counts(self, peer: str, frame: CountsFrame) -> None:
        try:
            counts = [parse_count(word) for word in frame.payloads]
        except ValueError:
            raise ProtocolError("EQ.L.COUNTS without counts") from None
        index = self._cluster.core.index
        index.recount(index.counts.update(peer, counts, is_first=frame.is_first))

    # Ingress and egress of messages.

    def _ingress(self, peer: str, frame: IngressFrame) -> None:
        cluster = self._cluster
        path = (*frame.path, (peer, cluster.out[peer].incarnation))
        topic = self._find(frame.key, is_made=True)
        if topic is None:
            self._give_up(path, frame.key, len(frame.payloads))
        else:
            cluster.ingress.submit(topic, Submission(path, frame.version, frame.payloads, frame.tags))

    def _run(self, peer: str, frame: RunFrame) -> None:
        cluster = self._cluster
        path = ((peer, cluster.out[peer].incarnation),)
        topic = self._find(frame.key, is_made=True)
        if topic is None:
            self._give_up(path, frame.key, len(frame.payloads))
        else:
            item = Submission(path, frame.version, frame.payloads, sequence=frame.sequence)
            cluster.ingress.submit(topic, item)

    def _from(self, peer: str, frame: FromFrame) -> None:
        stream = self._followed(frame.key)
        if stream is not None and not stream.state.is_home:
            stream.seen[peer, (frame.hub, frame.incarnation)] = frame.sequence

    def _seen(self, peer: str, frame: SeenFrame) -> None:
        stream = self._stream(frame.key)
        if stream is not None:
            self._cluster.failover.receive_seen(stream, frame.sequence)

    def _loss(self, peer: str, frame: LossFrame | TearFrame) -> None:
        path = (*frame.path, (peer, self._cluster.out[peer].incarnation))
        topic = self._find(frame.key, is_made=True)
        if topic is None:
            self._give_up(path, frame.key, frame.count)
        else:
            is_doubtful = isinstance(frame, TearFrame)
            item = Submission(path, frame.version, (), frame.tags, frame.count, is_doubtful)
            self._cluster.ingress.submit(topic, item)

    def _give_up(self, path: Path, key: bytes, count: int) -> None:
        """Drop messages: there is no room for their topic, and their publishers may have a reply already."""
        cluster = self._cluster
        cluster.ingress.dropped += count
        cluster.ingress.acknowledge(path, key, count, NOWHERE)
        if key.startswith(LANE_PREFIX):
            return
        # A hub whose offer was refused for lack of room keeps the topic.
        home = cluster.handover.refused.get(key, (cluster.router.home(key), 0))[0]
        if home is not None and home != cluster.name:
            # With a path that no message has, because no message here waits for the acknowledgement.
            cluster.tell(home, LossFrame(key, cluster.router.version, ((cluster.name, 0),), (), count))
            return
        cluster.patterns.send_missed(key)

    def _numbered(self, peer: str, frame: NumberedFrame) -> None:
        stream = self._stream(frame.key)
        if stream is not None:
            self._cluster.ingress.acked(stream, peer, frame.path, frame.count, (frame.epoch, frame.n))
            self._acknowledged(stream)

    def _recount(self, peer: str, frame: RecountFrame) -> None:
        stream = self._stream(frame.key)
        path = (*frame.path, (peer, self._cluster.out[peer].incarnation))
        count = 0 if stream is None else stream.admission.outstanding(path)
        self._cluster.tell(peer, RecountedFrame(frame.key, frame.path, frame.ticket, count))

    def _recounted(self, peer: str, frame: RecountedFrame) -> None:
        stream = self._stream(frame.key)
        if stream is not None:
            self._cluster.ingress.recounted(stream, peer, frame.path, frame.ticket, frame.count)
            self._acknowledged(stream)

    def _acknowledged(self, stream: Stream) -> None:
        """The home has acknowledged messages that this hub sent it."""
        self._cluster.ways.progressed(stream.topic.trunk)
        if stream.state is State.OPEN:
            self._cluster.handover.review(stream)

    def _egress(self, peer: str, frame: EgressFrame) -> None:
        epochs = self._cluster.core.epochs
        if frame.epoch > epochs.last:
            epochs.note(frame.epoch)
        stream = self._followed(frame.key)
        if stream is not None and not stream.state.is_home:
            self._cluster.merging.egress(stream, peer, frame.epoch, frame.first, frame.payloads)
        elif stream is None and not frame.key.startswith(LANE_PREFIX):
            self._cluster.patterns.missed(frame.key)

    # Followed streams.

    def _attached(self, peer: str, frame: AttachedFrame) -> None:
        self._cluster.core.note_epoch(frame.epoch)
        stream = self._stream(frame.key)
        if stream is not None and not stream.state.is_home and stream.ticket == frame.ticket:
            self._cluster.merging.attached(stream, peer, frame.epoch, frame.n)

    def _opened(self, peer: str, frame: OpenedFrame) -> None:
        self._cluster.core.note_epoch(frame.epoch)
        stream = self._followed(frame.topic)
        if stream is not None and not stream.state.is_home:
            after = (frame.hub, frame.former_epoch, frame.former_n)
            self._cluster.handover.handle(stream, OpenedReceived(frame.hub))
            self._cluster.merging.opened(stream, peer, frame.epoch, after)

    def _after(self, peer: str, frame: AfterFrame) -> None:
        stream = self._followed(frame.key)
        if stream is not None and not stream.state.is_home:
            mark = Tag(frame.stream, frame.after_epoch, frame.after_n)
            self._cluster.merging.depends(stream, peer, frame.epoch, mark)

    def _again(self, peer: str, frame: AgainFrame) -> None:
        stream = self._followed(frame.topic)
        if stream is not None and not stream.state.is_home:
            part = Again(frame.epoch, frame.n)
            self._cluster.merging.arrive(stream, Arrival(peer, frame.epoch, part))

    def _follow(self, peer: str, frame: FollowFrame) -> None:
        link = self._cluster.out.get(peer)
        if link is not None:
            self._cluster.lanes.followers.receive_follow(link, frame.key, frame.version, frame.ticket)

    def _over(self, peer: str, frame: OverFrame) -> None:
        stream = self._stream(frame.key)
        if stream is not None and not stream.state.is_home:
            self._cluster.merging.over(stream, peer, frame.epoch, frame.n)

    # Plans and handovers.

    def _done(self, peer: str, frame: DoneFrame) -> None:
        self._cluster.barrier.receive_done(peer, (frame.version, frame.digest), frame.epoch)

    def _dead(self, peer: str, frame: DeadFrame) -> None:
        life = (frame.hub, frame.incarnation)
        self._cluster.declare_dead(life)
        self._cluster.feeders.hub_died(peer, life)

    def _resent(self, peer: str, frame: ResentFrame) -> None:
        self._cluster.failover.receive_resent(peer, (frame.hub, frame.incarnation))

    def _prepare(self, peer: str, frame: PrepareFrame) -> None:
        topic = self._find(frame.topic, is_made=True)
        if topic is None:
            self._cluster.handover.refuse(frame.topic, peer, frame.version)
        else:
            self._cluster.handover.offered(topic, peer, frame.version)

    def _prepared(self, peer: str, frame: PreparedFrame) -> None:
        stream = self._stream(frame.topic)
        if stream is not None:
            self._cluster.handover.handle(stream, PreparedReceived(peer, frame.version))

    def _cancel(self, peer: str, frame: CancelFrame) -> None:
        stream = self._stream(frame.topic)
        self._cluster.handover.forget_offers(peer, frame.topic)
        if stream is not None:
            self._cluster.handover.handle(stream, CancelReceived(peer, frame.version))

    def _close(self, peer: str, frame: CloseFrame) -> None:
        self._cluster.core.note_epoch(frame.epoch)
        stream = self._stream(frame.topic)
        if stream is not None:
            self._cluster.handover.handle(stream, CloseReceived(peer, frame.epoch, frame.n))

    def _tokens(self, peer: str, frame: TokensFrame) -> None:
        topic = self._find(frame.topic)
        if topic is not None:
            self._cluster.limits.receive_tokens(topic, peer, frame)

    def _remainder(self, peer: str, frame: RemainderFrame) -> None:
        topic = self._find(frame.topic)
        if topic is not None:
            self._cluster.limits.receive_remainder(topic, peer, frame)

    def _waiting(self, peer: str, frame: WaitingFrame) -> None:
        topic = self._find(frame.key)
        if topic is not None:
            self._cluster.limits.receive_waiting(topic, peer, frame.count)

    def _at(self, peer: str, frame: AtFrame) -> None:
        at = (frame.epoch, frame.n)
        self._cluster.position_queries.receive_reply(peer, frame.key, at, is_there=frame.is_home)

    # Lookup.

    def _stream(self, key: bytes) -> Stream | None:
        topic = self._find(key)
        return None if topic is None else topic.stream

    def _find(self, key: bytes, *, is_made: bool = False) -> Topic | None:
        """An existing topic or lane, with all peer events applied; `is_made` creates a missing topic."""
        core = self._cluster.core
        topic: Topic | None = core.index.topics.get(key)
        if topic is None and key.startswith(LANE_PREFIX):
            topic = core.index.lanes.get(key)
        elif topic is None and is_made:
            topic = core.make_topic(key)
        if topic is not None and topic.trunk.news != self._cluster.news.latest:
            self._cluster.news.tell(topic)
        return topic

    def _followed(self, key: bytes) -> Stream | None:
        """The stream of a peer's frame. Creates the topic if a client of this hub has a matching pattern."""
        topic = self._find(key)
        if (
            topic is None
            and not key.startswith(LANE_PREFIX)
            and self._cluster.subscriptions.has_pattern_for(key)
        ):
            topic = self._find(key, is_made=True)
        return None if topic is None else topic.stream
