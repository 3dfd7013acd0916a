"""Patterns, their subscribers, matching, and recent changes.

Always true:
    the time to add or remove a pattern does not grow with the number of patterns;
    matching a name checks only the patterns whose literal prefix the name has;
    matching a topic again checks only the patterns that have changed since.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

from equipoise.model import Glob

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.data.kinds import Kind
    from equipoise.hub.data.subscriber import Subscriber

# Changed patterns that are kept: checking all takes half a millisecond, and they take a megabyte. A topic that has
# missed more changes is matched with all patterns again.
CHANGES_MAX = 2_048


class Pattern:
    """A glob and its subscribers, each with its kinds of subscription; or the links to hubs with such subscribers."""

    __slots__ = ("glob", "members", "owner", "relays")

    def __init__(self, glob: Glob, owner: str = "") -> None:
        self.glob = glob
        # The user that subscribed first; the pattern counts towards this user's quota until it is removed.
        self.owner = owner
        self.members: dict[Subscriber, tuple[Kind, ...]] = {}
        self.relays: dict[OutLink, None] = {}


class Patterns:
    """All patterns with subscribers at this hub, or all with subscribers at other hubs. Only TopicIndex changes it."""

    def __init__(self) -> None:
        self._all: dict[bytes, Pattern] = {}
        # By literal prefix, so that a name is matched with few patterns.
        self._by_prefix: dict[bytes, dict[bytes, Pattern]] = {}
        # Number of prefixes by length; and these lengths in order.
        self._prefixes: dict[int, int] = {}
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self._all.values())

    def get(self, pattern: bytes) -> Pattern | None:
        return self._all.get(pattern)

    def add(self, glob: Glob, owner: str = "") -> Pattern:
        pattern = self._all[glob.pattern] = Pattern(glob, owner)
        alike = self._by_prefix.get(glob.prefix)
        if alike is None:
            alike = self._by_prefix[glob.prefix] = {}
            length = len(glob.prefix)
            if length not in self._prefixes:
                insort(self._lengths, length)
            self._prefixes[length] = self._prefixes.get(length, 0) + 1
        alike[glob.pattern] = pattern
        return pattern

    def remove(self, pattern: Pattern) -> None:
        glob = pattern.glob
        del self._all[glob.pattern]
        alike = self._by_prefix[glob.prefix]
        del alike[glob.pattern]
        if alike:
            return
        del self._by_prefix[glob.prefix]
        length = len(glob.prefix)
        self._prefixes[length] -= 1
        if not self._prefixes[length]:
            del self._prefixes[length]
            self._lengths.remove(length)

    def matching(self, name: bytes) -> Iterator[Pattern]:
        """The patterns that match a name, ordered by the length of their prefixes."""
        for length in self._lengths:
            if length > len(name):
                return
            for pattern in self._by_prefix.get(name[:length], {}).values():
                if pattern.glob.matches(name):
                    yield pattern

    def changed(self, known: tuple[Pattern, ...], globs: list[Glob]) -> tuple[Pattern, ...]:
        """The patterns that match a name: `known`, updated by the matching `globs` that have changed."""
        # A dict, not a set, for a deterministic order: simulated runs must be reproducible.
        touched = dict.fromkeys(glob.pattern for glob in globs)
        kept = [pattern for pattern in known if pattern.glob.pattern not in touched]
        return (*kept, *filter(None, map(self._all.get, touched)))


class PatternLog:
    """The patterns that changed last, each with the version of its last change."""

    def __init__(self) -> None:
        self._changes: dict[bytes, tuple[int, Glob]] = {}
        # The latest version whose change has been evicted.
        self._dropped = 0

    def note(self, glob: Glob, version: int) -> None:
        changes = self._changes
        changes.pop(glob.pattern, None)
        changes[glob.pattern] = version, glob
        if len(changes) > CHANGES_MAX:
            self._dropped, _ = changes.pop(next(iter(changes)))

    def since(self, version: int) -> Iterator[Glob] | None:
        """The patterns that changed after a version; None if such changes have been evicted."""
        return None if version < self._dropped else self._since(version)

    def _since(self, version: int) -> Iterator[Glob]:
        for at, glob in reversed(self._changes.values()):
            if at <= version:
                return
            yield glob
