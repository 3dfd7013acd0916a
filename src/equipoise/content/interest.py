"""The covering set of all filters that a hub needs of a topic.

Filters are added and removed one by one, or by the hundred thousand when a hub begins to follow. `settle` updates the
covering set in slices; `take_changes` returns which filters to request, and which to cancel.

Always true:
    every filter that was added and not removed is covered by a member of `asked`, once `is_loaded`;
    a filter leaves `asked` in the same changes as its replacements enter it, or in later ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from equipoise.content.cover_set import COVERS_MAX, CoverSet
from equipoise.content.filter import Filter
from equipoise.content.groups import FilterNode

__all__ = ["COVER_BYTES_MAX", "CoverChanges", "InterestNode", "InterestSet"]

# Maximum text of the covers in a hub's request to another; with more it requests all messages.
COVER_BYTES_MAX = 1 << 20


class CoverChanges(NamedTuple):
    added: list[Filter]
    removed: list[Filter]


class InterestNode(FilterNode):
    __slots__ = ("uses",)

    def __init__(self, filter: Filter) -> None:
        super().__init__(filter)
        self.uses = 0


class InterestSet:
    """Owned by the requesting component. Each `add` has its `remove`."""

    __slots__ = ("_covers", "_later", "_nodes", "asked", "text_bytes")

    def __init__(self) -> None:
        self._covers: CoverSet[InterestNode] = CoverSet()
        self._nodes: dict[Filter, InterestNode] = {}
        # Filters that were not processed yet, and how often each was added.
        self._later: dict[Filter, int] = {}
        # The covering set as of the last `take_changes`, and the bytes of its texts.
        self.asked: dict[Filter, set[InterestNode]] = {}
        self.text_bytes = 0

    def __len__(self) -> int:
        return len(self._nodes) + len(self._later)

    @property
    def is_loaded(self) -> bool:
        """Whether all filters were processed."""
        return not self._later

    @property
    def is_settled(self) -> bool:
        return not self._later and self._covers.is_settled

    @property
    def is_too_large(self) -> bool:
        """Whether it is better to request all messages."""
        return len(self.asked) > COVERS_MAX or self.text_bytes > COVER_BYTES_MAX

    def load(self, filters: Iterable[Filter]) -> None:
        """Add many, for `settle` to process."""
        for filter in filters:
            self._later[filter] = self._later.get(filter, 0) + 1

    def add(self, filter: Filter, uses: int = 1) -> None:
        node = self._nodes.get(filter)
        if node is None:
            node = self._nodes[filter] = InterestNode(filter)
            self._covers.add(node)
        node.uses += uses

    def remove(self, filter: Filter) -> None:
        if filter in self._later:
            self._later[filter] -= 1
            if not self._later[filter]:
                del self._later[filter]
            return
        node = self._nodes[filter]
        node.uses -= 1
        if not node.uses:
            del self._nodes[filter]
            self._covers.remove(node)

    def settle(self, steps: int) -> None:
        """Do this many pending steps, at most some 20 microseconds each."""
        while self._later and steps > 0:
            self.add(*self._later.popitem())
            steps -= 1
        if steps > 0:
            self._covers.settle(steps)

    def take_changes(self) -> CoverChanges:
        """The filters added to the covering set and removed from it since the last call."""
        changes, self._covers.changes = self._covers.changes, {}
        touched = {node.filter: node.filter in self.asked for node in changes}
        for node, is_in in changes.items():
            # A filter may be there twice: a removed one, until others replace it, and a new one.
            nodes = self.asked.setdefault(node.filter, set())
            (nodes.add if is_in else nodes.discard)(node)
            if not nodes:
                del self.asked[node.filter]
        added = [filter for filter, was_in in touched.items() if not was_in and filter in self.asked]
        removed = [filter for filter, was_in in touched.items() if was_in and filter not in self.asked]
        self.text_bytes += sum(len(str(filter)) for filter in added) - sum(
            len(str(filter)) for filter in removed
        )
        return CoverChanges(added, removed)

    def cover_of(self, filter: Filter) -> Filter | None:
        """The member of the covering set that covers an added filter; None: not processed yet."""
        node: FilterNode | None = self._nodes.get(filter)
        while node is not None and node.cover is not None:
            node = node.cover
        return None if node is None else node.filter
