"""High-load rebalancing: Algorithm 2 by table, the check of receivers, server requests, and when it acts."""

from __future__ import annotations

import msgspec
import pytest

from equipoise.model import Member, Plan, Reason, Specs, TopicSpec
from equipoise.plan import Arbiter, PlannerSettings
from equipoise.plan.memory import HubNoise, ReleasedHub
from equipoise.view import HubView, TopicView
from plan.small import decide, moved, plan_of, settled, topic

HUBS = ["a", "b", "c"]


def on(**hubs: list[float]) -> list[TopicView]:
    """Topics a0, a1, … on hub a with these ratios, and so on. None of them can be replicated."""
    return [
        topic(f"{hub}{number}", size, hub, publishers=1, subscribers=1)
        for hub, sizes in hubs.items()
        for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    "topics, homes, story",
    [
        (on(a=[0.4, 0.3, 0.2], b=[0.1], c=[0.0]), {"a0": "c"}, "the busiest topic to the emptiest hub"),
        (
            on(a=[0.3, 0.3, 0.3, 0.2], b=[0.1], c=[0.2]),
            {"a0": "b", "a1": "c"},
            "one after the other until it is safe",
        ),
        (on(a=[0.7, 0.2], b=[0.1], c=[0.1]), {"a1": "b"}, "a topic too large for every hub is skipped"),
        (on(a=[0.5, 0.35], b=[0.2], c=[0.3]), {"a1": "b"}, "one too large for the receiver too"),
        (
            on(a=[0.5, 0.4], b=[0.5, 0.45], c=[0.1]),
            {"b0": "c"},
            "the busiest hub first, and then there is no room",
        ),
        (on(a=[0.5, 0.29], b=[0.0], c=[0.0]), {}, "just below the threshold nothing happens"),
    ],
)
def test_algorithm_2(topics: list[TopicView], homes: dict[str, str], story: str) -> None:
    decision = decide(topics, HUBS, views=25)
    assert {name: at[0] for name, at in moved(decision).items()} == homes, story


def test_a_move_has_its_reason_with_numbers() -> None:
    decision = decide(on(a=[0.4, 0.3, 0.2], b=[0.1]), HUBS, views=3)
    why = decision.change.entries[0].why
    assert why.reason is Reason.HIGH_LOAD
    assert why.note == "a to c"
    assert why.numbers == pytest.approx(
        {"load_ratio": 0.9, "load_ratio_after": 0.5, "receiver_ratio": 0.0, "receiver_ratio_after": 0.4}
    )


def test_an_overload_has_to_be_seen_three_times() -> None:
    assert moved(decide(on(a=[0.6, 0.3]), HUBS, views=2)) == {}
    assert moved(decide(on(a=[0.6, 0.3]), HUBS, views=3)) != {}


def test_the_same_view_again_is_no_evidence() -> None:
    topics = on(a=[0.6, 0.3])
    memory = decide(topics, HUBS, views=1).memory
    for _ in range(5):
        decision = decide(topics, HUBS, memory=memory, views=1)
        assert moved(decision) == {}
        memory = decision.memory


def test_an_overload_within_a_hubs_noise_counts_once_per_window() -> None:
    noisy = settled(HUBS, noises={"a": HubNoise(rise_variance=0.15**2)})
    assert moved(decide(on(a=[0.6, 0.25]), HUBS, memory=noisy, views=20)) == {}
    assert moved(decide(on(a=[0.6, 0.25]), HUBS, memory=noisy, views=21)) != {}


def test_a_severe_overload_is_acted_on_at_once() -> None:
    assert moved(decide(on(a=[0.5, 0.6]), HUBS, views=1)) == {"a1": ("b",)}


def test_plans_are_at_least_t_wait_apart() -> None:
    recent = settled(HUBS, plan_s=95.0)
    assert moved(decide(on(a=[0.6, 0.3]), HUBS, memory=recent, views=14)) == {}
    assert moved(decide(on(a=[0.6, 0.3]), HUBS, memory=recent, views=16)) != {}


def test_under_severe_overload_a_shorter_wait_holds() -> None:
    assert moved(decide(on(a=[0.5, 0.6]), HUBS, memory=settled(HUBS, plan_s=97.0), views=1)) == {}
    assert moved(decide(on(a=[0.5, 0.6]), HUBS, memory=settled(HUBS, plan_s=95.0), views=1)) != {}


def test_a_topic_rests_after_its_move_and_others_go_instead() -> None:
    rested = settled(HUBS, moved_s={b"a0": 60.0})
    assert moved(decide(on(a=[0.4, 0.3, 0.2]), HUBS, memory=rested, views=3)) == {"a1": ("b",), "a2": ("c",)}


def test_a_topic_claimed_by_another_step_is_not_moved() -> None:
    arbiter, _ = Arbiter().claim("content", [b"a0"], now=90.0)
    held = settled(HUBS, arbiter=arbiter)
    assert moved(decide(on(a=[0.4, 0.3, 0.2]), HUBS, memory=held, views=3)) == {"a1": ("b",), "a2": ("c",)}


def test_a_moved_topic_is_claimed() -> None:
    decision = decide(on(a=[0.4, 0.3, 0.2]), HUBS, views=3)
    assert set(decision.memory.arbiter.in_hand) == {b"a0"}
    assert decision.memory.arbiter.in_hand[b"a0"].version == decision.change.version


def test_no_round_moves_more_than_the_limit() -> None:
    settings = PlannerSettings(moves_per_round_max=2, servers_min=3)
    decision = decide(on(a=[0.1] * 12), HUBS, settings=settings, views=1)
    assert len(moved(decision)) == 2


def test_a_pinned_topic_moves_within_its_site_only() -> None:
    hubs = [HubView(name="a", site="x"), HubView(name="b", site="x"), HubView(name="c", site="y")]
    specs = Specs([TopicSpec(pattern=b"a*", site="x")])
    memory = settled(HUBS)
    topics = on(a=[0.4, 0.3, 0.2], b=[0.15], c=[0.0])
    members = [Member(hub.name, site=hub.site) for hub in hubs]
    plan = Plan.of(members=members, entries=plan_of(topics, HUBS).entries.values())
    decision = decide(topics, hubs, specs=specs, memory=memory, plan=plan, views=4)
    assert moved(decision) == {"a0": ("b",)}


@pytest.mark.parametrize(
    "hub",
    [
        HubView(name="c", is_alive=False),
        HubView(name="c", is_draining=True),
        HubView(name="c", memory_bytes=91, memory_bytes_max=100),
    ],
)
def test_dead_draining_and_full_hubs_get_nothing(hub: HubView) -> None:
    memory = settled("ab", dead_s={"c": 99.0})
    topics = on(a=[0.4, 0.3, 0.2], b=[0.1])
    members = [Member("a"), Member("b"), Member("c", 0 if hub.is_draining else 16)]
    plan = Plan.of(members=members, entries=plan_of(topics, HUBS).entries.values())
    decision = decide(topics, ["a", "b", hub], memory=memory, plan=plan, views=5)
    assert set(moved(decision).values()) == {("b",)}


# --- no room ---


def test_without_room_a_server_is_requested() -> None:
    decision = decide(on(a=[0.5, 0.45], b=[0.59], c=[0.59]), HUBS, views=10)
    assert moved(decision) == {}
    assert decision.servers_wanted == 4


def test_a_small_shortage_requests_a_server_only_when_it_lasts() -> None:
    topics = on(a=[0.41, 0.4], b=[0.59], c=[0.59])
    noise = settled(HUBS, noises={"a": HubNoise(rise_variance=0.003**2)})
    assert decide(topics, HUBS, memory=noise, views=10).servers_wanted == 3
    assert decide(topics, HUBS, memory=noise, views=40).servers_wanted == 4


def test_servers_have_a_price() -> None:
    topics = on(a=[0.5, 0.45], b=[0.59], c=[0.59])
    dear = PlannerSettings(server_hour_price=1000.0, servers_min=3)
    assert decide(topics, HUBS, settings=dear, views=60).servers_wanted == 3
    assert decide(topics, HUBS, views=60).servers_wanted == 4


def test_a_large_shortage_requests_several_servers() -> None:
    decision = decide(on(a=[0.5] * 5, b=[0.5] * 3, c=[0.5] * 3), HUBS, views=1)
    assert decision.servers_wanted >= 7


def test_with_room_at_other_hubs_no_server_is_requested() -> None:
    # One topic of 0.9 that cannot be split: two publishers of one message each, one subscriber.
    stuck = topic("a0", 0.9, "a", publishers=1, subscribers=1)
    assert decide([stuck], HUBS, views=60).servers_wanted == 3


def test_no_more_than_the_maximum_of_servers_is_requested_and_hubs_fill_up_instead() -> None:
    crowded = PlannerSettings(servers_max=3, servers_min=3)
    decision = decide(on(a=[0.5, 0.2, 0.2], b=[0.55], c=[0.58]), HUBS, settings=crowded, views=3)
    assert moved(decision) == {"a1": ("b",)}
    assert decision.servers_wanted == 3


def test_when_all_hubs_are_full_only_moves_that_help_much_are_made() -> None:
    crowded = PlannerSettings(servers_max=3, servers_min=3)
    much = decide(on(a=[1.0, 0.2], b=[0.85], c=[0.9]), HUBS, settings=crowded, views=3)
    assert moved(much) == {"a1": ("b",)}
    little = decide(on(a=[0.85, 0.08], b=[0.85], c=[0.9]), HUBS, settings=crowded, views=3)
    assert moved(little) == {}


def test_a_released_hub_that_still_runs_is_taken_back_before_a_new_one_is_requested() -> None:
    memory = msgspec.structs.replace(settled("ab"), released={"c": ReleasedHub(0, 0.0)})
    topics = on(a=[0.5, 0.45], b=[0.59])
    decision = decide(topics, HUBS, plan=plan_of(topics, "ab"), memory=memory, views=10)
    (joined,) = decision.change.members
    assert joined.hub == "c"
    assert joined.why.reason is Reason.JOINED


def test_a_released_hub_whose_stop_was_requested_is_not_taken_back() -> None:
    memory = msgspec.structs.replace(settled("ab"), released={"c": ReleasedHub(0, 0.0)})
    topics = on(a=[0.5, 0.45], b=[0.59])
    hubs: list[str | HubView] = ["a", "b", HubView(name="c", is_releasable=False)]
    settings = PlannerSettings(servers_min=2, servers_max=3)
    plan = plan_of(topics, "ab")
    decision = decide(topics, hubs, plan=plan, memory=memory, settings=settings, views=10)
    assert decision.change.members == ()
    assert decision.servers_wanted == 3


def test_a_rising_hub_is_relieved_before_it_is_overloaded() -> None:
    rows = [topic("a0", 0.35, "a", trend=0.02), topic("a1", 0.35, "a", trend=0.02)]
    memory, moves = settled(HUBS), {}
    for second in range(6):
        # The mean follows the trend.
        rows = [topic(f"a{at}", 0.35 + 0.02 * second, "a", trend=0.02) for at in range(2)]
        decision = decide(rows, HUBS, memory=memory, views=1, at_s=100.0 + second)
        memory, moves = decision.memory, moved(decision)
        if moves:
            break
    assert 0.7 + 0.04 * second < 0.8
    assert moves
    assert decision.change.entries[0].why.reason is Reason.RISING_LOAD
