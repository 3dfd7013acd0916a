"""When a server is worth its price: rent or buy.

Missing capacity costs something every second, and so does a server too many; asking for a server and emptying one cost
something once. The one rule for both: act when what it has cost not to act reaches what acting costs. Whoever
follows it never pays more than twice what knowing the future would have cost (the ski-rental bound), and needs no
forecast: large overloads are acted on at once, small ones when they last, and a server that is hardly needed
goes the sooner the less there is to move.

Asking is all that happens here; a provisioner starts one, and the hub joins when it is alive.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.model import Reason
from equipoise.plan.draft import Draft, why
from equipoise.plan.memory import LONG_AGO_S, HubNoise
from equipoise.plan.steps.membership import join

__all__ = ["ask", "elapsed_s", "foresee", "rental_price", "servers_wanted"]

# A pause longer than this says that the planner, not the load, was away.
_ELAPSED_S_MAX = 10.0
# What the first view of an overload counts as.
_ELAPSED_S_FIRST = 1.0


def rental_price(draft: Draft) -> float:
    """What a server costs at least."""
    return draft.settings.server_hour_price * draft.settings.rental_min_s / 3600


def elapsed_s(draft: Draft) -> float:
    """Between this view and the one before it."""
    passed_s = draft.view.time_s - draft.view_before_s
    return passed_s if 0 < passed_s <= _ELAPSED_S_MAX else _ELAPSED_S_FIRST


def ask(draft: Draft, overloaded: list[int]) -> None:
    """Count what these hubs lack, and ask for servers once that has cost as much as one.

    What no server can take counts for nothing: a hub that its pinned topics alone overload stays as it is.
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
    note = f"{draft.view.hubs.names[hub]}: its pinned topics alone overload it, no server can help"
    draft.reasons.append(why(Reason.NO_ROOM, note, load_ratio=left, pinned=int(is_pinned.sum())))
    return True


def foresee(draft: Draft) -> None:
    """Ask before any hub is overloaded if all together will be by the time a server has come and taken its share.

    The average over all hubs is far less noisy than any of them, so what it has done for a minute, and still does, can
    be believed. A step that is over is no growth.
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
    if debt < rental_price(draft) or count == 0 or _is_waiting(draft):
        return
    numbers = {"missing_ratio": missing, "servers": have, "debt": debt, "price": rental_price(draft)}
    if have >= settings.servers_max:
        draft.reasons.append(why(Reason.NO_ROOM, "no further server can be had", **numbers))
        return
    _take_back(draft, count)
    have = int(draft.eligible.sum())
    wanted = min(have + count, settings.servers_max)
    if wanted > max(draft.memory.servers_wanted, have):
        draft.reasons.append(why(Reason.SERVER_WANTED, f"{note}: {wanted - have} more", **numbers))
        draft.remember(servers_wanted=wanted, asked_s=draft.now)


def _is_waiting(draft: Draft) -> bool:
    """Servers that were asked for are on their way, or have just come and their effect is not to be seen yet."""
    memory, settings = draft.memory, draft.settings
    is_awaited = memory.servers_wanted > int(draft.eligible.sum())
    has_just_come = draft.now - max(memory.joined_s.values(), default=LONG_AGO_S) < settings.settle_s
    return has_just_come or (is_awaited and draft.now - memory.asked_s < settings.rental_min_s)


def servers_wanted(draft: Draft) -> int:
    """How many there should be in all: those at work, or more if they were asked for and have not come."""
    have, memory = int(draft.eligible.sum()), draft.memory
    is_over = (
        bool((draft.predicted.ratio[draft.eligible] > draft.settings.high_ratio).any()) or draft.is_short
    )
    if not is_over:
        # What has been missing is forgotten once nothing is.
        draft.remember(overload_debt=0.0)
    has_come = memory.servers_wanted <= have
    is_past = not is_over and draft.now - memory.asked_s >= draft.settings.rental_min_s
    if memory.servers_wanted and (has_come or is_past):
        draft.remember(servers_wanted=0, overload_debt=0.0)
    return max(have, draft.memory.servers_wanted, draft.settings.servers_min)


def _servers_for(draft: Draft, overloaded: list[int]) -> int:
    """How many servers what these hubs have too much would fill, beside the room that there is.

    Where there is room enough a server is no cure, unless what is to be moved fits nowhere but on an empty one.
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
    """A hub that was released and still runs is quicker to have than a new one."""
    index = draft.view.hub_index
    known = [index[name] for name in sorted(draft.memory.released) if name in index]
    idle = [hub for hub in known if draft.alive[hub] and not draft.view.hubs.is_draining[hub]]
    for hub in idle[:count]:
        join(draft, hub)
    if idle:
        draft.place_all()
        draft.remember(members_s=draft.now)
    assert np.all(draft.eligible <= draft.alive)
