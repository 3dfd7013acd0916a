"""Keep limited topics from hubs of a release that keeps no rate limits.

Such a hub enters the plan as any other does, and would number topics of its share of the ring without asking for
tokens. So the others do not go by a plan that gives it a share: they commit one in which it has none, and go on with
that. Until then the barrier of the first one does not pass, so the hub opens nothing under it.

Pure: what was read of the store comes as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.model import Entry, Member, Plan, PlanChange, Reason, Specs, Why
from equipoise.store.records.hubs import HubSeen

__all__ = ["has_limits", "without_limited_topics"]


def has_limits(specs: Specs) -> bool:
    """Whether a topic can have a rate limit."""
    return any(spec.rate_per_s is not None for spec in specs)


def without_limited_topics(plan: Plan, hubs: Mapping[str, HubSeen], specs: Specs) -> PlanChange | None:
    """The change that takes limited topics from live hubs that keep no limits; None: they have none.

    A member without a share of the ring stays a member, and passes on what its clients publish. None, too, while no
    live hub could have the topics instead.
    """
    if not has_limits(specs):
        return None
    alive = {name: seen.facts.keeps_limits for name, seen in hubs.items() if seen.alive is not None}
    if not any(member.weight and alive.get(member.hub) for member in plan.members):
        return None
    unable = {member.hub for member in plan.members if alive.get(member.hub) is False}
    members = [Member(one.hub, 0, one.site) for one in plan.members if one.hub in unable and one.weight]
    homes = {
        entry.topic: _without(entry, unable)
        for entry in plan.entries.values()
        if not unable.isdisjoint(entry.homes) and _is_limited(specs, entry.topic)
    }
    if not members and not homes:
        return None
    return PlanChange.on(
        plan,
        Why(Reason.DRAINED, note=f"no rate limits at {', '.join(sorted(unable))}"),
        set_entries=[entry for entry in homes.values() if entry is not None],
        remove_entries=[topic for topic, entry in homes.items() if entry is None],
        set_members=members,
    )


def _is_limited(specs: Specs, topic: bytes) -> bool:
    spec = specs.of(topic)
    return spec is not None and spec.rate_per_s is not None


def _without(entry: Entry, hubs: set[str]) -> Entry | None:
    """The entry without these homes; None: with none left."""
    left: Entry | None = entry
    for hub in entry.homes:
        if left is not None and hub in hubs:
            left = left.without(hub)
    return left
