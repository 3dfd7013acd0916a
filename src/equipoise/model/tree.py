"""The tree of a content topic's homes: which home follows which.

The first home numbers the topic and is the root. A home that no other home follows is an edge and carries subscribers;
every other home is a head. An entry keeps the tree as one index per home: that of the home it follows. No index at all
means that every home follows the first.

Always true of a tree that `check_tree` accepts:
    from every home the way up ends at the first;
    there is an edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise.errors import PlanError

__all__ = ["above", "check_tree", "edges", "graft", "tree_of_names"]


def check_tree(shown: str, homes: Sequence[str], parents: Sequence[int]) -> None:
    """Raise PlanError unless these are the homes of a content topic, and its tree. `shown`: the topic, for errors."""
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
        # After as many steps as there are homes the way up has ended, or it never does.
        if at != 0:
            raise PlanError(
                f"the tree of {shown} has a cycle: {name} is above itself, or below a home that is"
            )


def above(homes: Sequence[str], parents: Sequence[int]) -> dict[str, str]:
    """By home, the one that it follows. The first follows none."""
    if not parents:
        return dict.fromkeys(homes[1:], homes[0])
    return {home: homes[parent] for home, parent in zip(homes[1:], parents[1:], strict=True)}


def graft(homes: Sequence[str], followed: Mapping[str, str]) -> tuple[int, ...]:
    """The tree over these homes if each keeps to whom it `followed`: the next one above that is still a home.

    Where none is left above, that is the first home. Empty if all follow the first.
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
    """The homes that carry subscribers: those that no other follows; the only one, if there is one."""
    if len(homes) < 2 or not parents:
        return tuple(homes[1:] or homes)
    heads = {0, *parents}
    return tuple(home for at, home in enumerate(homes) if at not in heads)


def tree_of_names(shown: str, homes: Sequence[str], followed: Mapping[str, str]) -> tuple[int, ...]:
    """The indices of a tree that names whom some homes follow; the others follow the first. Raises PlanError."""
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
