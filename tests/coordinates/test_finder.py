"""A client computes its coordinate by probing hubs, reports it to its hubs, or uses that of a gateway."""

from __future__ import annotations

import random
import struct
from collections import Counter
from itertools import pairwise

import pytest

from coordinates.asking import SPACE, LinkInterest, World
from coordinates.shapes import Truth, grid
from equipoise.coordinates import Coordinate, Finder, FinderSettings
from equipoise.errors import RefusedError, SettingsError

GATEWAY = Coordinate((0.010, *[0.0] * 7), 0.1, 0.001)
REFUSED = RefusedError("ERR unknown command 'EQ.WHERE'")


def corners(client_s: tuple[float, ...]) -> Truth:
    """Hubs on the corners of a square of 30 ms, and a client so far from each."""
    hubs = grid(4, 0.030)
    truth = [[*row, rtt_s] for row, rtt_s in zip(hubs, client_s, strict=True)]
    return [*truth, [*client_s, 0.0]]


MIDDLE = corners((0.022,) * 4)


def world(truth: Truth = MIDDLE, **settings: float) -> World:
    made = World(truth, used={"hub-0:1"}, settings=FinderSettings(**settings))  # type: ignore[arg-type]  # by name
    for peer, point in zip(made.hubs, ((0, 0), (0, 30), (30, 0), (30, 30)), strict=False):
        made.places[peer] = Coordinate(
            (point[0] / 1000, point[1] / 1000, *[0.0] * (SPACE.dimensions - 2)), 0.05, 0.0001
        )
    return made


def times(asked: list[LinkInterest]) -> list[float]:
    return [round(one.at - 100.0, 3) for one in asked]


# Where it is.


@pytest.mark.parametrize(
    "client_ms",
    [(22, 22, 22, 22), (5, 31, 31, 43), (35, 35, 35, 35), (43, 31, 31, 3), (60, 62, 62, 66)],
)
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_after_a_minute_a_client_knows_its_distances_within_an_eighth(
    client_ms: tuple[int, ...], jitter: float
) -> None:
    made = world(corners(tuple(ms / 1000 for ms in client_ms)))
    made.jitter = jitter
    made.run(60.0)
    # A jitter of 10 % makes the median round trip 5 % longer; of a near hub, 7 ms is enough to know that it is near.
    for peer, true in zip(made.hubs, made.truth[-1], strict=False):
        coordinate = made.finder.coordinate
        assert coordinate is not None
        wrong_s = abs(coordinate.distance_s(made.places[peer]) - true)
        assert wrong_s <= max(0.007, (1 / 8 + jitter / 2) * true)


def test_before_some_samples_nothing_is_known_or_reported() -> None:
    made = world()
    made.run(2.5)
    assert made.finder.coordinate is None
    assert made.told("hub-0:1") == []
    made.run(8.0)
    assert made.told("hub-0:1")


def test_from_one_hub_alone_the_coordinate_is_at_that_hub_with_a_height() -> None:
    made = world(visit_s=0.0)
    made.run(60.0)
    found, hub = made.finder.coordinate, made.places["hub-0:1"]
    assert found is not None and found.point_s == hub.point_s
    assert found.distance_s(hub) == pytest.approx(0.022)
    for peer, true in zip(made.hubs, made.truth[-1], strict=False):
        assert found.distance_s(made.places[peer]) >= true


def test_a_second_hub_gives_the_first_direction_at_once() -> None:
    made = world(visit_s=0.0)
    made.run(60.0)
    made.linked = {"hub-3:1"}
    made.run(1.0)
    found = made.finder.coordinate
    assert found is not None and found.point_s != made.places["hub-0:1"].point_s
    told = made.told("hub-0:1")[-1].told
    assert told is not None and told.point_s == found.point_s


def test_a_client_that_has_moved_starts_again_and_keeps_its_last_report_meanwhile() -> None:
    made = world(corners((0.005, 0.031, 0.031, 0.043)))
    made.run(120.0)
    assert made.finder.is_found
    made.truth[-1][:4] = [0.043, 0.031, 0.031, 0.005]
    made.run(15.0)
    assert made.finder.coordinate is not None
    made.run(45.0)
    assert made.wrongness()[0] < 0.15
    assert made.finder.coordinate is not None
    assert made.finder.coordinate.distance_s(made.places["hub-3:1"]) < 0.010


def turned(at: Coordinate) -> Coordinate:
    """By a quarter, and a tenth of a second aside: distances between hubs stay as they are."""
    x, y, *rest = at.point_s
    return Coordinate((0.1 - y, x, *rest), at.error, at.height_s)


def test_a_client_starts_again_when_most_hubs_have_moved() -> None:
    made = world(corners((0.005, 0.031, 0.031, 0.043)))
    made.run(300.0)
    made.places = {peer: turned(at) for peer, at in made.places.items()}
    # Two more have to be visited before it is most of them, up to 75 s apart.
    made.run(2 * 75.0 + 60.0)
    # A quarter of 5 ms, to the hub next door: three of four round trips are known from single visits.
    assert max(made.wrongness()) < 0.25


def test_a_client_does_not_start_again_because_one_hub_has_moved() -> None:
    made = world(corners((0.005, 0.031, 0.031, 0.043)))
    made.run(300.0)
    samples = made.finder.samples
    made.places["hub-0:1"] = turned(made.places["hub-0:1"])
    made.run(200.0)
    assert made.finder.samples > samples


def test_a_client_follows_a_slightly_longer_round_trip_without_a_restart() -> None:
    made = world()
    made.run(120.0)
    samples = made.finder.samples
    made.truth[-1][:4] = [0.028, 0.028, 0.028, 0.028]
    made.run(300.0)
    assert made.finder.samples > samples
    # The hub it is connected to is asked ten times as often as those it visits.
    assert made.wrongness()[0] < 0.02 and max(made.wrongness()) < 0.20


def test_one_false_hub_among_four_has_little_effect() -> None:
    made = world()
    lie = Coordinate((5.0,) * 8, 0.0, 0.0).to_bytes()
    made.run(60.0)
    made.answers["hub-2:1"] = lambda: lie
    made.run(600.0)
    honest = [wrong for peer, wrong in zip(made.hubs, made.wrongness(), strict=False) if peer != "hub-2:1"]
    assert max(honest) < 0.15


@pytest.mark.parametrize(
    "reply",
    [None, b"", b"x" * 88, b"x" * 87, 7, struct.pack("<11d", *[float("nan")] * 11), [b"x"]],
    ids=["null", "empty", "far", "short", "number", "nan", "array"],
)
def test_an_invalid_coordinate_is_ignored(reply: object) -> None:
    made = world()
    for peer in made.hubs:
        made.answers[peer] = lambda: reply
    made.run(60.0)
    assert made.finder.coordinate is None and made.finder.samples == 0


def test_round_trips_that_do_not_count_are_left_out() -> None:
    finder = Finder(random.Random(1).random)
    for second in range(60):
        for _, words in finder.step(float(second), {"hub:1": True}).asks:
            assert len(words) == 1
            finder.answered("hub:1", GATEWAY.to_bytes(), None, float(second))
    assert finder.samples == 0 and finder.coordinate is None


def test_a_reply_above_the_longest_round_trip_is_neither_used_nor_reported() -> None:
    """1. A hub takes 12 s to answer. 2. It would refuse a report with that, and then be told nothing any more."""
    made = world(visit_s=0.0)
    made.run(30.0)
    made.truth[-1][0] = 12.0
    made.run(60.0)
    made.truth[-1][0] = 0.022
    made.asked.clear()
    made.run(60.0)
    told = made.told("hub-0:1")
    assert len(told) >= 5 and all(one.words[1] == b"22000" for one in told)


# Whom it asks and tells.


def test_reports_come_every_five_seconds_with_the_round_trip_that_was_measured() -> None:
    made = world()
    made.run(120.0)
    made.asked.clear()
    made.run(60.0)
    told = made.told("hub-0:1")
    assert 12 <= len(told) <= 14
    assert all(one.words[1] == b"22000" for one in told)


def test_only_hubs_in_use_get_reports_and_a_new_one_at_once() -> None:
    made = world()
    made.linked = {"hub-1:1"}
    made.run(60.0)
    assert made.told("hub-0:1") and not made.told("hub-1:1")
    made.used = {"hub-1:1"}
    made.asked.clear()
    made.run(0.5)
    assert [one.peer for one in made.asked] == ["hub-1:1"]
    assert made.asked[0].told is not None


def test_probes_are_sent_every_second_at_first_and_every_five_seconds_afterwards() -> None:
    made = world()
    made.run(10.0)
    assert 8 <= len(made.asked) <= 12
    made.run(110.0)
    made.asked.clear()
    made.visits.clear()
    made.run(60.0)
    assert len(made.asked) <= 14 and len(made.visits) <= 2


def test_reports_to_one_hub_do_not_keep_another_from_being_measured() -> None:
    """1. The place is found. 2. One hub is told every 5 s. 3. Another, connected to and unused, is asked as often."""
    made = world(visit_s=0.0)
    made.linked = {"hub-1:1"}
    made.run(120.0)
    made.asked.clear()
    made.run(60.0)
    assert sum(one.peer == "hub-1:1" for one in made.asked) >= 10


def test_a_client_that_leaves_after_a_second_has_probed_no_hub() -> None:
    made = world()
    made.run(0.99)
    assert made.asked == [] and made.visits == []


def test_a_hub_that_does_not_reply_gets_no_more_requests() -> None:
    finder = Finder(random.Random(1).random)
    asks = [ask for second in range(60) for ask in finder.step(float(second), {"hub:1": True}).asks]
    assert len(asks) == 1


def test_a_hub_that_rejects_a_probe_is_not_probed_again_before_a_reconnection() -> None:
    made = world(visit_s=0.0)
    made.answers["hub-0:1"] = lambda: REFUSED
    made.run(60.0)
    assert len(made.asked) == 1
    made.finder.lost("hub-0:1")
    del made.answers["hub-0:1"]
    made.run(20.0)
    assert len(made.asked) > 10


def test_a_reconnection_is_reported_at_once() -> None:
    made = world()
    made.run(60.2)
    made.asked.clear()
    made.finder.lost("hub-0:1")
    made.run(0.1)
    assert len(made.told("hub-0:1")) == 1


def test_hubs_without_a_connection_are_visited_in_turn_often_at_first_and_seldom_later() -> None:
    made = world()
    made.run(45.0)
    first = [peer for _, peer in made.visits]
    assert set(first) == {"hub-1:1", "hub-2:1", "hub-3:1"} and 3 <= len(first) <= 4
    assert all(7.5 <= later - earlier <= 12.51 for (earlier, _), (later, _) in pairwise(made.visits))
    made.run(1_800.0)
    seldom = [at for at, _ in made.visits if at > 200.0]
    assert all(45.0 <= later - earlier <= 75.01 for earlier, later in pairwise(seldom))
    assert 27 <= len(seldom) <= 30
    assert "hub-0:1" not in [peer for _, peer in made.visits]


def visits_of_a_fleet(seconds: int, behind: str | None = None) -> list[tuple[int, str]]:
    """When 200 clients that begin at once visit whom; each is told `behind` that it has a gateway, which is dead."""
    visits = []
    for seed in range(200):
        finder = Finder(random.Random(seed).random)
        finder.use_gateway(behind, 0.0)
        for second in range(seconds):
            step = finder.step(float(second), {}, ["hub-1:1", "hub-2:1", "hub-3:1"])
            if step.visit is not None:
                visits.append((second, step.visit))
                finder.visited(step.visit, is_answered=True)
    return visits


def test_a_fleet_that_starts_at_once_visits_no_hub_at_once() -> None:
    visits = visits_of_a_fleet(60)
    assert min(second for second, _ in visits) >= 10
    # One of ten clients per second, a third of them each hub; in step, it would be 200 of them.
    for hub in ("hub-1:1", "hub-2:1", "hub-3:1"):
        assert max(Counter(second for second, peer in visits if peer == hub).values()) <= 20


def test_a_fleet_with_coordinates_spreads_its_probes() -> None:
    """1. All find their place at once, and visit within the same ten seconds. 2. Half an hour later they do not."""
    began, ends = 1_800, 2_400
    visits: Counter[int] = Counter()
    for seed in range(200):
        finder = Finder(random.Random(seed).random, FinderSettings(young_samples=0))
        now = 0.0
        while now < ends:
            visit = finder.step(now, {}, ["hub-1:1", "hub-2:1", "hub-3:1"]).visit
            if visit is not None:
                visits[int(now)] += 1
                finder.visited(visit, is_answered=True)
            now = finder.next_at if visit is None else now + 1.0
    assert sum(visits[second] for second in range(60, 71)) >= 190
    # A sixth of all clients is the mean of ten seconds; in step, all 200 would report in some of them and none in
    # others.
    tens = [sum(visits[second] for second in range(at, at + 10)) for at in range(began, ends, 10)]
    assert max(tens) <= 70 and min(tens) >= 10


def test_a_fleet_whose_gateway_has_died_visits_no_hub_at_once() -> None:
    visits = visits_of_a_fleet(60, "gw:1")
    assert min(second for second, _ in visits) >= 40
    assert max(Counter(visits).values()) <= 20


def test_a_client_with_more_hubs_than_its_limit_keeps_the_connected_ones() -> None:
    """1. Some hundred hubs are known and asked. 2. Others are connected to, never asked before: the first to forget."""
    finder = Finder(random.Random(1).random)
    known = [f"hub-{number}:1" for number in range(200)]
    for name in known[:150]:
        finder.answered(name, None, 0.01, 1.0)
        finder.step(1.0, {name: True}, known)
    links = dict.fromkeys(known[150:], True)
    asks = [ask.peer for second in range(2, 60) for ask in finder.step(float(second), links, known).asks]
    assert set(asks) == set(links)


def test_unreachable_hubs_are_visited_less_and_less() -> None:
    made = world()
    for peer in made.hubs:
        made.answers[peer] = lambda: REFUSED
    made.run(600.0)
    assert len(made.visits) == 3
    finder = Finder(random.Random(1).random)
    visits = 0
    for second in range(3_600):
        if finder.step(float(second), {}, ["hub:1"]).visit is not None:
            visits += 1
            finder.visited("hub:1", is_answered=False)
    assert 60 <= visits <= 70


@pytest.mark.parametrize("seed", range(30))
def test_a_peer_has_one_request_in_flight_and_reports_are_a_second_apart(seed: int) -> None:
    """Whatever comes and goes: links, use, answers, gateways."""
    rng = random.Random(seed)
    finder = Finder(rng.random)
    peers = [f"hub-{i}:1" for i in range(5)]
    owed: dict[str, float] = {}
    told_at: dict[str, float] = {}
    now, links = 0.0, dict.fromkeys(peers, True)
    for _ in range(3_000):
        now += rng.choice((0.001, 0.02, 0.3, 1.0))
        if rng.random() < 0.05:
            links = {peer: rng.random() < 0.7 for peer in peers if rng.random() < 0.8}
            for peer in peers:
                if peer not in links:
                    finder.lost(peer)
                    owed.pop(peer, None)
                    told_at.pop(peer, None)
        if rng.random() < 0.01:
            finder.use_gateway(rng.choice((None, "gw-1:1", "gw-2:1")), now)
        step = finder.step(now, links)
        assert finder.next_at > now
        for peer, words in step.asks:
            assert peer in links and peer not in owed
            owed[peer] = now
            if len(words) == 3 and not step.guide:
                assert links[peer]
                assert now - told_at.get(peer, -9.0) >= 1.0 or finder.guide.has_replied
                told_at[peer] = now
        for peer in [peer for peer in owed if rng.random() < 0.5]:
            rtt_s = now - owed.pop(peer)
            reply = rng.choice((GATEWAY.to_bytes(), None, b"nonsense"))
            finder.answered(peer, reply, rtt_s if rtt_s < 10 else None, now)
        if step.guide and finder.guide.address is not None and rng.random() < 0.8:
            finder.guide_answered(finder.guide.address, GATEWAY.to_bytes(), 0.004, now)


# Behind a gateway.


def guided() -> World:
    made = world()
    made.gateway = GATEWAY.to_bytes
    made.finder.use_gateway("gw-1:1", made.now)
    return made


def test_behind_a_gateway_the_coordinate_is_the_gateways_with_the_access_line_as_height() -> None:
    made = guided()
    made.run(0.1)
    assert made.finder.coordinate == GATEWAY.behind(0.004)
    assert [one.told for one in made.told("hub-0:1")] == [GATEWAY.behind(0.004)]
    # The round trip to the hub was not measured yet.
    assert made.asked[0].words[1] == b"0"


def test_behind_a_gateway_hubs_get_reports_but_no_probes_or_visits() -> None:
    made = guided()
    made.linked = {"hub-1:1"}
    made.run(120.0)
    assert made.visits == [] and made.finder.samples == 0
    assert {one.peer for one in made.asked} == {"hub-0:1"}
    assert len(made.asked) <= 26


def test_a_new_gateway_is_reported_as_soon_as_it_has_replied() -> None:
    made = guided()
    made.run(0.2)
    other = Coordinate((0.050, *[0.0] * 7), 0.1, 0.001)
    made.gateway = other.to_bytes
    made.access_s = 0.006
    made.finder.use_gateway("gw-2:1", made.now)
    assert made.finder.coordinate == GATEWAY.behind(0.004)
    made.run(0.1)
    told = made.told("hub-0:1")
    assert told[-1].told == other.behind(0.006) and told[-1].words[1] == b"0"
    assert times(told) == [0.004, 0.206]


def test_a_late_reply_of_the_former_gateway_does_not_count_for_the_new_one() -> None:
    made = guided()
    made.run(0.1)
    made.gateway = None
    made.finder.use_gateway("gw-2:1", made.now)
    made.finder.guide_answered("gw-1:1", Coordinate((1.0,) * 8, 0.0, 0.0).to_bytes(), 0.001, made.now)
    assert not made.finder.guide.has_replied


def test_one_slow_reply_of_a_gateway_is_ignored() -> None:
    made = guided()
    made.run(30.0)
    made.access_s = 0.400
    made.run(4.0)
    assert made.finder.coordinate == GATEWAY.behind(0.004)


def test_the_coordinate_of_a_silent_gateway_is_used_for_a_while_before_the_clients_own() -> None:
    made = guided()
    made.run(20.0)
    made.gateway = None
    made.run(29.0)
    assert made.finder.coordinate == GATEWAY.behind(0.004) and made.visits == []
    made.run(2.5)
    # It seeks, and has nothing better yet.
    assert made.finder.coordinate == GATEWAY.behind(0.004)
    assert "hub-0:1" in [one.peer for one in made.asked if len(one.words) == 1]
    made.run(60.0)
    assert max(made.wrongness()) < 0.2
    assert made.told("hub-0:1")[-1].told == made.finder.coordinate


def test_a_gateway_that_returns_is_used_again_at_once() -> None:
    made = guided()
    made.run(20.0)
    made.gateway = None
    made.run(90.0)
    made.gateway = GATEWAY.to_bytes
    made.run(6.0)
    assert made.finder.coordinate == GATEWAY.behind(0.004)
    assert made.told("hub-0:1")[-1].told == GATEWAY.behind(0.004)


def test_a_gateway_that_rejects_a_request_gets_no_more() -> None:
    made = world()
    asked = 0

    def refuse() -> object:
        nonlocal asked
        asked += 1
        return REFUSED

    made.gateway = refuse
    made.finder.use_gateway("gw-1:1", made.now)
    made.run(90.0)
    assert asked == 1
    assert max(made.wrongness()) < 0.2


def test_a_client_that_leaves_its_gateway_has_no_coordinate_until_it_has_computed_one() -> None:
    made = guided()
    made.run(20.0)
    made.finder.use_gateway(None, made.now)
    assert made.finder.coordinate is None
    made.run(60.0)
    assert max(made.wrongness()) < 0.2


@pytest.mark.parametrize(
    "wrong",
    [
        {"report_s": 0.0},
        {"report_s_min": 0.0},
        {"probe_s": 0.0},
        {"visit_s": -1.0},
        {"known_samples": 0},
        {"visit_samples": 0},
        {"gateway_patience_s": 10.0},
        {"gateway_patience_s": 30.0, "report_s": 15.0},
    ],
    ids=str,
)
def test_impossible_settings_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        FinderSettings(**wrong)  # type: ignore[arg-type]  # by name


def test_a_change_waits_no_longer_than_a_regular_report() -> None:
    made = guided()
    made.finder = Finder(made.rng.random, FinderSettings(report_s=0.5), SPACE)
    made.finder.use_gateway("gw-1:1", made.now)
    made.run(10.0)
    assert 19 <= len(made.told("hub-0:1")) <= 22
    assert max(later.at - earlier.at for earlier, later in pairwise(made.told("hub-0:1"))) < 0.6


def test_the_validity_of_a_gateways_coordinate_is_zero_or_above_two_request_intervals() -> None:
    assert FinderSettings(gateway_patience_s=10.1).report_s == 5.0
    assert FinderSettings(gateway_patience_s=0.0, report_s=60.0).report_s == 60.0
