"""When a server is worth its price: rent or buy.

Missing capacity costs something every second, and so does a server too many; asking for a server and emptying one cost
something once. The one rule for both: act when what it has cost not to act reaches what acting costs. Whoever
follows it never pays more than twice what knowing the future would have cost (the ski-rental bound), and needs no
forecast: large overloads are acted on at once, small ones when they last, and a server that is hardly needed
goes the sooner the less there is to move.

Asking is all that happens here; whoever has machines starts one, and the hub joins when it is alive.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.model import Reason
from equipoise.plan.draft import Draft, why
from equipoise.plan.policies.membership import join

__all__ = ["ask", "elapsed_s", "rental_price", "servers_wanted"]

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
    """Count what these hubs lack, and ask for servers once that has cost as much as one."""
    settings, ratio = draft.settings, draft.predicted.ratio
    missing = float(sum(ratio[hub] - settings.high_ratio for hub in overloaded))
    debt = draft.memory.overload_debt + settings.overload_hour_price * missing * elapsed_s(draft) / 3600
    draft.remember(overload_debt=debt)
    have = int(draft.eligible.sum())
    count = _servers_for(draft, overloaded)
    numbers = {"missing_ratio": missing, "servers": have, "debt": debt, "price": rental_price(draft)}
    if debt < rental_price(draft) or count == 0:
        return
    if have >= settings.servers_max:
        draft.reasons.append(why(Reason.NO_ROOM, "no further server can be had", **numbers))
        return
    _take_back(draft, count)
    have = int(draft.eligible.sum())
    wanted = min(have + count, settings.servers_max)
    if wanted > max(draft.memory.servers_wanted, have):
        draft.reasons.append(why(Reason.SERVER_WANTED, f"{wanted - have} more", **numbers))
        draft.remember(servers_wanted=wanted, asked_s=draft.now)


def servers_wanted(draft: Draft) -> int:
    """How many there should be in all: those at work, or more if they were asked for and have not come."""
    have, memory = int(draft.eligible.sum()), draft.memory
    is_over = bool((draft.predicted.ratio[draft.eligible] > draft.settings.high_ratio).any())
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
