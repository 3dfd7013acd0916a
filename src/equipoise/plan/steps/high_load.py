"""Move topics off overloaded hubs (Dynamoth III-B3, Algorithm 2), and onto hubs that joined.

The busiest hub gives its busiest topics to the hub with the least predicted load, until it is safe; then the next
busiest. Unlike in the paper's algorithm, the receiver is checked: a topic that would overload it is skipped for a
smaller one. If no hub has room, the planner requests a server (`autoscale`); if none is available, or the overload is
severe, hubs accept more, up to just below overload, and beyond that a move has to lower the higher load ratio of the
two hubs clearly.

Spread: the ring gives a new member its share of topics, not of load. For half a minute after a join the fullest hub
gives the emptiest the largest topic that does not reverse their order, until their difference is within the tolerance;
a difference of 1.5 times the tolerance starts it. While topics move to the new member no moves are added. If the
maximum number of servers is running and the average exceeds the accepting threshold, the emptiest hub has all the room
there is: then a difference of 4 times the tolerance starts it. Otherwise a harmless difference is not worth moves.

Always true: the difference between the fullest and the emptiest hub does not grow by a move.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.model import Reason
from equipoise.plan.draft import Draft, why
from equipoise.plan.memory import HitCount, HubNoise, hit, updated_noise
from equipoise.plan.steps.autoscale import ask, elapsed_s

__all__ = ["count_hits", "is_severe", "learn_noise", "shed_load", "spread"]

# Hubs whose topics are listed in full at the same time: those of the most loaded ones fill a view.
OPEN_HUBS_MAX = 4

# A smaller topic is not worth its move.
_TOPIC_RATIO_MIN = 1e-4


def count_hits(draft: Draft) -> None:
    """Count the hubs that this view shows overloaded. The same view again is no new evidence."""
    if not draft.is_news:
        return
    memory, names = draft.memory, draft.view.hubs.names
    hits: dict[str, HitCount] = {}
    for hub in _overloaded(draft):
        hits[names[hub]] = hit(memory.hits.get(names[hub]), draft.view, is_clear=_is_clear(draft, hub))
    draft.remember(hits=hits)


def learn_noise(draft: Draft) -> None:
    """Update the noise of each hub, after all decisions by the noise before this view."""
    if not draft.is_news:
        return
    caps, noises = draft.capacities, draft.memory.noises
    made = {
        name: updated_noise(
            noises.get(name, HubNoise()), float(caps.measured[hub]), float(caps.rise[hub]), elapsed_s(draft)
        )
        for hub, name in enumerate(draft.view.hubs.names)
    }
    draft.remember(noises=made)


def _is_clear(draft: Draft, hub: int) -> bool:
    """The overload exceeds the hub's own noise, with that of the extrapolation."""
    noise = draft.memory.noises.get(draft.view.hubs.names[hub], HubNoise())
    variance = noise.deviation**2
    if draft.capacities.is_rising[hub]:
        parts = elapsed_s(draft) / draft.view.window_s
        measured, expected = float(draft.capacities.measured[hub]), float(draft.predicted.ratio[hub])
        if not noise.is_growing(measured, expected, parts):
            return False
        lead = 0.5 + draft.settings.trend_horizon_s / draft.view.window_s
        variance += lead**2 * noise.rise_variance
    excess = float(draft.predicted.ratio[hub]) - draft.settings.high_ratio
    return excess >= draft.settings.clear_deviations * math.sqrt(variance)


def shed_load(draft: Draft) -> None:
    """Move topics off the hubs that were overloaded for long enough."""
    settings = draft.settings
    over = _overloaded(draft)
    due = [hub for hub in over if _is_due(draft, hub)]
    draft.is_pressing |= bool(over) and not due
    for hub in due:
        _shed(draft, hub, limit=settings.accept_ratio, down_to=settings.safe_ratio)
    # A topic that a view does not list cannot be moved: request the list, from the first sign of overload to its end.
    draft.open_hubs |= {draft.view.hubs.names[hub] for hub in over[:OPEN_HUBS_MAX]}
    left = [hub for hub in due if draft.predicted.ratio[hub] > settings.high_ratio]
    if left:
        ask(draft, _overloaded(draft))
    for hub in left:
        if draft.is_crowded or is_severe(draft, hub):
            _shed(draft, hub, limit=settings.crowded_ratio, down_to=settings.crowded_ratio)
            if draft.predicted.ratio[hub] > settings.high_ratio:
                _level(draft, hub)
    still = [hub for hub in left if draft.predicted.ratio[hub] > settings.high_ratio]
    draft.is_pressing |= bool(still)


def _overloaded(draft: Draft) -> list[int]:
    """The overloaded hubs, the busiest first."""
    ratio = draft.predicted.ratio
    over = np.flatnonzero(draft.givers() & (ratio > draft.settings.high_ratio))
    return sorted(over.tolist(), key=lambda hub: (-ratio[hub], hub))


def is_severe(draft: Draft, hub: int) -> bool:
    """Measured, or expected beyond noise in two views."""
    if draft.predicted.ratio[hub] < draft.settings.severe_ratio:
        return False
    if draft.capacities.measured[hub] >= draft.settings.severe_ratio:
        return True
    hits = draft.memory.hits.get(draft.view.hubs.names[hub])
    return hits is not None and hits.count >= 2 and _is_clear(draft, hub)


def _is_due(draft: Draft, hub: int) -> bool:
    if is_severe(draft, hub) and draft.may_plan_severe:
        return True
    hits = draft.memory.hits.get(draft.view.hubs.names[hub])
    return hits is not None and hits.count >= draft.settings.hits and draft.may_plan


def _shed(draft: Draft, hub: int, *, limit: float, down_to: float) -> None:
    """Move topics, the busiest first, to hubs that stay below the limit."""
    for topic in _given(draft, hub):
        if draft.predicted.ratio[hub] < down_to:
            return
        if _least(draft) >= limit:
            return
        _hand_on(draft, topic, hub, limit=limit, gain=0.0)


def _level(draft: Draft, hub: int) -> None:
    """All hubs are full: reduce the difference between them."""
    for topic in _given(draft, hub):
        if draft.predicted.ratio[hub] - _least(draft) < draft.settings.crowded_gain_ratio:
            return
        _hand_on(draft, topic, hub, limit=np.inf, gain=draft.settings.crowded_gain_ratio)


def _given(draft: Draft, hub: int) -> list[int]:
    """The topics that a hub may give away: its own, then its part of replicated ones; the busiest first."""
    own = draft.predicted.at_hub(hub)
    worth: list[int] = own[draft.predicted.reliefs(own, hub) >= _TOPIC_RATIO_MIN].tolist()
    shared = [topic for topic, replicas in draft.predicted.several.items() if hub in replicas.homes]
    return worth + sorted(shared, key=lambda topic: (-draft.mean_ratio[topic], topic))


def _least(draft: Draft) -> float:
    takers = draft.eligible & ~draft.gave
    return float(draft.predicted.ratio[takers].min()) if takers.any() else np.inf


def _hand_on(draft: Draft, topic: int, hub: int, *, limit: float, gain: float) -> None:
    """Move the topic, or this hub's part of it, if that is allowed and helps."""
    is_rested = draft.is_rested(topic) or is_severe(draft, hub)
    if not (draft.is_free(topic) and is_rested):
        return
    predicted = draft.predicted
    replicas = predicted.several.get(topic)
    share = 1.0 if replicas is None else predicted.shares_of(topic, replicas)[hub]
    takers = draft.takers(topic)
    takers[[*draft.homes_of(topic)]] = False
    if not takers.any():
        return
    after = np.where(takers, predicted.if_added(topic, share), np.inf)
    to = int(np.argmin(after))
    before, left = float(predicted.ratio[hub]), float(predicted.if_removed(topic, share)[hub])
    lowest = float(predicted.ratio[draft.eligible].min())
    # The receiver must end below the giver's former ratio, and the giver above that of the emptiest hub.
    helps = max(float(after[to]), left) <= before - gain and left >= lowest
    if after[to] > limit or not helps:
        return
    is_early = draft.capacities.measured[hub] <= draft.settings.high_ratio
    explained = why(
        Reason.RISING_LOAD if is_early and draft.capacities.is_rising[hub] else Reason.HIGH_LOAD,
        f"{draft.view.hubs.names[hub]} to {draft.view.hubs.names[to]}",
        load_ratio=before,
        load_ratio_after=left,
        receiver_ratio=float(predicted.ratio[to]),
        receiver_ratio_after=float(after[to]),
    )
    if replicas is None:
        draft.move(topic, to, explained)
    else:
        homes = tuple(to if home == hub else home for home in replicas.homes)
        draft.replicate(topic, homes, replicas.mode, explained)


# --- spread -----------------------------------------------------------------------------------------------------------


def spread(draft: Draft) -> None:
    if not draft.eligible.any() or draft.is_in_flux:
        return
    members = draft.predicted.ratio[draft.eligible]
    apart = float(members.max() - members.min()) / draft.settings.join_tolerance_ratio
    has_joined = draft.now < draft.memory.spread_until_s and apart > 1.5
    is_full = draft.is_crowded and float(members.mean()) > draft.settings.accept_ratio and apart > 4
    if has_joined:
        _share_out(draft, floor=draft.settings.join_tolerance_ratio / 64)
    elif is_full and draft.may_plan_severe:
        # At each repetition: a small topic is not worth its move.
        _share_out(draft, floor=draft.settings.join_tolerance_ratio / 4)
        if draft.has_moves:
            draft.remember(plan_s=draft.now)


def _share_out(draft: Draft, floor: float) -> None:
    givers = draft.givers()
    while draft.budget > 0 and givers.any():
        ratio = draft.predicted.ratio
        fullest = int(np.argmax(np.where(givers, ratio, -np.inf)))
        takers = draft.eligible & ~draft.gave
        takers[fullest] = False
        if not takers.any():
            return
        emptiest = int(np.argmin(np.where(takers, ratio, np.inf)))
        if ratio[fullest] - ratio[emptiest] <= draft.settings.join_tolerance_ratio:
            return
        if not _give_one(draft, fullest, emptiest, floor):
            givers[fullest] = False
        givers &= draft.givers()


def _give_one(draft: Draft, fullest: int, emptiest: int, floor: float) -> bool:
    """Move the largest topic that fits between the two and is not smaller than the floor; whether there is one."""
    predicted = draft.predicted
    here = predicted.at_hub(fullest)
    difference = float(predicted.ratio[fullest] - predicted.ratio[emptiest])
    size = np.maximum(predicted.topic_ratios(here, fullest), predicted.topic_ratios(here, emptiest))
    for topic in here[(size <= difference / 2) & (size >= floor)].tolist():
        if not (draft.is_free(topic) and draft.takers(topic)[emptiest]):
            continue
        before, after = float(predicted.ratio[fullest]), float(predicted.if_added(topic)[emptiest])
        left = float(predicted.if_removed(topic)[fullest])
        if after > left or after > draft.settings.crowded_ratio:
            continue
        names = draft.view.hubs.names
        explained = why(
            Reason.SHARED_OUT,
            f"{names[fullest]} to {names[emptiest]}",
            load_ratio=before,
            load_ratio_after=left,
            receiver_ratio_after=after,
        )
        draft.move(topic, emptiest, explained)
        return True
    return False
