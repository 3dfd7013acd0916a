"""Hubs of releases without rate limits or logs, beside current hubs.

Such a hub announces and enforces no limits, or announces no logs, and applies any plan. All else is as in this
release, because these differences are what the other hubs have to handle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import cast

import msgspec

from equipoise.hub.cluster.link.capabilities import Announcement
from equipoise.hub.cluster.link.capability import LOGS
from equipoise.hub.cluster.link.frames import Life
from equipoise.hub.cluster.peer_greeting import PeerGreeting
from equipoise.hub.cluster.rate_limits import RateLimits
from equipoise.hub.data.topic import Topic
from equipoise.hub.membership.membership import Membership
from equipoise.hub.membership.registration import HubRegistration
from equipoise.lab.simulation.ablation import replaced
from equipoise.model import Plan, TopicSpec
from equipoise.store import HubSeen
from equipoise.store.records.hubs import HubFacts

__all__ = ["without_limits", "without_logs"]


@contextmanager
def without_limits(names: Collection[str]) -> Iterator[None]:
    """Hubs of these names run a release without rate limits."""
    if not names:
        yield
        return
    facts, adopt, amends = HubRegistration._facts, RateLimits.adopt, Membership._amends

    def old_facts(presence: HubRegistration) -> HubFacts:
        own = cast("HubFacts", cast("property", facts).__get__(presence))
        return msgspec.structs.replace(own, keeps_limits=own.hub not in names)

    def old_adopt(limits: RateLimits, topic: Topic, spec: TopicSpec | None) -> None:
        adopt(limits, topic, None if limits._core.settings.name in names else spec)

    async def old_amends(membership: Membership, plan: Plan, seen: Mapping[str, HubSeen]) -> bool:
        return membership._name not in names and await amends(membership, plan, seen)

    with (
        replaced(HubRegistration, "_facts", property(old_facts)),
        replaced(RateLimits, "adopt", old_adopt),
        replaced(Membership, "_amends", old_amends),
    ):
        yield


@contextmanager
def without_logs(names: Collection[str]) -> Iterator[None]:
    """Hubs of these names run a release without logs. The caller gives them no log storage."""
    facts, announced, amends = HubRegistration._facts, PeerGreeting.announced, Membership._amends

    def old_facts(presence: HubRegistration) -> HubFacts:
        own = cast("HubFacts", cast("property", facts).__get__(presence))
        return msgspec.structs.replace(own, keeps_logs=own.hub not in names)

    def old_announced(greeting: PeerGreeting, life: Life, announcement: Announcement) -> None:
        if life[0] in names:
            announcement = announcement._replace(capabilities=announcement.capabilities - {LOGS})
        announced(greeting, life, announcement)

    async def old_amends(membership: Membership, plan: Plan, seen: Mapping[str, HubSeen]) -> bool:
        return membership._name not in names and await amends(membership, plan, seen)

    with (
        replaced(HubRegistration, "_facts", property(old_facts)),
        replaced(PeerGreeting, "announced", old_announced),
        replaced(Membership, "_amends", old_amends),
    ):
        yield
