"""Subscriber counts of topics, patterns and shard channels at the other hubs of the region. Pure.

Soft state: within a second of a change, each hub sends the others the number of its own subscribers of a name. So
PUBSUB and PUBLISH count the whole region without a request to other hubs; counts are at most a second old.

Always true:
    `of` is the sum of the counts that the live hubs sent last;
    at most `ENTRIES_MAX` counts are kept: of further names, only this hub's own subscribers are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

__all__ = ["PATTERN", "SHARD", "TOPIC", "Key", "RegionCounts", "format_count", "parse_count"]

# Kinds of names, as encoded in frames.
TOPIC, PATTERN, SHARD = b"t", b"p", b"s"
Key = tuple[bytes, bytes]
# Counts of other hubs that are kept, at some 200 B each.
ENTRIES_MAX = 200_000
_DIGITS_MAX = 9


def format_count(key: Key, count: int) -> bytes:
    kind, name = key
    return b"%b%d %b" % (kind, count, name)


def parse_count(word: bytes) -> tuple[Key, int]:
    """Decode a count. Raises ValueError for any input that `format_count` does not produce."""
    kind, (digits, space, name) = word[:1], word[1:].partition(b" ")
    if kind not in (TOPIC, PATTERN, SHARD) or not space or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        raise ValueError("not a count")
    return (kind, name), int(digits)


class RegionCounts:
    """Owned by TopicIndex, which reports its own changes to `note`; counts of other hubs arrive through `update`."""

    def __init__(self) -> None:
        self._by_hub: dict[str, dict[Key, int]] = {}
        self._totals: dict[Key, int] = {}
        self._entries = 0
        # Counts that were ignored because `ENTRIES_MAX` was reached.
        self.left_out = 0
        # Names whose count at this hub has changed since `take_changed`; recorded only if there are other hubs.
        self._changed: dict[Key, None] = {}
        # Called on the first change after `take_changed`; None: there is no other hub.
        self.on_change: Callable[[], None] | None = None

    def note(self, kind: bytes, name: bytes) -> None:
        """The number of this hub's subscribers of the name has changed."""
        if self.on_change is not None:
            if not self._changed:
                self.on_change()
            self._changed[kind, name] = None

    def take_changed(self) -> dict[Key, None]:
        changed, self._changed = self._changed, {}
        return changed

    def of(self, kind: bytes, name: bytes) -> int:
        """The number of subscribers of the name at all other hubs together."""
        return self._totals.get((kind, name), 0)

    def names(self, kind: bytes) -> Iterator[bytes]:
        """The names that have subscribers at other hubs."""
        return (name for other, name in list(self._totals) if other == kind)

    def update(self, hub: str, counts: Iterable[tuple[Key, int]], *, is_first: bool) -> list[Key]:
        """Apply the counts that a hub sent; `is_first` discards its previous counts. Return the keys that changed."""
        changed = self.forget(hub) if is_first else []
        known = self._by_hub.setdefault(hub, {})
        for key, count in counts:
            former = known.get(key, 0)
            if not former and self._entries >= ENTRIES_MAX:
                self.left_out += 1
                continue
            if count == former:
                continue
            self._entries += (not former) - (not count)
            if count:
                known[key] = count
            else:
                del known[key]
            self._add(key, count - former)
            changed.append(key)
        return changed

    def forget(self, hub: str) -> list[Key]:
        """Discard the counts of a hub that has left; return the keys that changed."""
        known = self._by_hub.pop(hub, {})
        self._entries -= len(known)
        for key, count in known.items():
            self._add(key, -count)
        return list(known)

    def _add(self, key: Key, more: int) -> None:
        total = self._totals.get(key, 0) + more
        if total:
            self._totals[key] = total
        else:
            del self._totals[key]
