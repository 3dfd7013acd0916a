"""The plan: which hubs serve each topic.

A plan is a version, members (hubs with weights), and explicit entries for the few topics that need one; every other
topic follows the ring over the members. Only the plan changes membership: a member that is not alive is skipped
until a plan removes it, and a hub that returns serves no topic until a plan assigns it one.

Always true of a plan:
    the homes of every entry are members, one or more, without repetition, exactly one under `single`;
    the homes of an entry in mode `content` form a tree with an edge (`tree`), no other entry has a tree;
    members are sorted by name, without repetition.

`change` defines how plans change, `store.plans` how they are stored.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType

import msgspec

from equipoise.errors import PlanError
from equipoise.limits.shares import PARTS, equal_parts
from equipoise.model.names import shown
from equipoise.model.ring import MEMBERS_MAX, WEIGHT_NORMAL, Ring, ring_over
from equipoise.model.tree import above, check_tree, edges, graft

__all__ = [
    "AT_PREFIX",
    "HOMES_MAX",
    "WEIGHT_MAX",
    "Entry",
    "Member",
    "Mode",
    "Placement",
    "Plan",
    "decode_plan",
    "encode_plan",
    "quantise_weight",
    "reshared",
]

# Sixteen ordinary hubs in one: more cores than one process can use.
WEIGHT_MAX = 16 * WEIGHT_NORMAL
# A redirect names every home; more homes than this need a tree, not a list.
HOMES_MAX = 64


# The topics `$at/HUB/…` are served by the hub that they name, under every plan; by no hub while it is not alive.
AT_PREFIX = b"$at/"


def named_hub(topic: bytes) -> str:
    """The hub that serves a topic `$at/HUB/…`."""
    return topic[len(AT_PREFIX) :].partition(b"/")[0].decode(errors="replace")


class Mode(StrEnum):
    """How publishers and subscribers are spread over a topic's homes. Stored and sent by value."""

    SINGLE = "single"
    # Subscribe at every home, publish to one.
    ALL_SUBSCRIBERS = "all-subscribers"
    # Publish to every home, subscribe at one.
    ALL_PUBLISHERS = "all-publishers"
    # Publish to the first home, subscribe at an edge of the tree of the other homes.
    CONTENT = "content"


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A hub in the plan. Stored as an array: new fields are added at the end, with a default."""

    hub: str
    # In sixteenths of an ordinary hub. 0: no share of the ring, because the hub is drained or has entries only.
    weight: int = WEIGHT_NORMAL
    site: str = ""

    def __post_init__(self) -> None:
        if not self.hub:
            raise PlanError("a member has no name")
        if not 0 <= self.weight <= WEIGHT_MAX:
            raise PlanError(f"member {self.hub} has weight {self.weight}: use 0 to {WEIGHT_MAX}")


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The placement of one topic. Stored as an array, like `Member`."""

    topic: bytes
    homes: tuple[str, ...]
    mode: Mode = Mode.SINGLE
    # Set by an operator: policies do not move the topic while all its homes are members that are not drained.
    is_pinned: bool = False
    # How a rate envelope is split among the homes, in millionths; empty: in equal parts.
    shares: tuple[int, ...] = ()
    # The same for the burst of the envelope; empty: as the rate.
    depths: tuple[int, ...] = ()
    # Of a content topic: the index of each home's parent; empty: the first home is the parent of all.
    parents: tuple[int, ...] = ()
    # The part of the smart publishers that each home serves; empty: as the rate. Shares follow their traffic.
    seats: tuple[int, ...] = ()
    # The number of the stored order that assigns publishers without a group to homes; 0: none.
    order: int = 0

    def __post_init__(self) -> None:
        homes = self.homes
        if not 1 <= len(homes) <= HOMES_MAX:
            raise PlanError(f"the entry of {shown(self.topic)} has {len(homes)} homes: name 1 to {HOMES_MAX}")
        if len(homes) > 1:
            if self.mode is Mode.SINGLE:
                raise PlanError(f"the entry of {shown(self.topic)} is single but has {len(homes)} homes")
            if len(set(homes)) != len(homes):
                raise PlanError(f"the entry of {shown(self.topic)} names a home twice: {', '.join(homes)}")
        if self.mode is Mode.CONTENT:
            check_tree(shown(self.topic), homes, self.parents)
        elif self.parents:
            raise PlanError(
                f"the entry of {shown(self.topic)} has a tree but is {self.mode.value}: only content has one"
            )
        if self.depths and not self.shares:
            raise PlanError(f"the entry of {shown(self.topic)} has shares of burst and none of rate")
        for shares in (self.shares, self.depths, self.seats):
            if shares:
                self._check_shares(shares)

    def _check_shares(self, shares: tuple[int, ...]) -> None:
        if len(shares) != len(self.homes) or self.mode is not Mode.ALL_SUBSCRIBERS:
            raise PlanError(
                f"the entry of {shown(self.topic)} has {len(shares)} shares: one per home, under all-subscribers"
            )
        if min(shares) < 1 or sum(shares) != PARTS:
            raise PlanError(
                f"the shares of {shown(self.topic)} are {shares}: each at least 1, {PARTS} together"
            )

    @property
    def place(self) -> tuple[tuple[str, ...], Mode, tuple[int, ...]]:
        """The part of the entry that decides where messages go; shares of an envelope do not."""
        return self.homes, self.mode, self.parents

    @property
    def followed(self) -> dict[str, str]:
        """Of a content topic: the parent of each home but the first."""
        return above(self.homes, self.parents) if self.mode is Mode.CONTENT else {}

    def at(self, homes: tuple[str, ...], mode: Mode) -> Entry:
        """The same topic at other homes. Homes that stay keep their shares, and new homes take the shares of removed
        ones.

        With another number of homes the shares are equal again: the caller sets others. The entry is not pinned.
        Of a content topic, homes that stay keep their parents, and new homes take the places of removed ones.
        """
        if mode is Mode.CONTENT:
            return Entry(self.topic, homes, mode, parents=graft(homes, self._replaced(homes)))
        if mode is not Mode.ALL_SUBSCRIBERS or len(homes) != len(self.homes):
            return Entry(self.topic, homes, mode)
        shares, depths, seats = (self._moved(one, homes) for one in (self.shares, self.depths, self.seats))
        return Entry(self.topic, homes, mode, False, shares, depths, (), seats, self.order)

    def _replaced(self, homes: tuple[str, ...]) -> dict[str, str]:
        """The parent of each home, with new homes in the places of removed ones."""
        given_up = [home for home in self.homes if home not in homes]
        added = [home for home in homes if home not in self.homes]
        now = dict(zip(given_up, added, strict=False))
        return {now.get(home, home): now.get(at, at) for home, at in self.followed.items()}

    def _moved(self, shares: tuple[int, ...], homes: tuple[str, ...]) -> tuple[int, ...]:
        if not shares:
            return ()
        kept = dict(zip(self.homes, shares, strict=True))
        given_up = [share for home, share in kept.items() if home not in homes]
        return tuple(kept[home] if home in kept else given_up.pop(0) for home in homes)

    def without(self, hub: str) -> Entry | None:
        """The entry without a home, whose shares go to the first home left; None if it was the only home."""
        homes = tuple(home for home in self.homes if home != hub)
        if not homes:
            return None
        mode = self.mode if len(homes) > 1 else Mode.SINGLE
        shares, depths, seats = (self._left(one, hub) for one in (self.shares, self.depths, self.seats))
        order = self.order if len(homes) > 1 else 0
        parents = graft(homes, self.followed) if mode is Mode.CONTENT else ()
        return Entry(self.topic, homes, mode, self.is_pinned, shares, depths, parents, seats, order)

    @property
    def seat_parts(self) -> tuple[int, ...]:
        """The part of the smart publishers that each home serves, in millionths."""
        return self.seats or self.shares or equal_parts(len(self.homes))

    def _left(self, shares: tuple[int, ...], hub: str) -> tuple[int, ...]:
        left = [share for home, share in zip(self.homes, shares, strict=False) if home != hub]
        return (PARTS - sum(left[1:]), *left[1:]) if len(left) > 1 else ()


def reshared(before: Plan, after: Plan) -> frozenset[bytes] | None:
    """The topics whose shares differ, if the two plans differ in nothing else; otherwise None."""
    if before.members != after.members or before.entries.keys() != after.entries.keys():
        return None
    found = []
    for topic, entry in after.entries.items():
        was = before.entries[topic]
        if was is entry or was == entry:
            continue
        if was.place != entry.place:
            return None
        found.append(topic)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Placement:
    """The present placement of a topic. `homes` are alive; empty only if no member is alive."""

    homes: tuple[str, ...]
    mode: Mode = Mode.SINGLE
    # Of a content topic, as `Entry.parents`: the children of a dead home follow the next live home above it.
    parents: tuple[int, ...] = ()

    @property
    def followed(self) -> dict[str, str]:
        """Of a content topic: the parent of each home but the first."""
        return above(self.homes, self.parents) if self.mode is Mode.CONTENT else {}

    @property
    def edges(self) -> tuple[str, ...]:
        """Of a content topic: the homes that serve subscribers."""
        return edges(self.homes, self.parents)

    def parent_of(self, hub: str) -> str:
        """The parent of a home, or of a hub that is not a home: the first home, unless the tree has another one."""
        if not self.parents or hub not in self.homes:
            return self.homes[0]
        return self.homes[self.parents[self.homes.index(hub)]]

    @property
    def is_nowhere(self) -> bool:
        return not self.homes


NOWHERE = Placement(())


@dataclass(frozen=True)
class Plan:
    """One version of the plan. Immutable: `change.apply` makes the next one."""

    version: int = 0
    members: tuple[Member, ...] = ()
    # Never changed after construction: plans share equal parts.
    entries: Mapping[bytes, Entry] = field(default_factory=lambda: MappingProxyType({}))
    # The version of the access rules at the time of this plan: a hub with older rules fetches them. 0: none.
    access_version: int = 0
    # The version of the specs at the time of this plan, likewise.
    specs_version: int = 0

    @classmethod
    def of(
        cls,
        *,
        version: int = 1,
        members: Iterable[Member] = (),
        entries: Iterable[Entry] = (),
        access_version: int = 0,
        specs_version: int = 0,
    ) -> Plan:
        """Make a plan and check all of it. Raises PlanError."""
        by_topic: dict[bytes, Entry] = {}
        for entry in entries:
            if by_topic.setdefault(entry.topic, entry) is not entry:
                raise PlanError(f"{shown(entry.topic)} has two entries")
        ordered = tuple(sorted(members, key=lambda member: member.hub))
        plan = cls(version, ordered, by_topic, access_version, specs_version)
        plan.check()
        return plan

    @cached_property
    def by_hub(self) -> Mapping[str, Member]:
        return {member.hub: member for member in self.members}

    @cached_property
    def ring(self) -> Ring:
        """Built at the first lookup and shared by all plans with these members."""
        return ring_over(tuple((member.hub, member.weight) for member in self.members))

    @cached_property
    def replicated(self) -> tuple[Entry, ...]:
        """The entries with several homes. Scans all entries: 6 ms per 100,000, once."""
        return tuple(entry for entry in self.entries.values() if len(entry.homes) > 1)

    @cached_property
    def pinned(self) -> tuple[Entry, ...]:
        """The entries that policies do not move. Scans all entries, like `replicated`."""
        return tuple(entry for entry in self.entries.values() if entry.is_pinned)

    def home_of(self, topic: bytes, alive: Container[str] | None = None) -> Placement:
        """Where a topic is served: at the live homes of its entry, else by the ring; `$at/HUB/…`: by that hub alone.

        `alive` holds the names of the hubs whose `alive` node exists; None means all members.
        """
        if topic.startswith(AT_PREFIX):
            hub = named_hub(topic)
            return Placement((hub,)) if hub in (self.by_hub if alive is None else alive) else NOWHERE
        entry = self.entries.get(topic)
        if entry is not None:
            homes, parents = entry.homes, entry.parents
            if alive is not None:
                homes = tuple(hub for hub in homes if hub in alive)
                if parents and len(homes) < len(entry.homes):
                    parents = graft(homes, entry.followed)
            if homes:
                return Placement(homes, entry.mode, parents)
        owner = self.ring.owner(topic, alive)
        return NOWHERE if owner is None else Placement((owner,))

    def check(self) -> None:
        """Raise PlanError unless all invariants at the top of this module hold."""
        if min(self.version, self.access_version, self.specs_version) < 0:
            raise PlanError(
                f"version {self.version}, access version {self.access_version}, specs version "
                f"{self.specs_version}: they count from 0"
            )
        if len(self.members) > MEMBERS_MAX:
            raise PlanError(f"{len(self.members)} members: a plan holds at most {MEMBERS_MAX}")
        if len(self.by_hub) != len(self.members):
            raise PlanError("a member is listed twice")
        self.check_homes(self.entries.values())

    def check_homes(self, entries: Iterable[Entry]) -> None:
        """Raise PlanError unless the homes of these entries are members."""
        hubs = self.by_hub.keys()
        for entry in entries:
            for hub in entry.homes:
                if hub not in hubs:
                    raise PlanError(f"the entry of {shown(entry.topic)} names {hub}, which is not a member")


class _StoredPlan(msgspec.Struct, frozen=True, array_like=True):
    """The plan as bytes. Like its parts it grows only at the end."""

    version: int
    members: list[Member]
    entries: list[Entry]
    access_version: int = 0
    specs_version: int = 0


_decoder = msgspec.msgpack.Decoder(_StoredPlan)
_encoder = msgspec.msgpack.Encoder()


def encode_plan(plan: Plan) -> bytes:
    return _encoder.encode(
        _StoredPlan(
            plan.version,
            list(plan.members),
            list(plan.entries.values()),
            plan.access_version,
            plan.specs_version,
        )
    )


def decode_plan(data: bytes) -> Plan:
    """Raises PlanError if the bytes are not a plan, or a plan that breaks an invariant."""
    try:
        stored = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise PlanError(f"not a plan: {problem}") from problem
    return Plan.of(
        version=stored.version,
        members=stored.members,
        entries=stored.entries,
        access_version=stored.access_version,
        specs_version=stored.specs_version,
    )


def quantise_weight(capacity_ratio: float) -> int:
    """The weight of a hub of this capacity, as a multiple of an ordinary hub's; at least 1, since 0 means drained."""
    return max(1, min(WEIGHT_MAX, round(capacity_ratio * WEIGHT_NORMAL)))
