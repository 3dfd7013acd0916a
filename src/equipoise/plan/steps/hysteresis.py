"""Hysteresis of latency moves: a topic whose best hub alternates stays.

A topic may not return when a hub that it left recently is about as good as the new one; so hubs of one site count as
one place. A return takes a waiting time, which doubles with each return. A topic that views have shown within its limit
for as long as the first wait has settled: when its clients move again, it begins with the first wait. Time without
views does not count.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

from equipoise.plan.draft import Draft
from equipoise.plan.memory import LatencyMoves

__all__ = ["may_move", "note_move", "remembered"]

# Former hubs kept for a topic.
_LEFT_MAX = 4
# Topics with returns that a round checks for having settled.
_RETURNED_MAX = 1_000


def may_move(draft: Draft, topic: int, to: int) -> bool:
    """Whether it may be moved to this hub now."""
    settings = draft.settings
    before = draft.memory.approaches.get(draft.view.topics.names[topic])
    if before is None or not _is_return(draft, topic, to, before):
        return True
    wait_s = min(settings.topic_wait_s, math.ldexp(settings.latency_wait_s, min(before.returns, 16)))
    left_s = before.at_s + wait_s - draft.now
    # At the end of a wait, views between periods count, too.
    draft.is_pressing |= 0 < left_s <= settings.latency_wait_s / 2
    return left_s <= 0


def note_move(draft: Draft, topic: int, to: Iterable[int]) -> None:
    """Record a latency move to hubs that were not its homes."""
    name, names = draft.view.topics.names[topic], draft.view.hubs.names
    before = draft.memory.approaches.get(name, LatencyMoves(draft.now, ()))
    to = list(to)
    returns = before.returns + any(_is_return(draft, topic, hub, before) for hub in to)
    taken = {names[hub] for hub in to}
    homes = tuple(names[home] for home in draft.homes_of(topic))
    left = tuple(dict.fromkeys(hub for hub in (*homes, *before.left) if hub not in taken))[:_LEFT_MAX]
    draft.remember(approaches={**draft.memory.approaches, name: LatencyMoves(draft.now, left, returns)})


def remembered(draft: Draft, far: Container[bytes]) -> dict[bytes, LatencyMoves]:
    """The moves that are still relevant, updated by this view; `far` are the topics above their limits."""
    since_s = draft.now - draft.settings.latency_memory_s
    recent = {name: made for name, made in draft.memory.approaches.items() if made.at_s > since_s}
    returned = [name for name, made in recent.items() if made.returns]
    parts = -(-len(returned) // _RETURNED_MAX)
    for name in returned[int(draft.view.time_s) % parts :: parts] if parts else ():
        recent[name] = _seen(draft, name, recent[name], is_far=name in far)
    return recent


def _seen(draft: Draft, name: bytes, made: LatencyMoves, *, is_far: bool) -> LatencyMoves:
    wait_s = draft.settings.latency_wait_s
    topic = draft.view.topic_index.get(name)
    # By the coordinates of clients, which show it sooner after a move than measurements.
    is_within = None if topic is None else draft.limits.is_within(topic, draft.homes_of(topic))
    if is_far or is_within is False:
        return LatencyMoves(made.at_s, made.left, 0 if made.near_s >= wait_s else made.returns)
    if is_within:
        # Time without views is no evidence.
        step_s = min(draft.view.time_s - draft.view_before_s, wait_s / 2)
        return LatencyMoves(made.at_s, made.left, made.returns, made.near_s + step_s)
    return made


def _is_return(draft: Draft, topic: int, to: int, before: LatencyMoves) -> bool:
    names, index = draft.view.hubs.names, draft.view.hub_index
    if names[to] in before.left:
        return True
    worst_s = draft.limits.worst_s(topic)
    bound_s = worst_s[to] + draft.settings.latency_level_ms / 1_000
    return any(worst_s[index[hub]] <= bound_s for hub in before.left if hub in index)
