"""The ledger of a draft: what this round changes of the plan, entry by entry and member by member.

Always true: of a topic and of a member there is one change, the last; taking back what the plan does not have is no
change.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from equipoise.model import Entry, EntryChange, Member, MemberChange, Plan, PlanChange, Reason, Why
from equipoise.plan.plan_placement import changed

__all__ = ["Changes", "why"]


class Changes:
    """Owned by one draft."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._entries: dict[bytes, EntryChange] = {}
        self._members: dict[str, MemberChange] = {}

    @property
    def entries(self) -> Mapping[bytes, Entry]:
        """The entries that there will be."""
        return changed(self._plan.entries, self._entries.values())

    @property
    def has_member_changes(self) -> bool:
        return bool(self._members)

    def has_moved_for(self, reasons: Container[Reason]) -> bool:
        return any(part.why.reason in reasons for part in self._entries.values())

    def put(self, entry: Entry, why: Why) -> None:
        self._entries[entry.topic] = EntryChange(entry.topic, entry, why)

    def give_to_ring(self, topic: bytes, why: Why) -> None:
        if topic in self._plan.entries:
            self._entries[topic] = EntryChange(topic, None, why)

    def drop(self, topic: bytes, why: Why) -> None:
        """Take the entry back, unless this round has said something about it."""
        if topic not in self._entries:
            self.give_to_ring(topic, why)

    def set_member(self, member: Member, why: Why) -> None:
        self._members[member.hub] = MemberChange(member.hub, member, why)

    def remove_member(self, hub: str, why: Why) -> None:
        """Entries lose it as a home; those that have no other go back to the ring."""
        if hub in self._plan.by_hub:
            self._members[hub] = MemberChange(hub, None, why)
        else:
            self._members.pop(hub, None)
        for entry in [entry for entry in self.entries.values() if hub in entry.homes]:
            self._entries[entry.topic] = EntryChange(entry.topic, entry.without(hub), why)

    def plan_change(self) -> PlanChange:
        """What makes the next plan out of this one."""
        version = self._plan.version + 1
        return PlanChange(version, tuple(self._entries.values()), tuple(self._members.values()))


def why(reason: Reason, note: str = "", **numbers: float) -> Why:
    """A reason with its numbers, rounded to what they are worth."""
    return Why(reason, {name: round(float(value), 4) for name, value in numbers.items()}, note)
