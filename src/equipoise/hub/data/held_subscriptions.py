"""The subscriptions of one connection, by kind and name.

Most connections have one subscription, so one subscription is stored in three attributes; the second one allocates
dictionaries. This saves 380 bytes per idle subscriber.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from equipoise.hub.data.kinds import Kind

__all__ = ["NO_SUBSCRIPTIONS", "HeldSubscriptions"]

# A topic, a pattern or a filter.
Target = TypeVar("Target")
_NONE: Mapping[bytes, Any] = MappingProxyType({})


class HeldSubscriptions(Generic[Target]):
    """Owned by a session; changed by hub/data/subscribe.py alone.

    Always true: `_kind` is None, or there is exactly one subscription and `_many` is empty.
    """

    __slots__ = ("_kind", "_many", "_name", "_target")

    def __init__(self) -> None:
        self._kind: Kind | None = None
        self._name = b""
        self._target: Target | None = None
        self._many: dict[Kind, dict[bytes, Target]] | None = None

    def __len__(self) -> int:
        if self._kind is not None:
            return 1
        return sum(map(len, self._many.values())) if self._many else 0

    def get(self, kind: Kind, name: bytes) -> Target | None:
        if self._kind is not None:
            return self._target if self._kind is kind and self._name == name else None
        return self.of(kind).get(name)

    def of(self, kind: Kind) -> Mapping[bytes, Target]:
        """The subscriptions of one kind."""
        if self._kind is not None:
            assert self._target is not None, "there is one"
            return {self._name: self._target} if self._kind is kind else _NONE
        return (self._many or {}).get(kind, _NONE)

    def items(self) -> Iterator[tuple[Kind, Mapping[bytes, Target]]]:
        """Subscriptions by kind, in order of the first subscription of each kind; a snapshot of the kinds."""
        if self._kind is not None:
            yield self._kind, self.of(self._kind)
        else:
            yield from list((self._many or {}).items())

    def targets(self) -> Iterator[Target]:
        for _, named in self.items():
            yield from list(named.values())

    def add(self, kind: Kind, name: bytes, target: Target) -> None:
        """Add a subscription; there must be none of this kind and name."""
        if not len(self):
            self._kind, self._name, self._target, self._many = kind, name, target, None
            return
        if self._kind is not None:
            assert self._target is not None, "there is one"
            self._many = {self._kind: {self._name: self._target}}
            self._kind = self._target = None
        assert self._many is not None, "there are several"
        self._many.setdefault(kind, {})[name] = target

    def pop(self, kind: Kind, name: bytes) -> Target | None:
        if self._kind is not None:
            target = self.get(kind, name)
            if target is not None:
                self._kind = self._target = None
            return target
        return (self._many or {}).get(kind, {}).pop(name, None)


NO_SUBSCRIPTIONS: HeldSubscriptions[Any] = HeldSubscriptions()
