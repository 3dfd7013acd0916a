"""Low-load rebalancing: drain one server slowly and release it (Dynamoth III-B4).

The hub's share of the ring decreases in a few rounds, its entries move to the least loaded hub, and each step is
predicted first: it may raise no other hub above the low threshold. If load rises meanwhile the hub gets its share
back. An empty hub leaves the plan, so that clients are redirected to others; once it has no clients it may be stopped.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.model import Member, Reason
from equipoise.plan.draft import Draft, why
from equipoise.plan.memory import LONG_AGO_S, ReleasedHub
from equipoise.plan.steps.latency import needed_at
from equipoise.plan.steps.obligations import evacuate

__all__ = ["fits", "forget", "go_on", "pinned_to"]

# Topics of at least this size are placed one by one before the ring moves the rest.
_HEAVY_RATIO = 0.02
# Moves that are made because a hub is too full. Fewer homes of a topic whose load has fallen do not count.
_FOR_ROOM = frozenset({Reason.HIGH_LOAD, Reason.RISING_LOAD, Reason.REPLICATED})


def go_on(draft: Draft, hub: int) -> None:
    name = draft.view.hubs.names[hub]
    member = draft.members[name]
    has_waited = draft.now - draft.memory.releasing_s > draft.settings.release_timeout_s
    is_stuck = has_waited or needed_at(draft, hub)
    if is_stuck:
        draft.remember(kept_average=draft.predicted.average_without_one(draft.eligible, hub))
    if _has_risen(draft) or is_stuck or draft.view.hubs.is_draining[hub]:
        _interrupt(draft, member, hub)
        return
    has_heavy = _move_topics(draft, hub, at_least=_HEAVY_RATIO)
    if not has_heavy and member.weight > 0:
        _shrink(draft, member, hub)
    elif not has_heavy:
        _move_topics(draft, hub)
    _finish(draft, hub)


def _has_risen(draft: Draft) -> bool:
    """The slow average clearly exceeds the bound that allowed the release, or a hub needs room now."""
    limit = draft.settings.low_ratio + draft.settings.low_margin_ratio
    is_severe = bool((draft.predicted.ratio[draft.eligible] >= draft.settings.severe_ratio).any())
    needs_room = draft.is_short or is_severe or draft.changes.has_moved_for(_FOR_ROOM)
    return draft.memory.average_without_one > limit or needs_room


def _shrink(draft: Draft, member: Member, hub: int) -> None:
    """Lower its share of the ring by a step, unless that would overload another hub."""
    step = max(1, math.ceil(draft.memory.releasing_weight / draft.settings.release_steps))
    made = Member(member.hub, max(0, member.weight - step), member.site)
    after = draft.if_members({**draft.members, member.hub: made}.values())
    others = _others(draft, hub)
    highest = float(after[others].max())
    if highest > max(draft.settings.low_ratio, float(draft.predicted.ratio[others].max())):
        # The ring would move too much load to one hub; entries can place topics one by one.
        _move_topics(draft, hub)
        return
    numbers = {
        "average_without_one": draft.predicted.average_without_one(draft.eligible, hub),
        "highest_ratio_after": highest,
    }
    draft.set_member(made, why(Reason.LOW_LOAD, f"share of the ring {made.weight}/16", **numbers))
    draft.place_all()
    draft.remember(members_s=draft.now, plan_s=draft.now)


def _move_topics(draft: Draft, hub: int, *, at_least: float = 0.0) -> bool:
    """Move topics of at least this size to the least loaded hub, the heaviest first; whether there were any."""
    predicted = draft.predicted
    reason = why(Reason.LOW_LOAD, f"off {draft.view.hubs.names[hub]}", load_ratio=predicted.ratio[hub])
    own = predicted.at_hub(hub)
    on_it = own[predicted.topic_ratios(own, hub) >= at_least].tolist()
    on_it += [topic for topic, replicas in predicted.several.items() if hub in replicas.homes]
    limit = draft.settings.low_ratio + draft.settings.low_margin_ratio / 2
    for topic in on_it:
        if draft.budget <= 0:
            break
        if draft.is_free(topic):
            evacuate(draft, topic, hub, reason, limit=limit)
    return bool(on_it)


def _finish(draft: Draft, hub: int) -> None:
    """Remove it from the plan once it has been empty for as long as clients take to follow redirects."""
    memory, name = draft.memory, draft.view.hubs.names[hub]
    holds = (draft.predicted.home == hub).any() or any(
        hub in replicas.homes for replicas in draft.predicted.several.values()
    )
    if draft.members[name].weight > 0 or holds or name in pinned_to(draft):
        draft.remember(emptied_s=LONG_AGO_S)
        return
    if memory.emptied_s == LONG_AGO_S:
        draft.remember(emptied_s=draft.now)
        return
    waited_s = draft.now - memory.emptied_s
    if waited_s >= draft.settings.settle_s:
        out = ReleasedHub(int(draft.view.hubs.incarnation[hub]), draft.now)
        draft.remove_member(name, why(Reason.RELEASED, waited_s=waited_s))
        draft.remember(released={**memory.released, name: out}, members_s=draft.now, kept_average=-1.0)
        forget(draft)
        draft.place_all()


def _interrupt(draft: Draft, member: Member, hub: int) -> None:
    """Load rises again: restore the hub's weight."""
    reason = why(Reason.KEPT, average_without_one=draft.predicted.average_without_one(draft.eligible, hub))
    weight = draft.memory.releasing_weight
    if member.weight != weight and not draft.view.hubs.is_draining[hub]:
        draft.set_member(Member(member.hub, weight, member.site), reason)
        draft.place_all()
        draft.remember(members_s=draft.now)
    draft.remember(idle_debts=())
    forget(draft)


def forget(draft: Draft) -> None:
    draft.remember(releasing="", releasing_weight=0, releasing_s=LONG_AGO_S, emptied_s=LONG_AGO_S)


def fits(draft: Draft, hub: int) -> bool:
    """Whether the others could take all its topics one by one: a heavy topic may fit on none, whatever the average."""
    if needed_at(draft, hub):
        return False
    predicted, limit = draft.predicted, draft.settings.low_ratio
    others = np.flatnonzero(_others(draft, hub))
    filled = predicted.ratio[others].copy()
    for size in predicted.topic_ratios(predicted.at_hub(hub), hub).tolist():
        emptiest = int(np.argmin(filled))
        filled[emptiest] += size
        if filled[emptiest] > limit:
            return False
    return True


def pinned_to(draft: Draft) -> set[str]:
    """The hubs to which an operator has pinned a topic, used or not."""
    return {home for entry in draft.plan.pinned for home in entry.homes}


def _others(draft: Draft, hub: int | None = None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    others = draft.eligible.copy()
    if hub is not None:
        others[hub] = False
    return others
