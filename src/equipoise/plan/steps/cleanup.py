"""Keep the plan small: drop entries that say what the ring says, and those of topics that were not used for long.

Neither moves anything, nor touches what an operator has pinned. With a dead member the ring is not what it will be, so
nothing is dropped then.
"""

from __future__ import annotations

from equipoise.model import Mode, Reason
from equipoise.plan.draft import PLANNER, Draft, why

__all__ = ["tidy"]


def tidy(draft: Draft) -> None:
    _note_absent(draft)
    index = draft.view.hub_index
    has_dead = any(name not in index or not draft.alive[index[name]] for name in draft.members)
    if has_dead or not (draft.may_plan or draft.has_moves or draft.has_member_changes):
        return
    _drop_as_ring(draft)
    _drop_idle(draft)


def _note_absent(draft: Draft) -> None:
    """Since when topics that have an entry have not been seen."""
    seen, known = draft.view.topic_index, draft.memory.absent_s
    absent = {name: known.get(name, draft.now) for name in draft.plan.entries if name not in seen}
    draft.remember(absent_s=absent)


def _drop_as_ring(draft: Draft) -> None:
    reason = why(Reason.AS_RING)
    names, topics = draft.view.hubs.names, draft.view.topic_index
    for name, entry in draft.plan.entries.items():
        topic = topics.get(name)
        if topic is None or entry.mode is not Mode.SINGLE or entry.is_pinned:
            continue
        if entry.homes[0] == names[draft.ring_home[topic]] and draft.memory.arbiter.is_free(name, PLANNER):
            draft.drop_entry(name, reason)


def _drop_idle(draft: Draft) -> None:
    for name, since_s in draft.memory.absent_s.items():
        idle_s = draft.now - since_s
        if draft.plan.entries[name].is_pinned:
            continue
        if idle_s >= draft.settings.idle_entry_s and draft.memory.arbiter.is_free(name, PLANNER):
            draft.drop_entry(name, why(Reason.IDLE, idle_s=idle_s))
