"""The guards and the actions of an edge's table. Pure.

A guard reads the edge and the event. An action changes the state of the session and returns effects. Their docstrings
are the text of docs/reference/balancing.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from equipoise.content.balancing.detection import OffloadRequest
from equipoise.content.balancing.edge_events import (
    STATUSES,
    BalancingEffect,
    BeginSampling,
    Detected,
    EdgePhase,
    MigrateSubscribers,
    PeerLost,
    ReplyReceived,
    RequestReceived,
    SamplingOver,
    SendControl,
    SessionEnded,
    SubscriberCame,
)
from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import (
    HubStatus,
    SessionDone,
    SessionEnd,
    SessionReply,
    SessionRequest,
)
from equipoise.content.balancing.settings import BalancingSettings

__all__ = [
    "EdgeSession",
    "LastMove",
    "accept",
    "always",
    "ask",
    "ask_next",
    "begin",
    "came_from",
    "count",
    "end",
    "finish",
    "give_up",
    "has_chosen",
    "has_next",
    "is_accepted",
    "is_balanced",
    "is_balanced_from",
    "is_last",
    "is_of_session",
    "is_paused",
    "is_peer",
    "is_relieved",
    "is_steady",
    "is_steady_and_unavailable",
    "is_stuck",
    "is_unavailable",
    "may_ask",
    "migrate",
    "must_ask",
    "note_fruitless",
    "refuse",
    "send_done",
    "yields",
]

# An acceptor waits this much longer than the offloading hub samples: the request's reply takes time, too.
SLACK_S = 5.0


# A pause after a session that reverses the previous one is at most this many times `fruitless_s`, and a session is
# forgotten after twice that time.
PAUSES_MAX = 8


class LastMove(NamedTuple):
    """The last session with a hub that moved subscribers."""

    at_s: float
    is_offloader: bool
    # How often such sessions have reversed each other; and until when this hub sends the other no request.
    reversals: int
    paused_until_s: float


class EdgeSession:
    """The state that the table reads and changes. Owned by an EdgeBalancer."""

    def __init__(self, hub: str, settings: BalancingSettings) -> None:
        self.hub = hub
        self.settings = settings
        self.phase = EdgePhase.OK
        # Set by the balancer before each event.
        self.now_s = 0.0
        self.load = EdgeLoad()
        self.covers: Callable[[], tuple[str, ...]] = tuple
        # Of the session, or of the pending request.
        self.session = ""
        self.peer = ""
        self.request: OffloadRequest | None = None
        self.waiting: list[OffloadRequest] = []
        # The phase before the request.
        self.former = EdgePhase.OK
        self.deadline_s: float | None = None
        # The end of the stabilising time after the last session.
        self.stable_at_s = 0.0
        self.came = 0
        self.total = 0
        self.sessions = 0
        # By hub and metric, until when a request is useless.
        self.fruitless: dict[tuple[str, str], float] = {}
        # By hub.
        self.last_moves: dict[str, LastMove] = {}


# Guards.


def always(edge: EdgeSession, event: Any) -> bool:
    """"""
    return True


def may_ask(edge: EdgeSession, event: Detected) -> bool:
    """it is overloaded, or differs from an available hub"""
    return bool(event.requests) and (event.detection.is_overloaded or not event.detection.is_unavailable)


def must_ask(edge: EdgeSession, event: Detected) -> bool:
    """it is overloaded, and a hub is available"""
    return bool(event.requests) and event.detection.is_overloaded


def is_stuck(edge: EdgeSession, event: Detected) -> bool:
    """a ratio stays between its thresholds, and it differs from an available hub"""
    return bool(event.requests) and event.is_stuck


def is_unavailable(edge: EdgeSession, event: Detected) -> bool:
    """a ratio is above its lower threshold"""
    return event.detection.is_unavailable


def is_relieved(edge: EdgeSession, event: Detected) -> bool:
    """no ratio is above its lower threshold"""
    return not event.detection.is_unavailable


def is_steady(edge: EdgeSession, event: Detected) -> bool:
    """the stabilising time is over and load is steady"""
    return event.is_steady


def is_steady_and_unavailable(edge: EdgeSession, event: Detected) -> bool:
    """the same, and a ratio is above its lower threshold"""
    return event.is_steady and event.detection.is_unavailable


def is_accepted(edge: EdgeSession, event: ReplyReceived) -> bool:
    """it is the hub's reply to this request, with the status OK and a load that still makes a session necessary"""
    return _is_reply(edge, event) and event.message.status is HubStatus.OK and event.is_needed


def is_balanced(edge: EdgeSession, event: ReplyReceived) -> bool:
    """the hub accepts, but by the load in its reply the two hubs are balanced, and another hub is available"""
    return _is_balanced(edge, event) and bool(edge.waiting)


def is_balanced_from(former: EdgePhase) -> Callable[[EdgeSession, Any], bool]:
    """A guard for each phase before a request that is not necessary any more."""

    def guard(edge: EdgeSession, event: ReplyReceived) -> bool:
        return edge.former is former and _is_balanced(edge, event)

    guard.__doc__ = f"the hub accepts, but the two hubs are balanced, and it was {former.value} before"
    guard.__name__ = "balanced_guard"
    return guard


def _is_balanced(edge: EdgeSession, event: ReplyReceived) -> bool:
    return _is_reply(edge, event) and event.message.status is HubStatus.OK and not event.is_needed


def has_next(edge: EdgeSession, event: Any) -> bool:
    """the request was refused or got no reply, and another hub is available"""
    return _is_refused(edge, event) and bool(edge.waiting)


def came_from(former: EdgePhase) -> Callable[[EdgeSession, Any], bool]:
    """A guard for each phase before a request."""

    def guard(edge: EdgeSession, event: Any) -> bool:
        return edge.former is former and _is_refused(edge, event)

    guard.__doc__ = f"refused, lost or fruitless, and it was {former.value} before"
    return guard


def _is_reply(edge: EdgeSession, event: ReplyReceived) -> bool:
    return (event.message.session, event.message.hub) == (edge.session, edge.peer)


def _is_refused(edge: EdgeSession, event: Any) -> bool:
    if isinstance(event, ReplyReceived):
        return _is_reply(edge, event) and event.message.status is not HubStatus.OK
    if isinstance(event, PeerLost):
        return event.hub == edge.peer
    return True


def yields(edge: EdgeSession, event: RequestReceived) -> bool:
    """the request is from the hub that has this hub's request, and that hub's name is the lower one"""
    return event.message.hub == edge.peer and event.message.hub < edge.hub


def has_chosen(edge: EdgeSession, event: SamplingOver) -> bool:
    """there are subscribers to move"""
    return bool(event.offload.chosen)


def is_of_session(edge: EdgeSession, event: Any) -> bool:
    """it is of this session"""
    if isinstance(event, SubscriberCame):
        return event.session == edge.session
    message = event.message
    return (message.session, message.hub) == (edge.session, edge.peer)


def is_last(edge: EdgeSession, event: SubscriberCame) -> bool:
    """it is of this session, and all have attached"""
    return is_of_session(edge, event) and edge.came + 1 >= event.total


def is_peer(edge: EdgeSession, event: PeerLost) -> bool:
    """it is the other hub of the session"""
    return event.hub == edge.peer


# Actions.


def ask(edge: EdgeSession, event: Detected) -> Iterable[BalancingEffect]:
    """send a request to the hub with the largest difference, about that metric"""
    edge.waiting = list({request.hub: request for request in reversed(event.requests)}.values())[::-1]
    return ask_next(edge, event)


def ask_next(edge: EdgeSession, event: Any) -> Iterable[BalancingEffect]:
    """send a request to the next hub"""
    request = edge.waiting.pop(0)
    edge.sessions += 1
    edge.request = request
    edge.peer = request.hub
    edge.session = f"{edge.hub}:{edge.sessions}"
    edge.deadline_s = edge.now_s + edge.settings.reply_s
    yield SendControl(request.hub, SessionRequest(hub=edge.hub, session=edge.session, metric=request.metric))


def accept(edge: EdgeSession, event: RequestReceived) -> Iterable[BalancingEffect]:
    """reply OK, with load and covering set"""
    message = event.message
    edge.peer, edge.session = message.hub, message.session
    edge.request, edge.waiting = None, []
    edge.came = edge.total = 0
    edge.deadline_s = edge.now_s + edge.settings.sampling_s + edge.settings.migration_s + SLACK_S
    yield SendControl(
        message.hub,
        SessionReply(
            hub=edge.hub,
            session=message.session,
            status=HubStatus.OK,
            load=edge.load,
            covers=edge.covers(),
        ),
    )


def refuse(edge: EdgeSession, event: RequestReceived) -> Iterable[BalancingEffect]:
    """reply with the status"""
    message = event.message
    # An edge that has just become overloaded replies N/A, even before its next detection.
    yield SendControl(
        message.hub,
        SessionReply(hub=edge.hub, session=message.session, status=STATUSES[edge.phase]),
    )


def begin(edge: EdgeSession, event: ReplyReceived) -> Iterable[BalancingEffect]:
    """start sampling"""
    edge.deadline_s = None
    yield BeginSampling(event.message)


def migrate(edge: EdgeSession, event: SamplingOver) -> Iterable[BalancingEffect]:
    """send the chosen subscribers to their new edge"""
    edge.total = event.offload.subscribers
    edge.deadline_s = edge.now_s + edge.total * edge.settings.migration_s + SLACK_S
    yield MigrateSubscribers(edge.peer, edge.session, event.offload)


def note_fruitless(edge: EdgeSession, event: SamplingOver) -> Iterable[BalancingEffect]:
    """send that hub no request about this metric for a while"""
    if edge.request is not None:
        until_s = edge.now_s + edge.settings.fruitless_s
        edge.fruitless[edge.request.hub, edge.request.metric] = until_s
    return ()


def give_up(edge: EdgeSession, event: Any) -> Iterable[BalancingEffect]:
    """clear the session"""
    _clear(edge)
    return ()


def end(edge: EdgeSession, event: Any) -> Iterable[BalancingEffect]:
    """send the acceptor the end of the session"""
    yield SendControl(edge.peer, SessionEnd(hub=edge.hub, session=edge.session))


def count(edge: EdgeSession, event: SubscriberCame) -> Iterable[BalancingEffect]:
    """count it, and wait for each remaining one"""
    if not edge.came:
        edge.deadline_s = edge.now_s + event.total * edge.settings.migration_s
    edge.came += 1
    edge.total = event.total
    return ()


def send_done(edge: EdgeSession, event: Any) -> Iterable[BalancingEffect]:
    """send DONE to the offloading hub"""
    if isinstance(event, SubscriberCame):
        edge.came += 1
    yield SendControl(edge.peer, SessionDone(hub=edge.hub, session=edge.session))


def finish(edge: EdgeSession, event: Any) -> Iterable[BalancingEffect]:
    """end the session; pause with that hub if it reverses the last one; wait until load is steady"""
    is_offloader = edge.request is not None
    moved = edge.total if is_offloader else edge.came
    if moved:
        edge.last_moves[edge.peer] = _last_move(edge, is_offloader=is_offloader)
    yield SessionEnded(edge.peer, edge.session, is_offloader, moved)
    _clear(edge)
    edge.stable_at_s = edge.now_s + edge.settings.stabilize_s


def _last_move(edge: EdgeSession, *, is_offloader: bool) -> LastMove:
    """Each reversal doubles the pause, so that hubs that cannot balance all metrics, or whose loads vary, come
    to rest.
    """
    now_s, unit_s = edge.now_s, edge.settings.fruitless_s
    before = edge.last_moves.get(edge.peer)
    if before is None or now_s - before.at_s > 2 * PAUSES_MAX * unit_s:
        return LastMove(now_s, is_offloader, 0, now_s)
    if before.is_offloader is is_offloader:
        return before._replace(at_s=now_s)
    pause_s = unit_s * min(2**before.reversals, PAUSES_MAX)
    return LastMove(now_s, is_offloader, before.reversals + 1, now_s + pause_s)


def is_paused(edge: EdgeSession, request: OffloadRequest) -> bool:
    """Whether the last sessions with that hub were useless: a request waits. An overload waits for no reversals."""
    if edge.now_s < edge.fruitless.get((request.hub, request.metric), edge.now_s):
        return True
    last = edge.last_moves.get(request.hub)
    return last is not None and not request.is_overloaded and edge.now_s < last.paused_until_s


def _clear(edge: EdgeSession) -> None:
    edge.session = edge.peer = ""
    edge.request, edge.waiting = None, []
    edge.came = edge.total = 0
    edge.deadline_s = None
