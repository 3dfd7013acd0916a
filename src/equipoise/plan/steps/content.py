"""Choose heads and edges of topics with many filters (decision 0022).

A topic with many filters that needs several homes for its subscribers becomes a content topic: its home stays the head,
the least loaded hubs become edges. If its homes are at several sites, a site with three or more of them gets a head of
its own, so that a message is sent to that site once.

Edges assign subscribers to each other, so the planner leaves the homes of a content topic alone while that may help: it
adds an edge when all are full, and removes one when the others can carry its load with room to spare. While an edge is
in a session, or its load settles after one, the planner does not change the topic, for a limited time
(`content_session_wait_s`). Another hub takes the place of a drained hub in the tree (`obligations`).

Always true: no content topic is made while a live hub does not know the mode; durable topics, topics with a rate
envelope and pinned topics are left alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from equipoise.model import Mode, Reason
from equipoise.plan.draft import PLANNER, Draft, why
from equipoise.plan.memory import HitCount, hit
from equipoise.plan.predicted import Replicas
from equipoise.plan.steps.high_load import is_severe
from equipoise.plan.steps.replication import wanted_homes
from equipoise.telemetry import EDGE_STATES

__all__ = ["HEAD_HOMES", "grow_edges", "tree_by_site"]

# A site with this many homes gets a head: with two, one edge would be left.
HEAD_HOMES = 3
# States of an edge in which its load changes by an agreed session.
_IN_SESSION = [at for at, state in enumerate(EDGE_STATES) if state not in ("", "ok", "n/a")]


def tree_by_site(sites: Sequence[str]) -> tuple[int, ...]:
    """The tree over homes at these sites; the first is the root; empty: all follow the first."""
    parents = [0] * len(sites)
    for site in dict.fromkeys(sites):
        here = [at for at, place in enumerate(sites) if place == site and at > 0]
        if site != sites[0] and len(here) >= HEAD_HOMES:
            for at in here[1:]:
                parents[at] = here[0]
    return tuple(parents) if any(parents) else ()


def grow_edges(draft: Draft) -> None:
    """Make content topics, and change the number of edges of existing ones."""
    hits: dict[bytes, HitCount] = {}
    in_session_s = _in_session_s(draft)
    draft.remember(in_session_s=in_session_s)
    for topic in _candidates(draft):
        name = draft.view.topics.names[topic]
        waited_s = draft.now - in_session_s.get(name, -math.inf)
        made = _wanted(draft, topic) if waited_s > draft.settings.content_session_wait_s else None
        if made is None:
            continue
        before = draft.homes_of(topic)
        step = 1 if len(made) > len(before) else -1
        hits[name] = hit(draft.memory.content_hits.get(name), draft.view, step=step, is_clear=step > 0)
        if _is_due(draft, topic, hits[name].count):
            del hits[name]
            _change(draft, topic, made)
        else:
            draft.is_pressing |= step > 0
    draft.remember(content_hits=hits)


def _in_session_s(draft: Draft) -> dict[bytes, float]:
    """Content topics with an edge in a session, or whose load settles after one; since when."""
    state = draft.view.hubs.content_state
    return {
        name: draft.memory.in_session_s.get(name, draft.now)
        for topic, replicas in draft.predicted.several.items()
        if replicas.mode is Mode.CONTENT and np.isin(state[list(replicas.homes)], _IN_SESSION).any()
        for name in (draft.view.topics.names[topic],)
    }


def _candidates(draft: Draft) -> list[int]:
    """Content topics, and topics that may become content topics; the heaviest first."""
    view, size = draft.view, draft.mean_ratio
    knows_all = bool(view.hubs.carries_content[draft.alive].all())
    several = draft.predicted.several
    found = {topic for topic, replicas in several.items() if replicas.mode is Mode.CONTENT}
    if knows_all:
        many = view.topics.filters >= draft.settings.content_filters_min
        found |= set(np.flatnonzero(many & (size >= draft.settings.replicate_ratio_min)).tolist())
    return sorted(
        (topic for topic in found if _may_change(draft, topic)), key=lambda topic: (-size[topic], topic)
    )


def _may_change(draft: Draft, topic: int) -> bool:
    name = draft.view.topics.names[topic]
    entry, spec = draft.changes.entries.get(name), draft.specs.of(name)
    is_plain = spec is None or (spec.durability is None and spec.rate_per_s is None)
    is_idle = name not in draft.changed_topics and draft.memory.arbiter.is_free(name, PLANNER)
    return is_plain and is_idle and draft.budget > 0 and not (entry is not None and entry.is_pinned)


def _wanted(draft: Draft, topic: int) -> list[int] | None:
    """The wanted homes of the topic, the head first; None: the present ones."""
    homes, replicas = list(draft.homes_of(topic)), draft.predicted.several.get(topic)
    if not homes:
        return None
    if replicas is None or replicas.mode is not Mode.CONTENT:
        # Only the head numbers messages: edges do not help a topic with many publications.
        wanted = wanted_homes(draft, topic, float(draft.mean_ratio[topic]))
        if wanted.mode is not Mode.ALL_PUBLISHERS or wanted.homes < 2:
            return None
        edges = _least_loaded(draft, topic, homes[:1], wanted.homes)
        return [homes[0], *edges] if edges else None
    edges = _edges(draft, topic, replicas)
    ratio = draft.predicted.ratio
    if ratio[edges].min() > draft.settings.accept_ratio and ratio[edges].max() > draft.settings.high_ratio:
        more = _least_loaded(draft, topic, homes, 1)
        return [*homes, *more] if more else None
    return _without_one(draft, topic, homes, edges)


def _edges(draft: Draft, topic: int, replicas: Replicas) -> list[int]:
    """The live homes that serve subscribers."""
    placement = draft.plan.home_of(
        draft.view.topics.names[topic], {draft.view.hubs.names[hub] for hub in replicas.homes}
    )
    return [draft.view.hub_index[hub] for hub in placement.edges]


def _least_loaded(draft: Draft, topic: int, homes: list[int], count: int) -> list[int]:
    """This many other hubs with room for their part, or as many as there are; those nearest to the head first."""
    takers = draft.takers(topic)
    takers[homes] = False
    share = 1.0 / max(len(homes) - 1 + count, 1)
    after = np.where(takers, draft.predicted.if_added(topic, share), np.inf)
    fitting = np.flatnonzero(after <= draft.settings.accept_ratio).tolist()
    site = draft.view.hubs.site
    near = sorted(fitting, key=lambda hub: (site[hub] != site[homes[0]], after[hub], hub))
    return near[: min(count, draft.settings.homes_max - len(homes))]


def _without_one(draft: Draft, topic: int, homes: list[int], edges: list[int]) -> list[int] | None:
    """The homes without the least loaded edge, if the others could carry its part with room to spare; else None."""
    if len(edges) < 2 or set(homes) - set(edges) != {homes[0]}:
        # The last edge stays; a tree was made by an operator, or for several sites.
        return None
    parts = draft.predicted.shares_of(topic, draft.predicted.several[topic])
    ratio = draft.predicted.ratio
    goes = min(edges, key=lambda hub: (ratio[hub], hub))
    left = [hub for hub in edges if hub != goes]
    after = draft.predicted.if_added(topic, parts.get(goes, 0.0) / len(left))
    low = draft.settings.accept_ratio * draft.settings.shrink_ratio
    return [hub for hub in homes if hub != goes] if after[left].max() <= low else None


def _is_due(draft: Draft, topic: int, hits: int) -> bool:
    """Whether there is enough evidence, and enough time since the last change."""
    settings = draft.settings
    changed_s = draft.memory.replicated_s.get(draft.view.topics.names[topic])
    if changed_s is not None and draft.now - changed_s < settings.replication_wait_s:
        return False
    if hits < 0:
        return -hits >= settings.merge_hits and draft.may_plan
    is_urgent = any(is_severe(draft, hub) for hub in draft.homes_of(topic))
    return (hits >= settings.hits and draft.may_plan) or (is_urgent and draft.may_plan_severe)


def _change(draft: Draft, topic: int, made: list[int]) -> None:
    name, hubs, before = draft.view.topics.names[topic], draft.view.hubs, draft.homes_of(topic)
    reason = Reason.REPLICATED if len(made) > len(before) else Reason.MERGED
    explained = why(
        reason,
        f"content, {len(before)} to {len(made)} homes",
        filters=float(draft.view.topics.filters[topic]),
        topic_ratio=float(draft.mean_ratio[topic]),
    )
    was = draft.plan.entries.get(name)
    draft.replicate(topic, made, Mode.CONTENT, explained)
    if was is None or was.mode is not Mode.CONTENT or not was.parents:
        # An existing tree keeps its shape: a new edge follows the first home.
        parents = tree_by_site([hubs.site[hub] for hub in made])
        entry = msgspec.structs.replace(draft.changes.entries[name], parents=parents)
        draft.changes.put(entry, explained)
    draft.remember(replicated_s={**draft.memory.replicated_s, name: draft.now})
