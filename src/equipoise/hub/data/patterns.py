"""Patterns, their subscribers, matching, and recent changes.

Always true:
    adding and removing a pattern takes time that does not grow with the number of patterns;
    looking for those that match a name takes time for each pattern whose literal beginning the name has;
    a topic that has been matched before looks only at the patterns that have changed since.
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

# Changed patterns that are kept. A topic that has missed more is matched with all patterns again: looking at so many
# takes half a millisecond, and they take a megabyte.
CHANGES_MAX = 2_048


class Pattern:
    """A glob and its subscribers, each with the kinds it subscribed by; or the hubs that have such subscribers."""

    __slots__ = ("glob", "members", "owner", "relays")

    def __init__(self, glob: Glob, owner: str = "") -> None:
        self.glob = glob
        # The user that subscribed first; the pattern counts as this user's until it goes.
        self.owner = owner
        self.members: dict[Subscriber, tuple[Kind, ...]] = {}
        self.relays: dict[OutLink, None] = {}


class Patterns:
    """All patterns that have subscribers, of a hub or of the others. Changed by TopicIndex alone."""

    def __init__(self) -> None:
        self._all: dict[bytes, Pattern] = {}
        # By the literal bytes that matching names begin with, so that a name looks at few of them.
        self._by_prefix: dict[bytes, dict[bytes, Pattern]] = {}
        # How many prefixes have a length; and those lengths in order.
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
        """The patterns that match a name, in the order of their prefixes' lengths."""
        for length in self._lengths:
            if length > len(name):
                return
            for pattern in self._by_prefix.get(name[:length], {}).values():
                if pattern.glob.matches(name):
                    yield pattern

    def changed(self, known: tuple[Pattern, ...], globs: list[Glob]) -> tuple[Pattern, ...]:
        """The matching patterns of a name: those known before, after the matching `globs` have changed."""
        # In their order, not that of a set: the same runs have to be the same.
        touched = dict.fromkeys(glob.pattern for glob in globs)
        kept = [pattern for pattern in known if pattern.glob.pattern not in touched]
        return (*kept, *filter(None, map(self._all.get, touched)))


class PatternLog:
    """The patterns that changed last, each once, by the version that its last change made."""

    def __init__(self) -> None:
        self._changes: dict[bytes, tuple[int, Glob]] = {}
        # The latest version whose change is no longer here.
        self._dropped = 0

    def note(self, glob: Glob, version: int) -> None:
        changes = self._changes
        changes.pop(glob.pattern, None)
        changes[glob.pattern] = version, glob
        if len(changes) > CHANGES_MAX:
            self._dropped, _ = changes.pop(next(iter(changes)))

    def since(self, version: int) -> Iterator[Glob] | None:
        """The patterns that changed after a version; None if that is too long ago to know."""
        return None if version < self._dropped else self._since(version)

    def _since(self, version: int) -> Iterator[Glob]:
        for at, glob in reversed(self._changes.values()):
            if at <= version:
                return
            yield glob
