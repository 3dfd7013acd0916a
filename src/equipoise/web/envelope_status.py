"""The rate limit of a topic, for pages and API.

Each home's share of the envelope and of the publishers, each hub's admitted, rejected and delayed messages, the result
of a fit, and why there is no better split than the present one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from equipoise.control.controller import Controller
from equipoise.limits import PARTS, TOKEN, equal_parts, split
from equipoise.model import Mode
from equipoise.view import View

__all__ = ["envelope_status"]

Json = dict[str, Any]


def envelope_status(controller: Controller, topic: bytes, homes: Sequence[str]) -> Json | None:
    """Of a topic at these homes; None without a rate limit."""
    spec = controller.knowledge.specs.of(topic)
    if spec is None or spec.envelope is None:
        return None
    envelope, entry = spec.envelope, controller.knowledge.plan.entries.get(topic)
    shares = split(envelope.whole, (PARTS,))
    seats: tuple[int, ...] = (PARTS,)
    if entry is not None and entry.mode is Mode.ALL_SUBSCRIBERS and len(entry.homes) > 1:
        homes = entry.homes
        shares = split(envelope.whole, entry.shares or equal_parts(len(homes)), entry.depths)
        seats = entry.seat_parts
    view, fit = controller.views.latest, controller.split_fit(topic)
    uses = {} if view is None else view.limited.get(topic, {})
    return {
        "rate_per_s": envelope.rate_per_s,
        "burst_messages": envelope.burst,
        "wait_ms": 1e3 * spec.wait_s,
        "access_delay_s_max": _access_delay_s(view, topic),
        "fit": None if fit is None else msgspec.structs.asdict(fit),
        "fit_doubt": controller.split_doubt(topic),
        "seat_order": 0 if entry is None else entry.order,
        "shares": [
            {
                "hub": hub,
                "rate_per_s": share.rate / 1e6,
                "burst_messages": share.depth / TOKEN,
                "seats_ratio": part / PARTS,
                "publications_per_s": uses[hub].publications_per_s if hub in uses else None,
                "waiting": uses[hub].waiting if hub in uses else None,
            }
            for hub, share, part in zip(homes, shares, seats, strict=False)
        ],
        "hubs": [
            {
                "hub": hub,
                "admitted_per_s": use.publications_per_s,
                "waiting": use.waiting,
                "refused_per_s": use.refused_per_s,
                "access_delay_s_max": use.access_delay_s,
            }
            for hub, use in sorted(uses.items())
        ],
    }


def _access_delay_s(view: View | None, topic: bytes) -> float | None:
    at = None if view is None else view.topic_index.get(topic)
    delay_s = math.nan if view is None or at is None else float(view.topics.throttle_delay_s[at])
    return delay_s if math.isfinite(delay_s) else None
