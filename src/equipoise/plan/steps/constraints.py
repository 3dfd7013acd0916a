"""Moves that are not a matter of load: a topic to the site its spec names, and off a hub that is being emptied.

They come before everything else and need no evidence. They are bounded like all moves, so a large drain takes some
rounds; what cannot be placed stays where it is and is told.
"""

from __future__ import annotations

import numpy as np

from equipoise.model import Reason, Why
from equipoise.plan.draft import Draft, why
from equipoise.plan.plan_placement import Replicas

__all__ = ["obey", "put_elsewhere"]


def obey(draft: Draft) -> None:
    _pin(draft)
    _empty_drained(draft)


def put_elsewhere(
    draft: Draft, topic: int, hub: int, reason: Why, *, limit: float = np.inf, must: bool = False
) -> bool:
    """Give the topic another home in place of `hub`, the least loaded one; whether there is one below the limit."""
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
    for topic, site in draft.pinned.items():
        here = draft.at_site(site)
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
        draft.reasons.append(why(Reason.NO_ROOM, "no hub at the site of pinned topics", topics=unplaced))


def _keep_homes(draft: Draft, topic: int, left: list[int], replicas: Replicas, reason: Why) -> None:
    if len(left) == 1:
        draft.move(topic, left[0], reason, for_load=False)
    else:
        draft.replicate(topic, left, replicas.mode, reason)


def _empty_drained(draft: Draft) -> None:
    """Take the entries off the hubs that an operator drains; what the ring gave them went with their weight."""
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
            put_elsewhere(draft, topic, hub, why(Reason.DRAINED, note=draft.view.hubs.names[hub]), must=True)
