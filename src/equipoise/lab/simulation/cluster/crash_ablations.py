"""Safeguards for dead hubs: resent messages and gaps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from equipoise.hub.cluster import patterns
from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.dependencies import Dependencies
from equipoise.hub.cluster.failover import Failover
from equipoise.hub.cluster.feeders import Feeders
from equipoise.hub.cluster.ingress import Ingress
from equipoise.hub.cluster.patterns import PatternSync
from equipoise.hub.cluster.relay_sources import RelaySources
from equipoise.hub.cluster.standstill import Standstill
from equipoise.hub.cluster.streams import Stream
from equipoise.hub.data.losses import Losses
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


def _end_at_once(sources: RelaySources, stream: Stream, hub: str) -> None:
    cluster = sources._cluster.core.cluster
    assert isinstance(cluster, Cluster)
    cluster.lanes.ended(stream, 0, 0)


def _count_known_only(cursor: Cursor, epoch: int, n: int, count: int) -> Verdict:
    skip, missed = _ACCEPT(cursor, epoch, n, count)
    return Verdict(skip, missed or 0)


_ACCEPT = Cursor.accept

CRASH_ABLATIONS = (
    Ablation(
        "unknown-gaps",
        "A client reports a gap of unknown size.",
        once.NAME,
        "cluster-everything",
        replacing(Cursor, "accept", _count_known_only),
        seed=32,
    ),
    Ablation(
        "pattern-gaps",
        "Pattern subscribers receive a gap when a hub is lost.",
        once.NAME,
        "cluster-crashes",
        replacing(RelaySources, "hub_lost", lambda self: None),
        seed=24,
    ),
    Ablation(
        "feeders",
        "Subscribers receive a gap when a hub through which clients published dies.",
        once.NAME,
        "cluster-failover",
        replacing(Feeders, "tear", lambda self, topic, is_told=False: 0),
        seed=5,
    ),
    Ablation(
        "seen-reports",
        "Hubs report which messages of a dead home they have seen before those messages are sent to "
        "the next home.",
        once.NAME,
        "cluster-failover",
        replacing(Failover, "report", lambda self, stream, home=None: None),
        seed=85,
    ),
    Ablation(
        "handed-over",
        "Messages that a home may have numbered before a handover are not resent when it dies.",
        once.NAME,
        "cluster-unlimited",
        replacing(Failover, "_was_home", _always),
        seed=1720,
    ),
    Ablation(
        "vouched",
        "A hub acknowledges a plain publish early only if the home expects the message.",
        once.NAME,
        "cluster-everything",
        replacing(Ingress, "is_vouched", _always),
        seed=106,
    ),
    Ablation(
        "no-room-gaps",
        "Pattern subscribers receive a gap when a hub has no room for a topic.",
        once.NAME,
        "story-no-room",
        replacing(patterns, "send_name_gap", lambda core, name: None),
    ),
    Ablation(
        "standstill",
        "A hub that has paused accepts no client messages until its incarnation is confirmed.",
        once.NAME,
        "cluster-store-unlimited",
        replacing(Standstill, "start", lambda self: None),
        seed=36,
    ),
    Ablation(
        "behind-a-loss",
        "After a loss, a publisher's later messages appear in no other lane before subscribers know of "
        "the loss.",
        once.NAME,
        "cluster-replication-everything",
        replacing(Admission, "follow_loss", lambda self, epoch: None),
        seed=27,
    ),
    Ablation(
        "log-awaited",
        "A pattern subscriber waits until durable topics that lost their home have received the "
        "missing entries of their logs.",
        once.NAME,
        "story-log-fill",
        replacing(PatternSync, "await_fills", lambda self, patterns, wait: None),
        seed=1,
    ),
    Ablation(
        "counted-losses",
        "A hub counts the messages that plain subscribers miss.",
        once.NAME,
        "cluster-crashes",
        _without_counting,
        seed=24,
    ),
    Ablation(
        "dead-lane-ends",
        "The unknown end of a dead hub's lane is queued behind the received messages of the lane.",
        once.NAME,
        "cluster-unlimited",
        replacing(RelaySources, "lane_died", _end_at_once),
        seed=1995,
    ),
    Ablation(
        "dead-lanes",
        "Messages numbered after a hub's death are ordered after the whole lane of that hub.",
        order.NAME,
        "cluster-replication-everything",
        replacing(Dependencies, "lane_died", lambda self, lane: None),
        seed=430,
    ),
)
