"""Who takes part: hubs that came, went, came back as another life, or are to be emptied.

These are facts, not noise: they are acted upon at once, without hits or T_wait. A new hub gets its share of the ring by
what it can carry; the topics that go with that share move in one bulk handover, and what load needs beyond it is
shared out by entries (`spread`). A hub that has been dead for longer than a restart takes loses its membership.

Always true: with no live member none is taken out, since then the store, not the hubs, is the likelier cause.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.model import WEIGHT_NORMAL, Member, Reason, quantise_weight
from equipoise.plan.draft import Draft, why

__all__ = ["join", "keep_members", "weight_of"]


def keep_members(draft: Draft) -> None:
    """Bring the members up to what the view says of hubs."""
    _forget_released(draft)
    _drop_dead(draft)
    _take_in(draft)
    _follow_facts(draft)
    if draft.has_member_changes:
        draft.place_all()
        draft.remember(members_s=draft.now)


def join(draft: Draft, hub: int) -> None:
    """Make a hub a member with the share that it can carry. The caller places everything again."""
    name, weight = draft.view.hubs.names[hub], weight_of(draft, hub)
    reason = why(Reason.JOINED, weight=weight)
    draft.set_member(Member(name, weight, draft.view.hubs.site[hub]), reason)
    memory = draft.memory
    draft.remember(
        joined_s={**memory.joined_s, name: draft.now},
        spread_until_s=draft.now + draft.settings.join_spread_s,
        released={other: out for other, out in memory.released.items() if other != name},
    )


def weight_of(draft: Draft, hub: int) -> int:
    """By outgoing bandwidth against the median of the hubs, where it is known of all; else an ordinary one's."""
    full = draft.capacities.bytes_full[draft.alive]
    ordinary = float(np.median(full)) if len(full) else math.inf
    own = float(draft.capacities.bytes_full[hub])
    if math.isinf(ordinary) or math.isinf(own):
        return WEIGHT_NORMAL
    return quantise_weight(own / ordinary)


def _forget_released(draft: Draft) -> None:
    """A released hub that has stopped, or has come back as another life, is a hub like any other."""
    index, lives = draft.view.hub_index, draft.view.hubs.incarnation
    kept = {
        name: out
        for name, out in draft.memory.released.items()
        if name in index and draft.alive[index[name]] and int(lives[index[name]]) == out.incarnation
    }
    if kept != draft.memory.released:
        draft.remember(released=kept)


def _drop_dead(draft: Draft) -> None:
    index = draft.view.hub_index
    living = {name for name, at in index.items() if draft.alive[at]}
    dead = sorted(name for name in draft.members if name not in living)
    since_s = {name: draft.memory.dead_s.get(name, draft.now) for name in dead}
    draft.remember(dead_s=since_s)
    if len(dead) == len(draft.members):
        return
    for name in dead:
        dead_for_s = draft.now - since_s[name]
        if dead_for_s >= draft.settings.dead_wait_s:
            draft.remove_member(name, why(Reason.LEFT, dead_for_s=dead_for_s))


def _take_in(draft: Draft) -> None:
    hubs = draft.view.hubs
    for at, name in enumerate(hubs.names):
        is_wanted = hubs.is_alive[at] and not hubs.is_draining[at] and name not in draft.memory.released
        if is_wanted and name not in draft.members:
            join(draft, at)


def _follow_facts(draft: Draft) -> None:
    """Restarts, drains and changes of site of those who stay."""
    hubs, memory = draft.view.hubs, draft.memory
    # Of members that are dead as well: a hub that comes back has another incarnation.
    lives = {name: life for name, life in memory.incarnations.items() if name in draft.members}
    for at, name in enumerate(hubs.names):
        member = draft.members.get(name)
        if member is None or not hubs.is_alive[at]:
            continue
        life = int(hubs.incarnation[at])
        lives[name] = life
        made = Member(name, 0 if hubs.is_draining[at] else member.weight, hubs.site[at] or member.site)
        if made != member:
            reason = Reason.DRAINED if made.weight != member.weight else Reason.OPERATOR
            draft.set_member(made, why(reason))
        elif name in memory.incarnations and life != memory.incarnations[name]:
            # It serves nothing until a plan that is newer than its start names it.
            draft.set_member(member, why(Reason.RESTARTED))
    draft.remember(incarnations=lives)
