"""Choose the publishers that a head transfers to the head of a neighbouring cluster. Pure; not in the paper.

The home numbers every message, wherever it was published. A publisher's ingress moves with it: a head receives its
messages, replies, and forwards them in batches. The share of that in a head's processor use is unknown. So the estimate
counts all of the head's work as its publishers', and a step moves half of the amount that would then balance two equal
heads: steps approach the balance, and do not pass it unless the other head is more than three times weaker.

Always true: a step moves no publisher whose rate alone is more than the step.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

__all__ = ["HeadUse", "PublisherMove", "choose_move", "choose_publishers"]

Publisher = TypeVar("Publisher", bound=Hashable)


class HeadUse(msgspec.Struct, frozen=True, kw_only=True):
    """The use of a head in its global PIE."""

    # Its processor use, and the publishes per second of its publishers.
    ratio: float
    rate: float


class PublisherMove(NamedTuple):
    """For one head: the publishes per second to transfer, and the receiving head."""

    hub: str
    rate: float


def choose_move(own: HeadUse, others: Mapping[str, HeadUse], trigger: float) -> PublisherMove | None:
    """To the head with the lowest use; None: no difference exceeds the trigger."""
    if not others or own.rate <= 0:
        return None
    hub = min(others, key=lambda name: (others[name].ratio, name))
    difference = own.ratio - others[hub].ratio
    return PublisherMove(hub, own.rate * difference / own.ratio / 4) if difference > trigger else None


def choose_publishers(rates: Mapping[Publisher, float], step: float) -> list[Publisher]:
    """Those with the highest rates that fit into the step, in the order of their transfer."""
    chosen = []
    for publisher in sorted(rates, key=lambda one: -rates[one]):
        if 0 < rates[publisher] <= step:
            step -= rates[publisher]
            chosen.append(publisher)
    return chosen
