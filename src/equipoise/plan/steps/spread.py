"""Share load out though no hub is overloaded: after a hub has joined, and where no further server can be had.

The ring gives a new member its share of topics, not of load: heavy topics and old entries stay where they are. For
half a minute after a join the fullest hub gives to the emptiest the largest topic that does not turn the two around,
until they are close; being half as far apart again begins it. While topics go to the new member nothing is added.

When all servers that there may be are at work and full on average beyond what one would accept, what the emptiest has
left is all the room there is: then being four times as far apart begins it. At other times a cluster is left as it is:
a harmless difference is not worth moves.

Always true: the difference between the fullest and the emptiest hub does not grow by a move.
"""

from __future__ import annotations

import numpy as np

from equipoise.model import Reason
from equipoise.plan.draft import Draft, why

__all__ = ["spread"]


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
        # Again and again: what is small is not worth it.
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
    """Move the largest topic that fits between the two and is no smaller than the floor; whether there is one."""
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
