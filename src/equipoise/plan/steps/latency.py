"""Move topics above their latency limits closer to their clients (ePulsar 3.3 and 3.4, Algorithm 1).

A topic is above its limit if its measured E(t) is. It moves to the nearest hub that keeps the limit and has room; if no
hub keeps it, to the nearest hub, if that is clearly nearer. Topics with the fewest choices choose first. If the only
hubs that keep the limit are full, a topic that can be elsewhere makes room.

Overloaded hubs are left to `high_load`, which moves the busiest topics first, as many as needed, to hubs that the draft
allows; so there is one objective: no limit that holds is broken for load, and no hub is overloaded for a limit.

A topic whose best hub alternates stays: `hysteresis`.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
from numpy.typing import NDArray

from equipoise.model import Reason, Specs
from equipoise.plan.draft import PLANNER, Draft, why
from equipoise.plan.latency import Candidates, measured_at, place_topics, rank
from equipoise.plan.memory import HitCount, Memory, hit
from equipoise.plan.settings import PlannerSettings
from equipoise.plan.steps.hysteresis import may_move, note_move, remembered
from equipoise.view.view import View

__all__ = ["approach", "needed_at", "strays"]

# Topics times hubs ranked in a round: half a second. The rest is ranked with the next views.
_RANKED_MAX = 20_000_000
# First choices at which another topic may make room, and topics for which that is tried in a round.
_ROOM_CHOICES = 4
_ROOM_TOPICS = 16
# Topics checked each second for one that has just exceeded its limit.
_STRAYS_MAX = 1_000


def approach(draft: Draft) -> None:
    """Move topics that were above their limits for long enough. Called if a spec has a limit."""
    far = _far(draft)
    _count_hits(draft, [*far, *_kept_far(draft)])
    hits, names = draft.memory.far_hits, draft.view.topics.names
    due = [topic for topic in far if hits[names[topic]].count >= draft.settings.latency_hits]
    draft.is_pressing |= len(due) < len(far)
    several = [topic for topic in due if topic in draft.predicted.several]
    single = [topic for topic in due if topic not in draft.predicted.several]
    left = _place(draft, _turn(draft, single)) if single else 0
    for topic in several:
        left += not _swap_homes(draft, topic)
    if left:
        draft.reasons.append(why(Reason.TOO_FAR, "no hub is nearer and has capacity", topics=left))


def strays(view: View, specs: Specs, memory: Memory, settings: PlannerSettings) -> bool:
    """Whether a topic is clearly above its limit, and has not yet enough evidence.

    A topic with enough evidence has had its round, and one with a move in flight is being moved: neither wakes the
    planner again, so a topic without a better hub does not wake it for long.
    """
    least_s = min((spec.latency_ms for spec in specs if spec.latency_ms is not None), default=0.0) / 1_000
    # No quantile exceeds the maximum, so a topic can be above the least limit only if one of these is.
    most_s = np.fmax(view.topics.latency_s_max, view.topics.latency_s_worst)
    if not least_s or np.isnan(most_s).all():
        return False
    clearly = 1 + settings.latency_clear_ratio
    for topic in np.flatnonzero(most_s > least_s * clearly)[:_STRAYS_MAX].tolist():
        name = view.topics.names[topic]
        hits = memory.far_hits.get(name)
        is_known = hits is not None and hits.count >= settings.latency_hits
        if is_known or not memory.arbiter.is_free(name, PLANNER):
            continue
        spec = specs.of(name)
        if spec is None or spec.latency_ms is None:
            continue
        measured_s = float(measured_at(view.topics, spec.quantile)[topic])
        present_s = view.topics.latency_s_worst[topic] if np.isnan(measured_s) else measured_s
        if present_s > clearly * spec.latency_ms / 1_000:
            return True
    return False


def needed_at(draft: Draft, hub: int) -> bool:
    """Whether some topic on the hub is within its limit there and at no other hub."""
    if not draft.limits:
        return False
    others = draft.eligible.copy()
    others[hub] = False
    here = draft.limits.topics[draft.predicted.home[draft.limits.topics] == hub]
    for topic in here.tolist():
        allowed = draft.limits.allowed(topic, (hub,))
        if allowed is not None and allowed[hub] and not (allowed & others).any():
            return True
    return False


def _far(draft: Draft) -> list[int]:
    """The topics above their limits without a move in flight."""
    far = [topic for topic in draft.limits.broken(draft.homes_of) if draft.is_idle(topic)]
    if draft.now - draft.memory.members_s >= draft.settings.settle_s:
        return far
    # The ring has changed: the measured latency may be of a former home.
    limits = draft.limits
    return [topic for topic in far if limits.at_homes_s(topic, draft.homes_of(topic)) > limits.limit_s[topic]]


def _kept_far(draft: Draft) -> list[int]:
    """Topics above their limits that are pinned: recorded, so that they do not wake the planner."""
    limits, index = draft.limits, draft.view.topic_index
    kept = [index[entry.topic] for entry in draft.plan.pinned if entry.topic in index]
    return [
        topic
        for topic in kept
        if draft.is_kept(draft.view.topics.names[topic])
        and limits.present_s(topic, draft.homes_of(topic)) > limits.limit_s.get(topic, np.inf)
    ]


def _count_hits(draft: Draft, far: list[int]) -> None:
    settings, memory, limits = draft.settings, draft.memory, draft.limits
    if not draft.is_news:
        return
    hits: dict[bytes, HitCount] = {}
    for topic in far:
        name = draft.view.topics.names[topic]
        present_s = limits.present_s(topic, draft.homes_of(topic))
        is_clear = present_s > limits.limit_s[topic] * (1 + settings.latency_clear_ratio)
        hits[name] = hit(memory.far_hits.get(name), draft.view, is_clear=is_clear)
    draft.remember(far_hits=hits, approaches=remembered(draft, hits))


def _turn(draft: Draft, due: list[int]) -> list[int]:
    """As many as can be ranked in a round, rotating from round to round."""
    count_max = max(1, _RANKED_MAX // max(1, draft.view.hubs.count))
    if len(due) <= count_max:
        return due
    parts = -(-len(due) // count_max)
    return due[int(draft.view.time_s) % parts :: parts]


def _hosts(draft: Draft) -> NDArray[np.bool_]:
    """The hubs that may receive topics for latency: none of their resources is nearly used up."""
    hubs, full = draft.view.hubs, draft.settings.resource_full_ratio
    memory_max = np.where(hubs.memory_bytes_max > 0, hubs.memory_bytes_max, np.inf)
    out_max = np.where(hubs.out_bytes_per_s_max > 0, hubs.out_bytes_per_s_max, np.inf)
    delivered_max = np.where(hubs.deliveries_per_s_max > 0, hubs.deliveries_per_s_max, np.inf)
    is_busy = (hubs.cpu_ratio > full) | (hubs.out_bytes_per_s > full * out_max)
    is_busy |= hubs.deliveries_per_s > full * delivered_max
    return draft.eligible & ~is_busy & (hubs.memory_bytes <= full * memory_max)


def _place(draft: Draft, due: list[int]) -> int:
    """Place these; return how many of them stay above their limits."""
    limits, settings = draft.limits, draft.settings
    topics = np.array(due, np.int64)
    candidates = rank(
        limits.estimate,
        topics,
        np.array([limits.limit_s[topic] for topic in due]),
        _hosts(draft),
        {topic: draft.bound[topic] for topic in due if topic in draft.bound},
    )
    homes = draft.predicted.home[topics].tolist()
    room = draft.predicted.room(settings.crowded_ratio)
    placement = place_topics(candidates, room, homes, level_s=settings.latency_level_ms / 1_000)
    chosen, order = placement.hub.tolist(), candidates.fewest_first()
    wanted = {due[row]: chosen[row] for row in order if chosen[row] != homes[row]}
    moved = _move_together(draft, {topic: to for topic, to in wanted.items() if _is_worth(draft, topic, to)})
    # Those without room, or without room beside topics that stay.
    crowded_out = [
        row
        for row in order
        if candidates.is_feasible[row]
        and due[row] not in moved
        and (due[row] in wanted or not placement.is_served[row])
    ]
    helped = sum(_squeeze_in(draft, candidates, row) for row in crowded_out[:_ROOM_TOPICS])
    return len(due) - len(moved) - helped


def _move_together(draft: Draft, wanted: dict[int, int]) -> dict[int, int]:
    """Execute as many of these moves as there is room for without the others; return which.

    They were chosen together, and some make room for others.
    """
    room, homes = draft.predicted.room(draft.settings.crowded_ratio), draft.predicted.home
    together = dict(islice(wanted.items(), draft.budget))
    for topic, to in together.items():
        room.give(topic, int(homes[topic]))
        room.take(topic, to)
    while over := [topic for topic, to in together.items() if room.is_over(to)]:
        # The topic that chose last has the most choices left.
        room.give(over[-1], together.pop(over[-1]))
        room.take(over[-1], int(homes[over[-1]]))
    for topic, to in together.items():
        _move(draft, topic, to, room.ratio(to))
    return together


def _squeeze_in(draft: Draft, candidates: Candidates, row: int) -> bool:
    """Place the topic at a hub that another topic leaves for it; whether there is one."""
    to = _make_room(draft, candidates, row) if draft.budget > 1 else None
    if to is None:
        return False
    topic = int(candidates.topics[row])
    _move(draft, topic, to, float(draft.predicted.if_added(topic)[to]))
    return True


def _is_worth(draft: Draft, topic: int, to: int) -> bool:
    """The limit holds there, or the latency is clearly lower; and the topic does not alternate."""
    limits, settings, homes = draft.limits, draft.settings, draft.homes_of(topic)
    # The part that coordinates do not explain, such as queueing for a slow subscriber, is the same elsewhere.
    excess_s = limits.excess_s(topic, homes)
    expected_s = float(limits.worst_s(topic)[to]) + excess_s
    here_s = limits.at_homes_s(topic, homes) + excess_s
    if expected_s > limits.limit_s[topic] and expected_s > (1 - settings.latency_gain_ratio) * here_s:
        return False
    if expected_s >= here_s:
        return False
    return may_move(draft, topic, to)


def _move(draft: Draft, topic: int, to: int, ratio_after: float) -> None:
    limits, names = draft.limits, draft.view.hubs.names
    homes = draft.homes_of(topic)
    explained = why(
        Reason.LATENCY,
        f"{', '.join(names[home] for home in homes)} to {names[to]}",
        latency_ms=1e3 * np.nan_to_num(limits.present_s(topic, homes)),
        limit_ms=1e3 * limits.limit_s[topic],
        expected_ms=1e3 * limits.worst_s(topic)[to],
        receiver_ratio_after=ratio_after,
    )
    note_move(draft, topic, (to,))
    draft.move(topic, to, explained, for_load=False)
    draft.latency_moves += 1


def _make_room(draft: Draft, candidates: Candidates, row: int) -> int | None:
    """Move the smallest sufficient topic off one of the first choices; return the hub with room then."""
    topic = int(candidates.topics[row])
    limit_s = float(candidates.limit_s[row])
    choices: list[int] = [
        hub for hub in candidates.best[row].tolist() if limit_s >= draft.limits.worst_s(topic)[hub]
    ]
    for hub in choices[:_ROOM_CHOICES]:
        if draft.budget < 2 or not _is_worth(draft, topic, hub):
            continue
        for other in reversed(draft.predicted.at_hub(hub).tolist()):
            is_movable = other != topic and draft.is_free(other) and draft.is_rested(other)
            if is_movable and _fits_without(draft, topic, other, hub) and _send_away(draft, other, hub):
                return hub
    return None


def _fits_without(draft: Draft, topic: int, other: int, hub: int) -> bool:
    room = draft.predicted.room(draft.settings.crowded_ratio)
    room.give(other, hub)
    return room.can_host(topic, hub)


def _send_away(draft: Draft, topic: int, hub: int) -> bool:
    takers = draft.takers(topic)
    takers[hub] = False
    after = np.where(takers, draft.predicted.if_added(topic), np.inf)
    to = int(np.argmin(after))
    if after[to] > draft.settings.accept_ratio:
        return False
    names = draft.view.hubs.names
    explained = why(Reason.MADE_ROOM, f"{names[hub]} to {names[to]}", receiver_ratio_after=after[to])
    draft.move(topic, to, explained, for_load=False)
    draft.latency_moves += 1
    return True


def _swap_homes(draft: Draft, topic: int) -> bool:
    """Replace those homes of a replicated topic that are too far by nearer hubs; whether one was found."""
    limits, replicas = draft.limits, draft.predicted.several[topic]
    worst_s, limit_s = limits.worst_s(topic), limits.limit_s[topic]
    shares = draft.predicted.shares_of(topic, replicas)
    homes = list(replicas.homes)
    hosts = _hosts(draft)
    if topic in draft.bound:
        hosts &= draft.bound[topic]
    for at, home in enumerate(homes):
        if worst_s[home] <= limit_s:
            continue
        after = draft.predicted.if_added(topic, shares[home])
        can = hosts & (after <= draft.settings.crowded_ratio) & np.isfinite(worst_s)
        can[homes] = False
        to = int(np.argmin(np.where(can, worst_s, np.inf)))
        # If no hub keeps the limit, a clearly nearer one is used.
        bound_s = max(limit_s, (1 - draft.settings.latency_gain_ratio) * worst_s[home])
        if can[to] and worst_s[to] <= bound_s and may_move(draft, topic, to):
            homes[at] = to
    if tuple(homes) == replicas.homes or not draft.is_free(topic):
        return False
    explained = why(Reason.LATENCY, limit_ms=1e3 * limit_s, expected_ms=1e3 * max(worst_s[homes]))
    note_move(draft, topic, (hub for hub in homes if hub not in replicas.homes))
    draft.replicate(topic, homes, replicas.mode, explained)
    draft.latency_moves += 1
    return True
