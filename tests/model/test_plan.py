"""The plan: where topics are, what a plan may not say, and how one version becomes the next."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import PlanError
from equipoise.model import (
    Entry,
    EntryChange,
    Member,
    MemberChange,
    Mode,
    Plan,
    PlanChange,
    Reason,
    Why,
    apply,
    decode_change,
    decode_plan,
    diff,
    encode_change,
    encode_plan,
    quantise_weight,
)
from equipoise.model.plan import reshared

ASKED = Why(Reason.OPERATOR, {"load_ratio": 0.93}, "by hand")
MEMBERS = (Member("h1"), Member("h2", 8, "paris"), Member("h3", 0))
NEWS = Entry(b"news", ("h2",))
GAME = Entry(b"game", ("h1", "h2"), Mode.ALL_SUBSCRIBERS)

HUBS = st.sampled_from(["h1", "h2", "h3"])
ENTRIES = st.one_of(
    st.builds(Entry, st.binary(max_size=2), st.tuples(HUBS)),
    st.builds(
        Entry,
        st.binary(max_size=2),
        st.lists(HUBS, min_size=1, max_size=3, unique=True).map(tuple),
        st.sampled_from([Mode.ALL_PUBLISHERS, Mode.ALL_SUBSCRIBERS]),
    ),
    st.builds(
        lambda topic, homes, parent: Entry(
            topic, tuple(homes), Mode.CONTENT, parents=(0, 0, parent)[: len(homes)]
        ),
        st.binary(max_size=2),
        st.lists(HUBS, min_size=2, max_size=3, unique=True),
        st.integers(0, 1),
    ),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    hubs = draw(st.sets(HUBS, min_size=1))
    entries = {e.topic: e for e in draw(st.lists(ENTRIES, max_size=8)) if set(e.homes) <= hubs}
    return Plan.of(
        version=draw(st.integers(0, 99)),
        members=[Member(hub, draw(st.integers(0, 3))) for hub in hubs],
        entries=entries.values(),
        access_version=5,
    )


def plan() -> Plan:
    return Plan.of(version=7, members=MEMBERS, entries=[NEWS, GAME], access_version=2)


# Where a topic is.


def test_a_topic_with_an_entry_lives_at_its_homes() -> None:
    assert plan().home_of(b"news").homes == ("h2",)
    placement = plan().home_of(b"game")
    assert (placement.homes, placement.mode) == (("h1", "h2"), Mode.ALL_SUBSCRIBERS)


def test_dead_homes_are_left_out_and_the_mode_stays() -> None:
    placement = plan().home_of(b"game", {"h2", "h3"})
    assert (placement.homes, placement.mode) == (("h2",), Mode.ALL_SUBSCRIBERS)


def test_an_entry_without_a_live_home_falls_back_to_the_ring() -> None:
    placement = plan().home_of(b"news", {"h1"})
    assert (placement.homes, placement.mode) == (("h1",), Mode.SINGLE)


def test_every_other_topic_follows_the_ring_over_live_members() -> None:
    made = plan()
    for number in range(200):
        topic = b"t%d" % number
        assert made.home_of(topic).homes == (made.ring.owner(topic),)
        assert made.home_of(topic, {"h2", "stranger"}).homes == ("h2",)


def test_a_topic_is_nowhere_when_nobody_is_alive() -> None:
    assert plan().home_of(b"news", set()).is_nowhere
    assert Plan().home_of(b"news").is_nowhere
    assert not plan().home_of(b"news").is_nowhere


def test_plans_that_differ_in_entries_share_their_ring() -> None:
    made = plan()
    following = apply(made, PlanChange.on(made, ASKED, remove_entries=[b"news"]))
    assert following.ring is made.ring


# What a plan may not say.


@pytest.mark.parametrize(
    ("homes", "mode", "text"),
    [
        ((), Mode.SINGLE, "0 homes"),
        (("h1", "h2"), Mode.SINGLE, "is single"),
        (("h1", "h1"), Mode.ALL_PUBLISHERS, "twice"),
        (tuple(f"h{n}" for n in range(65)), Mode.ALL_PUBLISHERS, "65 homes"),
    ],
)
def test_an_entry_that_contradicts_itself_cannot_be_made(
    homes: tuple[str, ...], mode: Mode, text: str
) -> None:
    with pytest.raises(PlanError, match=text):
        Entry(b"news", homes, mode)


@pytest.mark.parametrize("weight", [-1, 257])
def test_a_weight_has_bounds(weight: int) -> None:
    with pytest.raises(PlanError, match="weight"):
        Member("h1", weight)


def test_a_member_has_a_name() -> None:
    with pytest.raises(PlanError, match="no name"):
        Member("")


def test_homes_are_members() -> None:
    with pytest.raises(PlanError, match="not a member"):
        Plan.of(members=[Member("h1")], entries=[NEWS])


def test_a_member_is_there_once_and_a_topic_has_one_entry() -> None:
    with pytest.raises(PlanError, match="twice"):
        Plan.of(members=[Member("h1"), Member("h1", 8)])
    with pytest.raises(PlanError, match="two entries"):
        Plan.of(members=MEMBERS, entries=[NEWS, Entry(b"news", ("h1",))])


def test_versions_count_from_zero() -> None:
    with pytest.raises(PlanError, match="count from 0"):
        Plan.of(version=-1)


def test_weights_are_steps_of_a_sixteenth() -> None:
    assert [quantise_weight(ratio) for ratio in (0.0, 0.5, 1.0, 1.02, 1.1, 99.0)] == [1, 8, 16, 16, 18, 256]


# Changes.


def test_a_change_makes_the_next_version_and_leaves_the_old_one_as_it_was() -> None:
    made = plan()
    moved = Entry(b"news", ("h1",))
    following = apply(made, PlanChange.on(made, ASKED, set_entries=[moved], remove_entries=[b"game"]))
    assert following.version == 8
    assert dict(following.entries) == {b"news": moved}
    assert dict(made.entries) == {b"news": NEWS, b"game": GAME}
    assert following.access_version == 2


@pytest.mark.parametrize("version", [0, 6, 7, 9])
def test_a_change_for_another_version_is_refused(version: int) -> None:
    with pytest.raises(PlanError, match="does not follow"):
        apply(plan(), PlanChange(version))


def test_the_access_version_never_goes_back() -> None:
    made = plan()
    assert apply(made, PlanChange.on(made, ASKED, access_version=3)).access_version == 3
    with pytest.raises(PlanError, match="older"):
        apply(made, PlanChange.on(made, ASKED, access_version=1))


def test_members_join_change_and_leave_with_the_plan() -> None:
    made = plan()
    change = PlanChange.on(made, ASKED, set_members=[Member("h0"), Member("h1", 4)], remove_members=["h3"])
    assert apply(made, change).members == (Member("h0"), Member("h1", 4), Member("h2", 8, "paris"))


def test_a_member_that_is_a_home_cannot_leave_before_its_entries_do() -> None:
    made = plan()
    with pytest.raises(PlanError, match="not a member"):
        apply(made, PlanChange.on(made, ASKED, remove_members=["h1"]))
    gone = PlanChange.on(made, ASKED, remove_members=["h1"], remove_entries=[b"game"])
    assert "h1" not in apply(made, gone).by_hub


def test_a_new_entry_needs_homes_that_are_members() -> None:
    made = plan()
    with pytest.raises(PlanError, match="not a member"):
        apply(made, PlanChange.on(made, ASKED, set_entries=[Entry(b"x", ("h9",))]))


def test_what_is_not_there_cannot_be_removed() -> None:
    made = plan()
    with pytest.raises(PlanError, match="no entry"):
        apply(made, PlanChange.on(made, ASKED, remove_entries=[b"x"]))
    with pytest.raises(PlanError, match="not a member"):
        apply(made, PlanChange.on(made, ASKED, remove_members=["h9"]))


def test_a_change_speaks_of_what_it_names() -> None:
    with pytest.raises(PlanError, match="holds an entry of"):
        EntryChange(b"other", NEWS, ASKED)
    with pytest.raises(PlanError, match="holds the member"):
        MemberChange("other", Member("h1"), ASKED)


@given(plans(), plans())
def test_a_difference_applied_to_the_old_plan_gives_the_new_one(old: Plan, new: Plan) -> None:
    made = apply(old, diff(old, new))
    assert (made.members, dict(made.entries)) == (new.members, dict(new.entries))
    assert made.version == old.version + 1
    assert diff(made, new).is_empty


# Bytes.


@given(plans())
def test_a_plan_reads_back_from_its_bytes(made: Plan) -> None:
    assert decode_plan(encode_plan(made)) == made


@given(plans(), plans())
def test_a_change_reads_back_from_its_bytes(old: Plan, new: Plan) -> None:
    change = diff(old, new, ASKED)
    assert decode_change(encode_change(change)) == change


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff" * 9, encode_plan(plan())[:-1]])
def test_bytes_that_are_not_a_plan_are_refused(data: bytes) -> None:
    with pytest.raises(PlanError):
        decode_plan(data)
    with pytest.raises(PlanError):
        decode_change(data)


def test_bytes_of_a_plan_that_contradicts_itself_are_refused() -> None:
    forged = msgspec.msgpack.encode([1, [["h1"]], [[b"news", ["h1", "h1"], "all-publishers"]]])
    with pytest.raises(PlanError, match="twice"):
        decode_plan(forged)


def test_a_reason_from_a_newer_program_does_not_make_the_change_unreadable() -> None:
    newer = msgspec.msgpack.encode(
        [8, [[b"news", None, ["phase-of-moon", {}]]], [], None, None, "a later field"]
    )
    assert decode_change(newer).entries[0].why.reason is Reason.UNKNOWN


def split(*shares: int, depths: tuple[int, ...] = ()) -> Entry:
    homes = ("a", "b", "c")[: len(shares)]
    return Entry(b"t", homes, Mode.ALL_SUBSCRIBERS, False, shares, depths)


def test_shares_of_depth_go_with_shares_of_rate() -> None:
    with pytest.raises(PlanError, match="shares of burst and none of rate"):
        Entry(b"t", ("a", "b"), Mode.ALL_SUBSCRIBERS, depths=(500_000, 500_000))
    with pytest.raises(PlanError, match="one per home"):
        split(500_000, 500_000, depths=(1_000_000,))
    with pytest.raises(PlanError, match="together"):
        split(500_000, 500_000, depths=(500_000, 400_000))


def test_the_shares_of_a_home_that_leaves_go_to_the_first_one_left() -> None:
    left = split(500_000, 300_000, 200_000, depths=(100_000, 200_000, 700_000)).without("a")
    assert left == Entry(
        b"t", ("b", "c"), Mode.ALL_SUBSCRIBERS, False, (800_000, 200_000), (300_000, 700_000)
    )
    alone = split(500_000, 500_000, depths=(400_000, 600_000)).without("b")
    assert alone == Entry(b"t", ("a",))


def test_at_other_homes_shares_are_kept_and_taken_over() -> None:
    entry = split(500_000, 300_000, 200_000, depths=(100_000, 200_000, 700_000))
    moved = entry.at(("a", "x", "c"), Mode.ALL_SUBSCRIBERS)
    assert (moved.shares, moved.depths) == (entry.shares, entry.depths)
    assert entry.at(("a", "b"), Mode.ALL_SUBSCRIBERS).shares == ()
    assert entry.at(("a",), Mode.SINGLE) == Entry(b"t", ("a",))


def test_plans_that_differ_in_shares_alone_are_told_from_others() -> None:
    members = [Member(hub) for hub in "abc"]
    one = Plan.of(members=members, entries=[split(500_000, 500_000), Entry(b"u", ("a",))])
    other = Plan.of(version=2, members=members, entries=[split(400_000, 600_000), Entry(b"u", ("a",))])
    assert reshared(one, other) == frozenset({b"t"})
    assert reshared(one, one) == frozenset()
    moved = Plan.of(version=2, members=members, entries=[split(400_000, 600_000), Entry(b"u", ("b",))])
    assert reshared(one, moved) is None
    assert reshared(one, Plan.of(version=2, members=members, entries=[split(500_000, 500_000)])) is None
    assert (
        reshared(one, Plan.of(version=2, members=[*members, Member("d")], entries=one.entries.values()))
        is None
    )
