"""Channel-level rebalancing: Algorithm 1 by table, and its limits and timing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.model import Durability, Entry, Member, Mode, Plan, Reason, Specs, TopicSpec
from equipoise.plan import PlannerSettings
from equipoise.plan.steps.replication import ReplicationTarget, algorithm_1, rate
from equipoise.view import HubView, TopicView
from plan.small import decide, moved, plan_of, settled, topic

# Round numbers: 100 publications for each subscriber, 10 subscribers for each publication.
TABLE = PlannerSettings(
    all_subscribers_ratio=100,
    all_publishers_ratio=10,
    publications_min=1000,
    subscribers_min=200,
    replicate_ratio_min=0.0,
)
SINGLE = ReplicationTarget(Mode.SINGLE, 1)


def subs(homes: int) -> ReplicationTarget:
    return ReplicationTarget(Mode.ALL_SUBSCRIBERS, homes)


def pubs(homes: int) -> ReplicationTarget:
    return ReplicationTarget(Mode.ALL_PUBLISHERS, homes)


@pytest.mark.parametrize(
    "publications, subscribers, wanted, story",
    [
        (0, 0, SINGLE, "no clients"),
        (5000, 0, SINGLE, "no subscribers"),
        (0, 5000, SINGLE, "no publishers"),
        (10, 10, SINGLE, "an ordinary topic"),
        (900, 1, SINGLE, "a high ratio, but few publications"),
        (1000, 1, SINGLE, "exactly the least number of publications is not above it"),
        (1001, 1, subs(11), "one more is: 1,001 per subscriber is eleven hundreds, begun"),
        (2000, 20, SINGLE, "a ratio of exactly the threshold is not above it"),
        (2100, 20, subs(2), "just above it two servers share"),
        (4000, 20, subs(2), "twice the threshold: two"),
        (4001, 20, subs(3), "a little more: three"),
        (8000, 2, subs(40), "800 publishers at 10 per second, as in experiment 1b"),
        (1, 200, SINGLE, "exactly the least number of subscribers is not above it"),
        (1, 201, pubs(21), "one more is"),
        (10, 800, pubs(8), "800 subscribers, 10 publications per second: experiment 1a"),
        (80, 800, SINGLE, "a ratio of exactly the threshold is not above it"),
        (79, 800, pubs(2), "just above it"),
        (1, 150, SINGLE, "a high ratio, but few subscribers"),
        (5000, 4000, subs(0), "both very large: all-subscribers, by load"),
        (1001, 201, subs(0), "both just large enough"),
        (1001, 200, SINGLE, "one of them is not"),
        (1001, 20_000, pubs(2), "both large, but the ratio decides first"),
    ],
)
def test_algorithm_1(publications: float, subscribers: float, wanted: ReplicationTarget, story: str) -> None:
    assert algorithm_1(publications, subscribers, TABLE) == wanted, story


def test_with_the_released_thresholds_experiment_1a_gets_the_three_servers_of_the_paper() -> None:
    assert algorithm_1(10, 800, PlannerSettings()) == pubs(3)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_the_two_schemes_are_never_both_right(publications: float, subscribers: float) -> None:
    wanted = algorithm_1(publications, subscribers, TABLE)
    mirrored = algorithm_1(subscribers, publications, TABLE)
    assert (wanted.mode is Mode.SINGLE) == (wanted.homes == 1)
    if wanted.homes > 1 and mirrored.homes > 1:
        assert wanted.mode is not mirrored.mode


@given(st.floats(1, 1e5), st.floats(1, 1e5), st.floats(1, 10))
def test_a_higher_ratio_never_needs_fewer_servers(
    publications: float, subscribers: float, factor: float
) -> None:
    before = algorithm_1(publications, subscribers, TABLE)
    if before.mode is Mode.ALL_SUBSCRIBERS and before.homes:
        assert algorithm_1(publications * factor, subscribers, TABLE).homes >= before.homes
    if before.mode is Mode.ALL_PUBLISHERS:
        assert algorithm_1(publications, subscribers * factor, TABLE).homes >= before.homes


@pytest.mark.parametrize(
    "load_ratio, publishers, subscribers, wanted, story",
    [
        (0.5, 100, 100, SINGLE, "it fits on one hub"),
        (0.7, 100, 100, subs(2), "it fits on none: two homes of 0.35"),
        (1.5, 100, 100, subs(4), "four homes of at most 0.4"),
        (1.5, 7, 100, pubs(4), "too few publishers to spread"),
        (1.5, 2, 3, pubs(3), "no more homes than subscribers"),
        (1.5, 1, 1, SINGLE, "no clients to spread"),
        (20.0, 1000, 1000, subs(16), "the bound on homes"),
    ],
)
def test_a_topic_that_fits_on_no_hub_is_replicated_whatever_its_ratios(
    load_ratio: float, publishers: float, subscribers: float, wanted: ReplicationTarget, story: str
) -> None:
    assert rate(50, subscribers, publishers, load_ratio, PlannerSettings()) == wanted, story


def test_a_topic_that_weighs_little_is_not_replicated_unless_the_settings_say_so() -> None:
    assert rate(10, 800, 1, 0.1, PlannerSettings()) == SINGLE
    assert rate(10, 800, 1, 0.1, PlannerSettings(replicate_ratio_min=0.0)) == pubs(3)


def test_a_topic_that_one_hub_must_admit_gets_one_stream() -> None:
    assert rate(5000, 1000, 500, 2.0, PlannerSettings(), may_split=False).mode is Mode.ALL_PUBLISHERS


HUBS = ["a", "b", "c", "d"]


def hot(ratio: float, *homes: str) -> TopicView:
    return topic("hot", ratio, *homes, publishers=100, subscribers=100)


def test_the_least_loaded_hubs_are_added_first() -> None:
    others = [topic("x", 0.3, "b"), topic("y", 0.1, "c"), topic("z", 0.2, "d")]
    decision = decide([hot(0.79, "a"), *others], HUBS, views=40)
    assert moved(decision) == {"hot": ("a", "c")}
    (part,) = decision.change.entries
    assert part.entry is not None
    assert part.entry.mode is Mode.ALL_SUBSCRIBERS
    assert part.why.reason is Reason.REPLICATED
    assert part.why.numbers["topic_ratio"] == pytest.approx(0.79)


def test_an_overload_has_to_be_seen_three_times_before_a_split() -> None:
    calm = [hot(0.7, "a"), topic("x", 0.1, "b")]
    assert moved(decide(calm, HUBS, views=2)) == {}
    assert moved(decide(calm, HUBS, views=3)) == {"hot": ("a", "c")}


def test_a_severe_overload_of_the_home_needs_no_wait() -> None:
    assert moved(decide([hot(1.4, "a")], HUBS)) == {"hot": ("a", "b", "c", "d")}


def test_the_busiest_homes_are_freed_first() -> None:
    others = [topic("x", 0.4, "b"), topic("y", 0.1, "c")]
    entry = {"hot": ["a", "b", "c"], "x": ["b"], "y": ["c"]}
    topics = [hot(0.5, "a", "b", "c"), *others]
    decision = decide(topics, HUBS, plan=plan_of(entry, HUBS), views=300)
    assert moved(decision) == {"hot": ("a", "c")}
    assert decision.change.entries[0].why.reason is Reason.MERGED


def test_a_topic_that_needs_fewer_homes_returns_to_one_slowly() -> None:
    topics = [hot(0.1, "a", "b"), topic("x", 0.3, "a")]
    plan = plan_of({"hot": ["a", "b"], "x": ["a"]}, HUBS)
    assert moved(decide(topics, HUBS, plan=plan, views=100)) == {}
    assert moved(decide(topics, HUBS, plan=plan, views=150)) == {"hot": ("b",)}


def test_between_the_thresholds_nothing_changes() -> None:
    plan = plan_of({"hot": ["a", "b"]}, HUBS)
    assert moved(decide([hot(0.5, "a", "b")], HUBS, plan=plan, views=300)) == {}


def test_thirty_seconds_pass_between_two_changes_of_a_topic() -> None:
    plan = plan_of({"hot": ["a", "b"]}, HUBS)
    memory = settled(HUBS, replicated_s={b"hot": 95.0})
    topics = [hot(2.2, "a", "b")]
    early = decide(topics, HUBS, plan=plan, memory=memory, views=29, at_s=96.0)
    assert "hot" not in moved(early)
    late = decide(topics, HUBS, plan=plan, memory=memory, views=40, at_s=96.0)
    assert len(moved(late)["hot"]) == 4


def test_if_large_shares_do_not_fit_more_and_smaller_ones_are_tried() -> None:
    others = [topic(name, 0.35, name) for name in "bcd"]
    decision = decide([hot(0.9, "a"), *others], HUBS, views=40)
    assert moved(decision)["hot"] == ("a", "b", "c", "d")


def test_dead_and_full_hubs_are_no_homes() -> None:
    dead = HubView(name="b", is_alive=False)
    full = HubView(name="c", memory_bytes=95, memory_bytes_max=100)
    hubs: list[str | HubView] = ["a", dead, full, "d"]
    memory = settled("acd", dead_s={"b": 99.0})
    decision = decide([hot(0.79, "a")], hubs, plan=plan_of({"hot": ["a"]}, HUBS), memory=memory, views=5)
    assert moved(decision) == {"hot": ("a", "d")}


def test_durable_and_limited_topics_have_one_stream() -> None:
    for spec in (
        TopicSpec(pattern=b"hot", durability=Durability()),
        TopicSpec(pattern=b"hot", rate_per_s=5000.0),
    ):
        decision = decide([hot(1.4, "a")], HUBS, specs=Specs([spec]))
        entry = decision.change.entries[0].entry
        assert entry is not None
        assert entry.mode is Mode.ALL_PUBLISHERS


def test_the_way_of_replicating_follows_the_ratio_with_hysteresis() -> None:
    settings = PlannerSettings(replicate_ratio_min=0.1)

    def replicated(subscribers: float, mode: Mode) -> Mode | None:
        plan = Plan.of(members=[Member(hub) for hub in HUBS], entries=[Entry(b"hot", ("a", "b"), mode)])
        row = topic("hot", 0.9, "a", "b", publications_per_s=1500, subscribers=subscribers, publishers=500)
        decision = decide([row], HUBS, plan=plan, settings=settings, views=40)
        return decision.change.entries[0].entry.mode if decision.change.entries[0].entry else None

    # 31 subscribers for each publication: above the threshold of 30.
    assert replicated(31 * 1500, Mode.ALL_SUBSCRIBERS) is Mode.ALL_PUBLISHERS
    # 25: below it, but not below 0.7 of it. The number of homes may change, the mode does not.
    assert replicated(25 * 1500, Mode.ALL_PUBLISHERS) is not Mode.SINGLE
    low = msgspec.structs.replace(settings, all_publishers_ratio=30 * settings.shrink_ratio)
    assert algorithm_1(1500, 25 * 1500, low).mode is Mode.ALL_PUBLISHERS
