"""Every row of a head's table is used; events without a row change nothing."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from equipoise.content.balancing.detection import OffloadRequest
from equipoise.content.balancing.edge_events import (
    Announce,
    EndReceived,
    PeerLost,
    PhaseOverdue,
    ReplyReceived,
    RequestReceived,
    SendControl,
)
from equipoise.content.balancing.head_table import (
    HEAD_STATUSES,
    HEAD_TABLE,
    ClusterDetected,
    ClustersBalanced,
    HeadEvent,
    HeadPhase,
    HeadSession,
    HeadTransition,
    JoinClusters,
    PartClusters,
    apply_head,
)
from equipoise.content.balancing.messages import HubStatus, SessionEnd, SessionReply, SessionRequest
from equipoise.content.balancing.pair_estimate import BalancedMetric
from equipoise.content.balancing.settings import BalancingSettings

P = HeadPhase
REQUEST = OffloadRequest("b", BalancedMetric.INPUT, 0.5, False)
OTHER = OffloadRequest("c", BalancedMetric.INPUT, 0.2, False)


def head_in(
    phase: HeadPhase, *, former: HeadPhase = P.OK, waiting: tuple[OffloadRequest, ...] = ()
) -> HeadSession:
    head = HeadSession("m", BalancingSettings())
    head.now_s = 100.0
    head.phase, head.former, head.waiting = phase, former, list(waiting)
    if phase in (P.ASKING, P.JOINED):
        head.peer, head.session = "b", "m:1"
    return head


def reply(status: HubStatus, session: str = "m:1") -> ReplyReceived:
    return ReplyReceived(SessionReply(hub="b", session=session, status=status, edges=("b1",), is_global=True))


def request(hub: str) -> RequestReceived:
    return RequestReceived(
        SessionRequest(hub=hub, session=f"{hub}:9", metric=BalancedMetric.INPUT, is_global=True)
    )


def end(session: str = "m:1") -> EndReceived:
    return EndReceived(SessionEnd(hub="b", session=session, is_global=True))


STAGED: dict[tuple[type[Any], str], tuple[HeadEvent, tuple[OffloadRequest, ...]]] = {
    (ClusterDetected, "may_ask"): (ClusterDetected(False, False, (REQUEST,), False), ()),
    (ClusterDetected, "must_ask"): (ClusterDetected(True, True, (REQUEST,), False), ()),
    (ClusterDetected, "is_unavailable"): (ClusterDetected(True, False, (REQUEST,), False), ()),
    (ClusterDetected, "is_relieved"): (ClusterDetected(False, False, (REQUEST,), False), ()),
    (ClusterDetected, "is_steady"): (ClusterDetected(False, False, (REQUEST,), True), ()),
    (ClustersBalanced, "always"): (ClustersBalanced(), ()),
    (RequestReceived, "always"): (request("z"), ()),
    (RequestReceived, "yields"): (request("b"), ()),
    (ReplyReceived, "is_accepted"): (reply(HubStatus.OK), ()),
    (ReplyReceived, "has_next"): (reply(HubStatus.BUSY), (OTHER,)),
    (ReplyReceived, "guard"): (reply(HubStatus.BUSY), ()),
    (PhaseOverdue, "has_next"): (PhaseOverdue(), (OTHER,)),
    (PhaseOverdue, "guard"): (PhaseOverdue(), ()),
    (PhaseOverdue, "always"): (PhaseOverdue(), ()),
    (PeerLost, "has_next"): (PeerLost("b"), (OTHER,)),
    (PeerLost, "guard"): (PeerLost("b"), ()),
    (PeerLost, "is_peers"): (PeerLost("b"), ()),
    (EndReceived, "is_peers"): (end(), ()),
}


def staged(row: HeadTransition) -> tuple[HeadSession, HeadEvent]:
    name = row.guard.__name__
    event, waiting = STAGED[row.event, name]
    former = row.following if name == "guard" else P.OK
    return head_in(row.phase, former=former, waiting=waiting), event


@pytest.mark.parametrize(
    "row", HEAD_TABLE, ids=lambda row: f"{row.phase}-{row.event.__name__}-{row.following}"
)
def test_every_row_is_used(row: HeadTransition) -> None:
    head, event = staged(row)
    rows = [each for each in HEAD_TABLE if (each.phase, each.event) == (row.phase, row.event)]
    assert next(each for each in rows if each.guard(head, event)) is row
    expected, _ = staged(row)
    expected.phase = row.following
    told = [effect for action in row.actions for effect in action(expected, event)]
    effects = apply_head(head, event)
    assert head.phase is row.following
    assert [effect for effect in effects if not isinstance(effect, Announce)] == told
    announced = any(isinstance(effect, Announce) for effect in effects)
    assert announced == (HEAD_STATUSES[row.phase] is not HEAD_STATUSES[row.following])


EVENTS: tuple[HeadEvent, ...] = (
    ClusterDetected(False, False, (), False),
    ClustersBalanced(),
    reply(HubStatus.OK, session="old"),
    end("old"),
    PeerLost("z"),
    PhaseOverdue(),
)


@pytest.mark.parametrize(("phase", "event"), list(product(P, EVENTS)), ids=lambda value: str(value)[:40])
def test_events_without_a_row_change_nothing(phase: HeadPhase, event: HeadEvent) -> None:
    head = head_in(phase)
    known = [
        row
        for row in HEAD_TABLE
        if row.phase is phase and row.event is type(event) and row.guard(head, event)
    ]
    before = dict(vars(head))
    effects = apply_head(head, event)
    if not known:
        assert effects == []
        assert vars(head) == before


def test_two_clusters_join_and_part() -> None:
    asking, asked = head_in(P.OK), HeadSession("b", BalancingSettings())
    asked.edges = ("b1", "b2")
    apply_head(asking, ClusterDetected(False, False, (REQUEST,), False))
    accepted = apply_head(
        asked,
        RequestReceived(
            SessionRequest(hub="m", session=asking.session, metric=BalancedMetric.INPUT, is_global=True)
        ),
    )
    assert JoinClusters("m") in accepted
    answer = next(effect.message for effect in accepted if isinstance(effect, SendControl))
    assert isinstance(answer, SessionReply)
    assert JoinClusters("b") in apply_head(asking, ReplyReceived(answer))
    assert asking.peer_edges == ("b1", "b2")
    assert asking.deadline_s == 100.0 + asking.settings.global_s
    assert PartClusters("b") in apply_head(asking, PhaseOverdue())
    assert asking.phase is P.STABILIZING
