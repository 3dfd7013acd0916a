"""The arbiter: a topic has one owner at a time, and no owner has too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from equipoise.plan import Arbiter

NAMES = [b"a", b"b", b"c", b"d", b"e"]


def test_no_other_owner_gets_a_claimed_topic() -> None:
    arbiter, granted = Arbiter().claim("planner", [b"a", b"b"], now=1.0, version=7)
    assert granted == (b"a", b"b")
    arbiter, granted = arbiter.claim("content", [b"b", b"c"], now=2.0)
    assert granted == (b"c",)
    assert arbiter.in_hand[b"b"].by == "planner"


def test_not_even_its_owner_moves_it_again_before_the_first_move_has_ended() -> None:
    arbiter, _ = Arbiter().claim("planner", [b"a"], now=1.0, version=7)
    assert not arbiter.is_free(b"a", "planner")
    assert arbiter.claim("planner", [b"a"], now=2.0, version=8)[1] == ()


def test_a_reservation_becomes_a_move_by_its_owner() -> None:
    arbiter, _ = Arbiter().claim("content", [b"a"], now=1.0)
    assert not arbiter.is_free(b"a", "planner")
    arbiter, granted = arbiter.claim("content", [b"a"], now=2.0, version=9)
    assert granted == (b"a",)
    assert arbiter.in_hand[b"a"].version == 9


def test_a_move_has_ended_when_every_hub_has_applied_its_plan_and_views_can_show_it() -> None:
    arbiter, _ = Arbiter().claim("planner", [b"a"], now=100.0, version=7)

    def after(now: float, version: int) -> bool:
        left = arbiter.settled(now=now, plan_version_min=version, settle_s=12.0, move_timeout_s=60.0)
        return left.is_free(b"a", "planner")

    assert not after(111.0, 7)
    assert not after(120.0, 6)
    assert after(112.0, 7)
    assert not after(120.0, 0)
    assert after(160.0, 0)


def test_an_abandoned_move_is_released_by_its_owner_only() -> None:
    arbiter, _ = Arbiter().claim("planner", [b"a"], now=1.0, version=7)
    assert not arbiter.let_go("content", [b"a"]).is_free(b"a", "content")
    assert arbiter.let_go("planner", [b"a"]).is_free(b"a", "content")


@given(
    st.lists(st.tuples(st.sampled_from(["planner", "content"]), st.lists(st.sampled_from(NAMES)))),
    st.integers(0, 4),
    st.integers(0, 6),
)
def test_claims_keep_their_limits_and_never_take_a_claimed_topic(
    claims: list[tuple[str, list[bytes]]], round_max: int, total_max: int
) -> None:
    arbiter = Arbiter()
    for now, (by, topics) in enumerate(claims):
        before = dict(arbiter.in_hand)
        arbiter, granted = arbiter.claim(
            by, topics, now=now, version=now + 1, round_max=round_max, total_max=total_max
        )
        assert len(granted) <= round_max
        assert len(arbiter.in_hand) <= max(total_max, len(before))
        assert not set(granted) & before.keys()
        assert {topic: arbiter.in_hand[topic] for topic in before} == before
