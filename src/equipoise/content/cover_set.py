"""The filters of a set that no other filter covers, maintained under additions and removals.

Filters form trees: each is below one that covers it, and the roots are the covering set. A new filter goes below its
cover; one without a cover becomes a root, and the next sweep moves the roots that it covers, with their trees, below
it.
When a filter is removed, its children go below another one, or become roots. Sweeps and orphans may concern thousands
of filters, so `settle` processes them in slices: until then the set is larger than necessary, and a removed root stays
in it.

Always true:
    every filter that was added and not removed is covered by a member of the set;
    when `is_settled`, no member covers another, by the test in `covering`, unless there are over `COVERS_MAX`: so many
    are useless to other hubs, and are not reduced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, cast

from equipoise.content.groups import FilterNode, N
from equipoise.content.index import FilterIndex

__all__ = ["COVERS_MAX", "CoverSet"]

# Maximum number of covers in a hub's request to another; with more it requests all messages.
COVERS_MAX = 16_384


class CoverSet(Generic[N]):
    """Owned by the owner of the filters. `version` counts the changes of the set, `changes` has the latest of them."""

    def __init__(self) -> None:
        # The roots; and removed ones whose children have no other cover yet.
        self._covers: FilterIndex[N] = FilterIndex()
        self._leaving: dict[N, None] = {}
        # Removed filters below a cover that still have children.
        self._gone: set[N] = set()
        # Orphans to be placed, and the sweep; and whether a root was added since the sweep began.
        self._work: deque[Iterator[None]] = deque()
        self._is_sweeping = False
        self._is_stale = False
        self.version = 0
        # Filters added to or removed from the set, and whether they are in it now. The owner clears it.
        self.changes: dict[N, bool] = {}

    def __len__(self) -> int:
        return len(self._covers) + len(self._leaving)

    def __iter__(self) -> Iterator[N]:
        yield from self._covers
        yield from self._leaving

    @property
    def is_settled(self) -> bool:
        return not self._work

    def add(self, node: N) -> None:
        cover = self._covers.covering(node.filter)
        if cover is None:
            self._rise(node)
        else:
            _adopt(cover, node)

    def remove(self, node: N) -> None:
        if not node.children:
            if node.cover is not None:
                _disown(node)
            else:
                self._covers.remove(node)
                self._note(node, is_in=False)
        elif node.cover is not None:
            self._gone.add(node)
            self._work.append(self._lift(node))
        else:
            self._covers.remove(node)
            self._leave(node)

    def settle(self, steps: int) -> bool:
        """Do this many pending steps, some 5 microseconds each; return whether none is left."""
        work = self._work
        while work and steps > 0:
            if next(work[0], work) is work:
                work.popleft()
            steps -= 1
        return not work

    def _rise(self, node: N) -> None:
        """It becomes a root."""
        node.cover = None
        self._covers.add(node)
        self._note(node, is_in=True)
        self._is_stale = True
        if not self._is_sweeping:
            self._is_sweeping = True
            self._work.append(self._sweep())

    def _sweep(self) -> Iterator[None]:
        """Move covered roots below others, until a sweep has found no new root."""
        while self._is_stale:
            self._is_stale = False
            for node in list(self._covers) if len(self) <= COVERS_MAX else ():
                if self._covers.get(node.filter) is node:
                    cover = self._covers.covering(node.filter)
                    if cover is not None:
                        self._covers.remove(node)
                        _adopt(cover, node)
                        self._note(node, is_in=False)
                yield
        self._is_sweeping = False

    def _lift(self, node: N) -> Iterator[None]:
        """Remove a filter that has a cover: its children go below that one."""
        while node.children and node.cover is not None:
            child = next(iter(node.children))
            cover = node.cover
            _disown(child)
            _adopt(cover, child)
            yield
        if node.cover is not None:
            _disown(node)
            self._gone.discard(node)

    def _leave(self, node: N) -> None:
        """Remove a root: it stays in the set until its children have another cover."""
        self._leaving[node] = None
        self._note(node, is_in=True)
        self._work.append(self._replace(node))

    def _replace(self, node: N) -> Iterator[None]:
        while node.children:
            child = cast("N", next(iter(node.children)))
            _disown(child)
            if child in self._gone:
                # Its own children were to leave it, and it has no cover for them any more.
                self._gone.discard(child)
                self._leave(child)
            elif (cover := self._covers.covering(child.filter)) is not None:
                _adopt(cover, child)
            else:
                self._rise(child)
            yield
        del self._leaving[node]
        self._note(node, is_in=False)

    def _note(self, node: N, *, is_in: bool) -> None:
        self.version += 1
        self.changes[node] = is_in


def _adopt(cover: FilterNode, child: FilterNode) -> None:
    child.cover = cover
    if cover.children is None:
        cover.children = {}
    cover.children[child] = None


def _disown(child: FilterNode) -> None:
    cover = child.cover
    assert cover is not None and cover.children is not None, "it has a cover"
    del cover.children[child]
    if not cover.children:
        cover.children = None
    child.cover = None
