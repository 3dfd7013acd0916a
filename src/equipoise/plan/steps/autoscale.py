"""Autoscaling: when to add and when to release a server.

Missing capacity has a cost every second, and so has a surplus server; starting and draining a server have a fixed cost.
The one rule for both: act when the accumulated cost of waiting reaches the cost of acting. This never costs more than
twice the optimum with known future load (the ski-rental bound), and needs no forecast: large overloads are acted on at
once, small ones when they last, and a surplus server is released the sooner the less there is to move.

More servers: the planner only requests them; a provisioner starts a server, and its hub joins when it is alive.

Fewer servers: a release begins when the others could carry all load, avg + avg/(n − 1) ≤ low, and the accumulated cost
of a surplus server has reached that of draining one (Dynamoth III-B4). Every surplus server has a debt of its own, so
that servers that were idle together are released right after each other. `low_load` drains the server. One hub at a
time; never below the minimum, never a hub that has just joined, never a hub that no provisioner would stop.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.model import Reason
from equipoise.plan.draft import Draft, why
from equipoise.plan.memory import LONG_AGO_S, HubNoise
from equipoise.plan.steps import low_load
from equipoise.plan.steps.obligations import join

__all__ = ["ask", "elapsed_s", "foresee", "may_stop", "release", "servers_wanted"]

# A longer interval between views means that the planner was not running.
_ELAPSED_S_MAX = 10.0
# The duration that the first view of an overload stands for.
_ELAPSED_S_FIRST = 1.0
# Half a minute: three windows.
_AVERAGE_S = 30.0
# How much the load has to fall before a failed release is tried again.
_RETRY_RATIO = 0.05


def _rental_price(draft: Draft) -> float:
    """The least cost of a server."""
    return draft.settings.server_hour_price * draft.settings.rental_min_s / 3600


def elapsed_s(draft: Draft) -> float:
    """The time between this view and the one before it."""
    passed_s = draft.view.time_s - draft.view_before_s
    return passed_s if 0 < passed_s <= _ELAPSED_S_MAX else _ELAPSED_S_FIRST


def ask(draft: Draft, overloaded: list[int]) -> None:
    """Add up the capacity that these hubs lack, and request servers once its cost reaches that of a server.

    Load that no server can take does not count: a hub overloaded by its pinned topics alone stays as it is.
    """
    overloaded = [hub for hub in overloaded if not _is_overloaded_by_pins(draft, hub)]
    if not overloaded:
        return
    missing = float(sum(draft.predicted.ratio[hub] - draft.settings.high_ratio for hub in overloaded))
    _owe(draft, missing, _servers_for(draft, overloaded), "overloaded")


def _is_overloaded_by_pins(draft: Draft, hub: int) -> bool:
    names = draft.view.topics.names
    here = np.flatnonzero(draft.predicted.home == hub)
    is_pinned = np.array([draft.is_kept(names[topic]) for topic in here.tolist()], np.bool_)
    if not is_pinned.any():
        return False
    left = draft.predicted.without(here[~is_pinned], hub)
    if left <= draft.settings.high_ratio:
        return False
    note = f"{draft.view.hubs.names[hub]}: pinned topics alone overload it; another server does not help"
    draft.reasons.append(why(Reason.NO_ROOM, note, load_ratio=left, pinned=int(is_pinned.sum())))
    return True


def foresee(draft: Draft) -> None:
    """Request servers before any hub is overloaded if the extrapolated total load needs them.

    The average over all hubs has far less noise than a single hub, so a rise that has lasted for a minute, and still
    lasts, is reliable. A finished step is no growth.
    """
    settings, among = draft.settings, draft.eligible
    if draft.is_short or settings.trend_horizon_s <= 0:
        return
    names, noises = draft.view.hubs.names, draft.memory.noises
    rises = [noises.get(names[hub], HubNoise()).rise_level for hub in np.flatnonzero(among).tolist()]
    rise = max(0.0, min(float(np.mean(rises)), float(draft.capacities.rise[among].mean())))
    growth = rise * settings.server_lead_s / draft.view.window_s
    expected = float(draft.predicted.ratio[among].mean()) + growth
    if growth > 0 and expected > settings.high_ratio:
        have, enough = len(rises), (settings.high_ratio + settings.accept_ratio) / 2
        count = max(1, math.ceil(have * (expected / enough - 1)))
        _owe(draft, have * (expected - settings.high_ratio), count, "growing")


def _owe(draft: Draft, missing: float, count: int, note: str) -> None:
    settings = draft.settings
    draft.is_short = True
    debt = draft.memory.overload_debt + settings.overload_hour_price * missing * elapsed_s(draft) / 3600
    draft.remember(overload_debt=debt)
    have = int(draft.eligible.sum())
    if debt < _rental_price(draft) or count == 0 or _is_waiting(draft):
        return
    numbers = {"missing_ratio": missing, "servers": have, "debt": debt, "price": _rental_price(draft)}
    if have >= settings.servers_max:
        draft.reasons.append(why(Reason.NO_ROOM, "no further server is available", **numbers))
        return
    _take_back(draft, count)
    have = int(draft.eligible.sum())
    wanted = min(have + count, settings.servers_max)
    if wanted > max(draft.memory.servers_wanted, have):
        draft.reasons.append(why(Reason.SERVER_WANTED, f"{note}: {wanted - have} more", **numbers))
        draft.remember(servers_wanted=wanted, asked_s=draft.now)


def _is_waiting(draft: Draft) -> bool:
    """Requested servers are starting, or have just joined and views do not show their effect yet."""
    memory, settings = draft.memory, draft.settings
    is_awaited = memory.servers_wanted > int(draft.eligible.sum())
    has_just_come = draft.now - max(memory.joined_s.values(), default=LONG_AGO_S) < settings.settle_s
    return has_just_come or (is_awaited and draft.now - memory.asked_s < settings.rental_min_s)


def servers_wanted(draft: Draft) -> int:
    """The wanted number of servers: the present one, or more if requested servers have not joined."""
    have, memory = int(draft.eligible.sum()), draft.memory
    is_over = (
        bool((draft.predicted.ratio[draft.eligible] > draft.settings.high_ratio).any()) or draft.is_short
    )
    if not is_over:
        # Once no capacity is missing, the accumulated cost is void.
        draft.remember(overload_debt=0.0)
    has_come = memory.servers_wanted <= have
    is_past = not is_over and draft.now - memory.asked_s >= draft.settings.rental_min_s
    if memory.servers_wanted and (has_come or is_past):
        draft.remember(servers_wanted=0, overload_debt=0.0)
    return max(have, draft.memory.servers_wanted, draft.settings.servers_min)


def _servers_for(draft: Draft, overloaded: list[int]) -> int:
    """The number of servers that the excess load of these hubs would fill, less the room of other hubs.

    With enough room another server does not help, unless the topics to move fit only on an empty hub.
    """
    settings, ratio = draft.settings, draft.predicted.ratio
    surplus = float(sum(ratio[hub] - settings.safe_ratio for hub in overloaded))
    others = draft.eligible.copy()
    others[overloaded] = False
    room = float(np.maximum(0.0, settings.accept_ratio - ratio[others]).sum())
    if surplus > room:
        return max(1, math.ceil((surplus - room) / settings.accept_ratio))
    gap = settings.accept_ratio - float(ratio[others].min())
    return int(any(_has_block(draft, hub, gap) for hub in overloaded))


def _has_block(draft: Draft, hub: int, gap: float) -> bool:
    """Whether the hub has, beside one topic that stays, another too large for the largest gap and not for a server."""
    sizes = draft.predicted.topic_ratios(draft.predicted.at_hub(hub), hub)
    blocks = (sizes > gap) & (sizes <= draft.settings.accept_ratio)
    return len(sizes) > 1 and bool(blocks.any())


def _take_back(draft: Draft, count: int) -> None:
    """Use a released hub that still runs, which is faster than a new one, unless its stop was requested."""
    index, hubs = draft.view.hub_index, draft.view.hubs
    known = [index[name] for name in sorted(draft.memory.released) if name in index]
    idle = [
        hub for hub in known if draft.alive[hub] and hubs.is_releasable[hub] and not hubs.is_draining[hub]
    ]
    for hub in idle[:count]:
        join(draft, hub)
    if idle:
        draft.place_all()
        draft.remember(members_s=draft.now)
    assert np.all(draft.eligible <= draft.alive)


# --- surplus servers --------------------------------------------------------------------------------------------------


def release(draft: Draft) -> None:
    """Begin, continue, interrupt or finish the release of one server."""
    if not draft.is_news:
        return
    hub = draft.view.hub_index.get(draft.memory.releasing)
    _average(draft, hub)
    _owe_idle(draft)
    if draft.memory.releasing and (hub is None or draft.memory.releasing not in draft.members):
        low_load.forget(draft)
    elif hub is not None and draft.memory.releasing:
        low_load.go_on(draft, hub)
    else:
        _consider(draft)


def _owe_idle(draft: Draft) -> None:
    """Add to the debt of every surplus server. Noise pauses the debt for a while; only more load clears it."""
    settings = draft.settings
    noises = [draft.memory.noises.get(name, HubNoise()).deviation for name in draft.view.hubs.names]
    noise = float(np.median(np.array(noises)[draft.eligible])) if draft.eligible.any() else 0.0
    # The others have to carry all load, with their usual noise.
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
    """The number of servers that could be released with the average of the rest below the limit."""
    if limit <= 0:
        return 0
    needed = math.ceil(float(draft.predicted.ratio[draft.eligible].sum()) / limit - 1e-9)
    return max(0, int(draft.eligible.sum()) - max(needed, draft.settings.servers_min, 1))


def _is_quiet(draft: Draft) -> bool:
    """Nothing is being spread or moved, and no release has failed at about this load."""
    return draft.now >= draft.memory.spread_until_s and not draft.has_moves and not _has_failed(draft)


def _is_stirring(draft: Draft) -> bool:
    """Some hub is overloaded, or its load rises."""
    over = draft.eligible & (draft.predicted.ratio > draft.settings.high_ratio)
    rising = draft.eligible & draft.capacities.is_rising
    return draft.is_pressing or draft.is_short or bool(over.any() or rising.any())


def _average(draft: Draft, hub: int | None) -> None:
    """Update the slow mean of the load that the others would carry."""
    value, before = draft.predicted.average_without_one(draft.eligible, hub), draft.memory.average_without_one
    if math.isinf(value):
        # One server alone has no such mean.
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
    is_due = debts[0] >= _rental_price(draft) + moves * settings.move_price
    is_calm = _is_quiet(draft) and not _is_stirring(draft)
    if is_due and is_calm and draft.may_plan and low_load.fits(draft, hub):
        name = draft.view.hubs.names[hub]
        weight = draft.members[name].weight
        draft.remember(releasing=name, releasing_weight=weight, releasing_s=draft.now, idle_debts=debts[1:])
        low_load.go_on(draft, hub)


def _has_failed(draft: Draft) -> bool:
    """A release failed at about this load, because a topic fitted on no other hub."""
    kept = draft.memory.kept_average
    return kept >= 0 and draft.predicted.average_without_one(draft.eligible) > kept - _RETRY_RATIO


def _victim(draft: Draft) -> int | None:
    """The least loaded hub that may be released."""
    names, settings = draft.view.hubs.names, draft.settings
    if int(draft.eligible.sum()) <= max(settings.servers_min, 1):
        return None
    young = [
        draft.now - draft.memory.joined_s.get(name, LONG_AGO_S) < settings.rental_min_s for name in names
    ]
    may_go = draft.eligible & draft.view.hubs.is_releasable & ~np.array(young, np.bool_)
    may_go &= ~np.array([name in low_load.pinned_to(draft) for name in names], np.bool_)
    if not may_go.any():
        return None
    return int(np.argmin(np.where(may_go, draft.predicted.ratio, np.inf)))


def may_stop(draft: Draft) -> tuple[str, ...]:
    """The released hubs without clients, and those that have waited long enough for their last clients."""
    index, carriers = draft.view.hub_index, set(draft.view.carried.hub.tolist())
    settings, released = draft.settings, draft.memory.released
    return tuple(
        name
        for name, out in sorted(released.items())
        if draft.now - out.at_s
        >= (settings.release_wait_s if index.get(name) in carriers else settings.settle_s)
    )
