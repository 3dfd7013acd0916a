"""The safeguards for hubs that die: what is sent again, which gaps are sent, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from equipoise.hub.cluster import patterns
from equipoise.hub.cluster.dependencies import Dependencies
from equipoise.hub.cluster.failover import Failover
from equipoise.hub.cluster.feeders import Feeders
from equipoise.hub.cluster.ingress import Ingress
from equipoise.hub.cluster.patterns import PatternSync
from equipoise.hub.cluster.position_query import PositionQueries
from equipoise.hub.cluster.relay_merge import Merging
from equipoise.hub.cluster.standstill import Standstill
from equipoise.hub.cluster.streams import Stream
from equipoise.hub.data.losses import Losses
from equipoise.hub.data.topic import Topic
from equipoise.lab.simulation.ablation import Ablation, replaced, replacing
from equipoise.lab.simulation.checkers import once, order
from equipoise.stream.admission import Admission
from equipoise.stream.cursor import Cursor, Verdict

__all__ = ["CRASH_ABLATIONS"]


def _always(*words: object) -> bool:
    return True


@contextmanager
def _without_counting() -> Iterator[None]:
    with replaced(Losses, "count", lambda *words: None), replaced(Losses, "count_hub", lambda losses: None):
        yield


def _end_at_once(merging: Merging, stream: Stream, hub: str) -> None:
    merging._cluster.lanes.ended(stream, 0, 0)


def _count_known_only(cursor: Cursor, epoch: int, n: int, count: int) -> Verdict:
    skip, missed = _ACCEPT(cursor, epoch, n, count)
    return Verdict(skip, missed or 0)


def _believe_itself(
    asking: PositionQueries, trunk: Topic, epoch: int, answer: Callable[[int, int], object], is_wanted: object
) -> None:
    answer(0, 0)


_ACCEPT = Cursor.accept

CRASH_ABLATIONS = (
    Ablation(
        "unknown-gaps",
        "a client tells that an unknown number of messages is missing",
        once.NAME,
        "cluster-everything",
        replacing(Cursor, "accept", _count_known_only),
        seed=32,
    ),
    Ablation(
        "pattern-gaps",
        "subscribers by pattern get a gap when a hub was lost",
        once.NAME,
        "cluster-crashes",
        replacing(Merging, "hub_lost", lambda self: None),
        seed=24,
    ),
    Ablation(
        "feeders",
        "subscribers get a gap when a hub dies through which clients published",
        once.NAME,
        "cluster-failover",
        replacing(Feeders, "tear", lambda self, topic, is_told=False: 0),
        seed=5,
    ),
    Ablation(
        "seen-reports",
        "hubs say which messages they have seen of a home that died before those are sent to the next one",
        once.NAME,
        "cluster-failover",
        replacing(Failover, "report", lambda self, stream, home=None: None),
        seed=85,
    ),
    Ablation(
        "handed-over",
        "what a home may have numbered before it handed the topic over is not sent again when it dies",
        once.NAME,
        "cluster-unlimited",
        replacing(Failover, "_was_home", _always),
        seed=1720,
    ),
    Ablation(
        "replaced-home",
        "a home takes no message that follows a later epoch than its own: it has been replaced",
        once.NAME,
        "cluster-routed-failover",
        replacing(PositionQueries, "await_epoch", _believe_itself),
        seed=179,
    ),
    Ablation(
        "vouched",
        "a hub acknowledges a plain publish early only where the home knows that the message may come",
        once.NAME,
        "cluster-everything",
        replacing(Ingress, "is_vouched", _always),
        seed=106,
    ),
    Ablation(
        "no-room-gaps",
        "subscribers by pattern get a gap when a hub has no room for the topic of messages",
        once.NAME,
        "story-no-room",
        replacing(patterns, "tell_name_gap", lambda core, name: None),
    ),
    Ablation(
        "standstill",
        "a hub that has stood still takes nothing from clients until its incarnation is confirmed",
        once.NAME,
        "cluster-store-unlimited",
        replacing(Standstill, "start", lambda self: None),
        seed=36,
    ),
    Ablation(
        "behind-a-loss",
        "what a publisher sends after a loss comes in no other lane before subscribers know of the loss",
        once.NAME,
        "cluster-replication-everything",
        replacing(Admission, "follow_loss", lambda self, epoch: None),
        seed=27,
    ),
    Ablation(
        "log-awaited",
        "a subscriber by pattern waits until durable topics that lost their home have got what their logs have",
        once.NAME,
        "story-log-fill",
        replacing(PatternSync, "await_fills", lambda self, patterns, wait: None),
        seed=1,
    ),
    Ablation(
        "counted-losses",
        "a hub counts what plain subscribers miss",
        once.NAME,
        "cluster-crashes",
        _without_counting,
        seed=24,
    ),
    Ablation(
        "lane-ends",
        "the unknown end of a lane whose hub died waits behind what has come of the lane",
        once.NAME,
        "cluster-unlimited",
        replacing(Merging, "lane_died", _end_at_once),
        seed=1995,
    ),
    Ablation(
        "dead-lanes",
        "what is numbered after a hub's death comes after all of that hub's lane",
        order.NAME,
        "cluster-replication-everything",
        replacing(Dependencies, "lane_died", lambda self, lane: None),
        seed=430,
    ),
)
