"""The paths of the store, and the page that lists them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import SettingsError
from equipoise.store.contract import check_path
from equipoise.store.tree import NODES, Tree, escape, number_of, render_reference, unescape, version_name

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "znodes.md"


@given(st.binary(max_size=40))
def test_every_name_has_a_path_and_can_be_parsed_from_it(name: bytes) -> None:
    check_path(Tree().topic(name))
    assert unescape(escape(name)) == name


@given(st.binary(max_size=6), st.binary(max_size=6))
def test_two_names_never_share_a_path(one: bytes, other: bytes) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (b"news", "news"),
        (b"a/b", "a%2Fb"),
        (b".", "%2E"),
        (b"..", "%2E%2E"),
        (b"v1.2", "v1.2"),
        (b"", "%"),
        (b"%", "%25"),
        (b"h1:6399", "h1:6399"),
        ("é".encode(), "%C3%A9"),
    ],
)
def test_names_stay_readable(name: bytes, part: str) -> None:
    assert escape(name) == part


def test_regions_do_not_meet() -> None:
    one, other = Tree("paris"), Tree("tokyo")
    assert one.hub("h1") == "/equipoise/paris/hubs/h1"
    assert not other.alive("h1").startswith(one.root)
    for region in ("", ".", "..", "a/b", "é", "a" * 65):
        with pytest.raises(SettingsError):
            Tree(region)


@given(st.integers(0, 10**10 - 1), st.integers(0, 10**10 - 1))
def test_names_of_versions_sort_as_the_versions_do(one: int, other: int) -> None:
    assert (version_name(one) < version_name(other)) == (one < other)
    assert number_of(version_name(one)) == one == number_of(f"{version_name(one)}-snapshot-1.2")


def test_an_invalid_version_name_is_rejected() -> None:
    assert [number_of(name) for name in ("", "x", "-1", "1_0", "²")] == [None] * 5


def test_the_page_of_nodes_is_generated_from_the_code() -> None:
    assert PAGE.read_text() == render_reference()


def test_the_page_names_every_kind_of_node_there_is() -> None:
    tree = Tree("R")
    made = {
        tree.identity,
        tree.hub("HUB"),
        tree.alive("HUB"),
        tree.alive_next("HUB"),
        tree.topic(b"TOPIC"),
        tree.spec(b"PATTERN"),
        tree.users,
        f"{tree.users_blobs}/BLOB/PART",
        tree.leader,
        tree.planner,
        tree.servers,
        tree.head,
        tree.change(0),
        tree.snapshot(0),
        f"{tree.plan_blobs}/BLOB/PART",
        f"{tree.ledgers}/LAYOUT, /ledgers/INSTANCEID",
        f"{tree.ledgers}/available/BOOKIE",
        f"{tree.ledgers}/cookies/BOOKIE",
        f"{tree.ledgers}/000/…/LNNNN",
        tree.ledger_ids,
        tree.draining_bookie("BOOKIE"),
        tree.seat_order(b"TOPIC"),
    }
    listed = {
        tree.root + kind.path.replace("VERSION", version_name(0)).replace("/XX/", "/f2/") for kind in NODES
    }
    assert listed == made
