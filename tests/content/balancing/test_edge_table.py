"""Every row of an edge's table is used; events without a row change nothing; sessions always end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from equipoise.content.balancing.detection import Detection, OffloadRequest
from equipoise.content.balancing.edge_events import (
    STATUSES,
    Announce,
    BeginSampling,
    Detected,
    DoneReceived,
    EdgeEvent,
    EdgePhase,
    EndReceived,
    MigrateSubscribers,
    PeerLost,
    PhaseOverdue,
    ReplyReceived,
    RequestReceived,
    SamplingOver,
    SendControl,
    SessionEnded,
    SubscriberCame,
)
from equipoise.content.balancing.edge_rules import EdgeSession, is_paused
from equipoise.content.balancing.edge_table import EDGE_TABLE, EdgeTransition, apply_edge
from equipoise.content.balancing.messages import (
    HubStatus,
    SessionDone,
    SessionEnd,
    SessionReply,
    SessionRequest,
)
from equipoise.content.balancing.offload import ChosenSubscribers, Offload
from equipoise.content.balancing.pair_estimate import BalancedMetric
from equipoise.content.balancing.settings import BalancingSettings

from .support import filter_of, load_of

P = EdgePhase
REQUEST = OffloadRequest("b", BalancedMetric.INPUT, 0.5, False)
OTHER = OffloadRequest("c", BalancedMetric.INPUT, 0.2, False)
NOTHING = Offload((), load_of(), load_of())
SOMETHING = Offload((ChosenSubscribers(filter_of("a = 1"), 2),), load_of(), load_of())


def detected(
    *,
    requests: tuple[OffloadRequest, ...] = (),
    unavailable: bool = False,
    overloaded: bool = False,
    steady: bool = False,
) -> Detected:
    return Detected(Detection(unavailable, overloaded, requests, frozenset()), requests, steady)


def edge_in(
    phase: EdgePhase, *, former: EdgePhase = P.OK, waiting: tuple[OffloadRequest, ...] = ()
) -> EdgeSession:
    """An edge that came into the phase the usual way, at 100 s."""
    edge = EdgeSession("m", BalancingSettings())
    edge.now_s = 100.0
    edge.phase = phase
    edge.former = former
    edge.waiting = list(waiting)
    if phase in (P.ASKING, P.SAMPLING, P.MIGRATING):
        edge.request, edge.peer, edge.session, edge.total = REQUEST, "b", "m:1", 2
    elif phase is P.ACCEPTING:
        edge.peer, edge.session = "b", "b:1"
    return edge


def reply(status: HubStatus, session: str = "m:1", *, is_needed: bool = True) -> ReplyReceived:
    return ReplyReceived(SessionReply(hub="b", session=session, status=status), is_needed)


def request(hub: str) -> RequestReceived:
    return RequestReceived(SessionRequest(hub=hub, session=f"{hub}:9", metric=BalancedMetric.INPUT))


# By guard and event: what makes the row the first that holds.
DETECTED: dict[tuple[EdgePhase, str], Detected] = {
    (P.OK, "may_ask"): detected(requests=(REQUEST,)),
    (P.OK, "is_unavailable"): detected(requests=(REQUEST,), unavailable=True),
    (P.UNAVAILABLE, "must_ask"): detected(requests=(REQUEST,), unavailable=True, overloaded=True),
    (P.UNAVAILABLE, "is_relieved"): detected(),
    (P.UNAVAILABLE, "is_stuck"): detected(requests=(REQUEST,), unavailable=True)._replace(is_stuck=True),
    (P.STABILIZING, "must_ask"): detected(requests=(REQUEST,), unavailable=True, overloaded=True),
    (P.STABILIZING, "is_steady_and_unavailable"): detected(unavailable=True, steady=True),
    (P.STABILIZING, "is_steady"): detected(requests=(REQUEST,), steady=True),
}
OTHERS: dict[tuple[type[Any], str], tuple[EdgeEvent, tuple[OffloadRequest, ...]]] = {
    (RequestReceived, "always"): (request("z"), ()),
    (RequestReceived, "yields"): (request("b"), ()),
    (ReplyReceived, "is_accepted"): (reply(HubStatus.OK), ()),
    (ReplyReceived, "is_balanced"): (reply(HubStatus.OK, is_needed=False), (OTHER,)),
    (ReplyReceived, "balanced_guard"): (reply(HubStatus.OK, is_needed=False), ()),
    (ReplyReceived, "has_next"): (reply(HubStatus.BUSY), (OTHER,)),
    (ReplyReceived, "guard"): (reply(HubStatus.BUSY), ()),
    (PhaseOverdue, "has_next"): (PhaseOverdue(), (OTHER,)),
    (PhaseOverdue, "guard"): (PhaseOverdue(), ()),
    (PhaseOverdue, "always"): (PhaseOverdue(), ()),
    (PeerLost, "has_next"): (PeerLost("b"), (OTHER,)),
    (PeerLost, "guard"): (PeerLost("b"), ()),
    (PeerLost, "is_peer"): (PeerLost("b"), ()),
    (SamplingOver, "has_chosen"): (SamplingOver(SOMETHING), ()),
    (SamplingOver, "guard"): (SamplingOver(NOTHING), ()),
    (DoneReceived, "is_of_session"): (DoneReceived(SessionDone(hub="b", session="m:1")), ()),
    (SubscriberCame, "is_last"): (SubscriberCame("b:1", 1), ()),
    (SubscriberCame, "is_of_session"): (SubscriberCame("b:1", 2), ()),
    (EndReceived, "is_of_session"): (EndReceived(SessionEnd(hub="b", session="b:1")), ()),
}


def staged(row: EdgeTransition) -> tuple[EdgeSession, EdgeEvent]:
    name = row.guard.__name__
    if row.event is Detected:
        return edge_in(row.phase), DETECTED[row.phase, name]
    event, waiting = OTHERS[row.event, name]
    former = row.following if name.endswith("guard") else P.OK
    return edge_in(row.phase, former=former, waiting=waiting), event


@pytest.mark.parametrize(
    "row", EDGE_TABLE, ids=lambda row: f"{row.phase}-{row.event.__name__}-{row.following}"
)
def test_every_row_is_used(row: EdgeTransition) -> None:
    edge, event = staged(row)
    rows = [each for each in EDGE_TABLE if (each.phase, each.event) == (row.phase, row.event)]
    assert next(each for each in rows if each.guard(edge, event)) is row
    expected, _ = staged(row)
    expected.phase = row.following
    told = [effect for action in row.actions for effect in action(expected, event)]
    effects = apply_edge(edge, event)
    assert edge.phase is row.following
    announced = [effect for effect in effects if isinstance(effect, Announce)]
    assert [effect for effect in effects if not isinstance(effect, Announce)] == told
    assert bool(announced) == (STATUSES[row.phase] is not STATUSES[row.following])


EVENTS: tuple[EdgeEvent, ...] = (
    detected(),
    detected(requests=(REQUEST,)),
    request("b"),
    request("z"),
    reply(HubStatus.OK),
    reply(HubStatus.OK, session="old"),
    EndReceived(SessionEnd(hub="z", session="old")),
    DoneReceived(SessionDone(hub="b", session="old")),
    SubscriberCame("old", 1),
    PeerLost("z"),
)


@pytest.mark.parametrize(("phase", "event"), list(product(P, EVENTS)), ids=lambda value: str(value)[:40])
def test_events_without_a_row_change_nothing(phase: EdgePhase, event: EdgeEvent) -> None:
    edge = edge_in(phase)
    known = [
        row
        for row in EDGE_TABLE
        if row.phase is phase and row.event is type(event) and row.guard(edge, event)
    ]
    before = dict(vars(edge))
    effects = apply_edge(edge, event)
    if not known:
        assert effects == []
        assert vars(edge) == before


@pytest.mark.parametrize("phase", P)
def test_every_request_is_answered(phase: EdgePhase) -> None:
    edge = edge_in(phase)
    edge.load = load_of(input_ratio=0.3)
    (sent,) = [effect for effect in apply_edge(edge, request("z")) if isinstance(effect, SendControl)]
    assert isinstance(sent.message, SessionReply)
    assert sent.hub == "z"
    assert (sent.message.status is HubStatus.OK) == (phase is P.OK)


def talk(first: EdgeSession, second: EdgeSession, effects: list[Any]) -> list[Any]:
    """What the second does about what the first sends, and so on until nothing is sent; what is left to be done."""
    left: list[Any] = []
    for effect in effects:
        if not isinstance(effect, SendControl) or effect.hub != second.hub:
            left.append(effect)
            continue
        message = effect.message
        kinds: dict[type[Any], Callable[[Any], EdgeEvent]] = {
            SessionRequest: RequestReceived,
            SessionReply: ReplyReceived,
            SessionEnd: EndReceived,
            SessionDone: DoneReceived,
        }
        left += talk(second, first, apply_edge(second, kinds[type(message)](message)))
    return left


def pair() -> tuple[EdgeSession, EdgeSession]:
    return EdgeSession("m", BalancingSettings()), EdgeSession("b", BalancingSettings())


def test_a_session_from_the_request_to_stabilizing() -> None:
    offloader, acceptor = pair()
    acceptor.covers = lambda: ("a = 1",)
    left = talk(offloader, acceptor, apply_edge(offloader, detected(requests=(REQUEST,))))
    assert (offloader.phase, acceptor.phase) == (P.SAMPLING, P.ACCEPTING)
    (began,) = [effect for effect in left if isinstance(effect, BeginSampling)]
    assert began.reply.covers == ("a = 1",)
    (migrated,) = [
        effect
        for effect in apply_edge(offloader, SamplingOver(SOMETHING))
        if isinstance(effect, MigrateSubscribers)
    ]
    assert (migrated.hub, migrated.session) == ("b", "m:1")
    assert apply_edge(acceptor, SubscriberCame("m:1", 2)) == []
    left = talk(acceptor, offloader, apply_edge(acceptor, SubscriberCame("m:1", 2)))
    assert (offloader.phase, acceptor.phase) == (P.STABILIZING, P.STABILIZING)
    ended = [effect for effect in left if isinstance(effect, SessionEnded)]
    assert sorted((effect.is_offloader, effect.subscribers) for effect in ended) == [(False, 2), (True, 2)]


def test_two_edges_that_send_requests_to_each_other_at_once_agree_on_one_session() -> None:
    m, b = pair()
    asked_m = apply_edge(m, detected(requests=(REQUEST,)))
    asked_b = apply_edge(b, detected(requests=(REQUEST._replace(hub="m"),)))
    talk(m, b, asked_m)
    talk(b, m, asked_b)
    # b has the lower name: m gives way, whichever request comes first.
    assert (m.phase, b.phase) == (P.ACCEPTING, P.SAMPLING)
    m, b = pair()
    asked_m = apply_edge(m, detected(requests=(REQUEST,)))
    asked_b = apply_edge(b, detected(requests=(REQUEST._replace(hub="m"),)))
    talk(b, m, asked_b)
    talk(m, b, asked_m)
    assert (m.phase, b.phase) == (P.ACCEPTING, P.SAMPLING)


def test_an_acceptor_waits_for_each_subscriber_and_no_longer() -> None:
    acceptor = edge_in(P.ACCEPTING)
    apply_edge(acceptor, SubscriberCame("b:1", 7))
    assert acceptor.deadline_s == 100.0 + 7 * acceptor.settings.migration_s
    effects = apply_edge(acceptor, PhaseOverdue())
    assert any(
        isinstance(effect, SendControl) and isinstance(effect.message, SessionDone) for effect in effects
    )
    assert acceptor.phase is P.STABILIZING


def test_a_pair_that_found_nothing_to_move_waits_for_a_while() -> None:
    edge = edge_in(P.SAMPLING)
    apply_edge(edge, SamplingOver(NOTHING))
    assert edge.phase is P.OK
    assert edge.fruitless == {("b", BalancedMetric.INPUT): 100.0 + edge.settings.fruitless_s}


def accepted_session(edge: EdgeSession, at_s: float) -> None:
    """A session that moves one subscriber from `b` to this edge."""
    edge.now_s, edge.phase = at_s, P.OK
    apply_edge(edge, request("b"))
    apply_edge(edge, SubscriberCame("b:9", 1))
    assert edge.phase is P.STABILIZING


def offloading_session(edge: EdgeSession, at_s: float) -> None:
    """A session that moves two subscribers from this edge to `b`."""
    edge.now_s, edge.phase = at_s, P.MIGRATING
    edge.request, edge.peer, edge.session, edge.total = REQUEST, "b", "m:1", 2
    apply_edge(edge, DoneReceived(SessionDone(hub="b", session="m:1")))
    assert edge.phase is P.STABILIZING


def test_each_session_that_reverses_the_last_one_doubles_the_pause_of_the_pair() -> None:
    edge = EdgeSession("m", BalancingSettings(fruitless_s=10.0))
    pauses, at_s = [], 0.0
    for number in range(7):
        (accepted_session if number % 2 else offloading_session)(edge, at_s)
        pauses.append(edge.last_moves["b"].paused_until_s - at_s)
        assert is_paused(edge, REQUEST) == (number > 0)
        assert not is_paused(edge, OTHER)
        assert not is_paused(edge, REQUEST._replace(is_overloaded=True))
        at_s += pauses[-1] + 1.0
        edge.now_s = at_s
        assert not is_paused(edge, REQUEST)
    assert pauses == [0.0, 10.0, 20.0, 40.0, 80.0, 80.0, 80.0]


def test_sessions_in_one_direction_and_those_of_long_ago_cause_no_pause() -> None:
    edge = EdgeSession("m", BalancingSettings(fruitless_s=10.0))
    for at_s in (0.0, 50.0):
        offloading_session(edge, at_s)
        assert not is_paused(edge, REQUEST)
    accepted_session(edge, 50.0 + 160.0 + 1.0)
    assert not is_paused(edge, REQUEST)
