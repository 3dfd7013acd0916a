"""Members of the plan, pinned topics, and entries that the plan does not need."""

from __future__ import annotations

from dataclasses import replace

from equipoise.model import Durability, Entry, Member, Mode, Plan, Reason, Specs, TopicSpec, apply
from equipoise.plan import Memory, Planner, PlannerSettings, decode_memory, encode_memory
from equipoise.view import HubView, TopicView, View
from plan.small import Outcome, decide, moved, plan_of, settled, topic, view

HUBS = ["a", "b", "c"]


def members(outcome: Outcome) -> dict[str, int | None]:
    """The members that change, and their weights; None for removed ones."""
    return {part.hub: part.member.weight if part.member else None for part in outcome.change.members}


def test_the_first_hubs_become_members_together() -> None:
    outcome = decide([], HUBS, plan=Plan(), memory=Memory())
    assert members(outcome) == {"a": 16, "b": 16, "c": 16}
    assert outcome.reasons == {Reason.JOINED}


def test_a_new_hub_gets_a_share_of_the_ring_by_what_it_can_carry() -> None:
    small = HubView(name="d", out_bytes_per_s_max=0.5e6, site="paris")
    outcome = decide([], [*HUBS, small], plan=plan_of({}, HUBS))
    assert members(outcome) == {"d": 8}
    assert apply(outcome.plan, outcome.change).by_hub["d"].site == "paris"


def test_a_hub_that_is_drained_or_dead_is_not_admitted() -> None:
    others = [HubView(name="d", is_draining=True), HubView(name="e", is_alive=False)]
    assert members(decide([], [*HUBS, *others], plan=plan_of({}, HUBS))) == {}


def test_a_dead_hub_stays_a_member_during_a_restart() -> None:
    hubs: list[str | HubView] = ["a", "b", HubView(name="c", is_alive=False)]
    topics = [topic("t", 0.1, "a", "c")]
    plan = plan_of({"t": ["a", "c"], "u": ["c"]}, HUBS)
    assert members(decide(topics, hubs, plan=plan, views=30)) == {}
    outcome = decide(topics, hubs, plan=plan, views=31)
    assert members(outcome) == {"c": None}
    after = apply(outcome.plan, outcome.change)
    assert after.entries == {b"t": Entry(b"t", ("a",))} or b"t" not in after.entries
    assert outcome.reasons == {Reason.LEFT}


def test_an_entry_loses_all_of_its_dead_hubs_at_once() -> None:
    hubs: list[str | HubView] = ["a", HubView(name="b", is_alive=False), HubView(name="c", is_alive=False)]
    outcome = decide([topic("t", 0.1, "a")], hubs, plan=plan_of({"t": HUBS, "u": ["b", "c"]}, HUBS), views=31)
    assert members(outcome) == {"b": None, "c": None}
    assert dict(apply(outcome.plan, outcome.change).entries) in ({}, {b"t": Entry(b"t", ("a",))})


def test_a_member_that_no_view_knows_is_dead_too() -> None:
    assert members(decide([], ["a", "b"], plan=plan_of({}, HUBS), views=40)) == {"c": None}


def test_with_no_hub_alive_no_member_is_removed() -> None:
    hubs = [HubView(name=hub, is_alive=False) for hub in HUBS]
    assert members(decide([], hubs, plan=plan_of({}, HUBS), views=60)) == {}


def test_a_restarted_hub_is_named_by_a_new_plan() -> None:
    hubs: list[str | HubView] = ["a", "b", HubView(name="c", incarnation=8)]
    outcome = decide(
        [], hubs, plan=plan_of({}, HUBS), memory=settled("ab", incarnations={"a": 0, "b": 0, "c": 7})
    )
    assert members(outcome) == {"c": 16}
    assert outcome.reasons == {Reason.RESTARTED}
    assert members(decide([], hubs, plan=plan_of({}, HUBS), memory=outcome.memory, at_s=101)) == {}


def test_a_hub_that_was_seen_dead_before_it_came_back_is_named_by_a_new_plan() -> None:
    away: list[str | HubView] = ["a", "b", HubView(name="c", is_alive=False)]
    back: list[str | HubView] = ["a", "b", HubView(name="c", incarnation=8)]
    memory = settled("ab", incarnations={"a": 0, "b": 0, "c": 7})
    meanwhile = decide([], away, plan=plan_of({}, HUBS), memory=memory, views=5)
    assert members(meanwhile) == {}
    outcome = decide([], back, plan=plan_of({}, HUBS), memory=meanwhile.memory, at_s=200)
    assert members(outcome) == {"c": 16}
    assert outcome.reasons == {Reason.RESTARTED}


def test_a_hub_that_an_operator_drains_loses_its_share_and_its_entries() -> None:
    hubs: list[str | HubView] = ["a", "b", HubView(name="c", is_draining=True)]
    topics = [topic("t", 0.1, "c"), topic("u", 0.2, "a"), topic("v", 0.1, "b", "c")]
    outcome = decide(topics, hubs)
    assert members(outcome) == {"c": 0}
    assert moved(outcome) == {"t": ("b",), "v": ("b", "a")}
    assert outcome.reasons - {Reason.AS_RING} == {Reason.DRAINED}


def test_a_drain_is_bounded_and_continues() -> None:
    hubs: list[str | HubView] = ["a", "b", HubView(name="c", is_draining=True)]
    topics = [topic(f"t{at}", 0.01, "c") for at in range(5)]
    settings = PlannerSettings(moves_per_round_max=2, servers_min=3)
    outcome = decide(topics, hubs, settings=settings)
    assert len(moved(outcome)) == 2


# --- sites ---

SITES = [HubView(name="a", site="paris"), HubView(name="b", site="paris"), HubView(name="c", site="rome")]
AT_SITES = [Member("a", site="paris"), Member("b", site="paris"), Member("c", site="rome")]


def test_a_pinned_topic_goes_to_the_least_loaded_hub_of_its_site() -> None:
    topics = [topic("it/news", 0.1, "a"), topic("fr/news", 0.1, "c"), topic("fr/busy", 0.3, "a")]
    plan = Plan.of(members=AT_SITES, entries=plan_of(topics, HUBS).entries.values())
    specs = Specs([TopicSpec(pattern=b"it/*", site="rome"), TopicSpec(pattern=b"fr/*", site="paris")])
    outcome = decide(topics, SITES, plan=plan, specs=specs)
    assert moved(outcome) == {"it/news": ("c",), "fr/news": ("b",)}
    assert Reason.PINNED in outcome.reasons


DURABLE = Specs([TopicSpec(pattern=b"t*", durability=Durability(3, 3, 2))])


def durable_hubs(**bookies: int) -> list[str | HubView]:
    return [HubView(name=name, site=name, bookies=count) for name, count in bookies.items()]


def test_a_durable_topic_goes_where_the_site_has_bookies_for_its_ensemble() -> None:
    topics = [topic("t", 0.1, "a"), topic("u", 0.1, "a")]
    outcome = decide(
        topics, durable_hubs(a=2, b=3, c=0), plan=plan_of({"t": ["a"], "u": ["a"]}, HUBS), specs=DURABLE
    )
    assert moved(outcome) == {"t": ("b",)}
    assert Reason.PINNED in outcome.reasons


def test_a_durable_topic_stays_where_no_site_or_every_site_has_the_bookies() -> None:
    plan = plan_of({"t": ["a"]}, HUBS)
    for hubs in (durable_hubs(a=2, b=2, c=0), durable_hubs(a=3, b=3, c=4), durable_hubs(a=5, b=0, c=0)):
        assert moved(decide([topic("t", 0.1, "a")], hubs, plan=plan, specs=DURABLE)) == {}


def test_a_durable_topic_is_not_moved_for_load_to_a_site_without_bookies() -> None:
    topics = [topic("t1", 0.5, "a"), topic("t2", 0.5, "a")]
    plan = plan_of({"t1": ["a"], "t2": ["a"]}, HUBS)
    outcome = decide(topics, durable_hubs(a=3, b=0, c=3), plan=plan, specs=DURABLE)
    assert set(moved(outcome).values()) == {("c",)}


def test_the_most_specific_spec_defines_the_site() -> None:
    topics = [topic("it/news", 0.1, "a")]
    plan = Plan.of(members=AT_SITES, entries=plan_of(topics, HUBS).entries.values())
    specs = Specs([TopicSpec(pattern=b"it/*", site="rome"), TopicSpec(pattern=b"it/news")])
    assert moved(decide(topics, SITES, plan=plan, specs=specs)) == {}


def test_a_topic_whose_site_has_no_hub_stays_with_a_reason() -> None:
    topics = [topic("es/news", 0.1, "a")]
    plan = Plan.of(members=AT_SITES, entries=plan_of(topics, HUBS).entries.values())
    outcome = decide(topics, SITES, plan=plan, specs=Specs([TopicSpec(pattern=b"es/*", site="madrid")]))
    assert moved(outcome) == {}
    assert Reason.NO_ROOM in outcome.reasons


def test_a_replicated_topic_keeps_the_homes_at_its_site() -> None:
    topics = [topic("fr/x", 0.1, "a", "b", "c")]
    plan = Plan.of(members=AT_SITES, entries=plan_of(topics, HUBS).entries.values())
    outcome = decide(topics, SITES, plan=plan, specs=Specs([TopicSpec(pattern=b"fr/*", site="paris")]))
    assert moved(outcome) == {"fr/x": ("a", "b")}


# --- tidiness ---


def ring_home(name: str) -> str:
    return plan_of({}, HUBS).home_of(name.encode()).homes[0]


def test_an_entry_that_agrees_with_the_ring_is_dropped() -> None:
    rows = [topic("t", 0.1, ring_home("t"))]
    outcome = decide(rows, HUBS)
    assert [part.entry for part in outcome.change.entries] == [None]
    assert outcome.reasons == {Reason.AS_RING}
    assert apply(outcome.plan, outcome.change).home_of(b"t").homes == (ring_home("t"),)


def test_it_is_kept_while_a_member_is_dead() -> None:
    hubs = [HubView(name=hub, is_alive=hub != "c") for hub in HUBS]
    rows = [replace(topic("t", 0.1, "a"), carried_by={"a": 1.0})]
    assert decide(rows, hubs, plan=plan_of({"t": ["a"]}, HUBS), views=5).change.entries == ()


def test_a_replicated_topic_keeps_its_entry() -> None:
    home = ring_home("t")
    other = next(hub for hub in HUBS if hub != home)
    entry = Entry(b"t", (home, other), Mode.ALL_SUBSCRIBERS)
    plan = Plan.of(members=[Member(hub) for hub in HUBS], entries=[entry])
    rows = [topic("t", 0.7, home, other)]
    assert decide(rows, HUBS, plan=plan, views=5).change.entries == ()


def test_an_entry_of_an_unused_topic_is_dropped_after_a_quarter_of_an_hour() -> None:
    away = next(hub for hub in HUBS if hub != ring_home("t"))
    plan = plan_of({"t": [away]}, HUBS)
    memory = settled(HUBS, absent_s={b"t": 100.0})
    assert decide([], HUBS, plan=plan, memory=memory, at_s=990.0).change.is_empty
    outcome = decide([], HUBS, plan=plan, memory=memory, at_s=1000.0)
    assert outcome.reasons == {Reason.IDLE}


def test_a_topic_that_returns_to_the_ring_has_no_entry() -> None:
    home = ring_home("t")
    away = next(hub for hub in HUBS if hub != home)
    rows = [
        topic("t", 0.3, away, publishers=1, subscribers=1),
        topic("u", 0.7, away, publishers=1, subscribers=1),
    ]
    rows += [topic("v", 0.5, hub, publishers=1, subscribers=1) for hub in HUBS if hub not in (home, away)]
    outcome = decide(rows, HUBS, views=3)
    assert moved(outcome) == {"t": (home,)}
    assert apply(outcome.plan, outcome.change).entries.get(b"t") is None


# --- sharing out ---


def test_after_a_join_load_is_shared_though_no_hub_is_overloaded() -> None:
    rows = [topic(f"t{at}", 0.1, "ab"[at % 2]) for at in range(12)]
    outcome = decide(rows, HUBS, plan=plan_of(rows, "ab"), memory=settled("ab"))
    assert members(outcome) == {"c": 16}
    assert sorted(homes[0] for homes in moved(outcome).values()) == ["c"] * 4
    assert outcome.decision.ratio_max < 0.46


def test_a_hub_that_has_recorded_nothing_yet_is_given_no_more_than_an_ordinary_one() -> None:
    topics = [topic(f"t{at}", 0.06, HUBS[at % 3]) for at in range(30)]
    known = [
        replace(hub, out_bytes_per_s_max=1e6 if hub.name != "d" else 0.0)
        for hub in view(topics, [*HUBS, "d"]).hub_rows()
    ]
    seen = View.of(100.0, topics, known)
    plan = plan_of(topics, HUBS)
    change = Planner().decide(seen, plan, Specs(), 100.0, settled(HUBS)).change
    after = apply(plan, change)
    given = [row for row in topics if after.home_of(row.name).homes == ("d",)]
    assert after.by_hub["d"].weight == 16
    # A fourth of them would be 7.5.
    assert 5 <= len(given) <= 8


def test_long_after_a_join_a_harmless_difference_is_left() -> None:
    rows = [topic(f"t{at}", 0.1, "ab"[at % 2]) for at in range(12)]
    assert moved(decide(rows, HUBS, views=60)) == {}


# --- memory ---


def test_a_memory_survives_encoding() -> None:
    rows: list[TopicView] = [topic(f"t{at}", 0.2, "a") for at in range(6)]
    memory = decide(rows, HUBS, views=2).memory
    assert decode_memory(encode_memory(memory)) == memory
    seen = view(rows, HUBS, at_s=200.0)
    first, second = (
        Planner().decide(seen, plan_of(rows, HUBS), Specs(), 200.0, known)
        for known in (memory, decode_memory(encode_memory(memory)))
    )
    assert first == second
