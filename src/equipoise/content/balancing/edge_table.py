"""The state machine of an edge that balances: phases, events, guards and actions in one table. Pure.

`apply_edge` finds the first row for the phase and the event whose guard holds, changes the edge, and returns the
effects. Other events have no effect. Figure 4a of [1] is missing in its text: the rows follow from the text.
docs/reference/balancing.md is generated from this table.

Always true:
    only `apply_edge` changes the phase;
    an edge is in at most one session, and replies to every request;
    of two edges that send each other a request at the same time, one yields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from equipoise.content.balancing import edge_rules as rules
from equipoise.content.balancing.edge_events import (
    STATUSES,
    Announce,
    BalancingEffect,
    Detected,
    DoneReceived,
    EdgeEvent,
    EdgePhase,
    EndReceived,
    PeerLost,
    PhaseOverdue,
    ReplyReceived,
    RequestReceived,
    SamplingOver,
    SubscriberCame,
)
from equipoise.content.balancing.edge_rules import EdgeSession

__all__ = ["EDGE_TABLE", "EdgeTransition", "apply_edge"]


class EdgeTransition(NamedTuple):
    """One row: applies in this phase, at this event, if the guard holds."""

    phase: EdgePhase
    event: type[Any]
    guard: Callable[[EdgeSession, Any], bool]
    following: EdgePhase
    actions: tuple[Callable[[EdgeSession, Any], Iterable[BalancingEffect]], ...] = ()


_P = EdgePhase
# Phases in which a detection runs, and in which an edge sends requests.
_RESTING = (_P.OK, _P.UNAVAILABLE, _P.STABILIZING)

# Of the rows for one phase and one event, the first whose guard holds.
EDGE_TABLE: tuple[EdgeTransition, ...] = (
    EdgeTransition(_P.OK, Detected, rules.may_ask, _P.ASKING, (rules.ask,)),
    EdgeTransition(_P.OK, Detected, rules.is_unavailable, _P.UNAVAILABLE),
    EdgeTransition(_P.UNAVAILABLE, Detected, rules.must_ask, _P.ASKING, (rules.ask,)),
    EdgeTransition(_P.UNAVAILABLE, Detected, rules.is_relieved, _P.OK),
    EdgeTransition(_P.UNAVAILABLE, Detected, rules.is_stuck, _P.ASKING, (rules.ask,)),
    EdgeTransition(_P.STABILIZING, Detected, rules.must_ask, _P.ASKING, (rules.ask,)),
    EdgeTransition(
        _P.STABILIZING, Detected, rules.is_steady_and_unavailable, _P.UNAVAILABLE, (rules.give_up,)
    ),
    EdgeTransition(_P.STABILIZING, Detected, rules.is_steady, _P.OK, (rules.give_up,)),
    # A request: only an edge in OK accepts it, or one that yields.
    EdgeTransition(_P.OK, RequestReceived, rules.always, _P.ACCEPTING, (rules.accept,)),
    EdgeTransition(_P.ASKING, RequestReceived, rules.yields, _P.ACCEPTING, (rules.accept,)),
    *(
        EdgeTransition(phase, RequestReceived, rules.always, phase, (rules.refuse,))
        for phase in _P
        if phase is not _P.OK
    ),
    # The offloading hub.
    EdgeTransition(_P.ASKING, ReplyReceived, rules.is_accepted, _P.SAMPLING, (rules.begin,)),
    # The difference came from an older load, or is over: no session.
    EdgeTransition(_P.ASKING, ReplyReceived, rules.is_balanced, _P.ASKING, (rules.end, rules.ask_next)),
    *(
        EdgeTransition(
            _P.ASKING, ReplyReceived, rules.is_balanced_from(former), former, (rules.end, rules.give_up)
        )
        for former in _RESTING
    ),
    EdgeTransition(_P.ASKING, ReplyReceived, rules.has_next, _P.ASKING, (rules.ask_next,)),
    EdgeTransition(_P.ASKING, PhaseOverdue, rules.has_next, _P.ASKING, (rules.end, rules.ask_next)),
    EdgeTransition(_P.ASKING, PeerLost, rules.has_next, _P.ASKING, (rules.ask_next,)),
    *(
        EdgeTransition(_P.ASKING, event, rules.came_from(former), former, actions)
        for event, actions in (
            (ReplyReceived, (rules.give_up,)),
            # It may still reply OK: then it must not wait for this hub.
            (PhaseOverdue, (rules.end, rules.give_up)),
            (PeerLost, (rules.give_up,)),
        )
        for former in _RESTING
    ),
    EdgeTransition(_P.SAMPLING, SamplingOver, rules.has_chosen, _P.MIGRATING, (rules.migrate,)),
    *(
        EdgeTransition(
            _P.SAMPLING,
            SamplingOver,
            rules.came_from(former),
            former,
            (rules.note_fruitless, rules.end, rules.give_up),
        )
        for former in _RESTING
    ),
    *(
        EdgeTransition(_P.SAMPLING, PeerLost, rules.came_from(former), former, (rules.give_up,))
        for former in _RESTING
    ),
    EdgeTransition(_P.MIGRATING, DoneReceived, rules.is_of_session, _P.STABILIZING, (rules.finish,)),
    EdgeTransition(_P.MIGRATING, PhaseOverdue, rules.always, _P.STABILIZING, (rules.finish,)),
    EdgeTransition(_P.MIGRATING, PeerLost, rules.is_peer, _P.STABILIZING, (rules.finish,)),
    # The acceptor.
    EdgeTransition(
        _P.ACCEPTING, SubscriberCame, rules.is_last, _P.STABILIZING, (rules.send_done, rules.finish)
    ),
    EdgeTransition(_P.ACCEPTING, SubscriberCame, rules.is_of_session, _P.ACCEPTING, (rules.count,)),
    EdgeTransition(_P.ACCEPTING, EndReceived, rules.is_of_session, _P.OK, (rules.give_up,)),
    EdgeTransition(_P.ACCEPTING, PhaseOverdue, rules.always, _P.STABILIZING, (rules.send_done, rules.finish)),
    EdgeTransition(_P.ACCEPTING, PeerLost, rules.is_peer, _P.STABILIZING, (rules.finish,)),
)
_ROWS: dict[tuple[EdgePhase, type[Any]], list[EdgeTransition]] = {}
for _row in EDGE_TABLE:
    _ROWS.setdefault((_row.phase, _row.event), []).append(_row)


def apply_edge(edge: EdgeSession, event: EdgeEvent) -> list[BalancingEffect]:
    """Change the edge by the event; return the effects, in order."""
    for row in _ROWS.get((edge.phase, type(event)), ()):
        if row.guard(edge, event):
            return _carry(row, edge, event)
    return []


def _carry(row: EdgeTransition, edge: EdgeSession, event: EdgeEvent) -> list[BalancingEffect]:
    before = edge.phase
    if row.following is EdgePhase.ASKING and before is not EdgePhase.ASKING:
        edge.former = before
    edge.phase = row.following
    effects = [effect for action in row.actions for effect in action(edge, event)]
    if STATUSES[row.following] is not STATUSES[before]:
        effects.append(Announce())
    return effects
