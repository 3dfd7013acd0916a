"""Every row of the handover's table: an event in, effects out, and the next state of the stream."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pytest

from equipoise.stream import handover_rules as rules
from equipoise.stream.effects import (
    AskPlan,
    AwaitAnswer,
    CloseEpoch,
    Effect,
    End,
    Follow,
    Forget,
    HandoverDone,
    OpenEpoch,
    QueueClose,
    Reconsider,
    Resume,
    Review,
    SendCancel,
    SendPrepare,
    SendPrepared,
    StateChanged,
    StreamState,
    WakeDependents,
)
from equipoise.stream.handover import TABLE, Transition, apply, first_state
from equipoise.stream.handover_events import (
    AnswerOverdue,
    CancelReceived,
    CloseReceived,
    HandoverEvent,
    HubDied,
    OpenedReceived,
    PlanApplied,
    PreparedReceived,
    PrepareReceived,
    Progressed,
    SlotFree,
)

OPEN, CLOSING, OPENING, REMOTE = (
    StreamState.OPEN,
    StreamState.CLOSING,
    StreamState.OPENING,
    StreamState.REMOTE,
)


@dataclass
class FakeStream:
    """Only what the table reads and changes."""

    state: StreamState
    peer: str | None = None
    asked_version: int = 0
    since_version: int = 0
    preparer: str | None = None
    ending: End | None = None
    pending_offer: tuple[str, int] | None = None
    term: int = 0
    source: str | None = None
    position: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class HubKnows:
    hub: str = "me"
    version: int = 8
    is_introduced: bool = True
    is_barrier_passed: bool = False


KNOWS = HubKnows()
STRANGER = HubKnows(is_introduced=False)
PASSED = HubKnows(is_barrier_passed=True)


class Case(NamedTuple):
    stream: FakeStream
    event: HandoverEvent
    effects: list[Effect]
    # The fields that differ from before.
    after: dict[str, Any]
    knows: HubKnows = KNOWS


END: End = ("h1", 5, 41)
CASES: dict[str, Case] = {
    "a topic without subscribers goes to its new home without a word": Case(
        FakeStream(OPEN),
        PlanApplied("h2", is_unused=True),
        [StateChanged(OPEN, REMOTE), Follow()],
        {"state": REMOTE, "peer": "h2", "term": 2},
    ),
    "a topic with subscribers is offered to its new home": Case(
        FakeStream(OPEN),
        PlanApplied("h2"),
        [StateChanged(OPEN, CLOSING), AwaitAnswer(), SendPrepare("h2", 8)],
        {"state": CLOSING, "peer": "h2", "asked_version": 8, "term": 1},
    ),
    "a topic that is to stay after all is no longer offered": Case(
        FakeStream(CLOSING, peer="h2", asked_version=7),
        PlanApplied("me"),
        [StateChanged(CLOSING, OPEN), SendCancel("h2", 8)],
        {"state": OPEN, "peer": None, "term": 1},
    ),
    "an offer is repeated under a newer plan": Case(
        FakeStream(CLOSING, peer="h2", asked_version=7),
        PlanApplied("h2"),
        [AwaitAnswer(), SendPrepare("h2", 8)],
        {"asked_version": 8},
    ),
    "an offer goes to another hub": Case(
        FakeStream(CLOSING, peer="h2", asked_version=7),
        PlanApplied("h3"),
        [SendCancel("h2", 8), AwaitAnswer(), SendPrepare("h3", 8)],
        {"peer": "h3", "asked_version": 8},
    ),
    "a topic that was to be opened here goes elsewhere": Case(
        FakeStream(OPENING),
        PlanApplied("h2"),
        [StateChanged(OPENING, REMOTE), Follow()],
        {"state": REMOTE, "peer": "h2", "term": 2},
    ),
    "a topic is to be opened here": Case(
        FakeStream(REMOTE, peer="h1", source="h1"),
        PlanApplied("me"),
        [StateChanged(REMOTE, OPENING)],
        {"state": OPENING, "peer": None, "term": 1},
    ),
    "a topic moves between other hubs": Case(
        FakeStream(REMOTE, peer="h1", source="h1"),
        PlanApplied("h2"),
        [Follow()],
        {"peer": "h2", "term": 1},
    ),
    "two hubs had reason to open it, and the one that offers is answered": Case(
        FakeStream(OPEN),
        PrepareReceived("h1", 9),
        [SendPrepared("h1", 9), Review()],
        {"asked_version": 9, "since_version": 9},
    ),
    "an offer of what is being given away waits": Case(
        FakeStream(CLOSING, peer="h2", asked_version=8),
        PrepareReceived("h1", 9),
        [],
        {"pending_offer": ("h1", 9)},
    ),
    "a topic that is to be opened here is offered": Case(
        FakeStream(OPENING),
        PrepareReceived("h1", 8),
        [SendPrepared("h1", 8), Review()],
        {"asked_version": 8, "since_version": 8, "preparer": "h1"},
    ),
    "a hub that does not know all patterns yet answers later": Case(
        FakeStream(OPENING),
        PrepareReceived("h1", 8),
        [Review()],
        {"asked_version": 8, "since_version": 8, "preparer": "h1", "pending_offer": ("h1", 8)},
        STRANGER,
    ),
    "an offer comes before the plan": Case(
        FakeStream(REMOTE, peer="h1"),
        PrepareReceived("h1", 9),
        [StateChanged(REMOTE, OPENING), SendPrepared("h1", 9), Review()],
        {
            "state": OPENING,
            "peer": None,
            "term": 1,
            "asked_version": 9,
            "since_version": 9,
            "preparer": "h1",
        },
    ),
    "an offer comes before the plan, and before all hubs have introduced themselves": Case(
        FakeStream(REMOTE, peer="h1"),
        PrepareReceived("h1", 9),
        [StateChanged(REMOTE, OPENING), Review()],
        {
            "state": OPENING,
            "peer": None,
            "term": 1,
            "asked_version": 9,
            "since_version": 9,
            "preparer": "h1",
            "pending_offer": ("h1", 9),
        },
        STRANGER,
    ),
    "the new home is ready": Case(
        FakeStream(CLOSING, peer="h2", asked_version=8),
        PreparedReceived("h2", 8),
        [QueueClose("h2", 8)],
        {},
    ),
    "the new home does not answer": Case(
        FakeStream(CLOSING, peer="h2", asked_version=7),
        AnswerOverdue(),
        [AwaitAnswer(), SendPrepare("h2", 8)],
        {"asked_version": 8},
    ),
    "the epoch is closed": Case(
        FakeStream(CLOSING, peer="h2", asked_version=8),
        SlotFree("h2", 8),
        [StateChanged(CLOSING, REMOTE), CloseEpoch("h2"), Review()],
        {"state": REMOTE, "term": 1},
    ),
    "the former home has closed": Case(
        FakeStream(OPENING, preparer="h1"),
        CloseReceived("h1", 5, 41),
        [Review(), WakeDependents()],
        {"ending": END},
    ),
    "the hub that offered keeps the topic": Case(
        FakeStream(OPENING, preparer="h1", since_version=8, pending_offer=("h1", 8)),
        CancelReceived("h1", 9),
        [AskPlan()],
        {"preparer": None, "pending_offer": None, "since_version": 9},
    ),
    **{
        f"an offer that waits is withdrawn while {state.value}": Case(
            FakeStream(state, pending_offer=("h1", 8)), CancelReceived("h1", 9), [], {"pending_offer": None}
        )
        for state in StreamState
    },
    **{
        f"the hub that the topic was to go to, or was at, dies while {state.value}": Case(
            FakeStream(state, peer="h1", preparer="h1", pending_offer=("h1", 8)),
            HubDied("h1"),
            [],
            {"peer": None, "preparer": None, "pending_offer": None},
        )
        for state in StreamState
    },
    "the new home has opened": Case(
        FakeStream(REMOTE, peer="h2"), OpenedReceived("me"), [HandoverDone(is_taken=False)], {}
    ),
    "the new home has opened, and the topic is on its way back": Case(
        FakeStream(OPENING), OpenedReceived("me"), [HandoverDone(is_taken=False)], {}
    ),
    "all of the former epoch is here": Case(
        FakeStream(OPENING, preparer="h1", ending=END, source="h3", position=(5, 41)),
        Progressed(),
        [StateChanged(OPENING, OPEN), OpenEpoch(END), HandoverDone(is_taken=True), AskPlan()],
        {"state": OPEN, "preparer": None, "ending": None, "term": 1},
    ),
    "no other hub has the topic": Case(
        FakeStream(OPENING, since_version=8),
        Progressed(),
        [StateChanged(OPENING, OPEN), OpenEpoch(("", 0, 0)), Review()],
        {"state": OPEN, "term": 1},
        PASSED,
    ),
    **{
        f"an offer that waited is looked at while {state.value}": Case(
            FakeStream(state, preparer="h1", pending_offer=("h1", 8)),
            Progressed(),
            [Reconsider("h1", 8), Review()],
            {"pending_offer": None},
        )
        for state in (OPENING, REMOTE, OPEN)
    },
    "an open topic that nothing waits for is forgotten": Case(
        FakeStream(OPEN), Progressed(), [Resume(), Forget()], {}
    ),
    "a topic that was given here under a later plan is remembered": Case(
        FakeStream(OPEN, since_version=9), Progressed(), [Resume()], {}
    ),
    **{
        f"what waits goes on while {state.value}": Case(FakeStream(state), Progressed(), [Resume()], {})
        for state in (CLOSING, OPENING, REMOTE)
    },
}
# What an event must not do, though its neighbour does.
NOTHING: dict[str, tuple[FakeStream, HandoverEvent, HubKnows]] = {
    "a plan that is older than the one the topic was given under": (
        FakeStream(OPEN, since_version=9),
        PlanApplied("h2"),
        KNOWS,
    ),
    "the plan, while another hub offers the topic": (
        FakeStream(OPENING, preparer="h1"),
        PlanApplied("h2"),
        KNOWS,
    ),
    "a plan without a live member, while the topic is open here": (
        FakeStream(OPEN),
        PlanApplied(None),
        KNOWS,
    ),
    "an offer under an older plan than the present one": (
        FakeStream(REMOTE, peer="h2"),
        PrepareReceived("h1", 7),
        KNOWS,
    ),
    "an offer that is older than the one taken": (
        FakeStream(OPENING, preparer="h3", asked_version=9),
        PrepareReceived("h1", 8),
        KNOWS,
    ),
    "an answer to an earlier offer": (
        FakeStream(CLOSING, peer="h2", asked_version=8),
        PreparedReceived("h2", 7),
        KNOWS,
    ),
    "a slot for a hub that is no longer asked": (
        FakeStream(CLOSING, peer="h3", asked_version=8),
        SlotFree("h2", 8),
        KNOWS,
    ),
    "a close that this hub does not wait for": (FakeStream(REMOTE), CloseReceived("h1", 5, 41), KNOWS),
    "an epoch that follows another hub's": (FakeStream(REMOTE), OpenedReceived("h3"), KNOWS),
}


def row_of(stream: FakeStream, event: HandoverEvent, knows: HubKnows) -> Transition[Any] | None:
    rows = (row for row in TABLE if (row.state, row.event) == (stream.state, type(event)))
    return next((row for row in rows if row.guard(stream, event, knows)), None)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_event_gives_these_effects_and_changes_nothing_else(case: Case) -> None:
    stream = replace(case.stream)
    assert apply(stream, case.event, case.knows) == case.effects
    assert stream == replace(case.stream, **case.after)


@pytest.mark.parametrize("case", NOTHING.values(), ids=NOTHING.keys())
def test_nothing_comes_of(case: tuple[FakeStream, HandoverEvent, HubKnows]) -> None:
    before, event, knows = case
    stream = replace(before)
    assert apply(stream, event, knows) == []
    assert stream == before


def test_every_row_of_the_table_is_a_case_above() -> None:
    # Before `apply` changes the streams: a row is found by the state before.
    tested = [row_of(case.stream, case.event, case.knows) for case in CASES.values()]
    assert [row for row in TABLE if not any(row is one for one in tested)] == []


@pytest.mark.parametrize(
    ("stream", "is_behind", "is_opened"),
    [
        pytest.param(FakeStream(OPENING, ending=END), False, True, id="no subscriber here wants it"),
        pytest.param(
            FakeStream(OPENING, ending=END), True, False, id="subscribers by pattern wait for parts"
        ),
        pytest.param(
            FakeStream(OPENING, ending=END, source="h1", position=(5, 3)),
            False,
            True,
            id="the source has closed",
        ),
        pytest.param(
            FakeStream(OPENING, ending=END, source="h3", position=(5, 40)), False, False, id="one is missing"
        ),
        pytest.param(
            FakeStream(OPENING, ending=END, source="h3", position=(5, 41)), True, True, id="all is here"
        ),
    ],
)
def test_the_next_epoch_is_opened_once_the_former_one_has_arrived(
    stream: FakeStream, is_behind: bool, is_opened: bool
) -> None:
    """The source that has closed sends its end behind all it has: nothing of it is missing."""
    effects = apply(replace(stream), Progressed(is_behind), KNOWS)
    assert (OpenEpoch(END) in effects) == is_opened


def test_the_end_of_a_hub_that_closed_and_died_still_counts() -> None:
    stream = FakeStream(OPENING, preparer="h1", ending=END)
    apply(stream, HubDied("h1"), KNOWS)
    assert (stream.preparer, stream.ending) == ("h1", END)


@pytest.mark.parametrize(
    ("home", "knows", "is_offered", "state"),
    [
        ("h1", KNOWS, False, REMOTE),
        (None, PASSED, False, REMOTE),
        ("me", KNOWS, False, OPENING),
        ("me", PASSED, True, OPENING),
        ("me", PASSED, False, None),
    ],
)
def test_a_new_topic_is_simply_open_only_where_no_other_hub_can_have_it(
    home: str | None, knows: HubKnows, is_offered: bool, state: StreamState | None
) -> None:
    assert first_state(home, knows, is_offered=is_offered) is state


def test_the_table_never_numbers_without_an_end_or_the_barrier() -> None:
    """Nothing leads from opening or remote to open but the two rows whose guards say why that is safe."""
    opening = [row for row in TABLE if row.following is OPEN and not row.state.is_home]
    assert [row.guard for row in opening] == [
        rules.is_at_end,
        rules.has_no_other_home,
    ]
