"""Resources that clients hold at a hub, in total and by user, and their limits.

A limit per connection is no bound if a client may open thousands of them. So each persistent resource has a total per
hub, and one named user may hold at most a share of it, so that no tenant can exhaust it. On a hub without users, and
for the anonymous user, only the totals apply.

Always true: the amounts are those taken and not yet returned, and none is negative.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.access import User
    from equipoise.hub.client_limits import Limits

__all__ = ["Quotas", "Resource", "owner_of", "topic_bytes"]

# Memory of a used topic beside its name, measured (tests/hub/test_memory_sizes.py), a third of it for its audience and
# encoder; and the number of copies of its name: its own, and one in a frame's header.
TOPIC_BYTES = 1_450
NAME_COPIES = 2
# Links that one user, or one address without users, may end per minute. After the failure of a hub, every client of a
# large network ends one; a hub remembers ten times as many (SEVERED_MAX), so that one flood does not evict those of
# other clients.
SEVERS_PER_MINUTE_MAX = 5_000
_MINUTE_S = 60.0


class Resource(Enum):
    """A resource that clients hold, with the name of its limit per hub."""

    CONNECTIONS = "connections_max"
    SUBSCRIPTIONS = "subscriptions_hub_max"
    PATTERNS = "patterns_hub_max"
    FILTERS = "filters_max"
    TOPIC_BYTES = "topics_bytes_max"


_NOUNS = {
    Resource.CONNECTIONS: "connections",
    Resource.SUBSCRIPTIONS: "subscriptions",
    Resource.PATTERNS: "patterns",
    Resource.FILTERS: "different filters",
    Resource.TOPIC_BYTES: "bytes of topics",
}


class Quotas:
    """Owned by HubCore; changed by the code that takes a resource for a client and gives it back."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._total = dict.fromkeys(Resource, 0)
        # By resource and owner; only owners with an amount above 0.
        self._held: dict[tuple[Resource, str], int] = {}
        # By user or address, links ended in the current minute; and the start of that minute.
        self._severs: dict[str, int] = {}
        self._severs_since = 0.0

    def total(self, resource: Resource) -> int:
        return self._total[resource]

    def held_by(self, resource: Resource, owner: str) -> int:
        return self._held.get((resource, owner), 0)

    def has_room(self, resource: Resource, more: int) -> bool:
        """Whether the hub's total allows `more`."""
        return self._total[resource] + more <= self._most(resource)

    def objection(self, resource: Resource, owner: str, more: int) -> str | None:
        """The error text if the owner may not take `more`; else None."""
        most = self._most(resource)
        if self._total[resource] + more > most:
            return f"ERR this hub has {most} {_NOUNS[resource]} in use already ({resource.value})"
        return self.over_share(resource, owner, more)

    def over_share(self, resource: Resource, owner: str, more: int) -> str | None:
        """The error text if `more` exceeds the owner's share; else None."""
        if not owner:
            return None
        share = max(1, int(self._most(resource) * self._limits.user_share))
        if self.held_by(resource, owner) + more <= share:
            return None
        return f"ERR user '{owner}' may hold {share} {_NOUNS[resource]} on this hub (user_share of {resource.value})"

    def login_objection(self, former: User | None, user: User) -> str | None:
        """The error text if a connection of one user may not change to another; else None."""
        owner = owner_of(user)
        return None if owner == owner_of(former) else self.over_share(Resource.CONNECTIONS, owner, 1)

    def may_sever(self, client: str, now: float) -> bool:
        """Count one more ended link of a user or address; return whether it is within the limit."""
        if now - self._severs_since >= _MINUTE_S:
            self._severs.clear()
            self._severs_since = now
        count = self._severs[client] = self._severs.get(client, 0) + 1
        return count <= SEVERS_PER_MINUTE_MAX

    def pass_on(self, former: User | None, user: User | None, *, subscriptions: int) -> None:
        """A connection with `subscriptions` subscriptions has changed to another user."""
        for resource, amount in ((Resource.CONNECTIONS, 1), (Resource.SUBSCRIPTIONS, subscriptions)):
            if owner_of(former) != owner_of(user) and amount:
                self.give_back(resource, owner_of(former), amount)
                self.take(resource, owner_of(user), amount)

    def no_room(self, size: int) -> str:
        """The error text with the limit that prevents a topic of this size."""
        if not self.has_room(Resource.TOPIC_BYTES, size):
            return f"ERR the topics in use here take {self._limits.topics_bytes_max} bytes already (topics_bytes_max)"
        return f"ERR this hub has {self._limits.topics_max} topics in use already (topics_max)"

    def take(self, resource: Resource, owner: str, amount: int = 1) -> None:
        self._total[resource] += amount
        if owner:
            key = resource, owner
            self._held[key] = self._held.get(key, 0) + amount

    def give_back(self, resource: Resource, owner: str, amount: int = 1) -> None:
        self._total[resource] -= amount
        if owner:
            key = resource, owner
            left = self._held[key] - amount
            if left:
                self._held[key] = left
            else:
                del self._held[key]

    def _most(self, resource: Resource) -> int:
        return int(getattr(self._limits, resource.value))


def owner_of(user: User | None) -> str:
    """The owner that a resource counts towards: a named user; empty: no user."""
    return "" if user is None or user.is_anonymous else user.name


def topic_bytes(name: bytes) -> int:
    """The memory that a topic of this name counts as."""
    return TOPIC_BYTES + NAME_COPIES * len(name)
