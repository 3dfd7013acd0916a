"""Operations on plan and specs: move, replicate, drain, weight, remove, limit; for commands and dashboard.

Each is one commit, repeated on the newer version if another writer commits first. Always true: no topic is placed on
a hub that is not a member, is dead or is drained; at least one live hub keeps a share of the ring; only the named
fields of a spec change; and an operation that changes nothing makes no new version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from equipoise.errors import NotEmptyError, PlanError, PlanRaceError, SettingsError
from equipoise.ledger.placement import place_ensemble
from equipoise.ledger.registration import BookieFacts
from equipoise.model import (
    Durability,
    Entry,
    Member,
    Mode,
    Plan,
    PlanChange,
    Reason,
    Specs,
    TopicSpec,
    Why,
    ring_over,
)
from equipoise.model.names import shown
from equipoise.model.tree import tree_of_names
from equipoise.store.records.hubs import HubSeen, HubsStore
from equipoise.store.records.plans import PlanStore
from equipoise.store.records.specs import SpecsStore

__all__ = [
    "change_plan",
    "change_spec",
    "deal_by",
    "drain",
    "durability_compromises",
    "forget",
    "hubs_without_content",
    "hubs_without_limits",
    "hubs_without_specs",
    "place",
    "publish_specs",
    "unplace",
    "weigh",
]

# Plans are committed every few seconds at most; repeated races have another cause.
_RACES_MAX = 20
# Interval of reading the hubs while an operation waits for them: a hub takes some round trips to the store.
_LOOK_S = 0.1


async def change_plan(plans: PlanStore, make: Callable[[Plan], PlanChange | None]) -> Plan:
    """Commit the change that `make` makes on the latest plan; None: no change. Returns the plan after that."""
    for attempt in range(_RACES_MAX):
        plan = await plans.load()
        change = make(plan)
        if change is None or change.is_empty:
            return plan
        try:
            return await plans.commit(change)
        except PlanRaceError:
            if attempt == _RACES_MAX - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


async def place(
    plans: PlanStore,
    topic: bytes,
    homes: Iterable[str],
    mode: Mode,
    *,
    alive: Collection[str],
    is_pinned: bool = True,
    shares: Iterable[int] = (),
    followed: Mapping[str, str] | None = None,
    unable: Collection[str] = (),
    specs: Specs | None = None,
    note: str = "",
) -> Plan:
    """Place a topic at these hubs; a pin lasts until an operator removes it or one of the homes leaves the plan.

    `shares`: of its rate envelope, in millionths, one per home; none: equal ones. `followed`: of a content topic, the
    parent of each home whose parent is not the first. `unable`: live hubs without content topics. `specs`: those in
    force; an envelope with a smaller burst than homes cannot be split. Raises PlanError for that, for an invalid tree,
    and if a home is not a member, dead, or drained.
    """
    if mode is Mode.CONTENT and unable:
        raise PlanError(
            f"these hubs run a release without content topics: {', '.join(sorted(unable))}. Upgrade them first"
        )
    if followed and mode is not Mode.CONTENT:
        raise PlanError(f"a tree is for mode content, not for {mode.value}: leave it out")
    named = tuple(homes)
    parents = tree_of_names(shown(topic), named, followed) if followed else ()
    entry = Entry(topic, named, mode, is_pinned, tuple(shares), parents=parents)
    spec = None if specs is None else specs.of(topic)
    if spec is not None and (problem := _undividable(spec, entry)):
        raise PlanError(problem)

    def make(plan: Plan) -> PlanChange | None:
        for hub in entry.homes:
            member = _require(plan, hub)
            if hub not in alive:
                raise PlanError(f"hub {hub} is dead: start it first, or choose one of {_names(plan, alive)}")
            if member.weight == 0:
                raise PlanError(
                    f"hub {hub} is drained: give it a share first (`equipoise hubs weigh {hub} 1`), or choose one "
                    f"of {_names(plan, alive)}"
                )
        if plan.entries.get(topic) == entry:
            return None
        return PlanChange.on(plan, Why(Reason.OPERATOR, note=note), set_entries=[entry])

    return await change_plan(plans, make)


async def deal_by(plans: PlanStore, topic: bytes, order: int, *, note: str = "") -> Plan:
    """Let hubs assign the publishers of a topic by the stored order of this number. No effect if it is not split."""

    def make(plan: Plan) -> PlanChange | None:
        entry = plan.entries.get(topic)
        if entry is None or entry.mode is not Mode.ALL_SUBSCRIBERS or entry.order >= order:
            return None
        dealt = msgspec.structs.replace(entry, order=order)
        return PlanChange.on(plan, Why(Reason.SEATS, {"order": order}, note), set_entries=[dealt])

    return await change_plan(plans, make)


def _undividable(spec: TopicSpec, entry: Entry) -> str | None:
    """Why the topic cannot have the homes of its entry: its log, or its envelope, does not allow that."""
    if spec.durability is not None and entry.mode is Mode.CONTENT:
        return (
            f"{shown(entry.topic)} is durable: durable subscribers have no filters, so it cannot be a content topic; "
            "use all-publishers, or one home"
        )
    if spec.durability is not None and entry.mode is Mode.ALL_SUBSCRIBERS:
        return (
            f"{shown(entry.topic)} is durable: one hub owns its log, so it cannot have several streams "
            "(all-subscribers); use all-publishers, or one home"
        )
    envelope, homes = spec.envelope, len(entry.homes)
    if envelope is None or entry.mode is not Mode.ALL_SUBSCRIBERS or envelope.burst >= homes:
        return None
    return (
        f"{shown(entry.topic)} has {homes} homes and a burst of {envelope.burst}: each home needs one message at "
        f"least, so give a burst of {homes} or more"
    )


async def unplace(plans: PlanStore, topic: bytes, *, note: str = "") -> Plan:
    """Remove the entry of a topic: the ring places it."""

    def make(plan: Plan) -> PlanChange | None:
        if topic not in plan.entries:
            return None
        return PlanChange.on(plan, Why(Reason.OPERATOR, note=note), remove_entries=[topic])

    return await change_plan(plans, make)


async def drain(plans: PlanStore, hub: str, *, alive: Collection[str] | None = None, note: str = "") -> Plan:
    """Assign no more topics to a hub: no share of the ring, and no entry. It stays a member.

    `alive` as for `Plan.home_of`. Raises PlanError if no other live hub takes topics.
    """

    def make(plan: Plan) -> PlanChange | None:
        member = _require(plan, hub)
        entries = _without(plan, hub, alive)
        if member.weight == 0 and not entries:
            return None
        return PlanChange.on(
            plan,
            Why(Reason.DRAINED, note=note),
            set_entries=entries,
            set_members=[Member(hub, 0, member.site)],
        )

    return await change_plan(plans, make)


async def weigh(
    plans: PlanStore, hub: str, weight: int, *, alive: Collection[str] | None = None, note: str = ""
) -> Plan:
    """Set the weight of a hub; a drained one takes topics again. Raises as `drain` does."""

    def make(plan: Plan) -> PlanChange | None:
        member = _require(plan, hub)
        if member.weight == weight:
            return None
        if weight == 0:
            _takers(plan, hub, alive)
        why = Why(Reason.OPERATOR, note=note)
        return PlanChange.on(plan, why, set_members=[Member(hub, weight, member.site)])

    return await change_plan(plans, make)


async def forget(plans: PlanStore, hubs: HubsStore, hub: str, *, note: str = "") -> Plan:
    """Remove a dead hub from the plan and delete its facts. Raises PlanError if it is alive, or unknown."""
    seen = await hubs.look(hub)
    if seen is not None and seen.alive is not None:
        raise PlanError(f"hub {hub} is alive: drain it and stop it first")

    def make(plan: Plan) -> PlanChange | None:
        if hub not in plan.by_hub:
            if seen is None:
                raise PlanError(f"there is no hub {hub}: `equipoise hubs ls` lists them")
            return None
        return PlanChange.on(
            plan,
            Why(Reason.LEFT, note=note),
            set_entries=_without(plan, hub) if len(plan.members) > 1 else (),
            remove_entries=() if len(plan.members) > 1 else plan.entries,
            remove_members=[hub],
        )

    plan = await change_plan(plans, make)
    try:
        await hubs.forget(hub)
    except NotEmptyError as problem:
        raise PlanError(f"hub {hub} has come back: drain it and stop it first") from problem
    return plan


async def change_spec(
    specs: SpecsStore,
    pattern: bytes,
    given: Mapping[str, Any],
    *,
    plan: Plan | None = None,
    hubs: Mapping[str, HubSeen] | None = None,
    bookies: Mapping[str, BookieFacts] | None = None,
) -> TopicSpec | None:
    """Change only these fields of a pattern's spec; None removes one, and removing a rate removes its burst.

    `plan`, `hubs` and `bookies`: the present ones, for the requirements of limits and durability. Returns the new spec;
    None if it was removed because no field is left. Raises SettingsError, also for fields that no hub enforces yet.
    """
    if not given:
        raise SettingsError(
            "nothing to change: name what to set, such as --latency, --rate, --durable or --pin"
        )
    if given.get("rate_per_s") is not None and (unable := hubs_without_limits(hubs or {})):
        raise SettingsError(
            f"these hubs run a release without rate limits: {', '.join(unable)}. Upgrade them first"
        )
    if given.get("rate_per_s") is not None and pattern.startswith(b"$"):
        raise SettingsError("topics whose names begin with $ have no rate limit")
    if given.get("durability") is not None and (unable := hubs_without_logs(hubs or {})):
        raise SettingsError(
            f"these hubs run a release without durable topics: {', '.join(unable)}. Upgrade them first"
        )
    if bookies is not None and (durability := given.get("durability")) is not None:
        _check_bookies(durability, bookies)

    others = [one for one in (await specs.load()).all if one.pattern != pattern]

    def make(old: TopicSpec | None) -> TopicSpec | None:
        changes = dict(given)
        if "rate_per_s" in changes and changes["rate_per_s"] is None:
            changes = {"burst_messages": None, "wait_ms": None} | changes
        if "durability" in changes and changes["durability"] is None:
            changes = {"retention": None} | changes
        if "quantile" in changes and changes["quantile"] is None:
            changes["quantile"] = TopicSpec(pattern=pattern).quantile
        made = msgspec.structs.replace(old or TopicSpec(pattern=pattern), **changes)
        if changes.get("quantile") and made.latency_ms is None:
            raise SettingsError("a quantile needs a latency limit: give --latency too")
        was_both = old is not None and old.durability is not None and old.rate_per_s is not None
        if made.durability is not None and made.rate_per_s is not None and not was_both:
            raise SettingsError("a rate limit and durability cannot be combined yet: remove one of them")
        after = Specs([*others, made])
        for entry in (Plan() if plan is None else plan).replicated:
            if after.of(entry.topic) is made and (problem := _undividable(made, entry)):
                raise SettingsError(problem)
        # A quantile has no meaning without a latency.
        return None if made == TopicSpec(pattern=pattern, quantile=made.quantile) else made

    return await specs.change(pattern, make)


def _check_bookies(durability: Durability, bookies: Mapping[str, BookieFacts]) -> None:
    """Raises SettingsError if no ledger of such topics could be created."""
    writable = [name for name, facts in sorted(bookies.items()) if not facts.is_read_only]
    if len(writable) >= durability.ensemble:
        return
    read_only = sorted(bookies.keys() - set(writable))
    there_are = f"there {'is' if len(writable) == 1 else 'are'} {len(writable)}"
    names = f" ({', '.join(writable)})" if writable else ""
    closed = f"; read-only: {', '.join(read_only)}" if read_only else ""
    raise SettingsError(
        f"{_spelled(durability)} needs {durability.ensemble} writable bookies, {there_are}{names}{closed}: start more "
        "with `equipoise bookie`, or give a smaller quorum"
    )


def durability_compromises(spec: TopicSpec, bookies: Mapping[str, BookieFacts]) -> tuple[str, ...]:
    """Which properties ledgers of such topics lack with these bookies: bookies at the site, or on distinct racks."""
    if spec.durability is None:
        return ()
    found = place_ensemble(bookies, spec.durability.ensemble, site=spec.site or "", draw=lambda: 0.0)
    return () if found is None else found.compromises


def _spelled(durability: Durability) -> str:
    return f"{durability.ensemble}/{durability.write_quorum}/{durability.ack_quorum}"


def hubs_without_logs(hubs: Mapping[str, HubSeen]) -> list[str]:
    """Live hubs of a release without logs."""
    return [hub for hub, seen in hubs.items() if seen.alive is not None and not seen.facts.keeps_logs]


def hubs_without_limits(hubs: Mapping[str, HubSeen]) -> list[str]:
    """Live hubs of a release without rate envelopes."""
    return [hub for hub, seen in hubs.items() if seen.alive is not None and not seen.facts.keeps_limits]


def hubs_without_content(hubs: Mapping[str, HubSeen]) -> list[str]:
    """Live hubs of a release without topics in mode `content`."""
    return [hub for hub, seen in hubs.items() if seen.alive is not None and not seen.facts.carries_content]


async def publish_specs(specs: SpecsStore, plans: PlanStore) -> int:
    """Commit a plan with the present version of the specs, so that every hub fetches them; return the version.

    Safe to interrupt: the next change brings the plan up to date, and hubs that watch the specs have them already.
    """
    version = await specs.version()

    def make(plan: Plan) -> PlanChange | None:
        # Before the first plan there is no hub to inform: the first one reads the specs when it starts.
        if plan.version == 0 or plan.specs_version >= version:
            return None
        return PlanChange.on(plan, Why(Reason.OPERATOR), specs_version=version)

    await change_plan(plans, make)
    return version


async def hubs_without_specs(hubs: HubsStore, version: int, *, timeout_s: float) -> list[str]:
    """Wait until every live hub has specs of this version; return those that do not when time is up."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        seen = await hubs.load()
        behind = [
            hub for hub, one in seen.items() if one.alive is not None and one.alive.specs_version < version
        ]
        if not behind or asyncio.get_running_loop().time() >= deadline:
            return behind
        await asyncio.sleep(min(_LOOK_S, timeout_s))


def _takers(plan: Plan, hub: str, alive: Collection[str] | None) -> list[Member]:
    """The other live hubs with a share of the ring; there must be at least one."""
    others = [
        member
        for member in plan.members
        if member.hub != hub and member.weight > 0 and (alive is None or member.hub in alive)
    ]
    if not others:
        raise PlanError(f"hub {hub} is the only one with a weight above 0: start another hub first")
    return others


def _without(plan: Plan, hub: str, alive: Collection[str] | None = None) -> list[Entry]:
    """The entries that name the hub, with replacements for it: hubs of its own site first."""
    named = [entry for entry in plan.entries.values() if hub in entry.homes]
    others = _takers(plan, hub, alive)
    site = plan.by_hub[hub].site
    near = [member for member in others if member.site == site] or others
    ring = ring_over(tuple((member.hub, member.weight) for member in near))
    changed: list[Entry] = []
    for entry in named:
        # An operator has not chosen the new home.
        changed.append(entry.without(hub) or Entry(entry.topic, (ring.owner(entry.topic) or "",)))
    return changed


def _require(plan: Plan, hub: str) -> Member:
    member = plan.by_hub.get(hub)
    if member is None:
        known = ", ".join(member.hub for member in plan.members) or "none"
        raise PlanError(f"hub {hub} is not a member of the plan; members are: {known}")
    return member


def _names(plan: Plan, alive: Collection[str]) -> str:
    return ", ".join(one.hub for one in plan.members if one.hub in alive and one.weight > 0) or "no other"
