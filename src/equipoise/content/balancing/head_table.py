"""The state machine of a head that balances its cluster: phases, events, guards and actions. Pure.

Two heads agree on a session as edges do; then the edges of both clusters receive each other's PIEs and balance among
themselves, until all are balanced, none has been in a session for a while, or the time is over. Figure 4b of [1] is
missing in its text: the rows follow from the text. docs/reference/balancing.md is generated from this table.

Always true:
    only `apply_head` changes the phase;
    a cluster is joined with at most one other;
    a cluster with an unavailable edge accepts no load of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from equipoise.content.balancing.detection import OffloadRequest
from equipoise.content.balancing.edge_events import (
    Announce,
    DoneReceived,
    EndReceived,
    PeerLost,
    PhaseOverdue,
    ReplyReceived,
    RequestReceived,
    SendControl,
)
from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import HubStatus, SessionEnd, SessionReply, SessionRequest
from equipoise.content.balancing.settings import BalancingSettings

__all__ = [
    "HEAD_STATUSES",
    "HEAD_TABLE",
    "ClusterDetected",
    "ClustersBalanced",
    "HeadEffect",
    "HeadEvent",
    "HeadPhase",
    "HeadSession",
    "HeadTransition",
    "JoinClusters",
    "PartClusters",
    "apply_head",
]


class HeadPhase(StrEnum):
    """The state of a cluster."""

    OK = "ok"
    UNAVAILABLE = "n/a"
    STABILIZING = "stabilizing"
    ASKING = "asking"
    JOINED = "joined"

    __hash__ = object.__hash__


HEAD_STATUSES: dict[HeadPhase, HubStatus] = {
    HeadPhase.OK: HubStatus.OK,
    HeadPhase.UNAVAILABLE: HubStatus.UNAVAILABLE,
    HeadPhase.STABILIZING: HubStatus.STABILIZING,
    HeadPhase.ASKING: HubStatus.BUSY,
    HeadPhase.JOINED: HubStatus.BUSY,
}


class ClusterDetected(NamedTuple):
    """a detection has run at the head"""

    # An edge of the cluster is unavailable.
    is_unavailable: bool
    # The mean of the edges is above a higher threshold, or an edge stays unavailable: it needs another cluster.
    is_overloaded: bool
    requests: tuple[OffloadRequest, ...]
    is_steady: bool


class ClustersBalanced(NamedTuple):
    """all edges of both clusters are balanced with each other, or none has been in a session for a while"""


class JoinClusters(NamedTuple):
    """announce to all edges that they balance with those of the other cluster"""

    cluster: str


class PartClusters(NamedTuple):
    """announce to all edges that they no longer balance with those of the other cluster"""

    cluster: str


HeadEvent: TypeAlias = (
    ClusterDetected
    | ClustersBalanced
    | RequestReceived
    | ReplyReceived
    | EndReceived
    | DoneReceived
    | PhaseOverdue
    | PeerLost
)
HeadEffect: TypeAlias = SendControl | JoinClusters | PartClusters | Announce


class HeadSession:
    """The state that the table reads and changes. Owned by a HeadBalancer."""

    def __init__(self, hub: str, settings: BalancingSettings) -> None:
        self.hub = hub
        self.settings = settings
        self.phase = HeadPhase.OK
        self.now_s = 0.0
        self.load = EdgeLoad()
        self.edges: tuple[str, ...] = ()
        self.session = ""
        self.peer = ""
        # Of the other cluster, while joined.
        self.peer_edges: tuple[str, ...] = ()
        self.waiting: list[OffloadRequest] = []
        self.former = HeadPhase.OK
        self.deadline_s: float | None = None
        self.stable_at_s = 0.0
        self.sessions = 0
        self.joined_at_s = 0.0
        # When an edge of the joined clusters was last STABILIZING: a session has moved subscribers.
        self.moved_at_s = 0.0
        # By cluster, until when a session with it is useless.
        self.fruitless: dict[str, float] = {}


class HeadTransition(NamedTuple):
    """One row: applies in this phase, at this event, if the guard holds."""

    phase: HeadPhase
    event: type[Any]
    guard: Callable[[HeadSession, Any], bool]
    following: HeadPhase
    actions: tuple[Callable[[HeadSession, Any], Iterable[HeadEffect]], ...] = ()


# Guards.


def always(head: HeadSession, event: Any) -> bool:
    """"""
    return True


def may_ask(head: HeadSession, event: ClusterDetected) -> bool:
    """it needs another cluster, or all its edges are available and it differs from an available cluster"""
    return bool(event.requests) and (event.is_overloaded or not event.is_unavailable)


def must_ask(head: HeadSession, event: ClusterDetected) -> bool:
    """it is overloaded or an edge stays unavailable, and a cluster is available"""
    return bool(event.requests) and event.is_overloaded


def is_unavailable(head: HeadSession, event: ClusterDetected) -> bool:
    """an edge is unavailable"""
    return event.is_unavailable


def is_relieved(head: HeadSession, event: ClusterDetected) -> bool:
    """no edge is unavailable"""
    return not event.is_unavailable


def is_steady(head: HeadSession, event: ClusterDetected) -> bool:
    """the stabilising time is over and load is steady"""
    return event.is_steady


def yields(head: HeadSession, event: RequestReceived) -> bool:
    """the request is from the head that has this head's request, and that head's name is the lower one"""
    return event.message.hub == head.peer and event.message.hub < head.hub


def is_accepted(head: HeadSession, event: ReplyReceived) -> bool:
    """it is the head's reply to this request, with the status OK"""
    return _is_of_session(head, event) and event.message.status is HubStatus.OK


def has_next(head: HeadSession, event: Any) -> bool:
    """the request was refused or got no reply, and another head is available"""
    return _is_refused(head, event) and bool(head.waiting)


def came_from(former: HeadPhase) -> Callable[[HeadSession, Any], bool]:
    """A guard for each phase before a request."""

    def guard(head: HeadSession, event: Any) -> bool:
        return head.former is former and _is_refused(head, event)

    guard.__doc__ = f"refused or lost, and it was {former.value} before"
    return guard


def _is_refused(head: HeadSession, event: Any) -> bool:
    if isinstance(event, ReplyReceived):
        return _is_of_session(head, event) and event.message.status is not HubStatus.OK
    if isinstance(event, PeerLost):
        return event.hub == head.peer
    return True


def is_peers(head: HeadSession, event: EndReceived | PeerLost) -> bool:
    """it is of the other head of this session"""
    return event.hub == head.peer if isinstance(event, PeerLost) else _is_of_session(head, event)


def _is_of_session(head: HeadSession, event: ReplyReceived | EndReceived) -> bool:
    return (event.message.session, event.message.hub) == (head.session, head.peer)


# Actions.


def ask(head: HeadSession, event: ClusterDetected) -> Iterable[HeadEffect]:
    """send a request to the cluster with the largest difference"""
    head.waiting = list({request.hub: request for request in reversed(event.requests)}.values())[::-1]
    return ask_next(head, event)


def ask_next(head: HeadSession, event: Any) -> Iterable[HeadEffect]:
    """send a request to the next cluster"""
    request = head.waiting.pop(0)
    head.sessions += 1
    head.peer = request.hub
    head.session = f"{head.hub}:{head.sessions}"
    head.deadline_s = head.now_s + head.settings.reply_s
    yield SendControl(
        request.hub,
        SessionRequest(hub=head.hub, session=head.session, metric=request.metric, is_global=True),
    )


def accept(head: HeadSession, event: RequestReceived) -> Iterable[HeadEffect]:
    """reply OK, with the cluster's load and edges"""
    head.peer, head.session, head.waiting = event.message.hub, event.message.session, []
    yield _reply(head, event, HubStatus.OK)


def refuse(head: HeadSession, event: RequestReceived) -> Iterable[HeadEffect]:
    """reply with the status"""
    yield _reply(head, event, HEAD_STATUSES[head.phase])


def _reply(head: HeadSession, event: RequestReceived, status: HubStatus) -> SendControl:
    return SendControl(
        event.message.hub,
        SessionReply(
            hub=head.hub,
            session=event.message.session,
            status=status,
            load=head.load,
            edges=head.edges,
            is_global=True,
        ),
    )


def join(head: HeadSession, event: Any) -> Iterable[HeadEffect]:
    """let the edges balance with those of the other cluster"""
    if isinstance(event, ReplyReceived):
        head.peer_edges = event.message.edges
    head.joined_at_s = head.now_s
    head.deadline_s = head.now_s + head.settings.global_s
    yield JoinClusters(head.peer)


def part(head: HeadSession, event: Any) -> Iterable[HeadEffect]:
    """let the edges balance only among themselves; pause with that cluster if none moved; wait until load is steady"""
    yield PartClusters(head.peer)
    if head.moved_at_s <= head.joined_at_s:
        head.fruitless[head.peer] = head.now_s + head.settings.fruitless_s
    _clear(head)
    head.stable_at_s = head.now_s + head.settings.stabilize_s


def tell_end(head: HeadSession, event: Any) -> Iterable[HeadEffect]:
    """send the other head the end of the session"""
    yield SendControl(head.peer, SessionEnd(hub=head.hub, session=head.session, is_global=True))


def give_up(head: HeadSession, event: Any) -> Iterable[HeadEffect]:
    """clear the session"""
    _clear(head)
    return ()


def _clear(head: HeadSession) -> None:
    head.session = head.peer = ""
    head.peer_edges, head.waiting = (), []
    head.deadline_s = None


_P = HeadPhase
_RESTING = (_P.OK, _P.UNAVAILABLE, _P.STABILIZING)

# Of the rows for one phase and one event, the first whose guard holds.
HEAD_TABLE: tuple[HeadTransition, ...] = (
    HeadTransition(_P.OK, ClusterDetected, may_ask, _P.ASKING, (ask,)),
    HeadTransition(_P.OK, ClusterDetected, is_unavailable, _P.UNAVAILABLE),
    HeadTransition(_P.UNAVAILABLE, ClusterDetected, must_ask, _P.ASKING, (ask,)),
    HeadTransition(_P.UNAVAILABLE, ClusterDetected, is_relieved, _P.OK),
    HeadTransition(_P.STABILIZING, ClusterDetected, must_ask, _P.ASKING, (ask,)),
    HeadTransition(_P.STABILIZING, ClusterDetected, is_steady, _P.OK),
    HeadTransition(_P.OK, RequestReceived, always, _P.JOINED, (accept, join)),
    HeadTransition(_P.ASKING, RequestReceived, yields, _P.JOINED, (accept, join)),
    *(HeadTransition(phase, RequestReceived, always, phase, (refuse,)) for phase in _P if phase is not _P.OK),
    HeadTransition(_P.ASKING, ReplyReceived, is_accepted, _P.JOINED, (join,)),
    HeadTransition(_P.ASKING, ReplyReceived, has_next, _P.ASKING, (ask_next,)),
    HeadTransition(_P.ASKING, PhaseOverdue, has_next, _P.ASKING, (tell_end, ask_next)),
    HeadTransition(_P.ASKING, PeerLost, has_next, _P.ASKING, (ask_next,)),
    *(
        HeadTransition(_P.ASKING, event, came_from(former), former, actions)
        for event, actions in (
            (ReplyReceived, (give_up,)),
            (PhaseOverdue, (tell_end, give_up)),
            (PeerLost, (give_up,)),
        )
        for former in _RESTING
    ),
    HeadTransition(_P.JOINED, ClustersBalanced, always, _P.STABILIZING, (tell_end, part)),
    HeadTransition(_P.JOINED, PhaseOverdue, always, _P.STABILIZING, (tell_end, part)),
    HeadTransition(_P.JOINED, EndReceived, is_peers, _P.STABILIZING, (part,)),
    HeadTransition(_P.JOINED, PeerLost, is_peers, _P.STABILIZING, (part,)),
)
_ROWS: dict[tuple[HeadPhase, type[Any]], list[HeadTransition]] = {}
for _row in HEAD_TABLE:
    _ROWS.setdefault((_row.phase, _row.event), []).append(_row)


def apply_head(head: HeadSession, event: HeadEvent) -> list[HeadEffect]:
    """Change the head by the event; return the effects, in order."""
    for row in _ROWS.get((head.phase, type(event)), ()):
        if row.guard(head, event):
            before = head.phase
            if row.following is HeadPhase.ASKING and before is not HeadPhase.ASKING:
                head.former = before
            head.phase = row.following
            effects = [effect for action in row.actions for effect in action(head, event)]
            if HEAD_STATUSES[row.following] is not HEAD_STATUSES[before]:
                effects.append(Announce())
            return effects
    return []
