"""Who may take part in a round: which hubs may be given something, which topics are bound to a site, and how far the
coordinate of a hub can be relied on. Pure functions of the view, the specs and what is remembered.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from equipoise.model import Glob, Member, Specs
from equipoise.plan.memory import LONG_AGO_S, Memory
from equipoise.plan.settings import PlannerSettings
from equipoise.view.columns import BESIDE_POINT
from equipoise.view.view import View

__all__ = ["coordinate_doubt", "eligible_hubs", "pinned_sites"]


def eligible_hubs(
    view: View, members: Mapping[str, Member], memory: Memory, settings: PlannerSettings
) -> NDArray[np.bool_]:
    """The hubs that may be given something: live members with a weight, not drained or released, with memory left."""
    hubs = view.hubs
    weights = [members[name].weight if name in members else 0 for name in hubs.names]
    limit = np.where(hubs.memory_bytes_max > 0, hubs.memory_bytes_max, np.inf)
    has_memory = hubs.memory_bytes <= settings.memory_full_ratio * limit
    stays = np.array([name != memory.releasing for name in hubs.names], np.bool_)
    is_eligible: NDArray[np.bool_] = (
        stays & hubs.is_alive & ~hubs.is_draining & (np.array(weights, np.int64) > 0) & has_memory
    )
    return is_eligible


def pinned_sites(view: View, specs: Specs) -> dict[int, str]:
    """The topics whose spec names a site, and which."""
    prefixes = tuple(Glob(spec.pattern).prefix for spec in specs if spec.site is not None)
    if not prefixes:
        return {}
    # Most topics are under no such pattern; the beginning of a name tells in no time.
    near = (at for at, name in enumerate(view.topics.names) if name.startswith(prefixes))
    found = ((at, specs.of(view.topics.names[at])) for at in near)
    return {at: spec.site for at, spec in found if spec is not None and spec.site is not None}


def coordinate_doubt(
    view: View, memory: Memory, settings: PlannerSettings, now: float
) -> NDArray[np.float64]:
    """The error of the coordinates of hubs that have just joined, in parts of a distance; 0 of all others."""
    hubs = view.hubs
    doubt = np.zeros(hubs.count)
    for hub, name in enumerate(hubs.names):
        is_fresh = now - memory.joined_s.get(name, LONG_AGO_S) < settings.joined_doubt_s
        if is_fresh and hubs.coordinate.shape[1]:
            doubt[hub] = np.nan_to_num(hubs.coordinate[hub, -BESIDE_POINT])
    return doubt
