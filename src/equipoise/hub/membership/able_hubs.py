"""Keep limited and durable topics off hubs of releases without these features.

Such a hub enters the plan like any other, and would number topics of its share of the ring without tokens, or without a
log. So the other hubs do not apply a plan that gives it a share: they commit one in which it has none, and apply that.
Until then the barrier of the first plan does not pass, so the hub opens no topic under it.

Pure: what was read from the store is passed as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from equipoise.model import Entry, Member, Plan, PlanChange, Reason, Specs, TopicSpec, Why
from equipoise.store.records.hubs import HubFacts, HubSeen

__all__ = ["unable_hubs", "without_unable_hubs"]


class _Need(NamedTuple):
    """A feature that a spec may need, and whether a hub has it."""

    lack: str
    asks: Callable[[TopicSpec], bool]
    can: Callable[[HubFacts], bool]


_NEEDS = (
    _Need("no rate limits", lambda spec: spec.rate_per_s is not None, lambda facts: facts.keeps_limits),
    _Need("no logs", lambda spec: spec.durability is not None, lambda facts: facts.keeps_logs),
)


def unable_hubs(hubs: Mapping[str, HubSeen], specs: Specs) -> set[str]:
    """Live hubs that lack a feature that some spec needs."""
    needs = [need for need in _NEEDS if any(map(need.asks, specs))]
    alive = {name: seen.facts for name, seen in hubs.items() if seen.alive is not None}
    return {name for name, facts in alive.items() if not all(need.can(facts) for need in needs)}


def without_unable_hubs(plan: Plan, hubs: Mapping[str, HubSeen], specs: Specs) -> PlanChange | None:
    """The plan change that moves limited and durable topics off live hubs that cannot serve them; None: not needed.

    Such a hub stays a member without a share of the ring, and forwards its clients' messages. None, too, while no live
    hub could serve the topics instead.
    """
    unable = unable_hubs(hubs, specs) & plan.by_hub.keys()
    alive = {name for name, seen in hubs.items() if seen.alive is not None}
    if not unable or not any(one.weight and one.hub in alive - unable for one in plan.members):
        return None
    members = [Member(one.hub, 0, one.site) for one in plan.members if one.hub in unable and one.weight]
    homes: dict[bytes, Entry | None] = {}
    for entry in plan.entries.values():
        wrong = _wrong_homes(entry, hubs, specs) & unable
        if wrong:
            homes[entry.topic] = _without(entry, wrong)
    if not members and not homes:
        return None
    lacks = [
        f"{need.lack} at {', '.join(names)}"
        for need in _NEEDS
        if any(map(need.asks, specs)) and (names := sorted(n for n in unable if not need.can(hubs[n].facts)))
    ]
    return PlanChange.on(
        plan,
        Why(Reason.DRAINED, note="; ".join(lacks)),
        set_entries=[entry for entry in homes.values() if entry is not None],
        remove_entries=[topic for topic, entry in homes.items() if entry is None],
        set_members=members,
    )


def _wrong_homes(entry: Entry, hubs: Mapping[str, HubSeen], specs: Specs) -> set[str]:
    """Homes of the topic that cannot serve it."""
    spec = specs.of(entry.topic)
    needs = [need for need in _NEEDS if spec is not None and need.asks(spec)]
    known = [hub for hub in entry.homes if hub in hubs]
    return {hub for hub in known if not all(need.can(hubs[hub].facts) for need in needs)}


def _without(entry: Entry, hubs: set[str]) -> Entry | None:
    """The entry without these homes; None if none is left."""
    left: Entry | None = entry
    for hub in entry.homes:
        if left is not None and hub in hubs:
            left = left.without(hub)
    return left
