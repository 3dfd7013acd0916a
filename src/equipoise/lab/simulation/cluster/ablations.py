"""The safeguards of hubs among hubs and of clients among them."""

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
from equipoise.hub.cluster.relay_merge import Merging
from equipoise.hub.cluster.streams import State, Stream
from equipoise.hub.core import HubCore
from equipoise.hub.data import session
from equipoise.hub.membership.liveness import Sight
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
    """The next hub that registers begins with a plan of its own."""


def _always(*words: object) -> bool:
    return True


def _deliver_all(merging: Merging, stream: Stream, epoch: int, first: int, payloads: Sequence[bytes]) -> None:
    topic = stream.topic
    if epoch != topic.epoch:
        topic.epoch, topic.audience = epoch, None
    merging._cluster.core.publish(topic, payloads, first)


def _open_when_asked(engine: HandoverEngine, stream: Stream, effect: SendPrepared) -> None:
    """Agree to take over, and number at once."""
    engine._cluster.tell(effect.hub, PreparedFrame(stream.topic.name, effect.version))
    if stream.state is State.OPENING:
        stream.state, stream.preparer, stream.peer = State.OPEN, None, None
        stream.term += 1
        engine._state_changed(stream, StateChanged(State.OPENING, State.OPEN))
        engine._open(stream, OpenEpoch(("", 0, 0)))


def _keep_epochs(lanes: Lanes) -> None:
    lanes.followers.introduced()


class _SameForEver:
    """The incarnation of a hub that has one only, whatever happens to it."""

    def __get__(self, core: HubCore | None, owner: type) -> int:
        return 1

    def __set__(self, core: HubCore, incarnation: int) -> None:
        pass


@contextmanager
def _without_incarnations() -> Iterator[None]:
    # An attribute that only instances have is not there to be replaced.
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
    merge.wanted = set(sources)
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
        "subscriptions at every hub are judged again by new rules",
        authorised.NAME,
        "cluster-users",
        replacing(reauthorization, "judge_again", lambda core, session: 0),
        seed=1,
    ),
    Ablation(
        "resent-links",
        "a link that was reset sends again what was not acknowledged",
        once.NAME,
        "cluster-links",
        replacing(OutLink, "resume", _forget_unacknowledged),
        seed=18,
    ),
    Ablation(
        "owed-words",
        "messages to a new home wait for the acks of those sent to the old one",
        order.NAME,
        "cluster-skew",
        replacing(Ingress, "waiting_for", _never_wait),
        seed=14,
    ),
    Ablation(
        "old-source",
        "a relay follows its old source until the new one continues it",
        needless_gap.NAME,
        "cluster-followers-skew",
        replacing(RelayMerge, "continues", _always),
        seed=4,
    ),
    Ablation(
        "epoch-before",
        "a relay takes an epoch only after the one before it",
        needless_gap.NAME,
        "cluster-skew",
        replacing(RelayMerge, "may_open", _always),
        seed=2,
    ),
    Ablation(
        "barrier",
        "a topic is opened only once every hub goes by the plan",
        once.NAME,
        "cluster-ring",
        replacing(Cluster, "is_barrier_passed", property(lambda cluster: True)),
        seed=1,
    ),
    Ablation(
        "hub-positions",
        "a relay passes each position on once",
        once.NAME,
        "cluster-skew",
        replacing(Merging, "_deliver", _deliver_all),
        seed=1,
    ),
    Ablation(
        "close",
        "a new home numbers only once the old one has closed",
        once.NAME,
        "cluster-skew",
        replacing(HandoverEngine, "_send_prepared", _open_when_asked),
    ),
    Ablation(
        "incarnations",
        "a hub that restarts under its name is another one",
        order.NAME,
        "story-restarted",
        _without_incarnations,
    ),
    Ablation(
        "lane-tags",
        "what follows in another lane waits for what it comes after",
        order.NAME,
        "cluster-lanes-plain",
        replacing(Dependencies, "must_wait", lambda tags, stream, marks: False),
        seed=0,
    ),
    Ablation(
        "lane-barrier",
        "a lane is used only once every hub follows it",
        once.NAME,
        "cluster-lanes-plain",
        replacing(Lanes, "is_barrier_passed", property(lambda lanes: True)),
        seed=3,
    ),
    Ablation(
        "lane-epochs",
        "lanes of a hub that has come back are numbered above those of its former lives",
        progress.NAME,
        "cluster-everything",
        replacing(Lanes, "introduced", _keep_epochs),
        seed=614,
    ),
    Ablation(
        "waiting-clients",
        "a client whose pings wait behind replies that it is owed hears that its hub is alive",
        needless_gap.NAME,
        "limits-relays",
        replacing(session, "_WATCH_S", 3_600.0),
        seed=27,
    ),
    Ablation(
        "doubt",
        "a hub whose own session expired declares no other hub dead for a while",
        needless_gap.NAME,
        "cluster-store-unreachable",
        replacing(Sight, "doubt", lambda self, until: None),
    ),
    Ablation(
        "put-back",
        "hubs put back what an emptied store has lost",
        progress.NAME,
        "cluster-store-emptied",
        replacing(RegionGuard, "_put_back", _put_nothing_back),
        seed=5,
    ),
    Ablation(
        "client-positions",
        "a client takes each position once",
        once.NAME,
        "story-four-moves",
        replacing(Cursor, "accept", _accept_all),
        seed=4,
    ),
    Ablation(
        "staying",
        "a subscriber stays with the old home until the new one is as far",
        needless_gap.NAME,
        "cluster-routed-skew",
        replacing(TopicMerge, "want", _leave_at_once),
    ),
    Ablation(
        "settling",
        "a publisher goes to the new home once the old one has answered",
        order.NAME,
        "story-four-moves",
        replacing(Publishing, "_settle", _go_without_settling),
        seed=24,
    ),
    Ablation(
        "severing",
        "a publisher goes elsewhere once the lost connection can bring nothing more",
        order.NAME,
        "story-held-up",
        replacing(Publishing, "_sever", _go_without_severing),
    ),
    Ablation(
        "publisher-tags",
        "a publisher says what its message comes after when it goes to another home",
        order.NAME,
        "cluster-routed-replication",
        replacing(Publishing, "_note", lambda *words: None),
        seed=29,
    ),
    Ablation(
        "client-marks",
        "a client waits for the lane that a message comes after",
        order.NAME,
        "cluster-routed-replication",
        replacing(TopicMerge, "depends", lambda *words: None),
        seed=5,
    ),
    Ablation(
        "lane-beginnings",
        "a client takes a new lane from its first message",
        needless_gap.NAME,
        "cluster-routed-replication",
        replacing(MergedStream, "is_awaited_from", lambda *words: False),
        seed=130,
    ),
    Ablation(
        "after",
        "a subscriber of several hubs waits for what eq.after names",
        order.NAME,
        "cluster-lanes",
        replacing(LaneSubscriber, "is_careless", True),
        seed=6,
    ),
    Ablation(
        "roving-tags",
        "a publisher that goes from hub to hub says so",
        order.NAME,
        "cluster-lanes-roving",
        replacing(RovingPublisher, "is_careless", True),
    ),
)
