"""Routes of topics: versions do not decrease, choices are stable, unused entries are removed."""

from __future__ import annotations

from collections import Counter

import pytest

from equipoise.client.routing.routes import HOMES_MAX, Routes
from equipoise.client.url import Endpoint, parse_address
from equipoise.model import Mode

A, B, C, D = (Endpoint(host, 6399) for host in "abcd")
ALL_SUBSCRIBERS, ALL_PUBLISHERS = b"all-subscribers", b"all-publishers"


def routes(key: bytes = b"key", routes_max: int = 100) -> Routes:
    return Routes(routes_max, key)


def ends(table: Routes, topic: bytes = b"t") -> tuple[Endpoint | None, Endpoint | None]:
    """Where to publish and where to subscribe."""
    route = table.get(topic)
    assert route is not None
    return route.publish_at, route.subscribe_at


def test_a_single_topic_is_used_at_its_home() -> None:
    table = routes()
    assert table.tell(b"t", 3, b"single", [A], 0.0)
    assert ends(table) == (A, A)


def test_a_redirect_of_an_older_plan_is_ignored() -> None:
    table = routes()
    table.tell(b"t", 3, b"single", [A], 0.0)
    assert not table.tell(b"t", 2, b"single", [B], 0.0)
    assert ends(table) == (A, A)


def test_under_the_same_plan_homes_may_change_since_one_may_have_died() -> None:
    table = routes()
    table.tell(b"t", 3, b"single", [A], 0.0)
    assert table.tell(b"t", 3, b"single", [B], 0.0)
    assert ends(table) == (B, B)


def test_the_same_redirect_under_a_later_plan_only_updates_the_version() -> None:
    table = routes()
    table.tell(b"t", 3, b"single", [A], 0.0)
    assert not table.tell(b"t", 5, b"single", [A], 0.0)
    assert not table.tell(b"t", 4, b"single", [B], 0.0)
    assert ends(table) == (A, A)


@pytest.mark.parametrize(
    ("mode", "is_publishing_spread", "is_subscribing_spread"),
    [(ALL_SUBSCRIBERS, True, True), (ALL_PUBLISHERS, False, True), (b"of later days", False, False)],
)
def test_clients_spread_over_the_homes_as_the_mode_says(
    mode: bytes, is_publishing_spread: bool, is_subscribing_spread: bool
) -> None:
    publish, subscribe = Counter[Endpoint | None](), Counter[Endpoint | None]()
    for client in range(600):
        table = routes(b"%d" % client)
        table.tell(b"t", 1, mode, [A, B, C], 0.0)
        at = ends(table)
        publish[at[0]] += 1
        subscribe[at[1]] += 1
    for is_spread, found in ((is_publishing_spread, publish), (is_subscribing_spread, subscribe)):
        assert (min(found[home] for home in (A, B, C)) > 150) if is_spread else found == {A: 600}


def test_clients_of_a_content_topic_spread_over_its_edges_and_keep_theirs() -> None:
    subscribe = Counter[Endpoint | None]()
    for client in range(600):
        table = routes(b"%d" % client)
        table.tell(b"t", 1, b"content", [A, B, C], 0.0)
        publish_at, before = ends(table)
        assert publish_at == A
        subscribe[before] += 1
        table.tell(b"t", 2, b"content", [A, B, C, D], 0.0)
        assert ends(table) == (A, before)
        table.tell(b"t", 3, b"content", [D, A, B], 0.0)
        assert ends(table) == (D, B) if before == B else ends(table)[1] in (A, B)
        table.tell(b"t", 4, b"content", [D], 0.0)
        assert ends(table) == (D, D)
    assert subscribe.keys() == {B, C} and min(subscribe.values()) > 200


def test_a_home_that_is_added_or_removed_moves_only_its_share_of_the_clients() -> None:
    moved_by_coming = moved_by_going = 0
    for client in range(400):
        table = routes(b"%d" % client)
        table.tell(b"t", 1, ALL_PUBLISHERS, [A, B, C], 0.0)
        before = ends(table)[1]
        table.tell(b"t", 2, ALL_PUBLISHERS, [A, B, C, D], 0.0)
        after = ends(table)[1]
        assert after in (before, D)
        moved_by_coming += after != before
        table.tell(b"t", 3, ALL_PUBLISHERS, [A, B, D], 0.0)
        assert ends(table)[1] == after or after == C
        moved_by_going += ends(table)[1] != after
    assert 60 < moved_by_coming < 140
    assert 60 < moved_by_going < 140


def test_an_unused_entry_is_removed_and_one_in_use_is_not() -> None:
    table = routes()
    table.tell(b"t", 1, b"single", [A], 0.0)
    table.tell(b"u", 1, b"single", [A], 0.0)
    table.tell(b"v", 1, b"single", [A], 50.0)
    assert table.expire(40.0, {b"u"}) == [b"t"]
    assert sorted(table) == [b"u", b"v"]


def test_the_table_is_bounded_and_removes_the_oldest() -> None:
    table = routes(routes_max=3)
    for topic in (b"a", b"b", b"c", b"d"):
        table.tell(topic, 1, b"single", [A], 0.0)
    assert list(table) == [b"b", b"c", b"d"]


def test_invalid_redirects_are_ignored() -> None:
    table = routes()
    assert not table.tell(b"t", 1, b"single", [], 0.0)
    assert not table.tell(
        b"t", 1, ALL_SUBSCRIBERS, [Endpoint("a", port) for port in range(HOMES_MAX + 1)], 0.0
    )
    assert len(table) == 0
    assert table.tell(b"t", 1, 17, [A, B], 0.0)
    route = table.get(b"t")
    assert route is not None and route.mode is Mode.SINGLE


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        (b"host:6399", Endpoint("host", 6399)),
        (b"10.0.0.7:1", Endpoint("10.0.0.7", 1)),
        (b"[::1]:6399", Endpoint("::1", 6399)),
        (b"host", None),
        (b"host:0", None),
        (b"host:99999", None),
        (b":6399", None),
        (b"a b:6399", None),
        (b"user:secret@host:6399", None),
        (b"h\xc3\xb6st:6399", None),
        (b"host:6399/1", None),
        (b"x" * 300 + b":6399", None),
        (17, None),
        (None, None),
    ],
)
def test_an_address_is_a_host_and_a_port_and_nothing_else(address: object, endpoint: Endpoint | None) -> None:
    assert parse_address(address) == endpoint


def test_a_publisher_of_a_content_topic_goes_to_the_head_that_a_hub_names_until_that_is_lost() -> None:
    table = routes()
    table.tell(b"t", 3, b"content", [A, B, C], 0.0)
    assert not table.seat(b"t", 2, D) and table.seat(b"t", 3, D) and not table.seat(b"t", 3, D)
    assert ends(table)[0] == D and table.topics_at(D) == [b"t"]
    # The same homes again change nothing; a hub that cannot be reached is left, and so are other homes.
    assert not table.tell(b"t", 4, b"content", [A, B, C], 0.0)
    assert ends(table)[0] == D
    table.leave(B)
    assert ends(table)[0] == D
    table.leave(D)
    assert ends(table)[0] == A and table.topics_at(D) == []
    table.seat(b"t", 4, D)
    table.tell(b"t", 5, b"content", [A, B], 0.0)
    assert ends(table)[0] == A


def test_a_publisher_of_a_topic_with_one_home_has_no_other_seat() -> None:
    table = routes()
    table.tell(b"t", 3, b"single", [A], 0.0)
    assert not table.seat(b"t", 3, B)
