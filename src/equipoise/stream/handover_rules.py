"""Guards and actions of the handover table. Pure.

A guard reads the stream, the event and the hub's facts. An action changes the stream and returns effects. Their
docstrings are texts of docs/reference/handover.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from equipoise.stream.effects import (
    AskPlan,
    AwaitAnswer,
    CloseEpoch,
    Effect,
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
    WakeDependents,
)
from equipoise.stream.handover_events import (
    AnswerOverdue,
    CancelReceived,
    CloseReceived,
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

__all__ = [
    "always",
    "answer",
    "ask_plan",
    "close",
    "defer",
    "drop_offer",
    "expect",
    "finish",
    "follow",
    "follows_own_end",
    "forget",
    "forget_hub",
    "forget_preparer",
    "has_no_other_home",
    "has_offer",
    "home_has_changed",
    "home_is_as_before",
    "home_is_elsewhere",
    "home_is_here",
    "is_answer",
    "is_at_end",
    "is_from_preparer",
    "is_latest_offer",
    "is_not_promised",
    "is_offer_of_plan",
    "is_settled",
    "is_unused",
    "may_answer",
    "may_answer_offer_of_plan",
    "may_answer_pending",
    "note_end",
    "note_offer",
    "offer",
    "open_after",
    "open_new",
    "queue",
    "reconsider",
    "resume",
    "review",
    "withdraw",
]

# Guards. A plan older than the one that assigned the topic to this hub is ignored for it.


def always(stream: HandoverStream, event: Any, facts: HandoverFacts) -> bool:
    """"""
    return True


def _counts(stream: HandoverStream, facts: HandoverFacts) -> bool:
    return stream.since_version <= facts.version


def home_is_here(stream: HandoverStream, event: PlanApplied, facts: HandoverFacts) -> bool:
    """the home is this hub"""
    return _counts(stream, facts) and event.home == facts.hub


def home_is_elsewhere(stream: HandoverStream, event: PlanApplied, facts: HandoverFacts) -> bool:
    """the home is another hub"""
    return _counts(stream, facts) and event.home != facts.hub


def is_unused(stream: HandoverStream, event: PlanApplied, facts: HandoverFacts) -> bool:
    """the home is another hub, and the topic has no subscriber"""
    return home_is_elsewhere(stream, event, facts) and event.is_unused


def home_is_as_before(stream: HandoverStream, event: PlanApplied, facts: HandoverFacts) -> bool:
    """the home is the hub that received the offer"""
    return home_is_elsewhere(stream, event, facts) and event.home == stream.peer


def home_has_changed(stream: HandoverStream, event: PlanApplied, facts: HandoverFacts) -> bool:
    """the home is another hub than before"""
    return home_is_elsewhere(stream, event, facts) and event.home != stream.peer


def is_not_promised(stream: HandoverStream, event: PlanApplied, facts: HandoverFacts) -> bool:
    """the home is another hub, and no hub offers the topic"""
    return home_is_elsewhere(stream, event, facts) and stream.preparer is None


def is_latest_offer(stream: HandoverStream, event: PrepareReceived, facts: HandoverFacts) -> bool:
    """no later offer was accepted"""
    is_promised = stream.preparer is not None or stream.ending is not None
    return not (is_promised and event.version < stream.asked_version)


def may_answer(stream: HandoverStream, event: PrepareReceived, facts: HandoverFacts) -> bool:
    """no later offer was accepted, and every hub has introduced itself"""
    return is_latest_offer(stream, event, facts) and facts.is_introduced


def is_offer_of_plan(stream: HandoverStream, event: PrepareReceived, facts: HandoverFacts) -> bool:
    """its plan is not older than the plan here"""
    # The hub that offers under an older plan will soon apply a newer one. If this hub accepted after its own DONE, the
    # home of the current plan could open the topic, too.
    return is_latest_offer(stream, event, facts) and event.version >= facts.version


def may_answer_offer_of_plan(stream: HandoverStream, event: PrepareReceived, facts: HandoverFacts) -> bool:
    """its plan is not older than the plan here, and every hub has introduced itself"""
    return is_offer_of_plan(stream, event, facts) and facts.is_introduced


def is_answer(stream: HandoverStream, event: PreparedReceived | SlotFree, facts: HandoverFacts) -> bool:
    """the hub and the version are those of the last PREPARE"""
    return (stream.peer, stream.asked_version) == (event.hub, event.version)


def is_at_end(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> bool:
    """all of the former epoch that a subscriber here needs has arrived"""
    if stream.ending is None:
        return False
    hub, epoch, n = stream.ending
    is_fed = stream.source in (None, hub) and not event.is_behind
    return is_fed or stream.position >= (epoch, n)


def has_no_other_home(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> bool:
    """no hub offers the topic, and every live hub has sent DONE for the current plan"""
    is_unasked = stream.preparer is None and stream.ending is None
    return is_unasked and _counts(stream, facts) and facts.is_barrier_passed


def has_offer(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> bool:
    """an offer is pending"""
    return stream.pending_offer is not None


def may_answer_pending(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> bool:
    """an offer is pending, and every hub has introduced itself"""
    return stream.pending_offer is not None and facts.is_introduced


def is_settled(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> bool:
    """the plan here is not older than the one that assigned the topic to this hub"""
    return _counts(stream, facts)


def is_from_preparer(stream: HandoverStream, event: CancelReceived, facts: HandoverFacts) -> bool:
    """from the hub that offered the topic"""
    return stream.preparer == event.hub


def follows_own_end(stream: HandoverStream, event: OpenedReceived, facts: HandoverFacts) -> bool:
    """the new epoch follows one of this hub"""
    return event.former_hub == facts.hub


# Actions: change the stream, and return effects.


def offer(
    stream: HandoverStream, event: PlanApplied | AnswerOverdue, facts: HandoverFacts
) -> Iterable[Effect]:
    """send PREPARE to the next home, and repeat it until that hub replies"""
    if isinstance(event, PlanApplied):
        stream.peer = event.home
    stream.asked_version = facts.version
    yield AwaitAnswer()
    if stream.peer is not None:
        yield SendPrepare(stream.peer, facts.version)


def withdraw(stream: HandoverStream, event: PlanApplied, facts: HandoverFacts) -> Iterable[Effect]:
    """send CANCEL to the hub that received the offer"""
    if stream.peer is not None:
        yield SendCancel(stream.peer, facts.version)
    stream.peer = None


def follow(stream: HandoverStream, event: PlanApplied, facts: HandoverFacts) -> Iterable[Effect]:
    """follow the stream at its home, if a subscriber here needs it"""
    if stream.peer != event.home:
        stream.term += 1
    stream.peer = event.home
    yield Follow()


def note_offer(stream: HandoverStream, event: PrepareReceived, facts: HandoverFacts) -> Iterable[Effect]:
    """record the version of the offer"""
    stream.asked_version = event.version
    stream.since_version = max(stream.since_version, event.version)
    return ()


def expect(stream: HandoverStream, event: PrepareReceived, facts: HandoverFacts) -> Iterable[Effect]:
    """wait for CLOSE from the hub that offers"""
    stream.preparer = event.hub
    return ()


def answer(stream: HandoverStream, event: PrepareReceived, facts: HandoverFacts) -> Iterable[Effect]:
    """send PREPARED to the hub that offers"""
    yield SendPrepared(event.hub, event.version)


def defer(stream: HandoverStream, event: PrepareReceived, facts: HandoverFacts) -> Iterable[Effect]:
    """reply to the offer later"""
    stream.pending_offer = (event.hub, event.version)
    return ()


def reconsider(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> Iterable[Effect]:
    """handle the pending offer, as if it arrived now"""
    assert stream.pending_offer is not None, "the guard has checked this"
    offer, stream.pending_offer = stream.pending_offer, None
    yield Reconsider(*offer)


def drop_offer(
    stream: HandoverStream, event: CancelReceived | HubDied, facts: HandoverFacts
) -> Iterable[Effect]:
    """drop a pending offer of that hub"""
    if stream.pending_offer is not None and stream.pending_offer[0] == event.hub:
        stream.pending_offer = None
    return ()


def forget_preparer(stream: HandoverStream, event: CancelReceived, facts: HandoverFacts) -> Iterable[Effect]:
    """stop waiting for that hub; plans from that version on apply again"""
    stream.preparer = stream.ending = None
    stream.since_version = event.version
    return ()


def forget_hub(stream: HandoverStream, event: HubDied, facts: HandoverFacts) -> Iterable[Effect]:
    """drop that hub as home, and as the one that offers unless it has closed"""
    if stream.preparer == event.hub and stream.ending is None:
        stream.preparer = None
    if stream.peer == event.hub:
        # Until the next lookup in the plan.
        stream.peer = None
    return ()


def queue(stream: HandoverStream, event: PreparedReceived, facts: HandoverFacts) -> Iterable[Effect]:
    """wait for a slot, so that few topics are closed at once"""
    yield QueueClose(event.hub, event.version)


def close(stream: HandoverStream, event: SlotFree, facts: HandoverFacts) -> Iterable[Effect]:
    """end the epoch: attach to the new home if a subscriber here needs the topic, then send it CLOSE"""
    yield CloseEpoch(event.hub)


def note_end(stream: HandoverStream, event: CloseReceived, facts: HandoverFacts) -> Iterable[Effect]:
    """record the end of the former epoch; wake streams that wait for this one"""
    stream.ending = (event.hub, event.epoch, event.n)
    yield Review()
    yield WakeDependents()


def open_after(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> Iterable[Effect]:
    """begin the next epoch, which names the end of the former one; the handover is done"""
    assert stream.ending is not None, "the guard has checked this"
    after = stream.ending
    stream.preparer = stream.ending = stream.peer = None
    yield OpenEpoch(after)
    yield HandoverDone(is_taken=True)


def open_new(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> Iterable[Effect]:
    """begin an epoch without a known predecessor"""
    stream.preparer = stream.ending = stream.peer = None
    yield OpenEpoch(("", 0, 0))


def finish(stream: HandoverStream, event: OpenedReceived, facts: HandoverFacts) -> Iterable[Effect]:
    """the handover is done: its slot is free"""
    yield HandoverDone(is_taken=False)


def ask_plan(stream: HandoverStream, event: Any, facts: HandoverFacts) -> Iterable[Effect]:
    """look up the plan again"""
    yield AskPlan()


def resume(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> Iterable[Effect]:
    """confirm waiting subscribers and followers, send messages that were held"""
    yield Resume()


def forget(stream: HandoverStream, event: Progressed, facts: HandoverFacts) -> Iterable[Effect]:
    """remove the state of the stream, if nothing is pending"""
    yield Forget()


def review(stream: HandoverStream, event: Any, facts: HandoverFacts) -> Iterable[Effect]:
    """review"""
    yield Review()
