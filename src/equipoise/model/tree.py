"""The tree of a content topic's homes: which home follows which.

The first home numbers the topic's messages and is the root. A home without children is an edge and serves subscribers;
every other home is a head. An entry stores the tree as one index per home: the index of its parent. Without indices
every home follows the first.

Always true of a tree that `check_tree` accepts:
    the path up from every home ends at the first;
    there is an edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise.errors import PlanError

__all__ = ["above", "check_tree", "edges", "graft", "tree_of_names"]


def check_tree(shown: str, homes: Sequence[str], parents: Sequence[int]) -> None:
    """Raise PlanError unless these are the homes of a content topic and their tree. `shown`: the topic, for errors."""
    if len(homes) < 2:
        raise PlanError(f"the content topic {shown} has no edge: name a head and one hub or more beside it")
    if not parents:
        return
    if len(parents) != len(homes):
        raise PlanError(f"the tree of {shown} has {len(parents)} parents: one per home")
    if parents[0] != 0:
        raise PlanError(f"the first home of {shown} is the root of its tree: it follows no home")
    for home, parent in zip(homes, parents, strict=True):
        if not 0 <= parent < len(homes):
            raise PlanError(f"{home} follows home number {parent} in the tree of {shown}: there is none")
    for start, name in enumerate(homes):
        at = start
        for _ in homes:
            at = parents[at]
        # A path longer than the number of homes has a cycle.
        if at != 0:
            raise PlanError(
                f"the tree of {shown} has a cycle: {name} is above itself, or below a home that is"
            )


def above(homes: Sequence[str], parents: Sequence[int]) -> dict[str, str]:
    """The parent of each home. The first home has none."""
    if not parents:
        return dict.fromkeys(homes[1:], homes[0])
    return {home: homes[parent] for home, parent in zip(homes[1:], parents[1:], strict=True)}


def graft(homes: Sequence[str], followed: Mapping[str, str]) -> tuple[int, ...]:
    """The tree over these homes, in which each keeps its parent in `followed`, or the next home above it.

    A home without one follows the first home. Empty if all follow the first.
    """
    index = {home: at for at, home in enumerate(homes)}
    parents = [0]
    for home in homes[1:]:
        at = followed.get(home)
        while at is not None and at not in index:
            at = followed.get(at)
        parents.append(0 if at is None else index[at])
    return tuple(parents) if any(parents) else ()


def edges(homes: Sequence[str], parents: Sequence[int]) -> tuple[str, ...]:
    """The homes that serve subscribers: those without children; a single home is its own edge."""
    if len(homes) < 2 or not parents:
        return tuple(homes[1:] or homes)
    heads = {0, *parents}
    return tuple(home for at, home in enumerate(homes) if at not in heads)


def tree_of_names(shown: str, homes: Sequence[str], followed: Mapping[str, str]) -> tuple[int, ...]:
    """The indices of a tree given as the parents of some homes; the others follow the first. Raises PlanError."""
    for hub in (*followed, *followed.values()):
        if hub not in homes:
            raise PlanError(
                f"the tree of {shown} names {hub}, which is not one of its homes: {', '.join(homes)}"
            )
    if homes[0] in followed:
        raise PlanError(
            f"{homes[0]} is the first home of {shown} and the root of its tree: it follows no home"
        )
    parents = tuple(homes.index(followed.get(home, homes[0])) for home in homes)
    check_tree(shown, homes, parents)
    return parents if any(parents) else ()
