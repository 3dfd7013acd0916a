"""Which hub gets a topic whose home is dead, and how many topics a busy hub gives away."""

from __future__ import annotations

from collections import Counter

from equipoise.hub.membership.topic_giving import GIVEN_MAX, best_hub, free_shares, topics_over_mean
from equipoise.model import Member, Plan
from equipoise.store.records.hubs import HubAlive, HubFacts, HubSeen


def seen(name: str, load_ratio: float, *, is_alive: bool = True) -> HubSeen:
    facts = HubFacts(hub=name, address=f"{name}:1", incarnation=1)
    return HubSeen(facts, HubAlive(facts=facts, load_ratio=load_ratio) if is_alive else None)


def test_shares_are_weights_times_free_load() -> None:
    plan = Plan.of(
        version=1, members=[Member("a", 16), Member("b", 32), Member("c", 0), Member("d", 16)], entries=[]
    )
    hubs = {
        "a": seen("a", 0.25),
        "b": seen("b", 0.5),
        "c": seen("c", 0.0),
        "d": seen("d", 0.0, is_alive=False),
    }
    assert free_shares(plan, hubs, ["a", "b", "c", "d", "stranger"]) == {"a": 12.0, "b": 16.0}
    assert free_shares(plan, {"a": seen("a", 1.5)}, ["a"]) == {}


def test_topics_go_to_hubs_by_their_shares_and_stay_when_another_hub_comes() -> None:
    shares = {"a": 1.0, "b": 3.0}
    topics = [b"t%d" % number for number in range(4_000)]
    chosen = {topic: best_hub(topic, shares) for topic in topics}
    counts = Counter(chosen.values())
    assert 2_850 < counts["b"] < 3_150
    more = {topic: best_hub(topic, {**shares, "c": 1.0}) for topic in topics}
    assert {more[topic] for topic in topics if more[topic] != chosen[topic]} == {"c"}
    assert best_hub(b"t", {}) is None


def test_a_hub_gives_topics_away_down_to_the_mean_and_no_part_of_one() -> None:
    assert topics_over_mean(0.9, [0.9, 0.3, 0.3], 9) == (4, 0.5)
    assert topics_over_mean(0.5, [0.5, 0.48, 0.46], 100)[0] == 0
    assert topics_over_mean(0.5, [0.5, 0.3], 2)[0] == 0
    assert topics_over_mean(0.5, [0.5], 10)[0] == 0
    assert topics_over_mean(0.0, [0.0, 0.0], 10)[0] == 0
    assert topics_over_mean(1.0, [1.0, 0.0], 10_000)[0] == GIVEN_MAX
    assert topics_over_mean(0.9, [0.9, 0.0], 0)[0] == 0
