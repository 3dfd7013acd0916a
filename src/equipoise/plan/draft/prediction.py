"""What a draft knows of where topics are and what they weigh, before and after its changes. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from equipoise.plan.load import Capacities
from equipoise.plan.memory import Memory
from equipoise.plan.plan_placement import Replicas
from equipoise.plan.settings import PlannerSettings
from equipoise.view.view import View

__all__ = ["home_of_each", "moving_topics", "on_ordinary_hub"]

Floats = NDArray[np.float64]


def home_of_each(
    ring: NDArray[np.int64], single: Mapping[int, int], several: Mapping[int, Replicas]
) -> NDArray[np.int64]:
    """The only home of each topic: by its entry, else by the ring; −1 of those with several."""
    home = ring.copy()
    if single:
        home[np.fromiter(single, np.int64)] = np.fromiter(single.values(), np.int64)
    if several:
        home[np.fromiter(several, np.int64)] = -1
    return home


def moving_topics(view: View, memory: Memory, settings: PlannerSettings, now: float) -> NDArray[np.bool_]:
    """The topics that views may still show where they were."""
    count, since_s = view.topics.count, now - settings.settle_s
    if memory.members_s > since_s:
        return np.ones(count, np.bool_)
    moving = np.zeros(count, np.bool_)
    recent = [name for name, at in memory.moved_s.items() if at > since_s]
    recent += [name for name, at in memory.replicated_s.items() if at > since_s]
    recent += memory.arbiter.in_hand
    moving[[view.topic_index[name] for name in recent if name in view.topic_index]] = True
    return moving


def on_ordinary_hub(
    capacities: Capacities, among: NDArray[np.bool_], bytes_per_s: Floats, work: Floats
) -> Floats:
    """What topics that take so much put on the hub in the middle of these; nothing if there is none."""
    if not among.any():
        return np.zeros(len(bytes_per_s))
    bandwidth = bytes_per_s / np.median(capacities.bytes_full[among])
    cpu = work * (np.median(capacities.price[among]) / capacities.cpu_full)
    return np.maximum(bandwidth, cpu)
