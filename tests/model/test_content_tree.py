"""Trees of content topics: what is one, who follows whom when homes go or die, and which homes are edges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import PlanError
from equipoise.model import Entry, Member, Mode, Plan, decode_plan, encode_plan
from equipoise.model.plan import reshared
from equipoise.model.tree import tree_of_names

HOMES = ("a", "b", "c", "d", "e", "f")
# c and d follow b, e follows c; f follows the first.
TREE = Entry(b"t", HOMES, Mode.CONTENT, parents=(0, 0, 1, 1, 2, 0))


@st.composite
def trees(draw: st.DrawFn) -> Entry:
    count = draw(st.integers(2, 6))
    order = draw(st.permutations(range(1, count)))
    parents = [0] * count
    placed = [0]
    for home in order:
        parents[home] = draw(st.sampled_from(placed))
        placed.append(home)
    return Entry(b"t", HOMES[:count], Mode.CONTENT, parents=tuple(parents))


@pytest.mark.parametrize(
    ("homes", "mode", "parents", "text"),
    [
        (("a",), Mode.CONTENT, (), "has no edge"),
        (("a", "b"), Mode.CONTENT, (0,), "has 1 parents"),
        (("a", "b"), Mode.CONTENT, (1, 0), "follows no home"),
        (("a", "b"), Mode.CONTENT, (0, 2), "there is none"),
        (("a", "b"), Mode.CONTENT, (0, -1), "there is none"),
        (("a", "b", "c"), Mode.CONTENT, (0, 2, 1), "cycle"),
        (("a", "b"), Mode.CONTENT, (0, 1), "cycle"),
        (("a", "b"), Mode.ALL_PUBLISHERS, (0, 0), "only content has one"),
    ],
)
def test_what_is_no_tree_is_refused(
    homes: tuple[str, ...], mode: Mode, parents: tuple[int, ...], text: str
) -> None:
    with pytest.raises(PlanError, match=text):
        Entry(b"t", homes, mode, parents=parents)


@pytest.mark.parametrize(
    ("followed", "text"),
    [({"c": "x"}, "names x"), ({"x": "a"}, "names x"), ({"a": "b"}, "root"), ({"b": "c", "c": "b"}, "cycle")],
)
def test_a_tree_by_names_is_refused_with_the_name(followed: dict[str, str], text: str) -> None:
    with pytest.raises(PlanError, match=text):
        tree_of_names("t", ("a", "b", "c"), followed)


def test_a_tree_by_names_has_the_first_home_above_all_that_are_not_named() -> None:
    assert tree_of_names("t", HOMES, {"c": "b", "d": "b", "e": "c"}) == TREE.parents
    assert tree_of_names("t", HOMES, {"c": "a"}) == ()


def test_a_plan_keeps_trees_and_whom_a_dead_homes_children_follow() -> None:
    plan = decode_plan(encode_plan(Plan.of(members=[Member(hub) for hub in HOMES], entries=[TREE])))
    placement = plan.home_of(b"t")
    assert (placement.parents, placement.edges) == (TREE.parents, ("d", "e", "f"))
    assert [placement.parent_of(hub) for hub in ("b", "c", "e", "x")] == ["a", "b", "c", "a"]
    # c is dead: e follows b, which c followed.
    assert plan.home_of(b"t", {"a", "b", "d", "e"}).followed == {"b": "a", "d": "b", "e": "b"}
    # Nothing is left above b: the next home numbers, and b's tree hangs below it.
    assert plan.home_of(b"t", {"c", "d", "e", "f"}).followed == {"d": "c", "e": "c", "f": "c"}
    assert plan.home_of(b"t", {"f"}).edges == ("f",)


def test_another_tree_is_another_place() -> None:
    members = [Member(hub) for hub in HOMES]
    star = Entry(b"t", HOMES, Mode.CONTENT)
    assert (
        reshared(Plan.of(members=members, entries=[star]), Plan.of(members=members, entries=[TREE])) is None
    )


def test_a_home_that_takes_anothers_place_has_its_parent_and_its_children() -> None:
    moved = TREE.at(("a", "x", "c", "d", "e", "f"), Mode.CONTENT)
    assert moved.followed == {"x": "a", "c": "x", "d": "x", "e": "c", "f": "a"}
    fewer = TREE.at(("a", "d", "e"), Mode.CONTENT)
    assert fewer.followed == {"d": "a", "e": "a"}
    more = TREE.at((*HOMES, "g"), Mode.CONTENT)
    assert more.followed == {**TREE.followed, "g": "a"}
    first = TREE.at(("x", *HOMES[1:]), Mode.CONTENT)
    assert first.followed == {**TREE.followed, "b": "x", "f": "x"}
    assert TREE.at(("a", "b"), Mode.ALL_PUBLISHERS).parents == ()


def test_the_last_edge_that_goes_leaves_a_single_home() -> None:
    entry = Entry(b"t", ("a", "b"), Mode.CONTENT).without("b")
    assert entry is not None and (entry.homes, entry.mode, entry.parents) == (("a",), Mode.SINGLE, ())


@given(trees(), st.sets(st.sampled_from(HOMES), min_size=1))
def test_whoever_dies_or_goes_a_tree_is_left(tree: Entry, living: set[str]) -> None:
    plan = Plan.of(members=[Member(hub) for hub in HOMES], entries=[tree])
    placement = plan.home_of(b"t", living)
    left: Entry | None = tree
    for hub in tree.homes:
        if left is not None and hub not in living:
            left = left.without(hub)
    if left is None:
        return
    assert (placement.homes, placement.followed if left.mode is Mode.CONTENT else {}) == (
        left.homes,
        left.followed,
    )
    # Each follows one that was above it, unless none of those is left.
    for hub, parent in left.followed.items():
        above = [hub]
        while above[-1] in tree.followed:
            above.append(tree.followed[above[-1]])
        assert parent == next((one for one in above[1:] if one in left.homes), left.homes[0])
