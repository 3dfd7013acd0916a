"""Safeguards of hubs in a cluster and of their clients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from equipoise.client.publishing import Publishing
from equipoise.client.topic_publisher import TopicPublisher
from equipoise.client.wire.connection import Connection
from equipoise.hub.access import reauthorization
from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.dependencies import Dependencies
from equipoise.hub.cluster.handover_engine import HandoverEngine
from equipoise.hub.cluster.ingress import Ingress
from equipoise.hub.cluster.lanes import Lanes
from equipoise.hub.cluster.link.frames import PreparedFrame
from equipoise.hub.cluster.link.link import OutLink, Send
from equipoise.hub.cluster.named_positions import NamedPositions
from equipoise.hub.cluster.position_query import PositionQueries
from equipoise.hub.cluster.relay_merge import RelayedStreams
from equipoise.hub.cluster.streams import State, Stream
from equipoise.hub.core import HubCore
from equipoise.hub.data import session
from equipoise.hub.membership.liveness import FailureDetector
from equipoise.hub.membership.region_guard import RegionGuard
from equipoise.lab.simulation.ablation import Ablation, replacing
from equipoise.lab.simulation.checkers import authorised, needless_gap, once, order, progress
from equipoise.lab.simulation.cluster.crash_ablations import CRASH_ABLATIONS
from equipoise.lab.workload.lanes import LaneSubscriber
from equipoise.lab.workload.roving import RovingPublisher
from equipoise.stream.cursor import IN_ORDER, Cursor, Verdict
from equipoise.stream.effects import OpenEpoch, SendPrepared, StateChanged
from equipoise.stream.merge import TopicMerge
from equipoise.stream.relay import RelayMerge
from equipoise.stream.sources import MergedStream, Source
from equipoise.stream.submission import NextHop, Submission, WaitReason

__all__ = ["CLUSTER_ABLATIONS"]


# Between hubs.


def _forget_unacknowledged(link: OutLink, offset: int, send: Send) -> bool:
    link._kept.clear()
    link._unsent.clear()
    link.base = link.end = link.written_to = offset
    link._send = send
    return True


def _never_wait(
    ingress: Ingress, stream: Stream, item: Submission, hop: NextHop | None = None
) -> WaitReason | None:
    is_stuck = not stream.state.is_home and stream.peer not in ingress._cluster.out
    return WaitReason.LINK if is_stuck else None


async def _put_nothing_back(guard: RegionGuard) -> None:
    """The next hub that registers creates a new plan."""


def _always(*words: object) -> bool:
    return True


def _deliver_all(
    merging: RelayedStreams, stream: Stream, epoch: int, first: int, payloads: Sequence[bytes]
) -> None:
    topic = stream.topic
    if epoch != topic.epoch:
        topic.epoch, topic.audience = epoch, None
    merging._cluster.core.publish(topic, payloads, first)


def _open_when_asked(engine: HandoverEngine, stream: Stream, effect: SendPrepared) -> None:
    """Agree to take over the topic, and number messages at once."""
    engine._cluster.tell(effect.hub, PreparedFrame(stream.topic.name, effect.version))
    if stream.state is State.OPENING:
        stream.state, stream.preparer, stream.peer = State.OPEN, None, None
        stream.term += 1
        engine._state_changed(stream, StateChanged(State.OPENING, State.OPEN))
        engine._open(stream, OpenEpoch(("", 0, 0)))


def _keep_epochs(lanes: Lanes) -> None:
    lanes.followers.introduced()


class _SameForEver:
    """A hub incarnation that never changes."""

    def __get__(self, core: HubCore | None, owner: type) -> int:
        return 1

    def __set__(self, core: HubCore, incarnation: int) -> None:
        pass


@contextmanager
def _without_incarnations() -> Iterator[None]:
    # `replaced` patches class attributes only, and this is an instance attribute.
    setattr(HubCore, "incarnation", _SameForEver())  # noqa: B010  # mypy knows it as an instance's
    try:
        yield
    finally:
        delattr(HubCore, "incarnation")


# At clients.


def _accept_all(cursor: Cursor, epoch: int, n: int, count: int) -> Verdict:
    cursor.epoch, cursor.next_n = epoch, n + count
    return IN_ORDER


def _leave_at_once(merge: TopicMerge, sources: list[Source]) -> None:
    for source in merge.sources.keys() - set(sources):
        merge._leave(source)
    merge.wanted = dict.fromkeys(sources)
    for source in sources:
        merge.sources.setdefault(source, False)


def _go_without_settling(publishing: Publishing, publisher: TopicPublisher, last: Connection) -> None:
    assert publisher.link.connection is not None, "there is another way"
    publishing._arrive(publisher, publisher.link.connection)


def _go_without_severing(
    publishing: Publishing, publisher: TopicPublisher, last: Connection, connection: Connection
) -> None:
    publishing._arrive(publisher, connection)


CLUSTER_ABLATIONS = (
    *CRASH_ABLATIONS,
    Ablation(
        "cluster-revocation",
        "Every hub re-checks live subscriptions when access rules change.",
        authorised.NAME,
        "cluster-users",
        replacing(reauthorization, "reauthorize", lambda core, session: 0),
        seed=1,
    ),
    Ablation(
        "resent-links",
        "A link resends unacknowledged frames after a reset.",
        once.NAME,
        "cluster-links",
        replacing(OutLink, "resume", _forget_unacknowledged),
        seed=18,
    ),
    Ablation(
        "owed-words",
        "A relay holds messages to a new home until the old home has acknowledged its messages.",
        order.NAME,
        "cluster-skew",
        replacing(Ingress, "waiting_for", _never_wait),
        seed=14,
    ),
    Ablation(
        "old-source",
        "A relay follows its old source until the new source continues the stream.",
        needless_gap.NAME,
        "cluster-followers-skew",
        replacing(RelayMerge, "continues", _always),
        seed=4,
    ),
    Ablation(
        "epoch-before",
        "A relay accepts an epoch only after the previous epoch.",
        needless_gap.NAME,
        "cluster-skew",
        replacing(RelayMerge, "may_open", _always),
        seed=2,
    ),
    Ablation(
        "barrier",
        "A topic opens at its new home only after every hub has applied the plan.",
        once.NAME,
        "cluster-ring",
        replacing(Cluster, "is_barrier_passed", property(lambda cluster: True)),
        seed=1,
    ),
    Ablation(
        "hub-positions",
        "A relay delivers each position once.",
        once.NAME,
        "cluster-skew",
        replacing(RelayedStreams, "_deliver", _deliver_all),
        seed=1,
    ),
    Ablation(
        "close",
        "A new home numbers messages only after the old home has closed the topic.",
        once.NAME,
        "cluster-skew",
        replacing(HandoverEngine, "_send_prepared", _open_when_asked),
    ),
    Ablation(
        "incarnations",
        "A hub that restarts under the same name has a new incarnation.",
        order.NAME,
        "story-restarted",
        _without_incarnations,
    ),
    Ablation(
        "lane-tags",
        "A message waits for its dependencies in other lanes.",
        order.NAME,
        "cluster-lanes-plain",
        replacing(Dependencies, "must_wait", lambda tags, stream, marks: False),
        seed=0,
    ),
    Ablation(
        "lane-barrier",
        "A lane is used only after every hub follows it.",
        once.NAME,
        "cluster-lanes-plain",
        replacing(Lanes, "is_barrier_passed", property(lambda lanes: True)),
        seed=3,
    ),
    Ablation(
        "lane-epochs",
        "A restarted hub numbers its lanes above those of its earlier incarnations.",
        progress.NAME,
        "cluster-everything",
        replacing(Lanes, "introduced", _keep_epochs),
        seed=614,
    ),
    Ablation(
        "waiting-clients",
        "A client detects that its hub is alive while its pings are queued behind deferred replies.",
        needless_gap.NAME,
        "limits-relays",
        replacing(session, "_WATCH_S", 3_600.0),
        seed=27,
    ),
    Ablation(
        "doubt",
        "A hub whose own session expired declares no other hub dead for a while.",
        needless_gap.NAME,
        "cluster-store-unreachable",
        replacing(FailureDetector, "doubt", lambda self, until: None),
    ),
    Ablation(
        "put-back",
        "Hubs restore the records that an emptied store has lost.",
        progress.NAME,
        "cluster-store-emptied",
        replacing(RegionGuard, "_put_back", _put_nothing_back),
        seed=5,
    ),
    Ablation(
        "client-positions",
        "A client delivers each position once.",
        once.NAME,
        "story-four-moves",
        replacing(Cursor, "accept", _accept_all),
        seed=4,
    ),
    Ablation(
        "staying",
        "A subscriber stays at the old home until the new home has reached the same position.",
        needless_gap.NAME,
        "cluster-routed-skew",
        replacing(TopicMerge, "want", _leave_at_once),
    ),
    Ablation(
        "settling",
        "A publisher switches to the new home after the old home has replied.",
        order.NAME,
        "story-four-moves",
        replacing(Publishing, "_settle", _go_without_settling),
        seed=24,
    ),
    Ablation(
        "severing",
        "After a lost connection a publisher switches hubs only when no message of that connection can "
        "still arrive.",
        order.NAME,
        "story-held-up",
        replacing(Publishing, "_sever", _go_without_severing),
    ),
    Ablation(
        "publisher-tags",
        "A publisher that switches homes states the dependency of its next message.",
        order.NAME,
        "cluster-routed-replication",
        replacing(TopicPublisher, "note", lambda *words: None),
        seed=29,
    ),
    Ablation(
        "client-marks",
        "A client holds a message until it has received the message's dependency in another lane.",
        order.NAME,
        "cluster-routed-replication",
        replacing(TopicMerge, "depends", lambda *words: None),
        seed=5,
    ),
    Ablation(
        "lane-beginnings",
        "A client reads a new lane from its first message.",
        needless_gap.NAME,
        "cluster-routed-replication",
        replacing(MergedStream, "is_awaited_from", lambda *words: False),
        seed=130,
    ),
    Ablation(
        "after",
        "A subscriber of several hubs holds a message until it has received the positions in `eq.after`.",
        order.NAME,
        "cluster-lanes",
        replacing(LaneSubscriber, "is_careless", True),
        seed=6,
    ),
    Ablation(
        "roving-tags",
        "A publisher that alternates between hubs announces it.",
        order.NAME,
        "cluster-lanes-roving",
        replacing(RovingPublisher, "is_careless", True),
    ),
    Ablation(
        "named-positions",
        "A hub that changes streams keeps the positions that its clients have named.",
        order.NAME,
        "cluster-lanes-roving",
        replacing(NamedPositions, "are_confirmed", lambda *words: True),
        seed=20004,
    ),
    Ablation(
        "lane-ends",
        "The hub of a lane that is over confirms positions in it.",
        order.NAME,
        "cluster-lanes-roving",
        replacing(PositionQueries, "_query_end", lambda self, query: query.answer(0, 0)),
        seed=20087,
    ),
)
