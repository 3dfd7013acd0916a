"""Replication of a topic: number and choice of homes (Dynamoth III-B1, Algorithm 1).

`algorithm_1` is the paper's, with the corner case that the paper describes in its text. In addition: a topic needs a
minimum load to be replicated; one that fits on no hub is replicated whatever its ratios; a topic whose messages one hub
must admit (durable, or with an envelope) gets homes for its subscribers only, and a split one is left to `envelopes`.
More homes need a few views, fewer homes many, and thresholds for fewer homes are lower than those for more.

The least loaded hubs are added first, the busiest freed first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from equipoise.model import Mode, Reason
from equipoise.model.plan import HOMES_MAX
from equipoise.plan.draft import Draft, why
from equipoise.plan.memory import HitCount, HubNoise, hit
from equipoise.plan.settings import PlannerSettings
from equipoise.plan.steps.high_load import is_severe

__all__ = ["ReplicationTarget", "algorithm_1", "is_clear", "is_due", "rate", "replicate", "wanted_homes"]


@dataclass(frozen=True, slots=True)
class ReplicationTarget:
    """The wanted mode of a topic. `homes` 0: several, as many as its load needs."""

    mode: Mode
    homes: int


ONE = ReplicationTarget(Mode.SINGLE, 1)


def algorithm_1(
    publications_per_s: float, subscribers: float, settings: PlannerSettings
) -> ReplicationTarget:
    """The paper's rule, from counts alone. A topic without publications or subscribers needs one home."""
    if publications_per_s <= 0 or subscribers <= 0:
        return ONE
    p_ratio = publications_per_s / subscribers
    s_ratio = subscribers / publications_per_s
    has_publications = publications_per_s > settings.publications_min
    has_subscribers = subscribers > settings.subscribers_min
    if p_ratio > settings.all_subscribers_ratio and has_publications:
        return ReplicationTarget(Mode.ALL_SUBSCRIBERS, _begun(p_ratio / settings.all_subscribers_ratio))
    if s_ratio > settings.all_publishers_ratio and has_subscribers:
        return ReplicationTarget(Mode.ALL_PUBLISHERS, _begun(s_ratio / settings.all_publishers_ratio))
    if has_publications and has_subscribers:
        # Both very large: publications must not be multiplied.
        return ReplicationTarget(Mode.ALL_SUBSCRIBERS, 0)
    return ONE


def rate(
    publications_per_s: float,
    subscribers: float,
    publishers: float,
    load_ratio: float,
    settings: PlannerSettings,
    *,
    may_split: bool = True,
) -> ReplicationTarget:
    """Algorithm 1, combined with the topic's load: `load_ratio` is that on one hub."""
    wanted = algorithm_1(publications_per_s, subscribers, settings)
    if load_ratio < settings.replicate_ratio_min:
        wanted = ONE
    homes = wanted.homes
    if homes == 0 or load_ratio > settings.single_ratio_max:
        homes = max(homes, 2, _begun(load_ratio / settings.home_ratio))
    if homes < 2:
        return ONE
    mode = wanted.mode
    if mode is Mode.SINGLE:
        mode = Mode.ALL_SUBSCRIBERS if publishers >= 2 * homes else Mode.ALL_PUBLISHERS
    if not may_split:
        mode = Mode.ALL_PUBLISHERS
    # Each client that is spread uses one home: more homes than such clients are useless.
    spread = publishers if mode is Mode.ALL_SUBSCRIBERS else subscribers
    homes = min(homes, settings.homes_max, math.floor(spread))
    return ReplicationTarget(mode, homes) if homes >= 2 else ONE


def _begun(servers: float) -> int:
    """Rounded up; rates may be so small that the quotient is infinite."""
    return math.ceil(min(servers, HOMES_MAX))


def replicate(draft: Draft) -> None:
    """Change the homes of topics that needed more, or fewer, for long enough."""
    hits: dict[bytes, HitCount] = {}
    sizes = _sizes(draft)
    for topic in _candidates(draft, sizes):
        name = draft.view.topics.names[topic]
        size = float(sizes[topic])
        up, down = _wanted(draft, topic, size)
        count = _direction(draft, topic, up, down)
        if count == 0:
            continue
        clear = count > 0 and is_clear(draft, topic, size)
        hits[name] = hit(draft.memory.replica_hits.get(name), draft.view, step=count, is_clear=clear)
        if is_due(draft, topic, hits[name].count) and _change(draft, topic, up if count > 0 else down, size):
            del hits[name]
        else:
            draft.is_pressing |= count > 0
    draft.remember(replica_hits=hits)


def _sizes(draft: Draft) -> NDArray[np.float64]:
    """The load ratio of each topic: its mean, since homes are expensive; on an overloaded hub, the present one."""
    severe = np.array([is_severe(draft, hub) for hub in range(draft.view.hubs.count)], np.bool_)
    if not severe.any():
        return draft.mean_ratio
    home = draft.predicted.home
    in_need = (home >= 0) & severe[home]
    for topic, replicas in draft.predicted.several.items():
        in_need[topic] = severe[list(replicas.homes)].any()
    return np.where(in_need, draft.present_ratio, draft.mean_ratio)


def is_clear(draft: Draft, topic: int, size: float) -> bool:
    """The topic exceeds one hub's capacity by more than the noise of its home."""
    names, noises = draft.view.hubs.names, draft.memory.noises
    usual = max((noises.get(names[hub], HubNoise()).deviation for hub in draft.homes_of(topic)), default=1.0)
    return size - draft.settings.single_ratio_max >= draft.settings.clear_deviations * usual


def _candidates(draft: Draft, size: NDArray[np.float64]) -> list[int]:
    """Topics with several homes, and those that may need them; the heaviest first."""
    settings, topics = draft.settings, draft.view.topics
    is_large = size > settings.single_ratio_max
    by_count = (topics.publications_per_s > settings.publications_min) | (
        topics.subscribers > settings.subscribers_min
    )
    is_near = by_count & (size >= settings.replicate_ratio_min)
    found = set(np.flatnonzero(is_large | is_near).tolist()) | draft.predicted.several.keys()
    found -= draft.divided
    # Their hubs balance the subscribers themselves: see `content`.
    found -= {topic for topic, at in draft.predicted.several.items() if at.mode is Mode.CONTENT}
    return sorted(found, key=lambda topic: (-size[topic], topic))


def _wanted(draft: Draft, topic: int, size: float) -> tuple[ReplicationTarget, ReplicationTarget]:
    """By the thresholds for more homes, and by those for fewer."""
    topics, settings = draft.view.topics, draft.settings
    spec = draft.specs.of(draft.view.topics.names[topic])
    may_split = spec is None or (spec.durability is None and spec.rate_per_s is None)
    part = settings.shrink_ratio
    low = msgspec.structs.replace(
        settings,
        all_subscribers_ratio=settings.all_subscribers_ratio * part,
        all_publishers_ratio=settings.all_publishers_ratio * part,
        publications_min=settings.publications_min * part,
        subscribers_min=settings.subscribers_min * part,
        replicate_ratio_min=settings.replicate_ratio_min * part,
        single_ratio_max=settings.single_ratio_max * part,
        home_ratio=settings.home_ratio * part,
    )
    counts = (
        float(topics.publications_per_s[topic]),
        float(topics.subscribers[topic]),
        float(topics.publishers[topic]),
        size,
    )
    return rate(*counts, settings, may_split=may_split), rate(*counts, low, may_split=may_split)


def wanted_homes(draft: Draft, topic: int, size: float) -> ReplicationTarget:
    """The wanted mode of a topic with this load on one hub, by the thresholds for more homes."""
    return _wanted(draft, topic, size)[0]


def _direction(draft: Draft, topic: int, up: ReplicationTarget, down: ReplicationTarget) -> int:
    """1 for more homes or another mode with several, -1 for fewer, 0 for no change."""
    replicas = draft.predicted.several.get(topic)
    homes = 1 if replicas is None else len(replicas.homes)
    # No more homes than hubs.
    takers = draft.takers(topic)
    takers[[*draft.homes_of(topic)]] = True
    if min(up.homes, int(takers.sum())) > homes:
        return 1
    if replicas is not None and up.homes > 1 and replicas.mode not in (up.mode, down.mode):
        return 1
    return -1 if down.homes < homes else 0


def is_due(draft: Draft, topic: int, hits: int) -> bool:
    """Whether there is enough evidence for other homes, and enough time since the last change."""
    settings = draft.settings
    changed_s = draft.memory.replicated_s.get(draft.view.topics.names[topic])
    if changed_s is not None and draft.now - changed_s < settings.replication_wait_s:
        return False
    if not draft.is_free(topic):
        return False
    if hits < 0:
        return -hits >= settings.merge_hits and draft.may_plan
    is_urgent = any(is_severe(draft, hub) for hub in draft.homes_of(topic))
    return (hits >= settings.hits and draft.may_plan) or (is_urgent and draft.may_plan_severe)


def _change(draft: Draft, topic: int, wanted: ReplicationTarget, size: float) -> bool:
    """Whether anything was changed: there may be no room."""
    homes = list(draft.homes_of(topic))
    topics = draft.view.topics
    numbers = {
        "publications_per_s": float(topics.publications_per_s[topic]),
        "subscribers": float(topics.subscribers[topic]),
        "topic_ratio": size,
    }
    if wanted.homes > len(homes):
        made = _grown(draft, topic, homes, wanted.homes)
    else:
        made = _shrunk(draft, topic, homes, wanted.homes)
    is_same_mode = len(homes) > 1 and draft.predicted.several[topic].mode is wanted.mode
    if not made or (made == homes and (is_same_mode or len(made) == 1)):
        return False
    reason = Reason.REPLICATED if len(made) >= len(homes) else Reason.MERGED
    explained = why(reason, f"{wanted.mode.value}, {len(homes)} to {len(made)} homes", **numbers)
    if len(made) == 1:
        draft.move(topic, made[0], explained)
    else:
        draft.replicate(topic, made, wanted.mode, explained)
    name = topics.names[topic]
    draft.remember(replicated_s={**draft.memory.replicated_s, name: draft.now})
    return True


def _grown(draft: Draft, topic: int, homes: list[int], count: int) -> list[int]:
    """The present homes and the least loaded others, each with room for its share; unchanged if there is no room.

    If shares are too large for the room of hubs, more and smaller ones may fit; if hubs are overloaded, fewer or fuller
    homes are better than none.
    """
    settings = draft.settings
    takers = draft.takers(topic)
    takers[homes] = False
    count_max = min(settings.homes_max, len(homes) + int(takers.sum()))
    limits = [settings.accept_ratio]
    if draft.is_crowded or max(draft.predicted.ratio[homes]) > settings.high_ratio:
        limits.append(settings.crowded_ratio)
    counts = [*range(count, count_max + 1), *range(min(count, count_max + 1) - 1, len(homes), -1)]
    for limit in limits:
        for tried in counts:
            after = np.where(takers, draft.predicted.if_added(topic, 1.0 / tried), np.inf)
            fitting = np.flatnonzero(after <= limit)
            if len(homes) + len(fitting) >= tried:
                added = sorted(fitting.tolist(), key=lambda hub: (after[hub], hub))
                return homes + added[: tried - len(homes)]
    return homes


def _shrunk(draft: Draft, topic: int, homes: list[int], count: int) -> list[int]:
    """Without the busiest homes; none if the rest could not carry the load."""
    ratio, share = draft.predicted.ratio, 1.0 / len(homes)
    by_load = sorted(homes, key=lambda hub: (ratio[hub], hub))
    left = [hub for hub in homes if hub in by_load[:count]]
    extra = 1.0 / len(left) - share
    after = draft.predicted.if_added(topic, extra)
    return left if all(after[hub] <= draft.settings.accept_ratio for hub in left) else []
