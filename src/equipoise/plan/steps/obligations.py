"""Obligations independent of load: membership, pins, sites, and unneeded entries.

These are facts without noise: the planner acts on them at once, without hits or T_wait.

Members: a new hub gets its share of the ring by its capacity; the topics of that share move in one bulk handover, and
further load is moved by entries (`spread`). A hub that has been dead for longer than a restart takes is removed. With
no
live member none is removed, since then the store, not the hubs, is the likelier cause.

Sites and drains: a topic moves to the site that its spec names, and off a hub that is being drained. These moves are
bounded like all moves, so a large drain takes some rounds; a topic without an eligible hub stays, and a reason says so.

Cleanup: entries that equal the ring's placement are dropped, and those of topics that were unused for long. Neither
moves a topic, nor touches a pinned one. With a dead member the ring is only temporary, so nothing is dropped then.
"""

from __future__ import annotations

import math

import numpy as np

from equipoise.model import WEIGHT_NORMAL, Member, Mode, Reason, Why, quantise_weight
from equipoise.plan.draft import PLANNER, Draft, why
from equipoise.plan.predicted import Replicas

__all__ = ["evacuate", "join", "keep_members", "obey", "tidy", "weight_of"]

# In place of the site, for a durable topic that needs a hub near bookies.
_BOOKIES = "bookies"


def keep_members(draft: Draft) -> None:
    """Update the members by the hubs of the view."""
    _forget_released(draft)
    _drop_dead(draft)
    _take_in(draft)
    _follow_facts(draft)
    if draft.changes.has_member_changes:
        draft.place_all()
        draft.remember(members_s=draft.now)


def join(draft: Draft, hub: int) -> None:
    """Make a hub a member with a weight by its capacity. The caller computes the placement again."""
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
    """By outgoing bandwidth relative to the median of the hubs, if known for all; else an ordinary hub's."""
    full = draft.capacities.bytes_full[draft.alive]
    ordinary = float(np.median(full)) if len(full) else math.inf
    own = float(draft.capacities.bytes_full[hub])
    if math.isinf(ordinary) or math.isinf(own):
        return WEIGHT_NORMAL
    return quantise_weight(own / ordinary)


def _forget_released(draft: Draft) -> None:
    """A released hub that has stopped, or has restarted, is an ordinary hub again."""
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
    """Restarts, drains and changed sites of the remaining members."""
    hubs, memory = draft.view.hubs, draft.memory
    # Of dead members, too: a hub that returns has another incarnation.
    lives = {name: life for name, life in memory.incarnations.items() if name in draft.members}
    for at, name in enumerate(hubs.names):
        member = draft.members.get(name)
        if member is None or not hubs.is_alive[at]:
            continue
        life = int(hubs.incarnation[at])
        lives[name] = life
        weight = 0 if hubs.is_draining[at] else member.weight
        site = hubs.site[at] or member.site
        if (weight, site) != (member.weight, member.site):
            reason = Reason.DRAINED if weight != member.weight else Reason.OPERATOR
            draft.set_member(Member(name, weight, site), why(reason))
        elif hubs.is_waiting[at] or life != memory.incarnations.get(name, life):
            # It serves no topic until a plan newer than its start contains it. The incarnation is not known of a hub
            # that joined after the memory was last written.
            draft.set_member(member, why(Reason.RESTARTED))
    draft.remember(incarnations=lives)


# --- sites and drains -------------------------------------------------------------------------------------------------


def obey(draft: Draft) -> None:
    _pin(draft)
    _empty_drained(draft)


def evacuate(
    draft: Draft, topic: int, hub: int, reason: Why, *, limit: float = np.inf, must: bool = False
) -> bool:
    """Replace `hub` as the topic's home by the least loaded hub; whether one below the limit exists."""
    homes = draft.homes_of(topic)
    takers = draft.takers(topic, must=must)
    takers[[*homes, hub]] = False
    replicas = draft.predicted.several.get(topic)
    share = draft.predicted.shares_of(topic, replicas).get(hub, 1.0) if replicas else 1.0
    after = np.where(takers, draft.predicted.if_added(topic, share), np.inf)
    to = int(np.argmin(after))
    if not after[to] < np.inf or after[to] > limit:
        return False
    if replicas is None:
        draft.move(topic, to, reason, for_load=False)
    else:
        swapped = tuple(to if home == hub else home for home in replicas.homes)
        draft.replicate(topic, swapped, replicas.mode, reason)
    return True


def _pin(draft: Draft) -> None:
    unplaced = 0
    for topic, here in draft.bound.items():
        site = draft.pinned.get(topic, _BOOKIES)
        homes = draft.homes_of(topic)
        strays = [hub for hub in homes if not here[hub]]
        if not strays or not draft.is_free(topic):
            continue
        takers = draft.takers(topic, must=True)
        if not takers.any():
            unplaced += 1
            continue
        if len(strays) < len(homes) and isinstance(replicas := draft.predicted.several.get(topic), Replicas):
            left = [hub for hub in homes if here[hub]]
            _keep_homes(draft, topic, left, replicas, why(Reason.PINNED, note=site))
            continue
        to = int(np.argmin(np.where(takers, draft.predicted.if_added(topic), np.inf)))
        draft.move(topic, to, why(Reason.PINNED, note=site), for_load=False)
    if unplaced:
        draft.reasons.append(
            why(Reason.NO_ROOM, "no hub where pinned or durable topics may live", topics=unplaced)
        )


def _keep_homes(draft: Draft, topic: int, left: list[int], replicas: Replicas, reason: Why) -> None:
    if len(left) == 1:
        draft.move(topic, left[0], reason, for_load=False)
    else:
        draft.replicate(topic, left, replicas.mode, reason)


def _empty_drained(draft: Draft) -> None:
    """Remove entries from drained hubs; topics of the ring moved with the weight."""
    for hub in np.flatnonzero(draft.view.hubs.is_draining & draft.alive).tolist():
        on_it = [topic for topic in draft.predicted.at_hub(hub).tolist() if draft.is_free(topic)]
        on_it += [
            topic
            for topic, replicas in draft.predicted.several.items()
            if hub in replicas.homes and draft.is_free(topic)
        ]
        for topic in on_it:
            if not draft.is_free(topic):
                break
            evacuate(draft, topic, hub, why(Reason.DRAINED, note=draft.view.hubs.names[hub]), must=True)


# --- cleanup ----------------------------------------------------------------------------------------------------------


def tidy(draft: Draft) -> None:
    _note_absent(draft)
    index = draft.view.hub_index
    has_dead = any(name not in index or not draft.alive[index[name]] for name in draft.members)
    if has_dead or not (draft.may_plan or draft.has_moves or draft.changes.has_member_changes):
        return
    _drop_as_ring(draft)
    _drop_idle(draft)


def _note_absent(draft: Draft) -> None:
    """Record since when topics with an entry have been missing."""
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
            draft.changes.drop(name, reason)


def _drop_idle(draft: Draft) -> None:
    for name, since_s in draft.memory.absent_s.items():
        idle_s = draft.now - since_s
        if draft.plan.entries[name].is_pinned:
            continue
        if idle_s >= draft.settings.idle_entry_s and draft.memory.arbiter.is_free(name, PLANNER):
            draft.changes.drop(name, why(Reason.IDLE, idle_s=idle_s))
