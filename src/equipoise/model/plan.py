"""The plan: which hubs serve each topic.

A plan is a version, members (hubs with weights), and explicit entries for the few topics that need one; every other
topic follows the ring over the members. Membership changes only with the plan: a member that is not alive is skipped
until the plan says otherwise, and a hub that comes back takes nothing until it is given it.

Always true of a plan:
    the homes of every entry are members, at least one, none twice, exactly one under `single`;
    the homes of an entry in mode `content` are a tree with an edge (`tree`), no other entry has one;
    members are sorted by name and each is there once.

How plans change is in `change`, how they are kept in `store.plans`.
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
# Every home is named in a redirect; more than this is a tree's work, not a list's.
HOMES_MAX = 64


# Topics `$at/HUB/…` live at the hub that they name, whatever the plan says; nowhere while it is not alive.
AT_PREFIX = b"$at/"


def named_hub(topic: bytes) -> str:
    """The hub that a topic `$at/HUB/…` lives at."""
    return topic[len(AT_PREFIX) :].partition(b"/")[0].decode(errors="replace")


class Mode(StrEnum):
    """How publishers and subscribers are spread over a topic's homes. Stored and sent by value."""

    SINGLE = "single"
    # Subscribe at every home, publish to one.
    ALL_SUBSCRIBERS = "all-subscribers"
    # Publish to every home, subscribe at one.
    ALL_PUBLISHERS = "all-publishers"
    # Publish to the first home, subscribe at an edge of the tree that the others form below it.
    CONTENT = "content"


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A hub that takes part. Stored as an array: fields are only ever added, at the end and with a default."""

    hub: str
    # In sixteenths of an ordinary hub. 0 gives it no share of the ring: it is being drained, or has entries only.
    weight: int = WEIGHT_NORMAL
    site: str = ""

    def __post_init__(self) -> None:
        if not self.hub:
            raise PlanError("a member has no name")
        if not 0 <= self.weight <= WEIGHT_MAX:
            raise PlanError(f"member {self.hub} has weight {self.weight}: use 0 to {WEIGHT_MAX}")


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where one topic lives. Stored as an array, like `Member`."""

    topic: bytes
    homes: tuple[str, ...]
    mode: Mode = Mode.SINGLE
    # An operator wants it there: policies leave it alone as long as all its homes are members that are not drained.
    is_pinned: bool = False
    # How a rate envelope is split among the homes, in millionths; empty: in equal parts.
    shares: tuple[int, ...] = ()
    # The same of its depth; empty: as its rate.
    depths: tuple[int, ...] = ()
    # Of a content topic, which home each one follows, as an index; empty: all follow the first.
    parents: tuple[int, ...] = ()
    # Which part of the smart publishers sits at each home; empty: as the rate. Shares follow the traffic they make.
    seats: tuple[int, ...] = ()
    # The number of the stored order by which publishers are dealt that have stated no group; 0: none.
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
            raise PlanError(f"the entry of {shown(self.topic)} has shares of depth and none of rate")
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
        """What decides where messages go, whatever parts of an envelope the homes have."""
        return self.homes, self.mode, self.parents

    @property
    def followed(self) -> dict[str, str]:
        """Of a content topic, the home that each home but the first follows."""
        return above(self.homes, self.parents) if self.mode is Mode.CONTENT else {}

    def at(self, homes: tuple[str, ...], mode: Mode) -> Entry:
        """The same topic at other homes. Homes that stay keep their shares, others take those that were given up.

        More or fewer homes than before divide anew: who decides that says how. No operator has chosen the homes.
        Of a content topic, homes that stay keep to whom they follow, and new ones take the place of those given up.
        """
        if mode is Mode.CONTENT:
            return Entry(self.topic, homes, mode, parents=graft(homes, self._replaced(homes)))
        if mode is not Mode.ALL_SUBSCRIBERS or len(homes) != len(self.homes):
            return Entry(self.topic, homes, mode)
        shares, depths, seats = (self._moved(one, homes) for one in (self.shares, self.depths, self.seats))
        return Entry(self.topic, homes, mode, False, shares, depths, (), seats, self.order)

    def _replaced(self, homes: tuple[str, ...]) -> dict[str, str]:
        """Whom each home follows, with new homes in the place of those that are none any more."""
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
        """The same without a home, whose shares go to the first one left; None if it was the only one."""
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
        """Of the smart publishers, at each home, in millionths."""
        return self.seats or self.shares or equal_parts(len(self.homes))

    def _left(self, shares: tuple[int, ...], hub: str) -> tuple[int, ...]:
        left = [share for home, share in zip(self.homes, shares, strict=False) if home != hub]
        return (PARTS - sum(left[1:]), *left[1:]) if len(left) > 1 else ()


def reshared(before: Plan, after: Plan) -> frozenset[bytes] | None:
    """The topics that have other shares, if that is all that differs between two plans; else None."""
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
    """Where a topic is served just now. `homes` are alive; there are none only if no member is."""

    homes: tuple[str, ...]
    mode: Mode = Mode.SINGLE
    # Of a content topic, as `Entry.parents`: who followed a home that is not alive follows the next one above it.
    parents: tuple[int, ...] = ()

    @property
    def followed(self) -> dict[str, str]:
        """Of a content topic, the home that each home but the first follows."""
        return above(self.homes, self.parents) if self.mode is Mode.CONTENT else {}

    @property
    def edges(self) -> tuple[str, ...]:
        """Of a content topic, the homes that carry subscribers."""
        return edges(self.homes, self.parents)

    def parent_of(self, hub: str) -> str:
        """The home that another one follows, or a hub that is none: the first, unless a tree says otherwise."""
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
    # Never changed after construction: plans share what they have in common.
    entries: Mapping[bytes, Entry] = field(default_factory=lambda: MappingProxyType({}))
    # The version of the access rules this plan was made under: a hub with older rules must fetch them. 0: none.
    access_version: int = 0
    # The version of the specs this plan was made under, likewise.
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
        """Make a plan and check it whole. Raises PlanError."""
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
        """The entries with several homes. Looks at all of them: 6 ms per 100,000, once."""
        return tuple(entry for entry in self.entries.values() if len(entry.homes) > 1)

    @cached_property
    def pinned(self) -> tuple[Entry, ...]:
        """The entries that policies leave alone. Looks at all of them, like `replicated`."""
        return tuple(entry for entry in self.entries.values() if entry.is_pinned)

    def home_of(self, topic: bytes, alive: Container[str] | None = None) -> Placement:
        """Where a topic is served: its entry as far as its homes are alive, else the ring; `$at/HUB/…`: that hub alone.

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
        """Raise PlanError unless everything said at the top of this module is true."""
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
    """Raises PlanError if the bytes are not a plan or say something that no plan may."""
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
    """The weight of a hub with this multiple of an ordinary hub's capacity; at least 1, as it is no drained one."""
    return max(1, min(WEIGHT_MAX, round(capacity_ratio * WEIGHT_NORMAL)))
