"""The state machine of a handover: states, events, guards and actions in one table. Pure.

The plan alone decides; the table defines how hubs execute it (docs/decisions/0005). `apply` finds the first row for the
stream's state and the event whose guard holds, changes the stream, and returns the effects to execute. Other
combinations have no effect. docs/reference/handover.md is generated from this table.

Always true:
    only `apply` changes the state of a stream;
    of the hubs that can reach each other, at most one is open or closing for a topic. One exception: after a crash two
    hubs may have had reason to open it; then one offers it to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from equipoise.stream import handover_rules as rules
from equipoise.stream.effects import Effect, StateChanged, StreamState
from equipoise.stream.handover_events import (
    AnswerOverdue,
    CancelReceived,
    CloseReceived,
    HandoverEvent,
    HandoverFacts,
    HandoverStream,
    HubDied,
    OpenedReceived,
    PlanApplied,
    PreparedReceived,
    PrepareReceived,
    Progressed,
    SlotFree,
)

__all__ = ["TABLE", "Transition", "apply", "first_state"]

# The table.

AnyEvent = TypeVar("AnyEvent", bound=HandoverEvent)


class Transition(NamedTuple, Generic[AnyEvent]):
    """One row: applies in this state, at this event, if the guard holds."""

    state: StreamState
    event: type[AnyEvent]
    guard: Callable[[HandoverStream, AnyEvent, HandoverFacts], bool]
    following: StreamState
    actions: tuple[Callable[[HandoverStream, AnyEvent, HandoverFacts], Iterable[Effect]], ...]


_S = StreamState
_OPEN, _CLOSING, _OPENING, _REMOTE = _S.OPEN, _S.CLOSING, _S.OPENING, _S.REMOTE

# Of the rows for one state and one event, the first whose guard holds.
TABLE: tuple[Transition[Any], ...] = (
    Transition(_OPEN, PlanApplied, rules.is_unused, _REMOTE, (rules.follow,)),
    Transition(_OPEN, PlanApplied, rules.home_has_changed, _CLOSING, (rules.offer,)),
    Transition(_CLOSING, PlanApplied, rules.home_is_here, _OPEN, (rules.withdraw,)),
    Transition(_CLOSING, PlanApplied, rules.home_is_as_before, _CLOSING, (rules.offer,)),
    Transition(_CLOSING, PlanApplied, rules.home_has_changed, _CLOSING, (rules.withdraw, rules.offer)),
    Transition(_OPENING, PlanApplied, rules.is_not_promised, _REMOTE, (rules.follow,)),
    Transition(_REMOTE, PlanApplied, rules.home_is_here, _OPENING, ()),
    Transition(_REMOTE, PlanApplied, rules.home_is_elsewhere, _REMOTE, (rules.follow,)),
    # Only after a crash, when both hubs had reason to open it. The hub that offers becomes a follower of the other.
    Transition(
        _OPEN, PrepareReceived, rules.is_latest_offer, _OPEN, (rules.note_offer, rules.answer, rules.review)
    ),
    Transition(_CLOSING, PrepareReceived, rules.is_latest_offer, _CLOSING, (rules.defer,)),
    Transition(
        _OPENING,
        PrepareReceived,
        rules.may_answer,
        _OPENING,
        (rules.note_offer, rules.expect, rules.answer, rules.review),
    ),
    Transition(
        _OPENING,
        PrepareReceived,
        rules.is_latest_offer,
        _OPENING,
        (rules.note_offer, rules.expect, rules.defer, rules.review),
    ),
    Transition(
        _REMOTE,
        PrepareReceived,
        rules.may_answer_offer_of_plan,
        _OPENING,
        (rules.note_offer, rules.expect, rules.answer, rules.review),
    ),
    Transition(
        _REMOTE,
        PrepareReceived,
        rules.is_offer_of_plan,
        _OPENING,
        (rules.note_offer, rules.expect, rules.defer, rules.review),
    ),
    Transition(_CLOSING, PreparedReceived, rules.is_answer, _CLOSING, (rules.queue,)),
    Transition(_CLOSING, AnswerOverdue, rules.always, _CLOSING, (rules.offer,)),
    Transition(_CLOSING, SlotFree, rules.is_answer, _REMOTE, (rules.close, rules.review)),
    Transition(_OPENING, CloseReceived, rules.always, _OPENING, (rules.note_end,)),
    Transition(
        _OPENING,
        CancelReceived,
        rules.is_from_preparer,
        _OPENING,
        (rules.drop_offer, rules.forget_preparer, rules.ask_plan),
    ),
    *(Transition(state, CancelReceived, rules.always, state, (rules.drop_offer,)) for state in _S),
    *(Transition(state, HubDied, rules.always, state, (rules.drop_offer, rules.forget_hub)) for state in _S),
    Transition(_REMOTE, OpenedReceived, rules.follows_own_end, _REMOTE, (rules.finish,)),
    Transition(_OPENING, OpenedReceived, rules.follows_own_end, _OPENING, (rules.finish,)),
    Transition(_OPENING, Progressed, rules.is_at_end, _OPEN, (rules.open_after, rules.ask_plan)),
    Transition(_OPENING, Progressed, rules.has_no_other_home, _OPEN, (rules.open_new, rules.review)),
    Transition(_OPENING, Progressed, rules.may_answer_pending, _OPENING, (rules.reconsider, rules.review)),
    Transition(_REMOTE, Progressed, rules.may_answer_pending, _REMOTE, (rules.reconsider, rules.review)),
    Transition(_OPEN, Progressed, rules.has_offer, _OPEN, (rules.reconsider, rules.review)),
    Transition(_OPEN, Progressed, rules.is_settled, _OPEN, (rules.resume, rules.forget)),
    *(Transition(state, Progressed, rules.always, state, (rules.resume,)) for state in _S),
)
_ROWS: dict[tuple[StreamState, type[HandoverEvent]], list[Transition[Any]]] = {}
for _row in TABLE:
    _ROWS.setdefault((_row.state, _row.event), []).append(_row)


def apply(stream: HandoverStream, event: HandoverEvent, facts: HandoverFacts) -> list[Effect]:
    """Change the stream by the event; return the effects to execute, in order."""
    for row in _ROWS.get((stream.state, type(event)), ()):
        if row.guard(stream, event, facts):
            return _carry(row, stream, event, facts)
    return []


def _carry(
    row: Transition[Any], stream: HandoverStream, event: HandoverEvent, facts: HandoverFacts
) -> list[Effect]:
    effects: list[Effect] = []
    if row.following is not stream.state:
        effects.append(StateChanged(stream.state, row.following))
        stream.state = row.following
        stream.term += 1
        if row.following is StreamState.OPENING:
            stream.peer = None
    for action in row.actions:
        effects += action(stream, event, facts)
    return effects


def first_state(home: str | None, facts: HandoverFacts, *, is_offered: bool) -> StreamState | None:
    """The initial state of a topic that was just created at this hub; None: open, without a Stream."""
    if home != facts.hub:
        return StreamState.REMOTE
    return None if facts.is_barrier_passed and not is_offered else StreamState.OPENING
