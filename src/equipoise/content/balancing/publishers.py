"""Choose the publishers that a head transfers to the head of a neighbouring cluster. Pure; not in the paper.

The home numbers every message, wherever it was published. What moves with a publisher is its ingress: a head receives
its messages, answers it, and passes them on in batches. How much of a head's processor that is, is not known. So the
estimate takes all that the head does for work of its publishers, and a step moves half of what would then balance two
equal heads: steps come closer to the balance, and do not pass it unless the other head is more than three times weaker.

Always true: a step moves no publisher whose rate alone is more than the step.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

__all__ = ["HeadUse", "PublisherMove", "choose_move", "choose_publishers"]

Publisher = TypeVar("Publisher", bound=Hashable)


class HeadUse(msgspec.Struct, frozen=True, kw_only=True):
    """What a head says of itself in its global PIE."""

    # The part of its processor that is in use, and what its publishers send, in publishes per second.
    ratio: float
    rate: float


class PublisherMove(NamedTuple):
    """Of one head, how much less it should receive, and where that should go."""

    hub: str
    rate: float


def choose_move(own: HeadUse, others: Mapping[str, HeadUse], trigger: float) -> PublisherMove | None:
    """To the head that uses least; None: none differs by more than the trigger."""
    if not others or own.rate <= 0:
        return None
    hub = min(others, key=lambda name: (others[name].ratio, name))
    difference = own.ratio - others[hub].ratio
    return PublisherMove(hub, own.rate * difference / own.ratio / 4) if difference > trigger else None


def choose_publishers(rates: Mapping[Publisher, float], step: float) -> list[Publisher]:
    """Those with the highest rates that fit into the step, in the order in which they are to go."""
    chosen = []
    for publisher in sorted(rates, key=lambda one: -rates[one]):
        if 0 < rates[publisher] <= step:
            step -= rates[publisher]
            chosen.append(publisher)
    return chosen
