"""Low-load rebalancing: empty the least loaded server, slowly, and let it go (Dynamoth III-B4).

It begins when the others could carry everything, avg + avg/(n − 1) ≤ low, and a server too many has cost what emptying
one costs. Every server too many has a debt of its own, so that those that were idle together go right after each other.
The hub's share of the ring goes down in a few rounds, its entries move to the least loaded hub, and each
step is predicted first: no other hub may get above the low threshold by it. If load rises meanwhile the hub gets its
share back. A hub that holds nothing any more leaves the plan, so that clients no longer come to it; once those that it
has are gone it may be stopped.

One hub at a time; never the last ones, never one that has just come, never one that no provisioner would stop.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.model import Member, Reason
from equipoise.plan.draft import Draft, why
from equipoise.plan.memory import LONG_AGO_S, HubNoise, Released
from equipoise.plan.steps.autoscale import elapsed_s, rental_price
from equipoise.plan.steps.constraints import put_elsewhere
from equipoise.plan.steps.latency import needed_at

__all__ = ["may_stop", "release"]

# Half a minute: three windows.
_AVERAGE_S = 30.0
# Topics from this size on are placed one by one before the ring sends the rest wherever it does.
_HEAVY_RATIO = 0.02
# Moves that are made because a hub is too full. Fewer homes for a topic that has calmed down are none of them.
_FOR_ROOM = frozenset({Reason.HIGH_LOAD, Reason.RISING_LOAD, Reason.REPLICATED})
# How much less there has to be to carry before what could not be done is tried again.
_RETRY_RATIO = 0.05


def release(draft: Draft) -> None:
    """Begin, go on with, interrupt or finish the release of one server."""
    if not draft.is_news:
        return
    hub = draft.view.hub_index.get(draft.memory.releasing)
    _average(draft, hub)
    _owe(draft)
    if draft.memory.releasing and (hub is None or draft.memory.releasing not in draft.members):
        _forget(draft)
    elif hub is not None and draft.memory.releasing:
        _go_on(draft, hub)
    else:
        _consider(draft)


def _others(draft: Draft, hub: int | None = None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    others = draft.eligible.copy()
    if hub is not None:
        others[hub] = False
    return others


def _average_without_one(draft: Draft, hub: int | None = None) -> float:
    """avg + avg/(n − 1): the average over the others once they carry everything."""
    among = draft.eligible.copy()
    if hub is not None:
        among[hub] = True
    count = int(among.sum())
    return float(draft.predicted.ratio[among].sum()) / (count - 1) if count > 1 else math.inf


def _owe(draft: Draft) -> None:
    """Add to the debt of every server too many. Noise adds nothing for a while; only more load takes a debt away."""
    settings = draft.settings
    noises = [draft.memory.noises.get(name, HubNoise()).deviation for name in draft.view.hubs.names]
    noise = float(np.median(np.array(noises)[draft.eligible])) if draft.eligible.any() else 0.0
    # The others have to carry everything, their usual noise included.
    limit = min(settings.low_ratio, settings.high_ratio - settings.clear_deviations * noise)
    debts = list(
        draft.memory.idle_debts[: _idle_servers(draft, settings.low_ratio + settings.low_margin_ratio)]
    )
    count = 0 if _is_stirring(draft) or not _is_quiet(draft) else _idle_servers(draft, limit)
    debts += [0.0] * (count - len(debts))
    for level in range(count):
        debts[level] += settings.server_hour_price * elapsed_s(draft) / 3600
    draft.remember(idle_debts=tuple(debts))


def _idle_servers(draft: Draft, limit: float) -> int:
    """How many of the servers could go before the rest were above the limit on average."""
    if limit <= 0:
        return 0
    needed = math.ceil(float(draft.predicted.ratio[draft.eligible].sum()) / limit - 1e-9)
    return max(0, int(draft.eligible.sum()) - max(needed, draft.settings.servers_min, 1))


def _is_quiet(draft: Draft) -> bool:
    """Nothing is being shared out or moved, and nothing has shown that this much does not fit on fewer."""
    return draft.now >= draft.memory.spread_until_s and not draft.has_moves and not _has_failed(draft)


def _is_stirring(draft: Draft) -> bool:
    """Some hub is overloaded, or rises."""
    over = draft.eligible & (draft.predicted.ratio > draft.settings.high_ratio)
    rising = draft.eligible & draft.capacities.is_rising
    return draft.is_pressing or draft.is_short or bool(over.any() or rising.any())


def _has_risen(draft: Draft) -> bool:
    """The average, seen slowly, is clearly above what allowed the release, or a hub needs room just now."""
    limit = draft.settings.low_ratio + draft.settings.low_margin_ratio
    is_severe = bool((draft.predicted.ratio[draft.eligible] >= draft.settings.severe_ratio).any())
    needs_room = draft.is_short or is_severe or draft.has_moved_for(_FOR_ROOM)
    return draft.memory.average_without_one > limit or needs_room


def _average(draft: Draft, hub: int | None) -> None:
    """Keep the slow mean of what the others would carry."""
    value, before = _average_without_one(draft, hub), draft.memory.average_without_one
    if math.isinf(value):
        # One server alone: there is no mean that could go on later.
        draft.remember(average_without_one=-1.0)
        return
    keep = math.exp(-elapsed_s(draft) / _AVERAGE_S)
    draft.remember(average_without_one=value if before < 0 else keep * before + (1 - keep) * value)


def _consider(draft: Draft) -> None:
    settings, debts = draft.settings, draft.memory.idle_debts
    hub = _victim(draft)
    if hub is None or not debts or settings.server_hour_price <= 0:
        return
    moves = int((draft.predicted.home == hub).sum())
    is_due = debts[0] >= rental_price(draft) + moves * settings.move_price
    is_calm = _is_quiet(draft) and not _is_stirring(draft)
    if is_due and is_calm and draft.may_plan and _fits(draft, hub):
        name = draft.view.hubs.names[hub]
        weight = draft.members[name].weight
        draft.remember(releasing=name, releasing_weight=weight, releasing_s=draft.now, idle_debts=debts[1:])
        _go_on(draft, hub)


def _has_failed(draft: Draft) -> bool:
    """It was tried with about this much to carry, and there was something that fitted nowhere."""
    kept = draft.memory.kept_average
    return kept >= 0 and _average_without_one(draft) > kept - _RETRY_RATIO


def _fits(draft: Draft, hub: int) -> bool:
    """Whether the others could take all its topics one by one: a heavy one may fit nowhere, whatever the average."""
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


def _victim(draft: Draft) -> int | None:
    """The least loaded of those that may go."""
    names, settings = draft.view.hubs.names, draft.settings
    if int(draft.eligible.sum()) <= max(settings.servers_min, 1):
        return None
    young = [
        draft.now - draft.memory.joined_s.get(name, LONG_AGO_S) < settings.rental_min_s for name in names
    ]
    may_go = draft.eligible & draft.view.hubs.is_releasable & ~np.array(young, np.bool_)
    may_go &= ~np.array([name in _pinned_to(draft) for name in names], np.bool_)
    if not may_go.any():
        return None
    return int(np.argmin(np.where(may_go, draft.predicted.ratio, np.inf)))


def _pinned_to(draft: Draft) -> set[str]:
    """The hubs that an operator wants a topic to be at, whether it is in use just now or not."""
    return {home for entry in draft.plan.pinned for home in entry.homes}


def _go_on(draft: Draft, hub: int) -> None:
    name = draft.view.hubs.names[hub]
    member = draft.members[name]
    has_waited = draft.now - draft.memory.releasing_s > draft.settings.release_timeout_s
    is_stuck = has_waited or needed_at(draft, hub)
    if is_stuck:
        draft.remember(kept_average=_average_without_one(draft, hub))
    if _has_risen(draft) or is_stuck or draft.view.hubs.is_draining[hub]:
        _interrupt(draft, member, hub)
        return
    has_heavy = _move_topics(draft, hub, at_least=_HEAVY_RATIO)
    if not has_heavy and member.weight > 0:
        _shrink(draft, member, hub)
    elif not has_heavy:
        _move_topics(draft, hub)
    _finish(draft, hub)


def _shrink(draft: Draft, member: Member, hub: int) -> None:
    """Lower its share of the ring by a step, unless that would make another hub too full."""
    step = max(1, math.ceil(draft.memory.releasing_weight / draft.settings.release_steps))
    made = Member(member.hub, max(0, member.weight - step), member.site)
    after = draft.if_members({**draft.members, member.hub: made}.values())
    others = _others(draft, hub)
    highest = float(after[others].max())
    if highest > max(draft.settings.low_ratio, float(draft.predicted.ratio[others].max())):
        # The ring would send too much to one of them; by entries topics can be placed one by one.
        _move_topics(draft, hub)
        return
    numbers = {"average_without_one": _average_without_one(draft, hub), "highest_ratio_after": highest}
    draft.set_member(made, why(Reason.LOW_LOAD, f"share of the ring {made.weight}/16", **numbers))
    draft.place_all()
    draft.remember(members_s=draft.now, plan_s=draft.now)


def _move_topics(draft: Draft, hub: int, *, at_least: float = 0.0) -> bool:
    """Give topics of at least this size to the least loaded hub, the heaviest first; whether there were any."""
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
            put_elsewhere(draft, topic, hub, reason, limit=limit)
    return bool(on_it)


def _finish(draft: Draft, hub: int) -> None:
    """Once it has held nothing for as long as clients take to hear of it, it is out."""
    memory, name = draft.memory, draft.view.hubs.names[hub]
    holds = (draft.predicted.home == hub).any() or any(
        hub in replicas.homes for replicas in draft.predicted.several.values()
    )
    if draft.members[name].weight > 0 or holds or name in _pinned_to(draft):
        draft.remember(emptied_s=LONG_AGO_S)
        return
    if memory.emptied_s == LONG_AGO_S:
        draft.remember(emptied_s=draft.now)
        return
    waited_s = draft.now - memory.emptied_s
    if waited_s >= draft.settings.settle_s:
        out = Released(int(draft.view.hubs.incarnation[hub]), draft.now)
        draft.remove_member(name, why(Reason.RELEASED, waited_s=waited_s))
        draft.remember(released={**memory.released, name: out}, members_s=draft.now, kept_average=-1.0)
        _forget(draft)
        draft.place_all()


def may_stop(draft: Draft) -> tuple[str, ...]:
    """The released hubs that no client is served by any more, or that have waited long enough for the last ones."""
    index, carriers = draft.view.hub_index, set(draft.view.carried.hub.tolist())
    settings, released = draft.settings, draft.memory.released
    return tuple(
        name
        for name, out in sorted(released.items())
        if draft.now - out.at_s
        >= (settings.release_wait_s if index.get(name) in carriers else settings.settle_s)
    )


def _interrupt(draft: Draft, member: Member, hub: int) -> None:
    """Load rises again: give the hub back what it had."""
    reason = why(Reason.KEPT, average_without_one=_average_without_one(draft, hub))
    weight = draft.memory.releasing_weight
    if member.weight != weight and not draft.view.hubs.is_draining[hub]:
        draft.set_member(Member(member.hub, weight, member.site), reason)
        draft.place_all()
        draft.remember(members_s=draft.now)
    draft.remember(idle_debts=())
    _forget(draft)


def _forget(draft: Draft) -> None:
    draft.remember(releasing="", releasing_weight=0, releasing_s=LONG_AGO_S, emptied_s=LONG_AGO_S)
