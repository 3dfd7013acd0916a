"""One edge and one head over time: PIEs, neighbours, first edges, and two edges that balance through messages."""

from __future__ import annotations

import msgspec
import pytest

from equipoise.content.balancing.edge_balancer import EdgeBalancer
from equipoise.content.balancing.edge_events import (
    Announce,
    EdgePhase,
    MigrateSubscribers,
    SendControl,
    SessionEnded,
)
from equipoise.content.balancing.first_edge import fullness
from equipoise.content.balancing.head_balancer import HeadBalancer
from equipoise.content.balancing.head_table import HeadPhase, JoinClusters, PartClusters
from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import (
    ClusterJoined,
    ClusterParted,
    HubStatus,
    Pie,
    SessionReply,
    SessionRequest,
)
from equipoise.content.balancing.offload import OffloadedSubscription
from equipoise.content.balancing.pair_estimate import BalancedMetric
from equipoise.content.balancing.settings import BalancingSettings

from .support import filter_of, load_of

SETTINGS = BalancingSettings()
IDLE = load_of(subscriptions=0, delay_s=0.001)


def phase_of(edge: EdgeBalancer) -> EdgePhase:
    """Not narrowed by the type checker, which does not know that it changes."""
    return edge.phase


def has_sampler(edge: EdgeBalancer) -> bool:
    return edge.sampler is not None


def pie_of(
    hub: str,
    load: EdgeLoad,
    *,
    status: HubStatus = HubStatus.OK,
    cluster: str = "h",
    number: int = 1,
    balanced: tuple[str, ...] = (),
    is_global: bool = False,
) -> Pie:
    return Pie(
        hub=hub,
        cluster=cluster,
        status=status,
        load=load,
        number=number,
        balanced=balanced,
        is_global=is_global,
    )


def edge_with(*pies: Pie) -> EdgeBalancer:
    edge = EdgeBalancer("m", "h", SETTINGS)
    for pie in pies:
        edge.receive(0.0, pie, IDLE, tuple)
    return edge


def test_a_pie_is_due_often_while_load_changes_and_seldom_while_it_does_not() -> None:
    edge = edge_with()
    assert edge.pie(0.0, IDLE) is not None
    assert edge.pie(10.0, IDLE) is None
    assert edge.pie(10.0, load_of(input_ratio=0.3)) is not None
    assert edge.pie(12.0, load_of(input_ratio=0.6)) is None
    assert edge.pie(12.0, load_of(input_ratio=0.6), is_urgent=True) is not None
    assert edge.pie(71.0, load_of(input_ratio=0.6)) is None
    told = edge.pie(72.0, load_of(input_ratio=0.6))
    assert told is not None
    assert told.number == 4


def test_an_older_pie_and_one_of_another_cluster_change_nothing() -> None:
    edge = edge_with(pie_of("b", load_of(input_ratio=0.2), number=5), pie_of("x", IDLE, cluster="other"))
    edge.receive(1.0, pie_of("b", load_of(input_ratio=0.9), number=4), IDLE, tuple)
    edge.receive(1.0, pie_of("m", IDLE), IDLE, tuple)
    edge.receive(1.0, pie_of("g", IDLE, is_global=True), IDLE, tuple)
    assert list(edge.neighbours(1.0)) == ["b"]
    assert edge.neighbours(1.0)["b"].load.input_ratio == pytest.approx(0.2)


def test_a_neighbour_that_is_silent_for_long_is_removed() -> None:
    edge = edge_with(pie_of("b", IDLE))
    assert edge.neighbours(180.0)
    assert not edge.neighbours(181.0)


def test_edges_of_another_cluster_are_neighbours_while_the_heads_have_joined() -> None:
    edge = edge_with(pie_of("x", IDLE, cluster="g"))
    assert edge.receive(1.0, ClusterJoined(hub="h", cluster="g"), IDLE, tuple) == [Announce()]
    assert list(edge.neighbours(1.0)) == ["x"]
    edge.receive(2.0, ClusterParted(hub="h", cluster="g"), IDLE, tuple)
    assert not edge.neighbours(2.0)


def test_stabilizing_ends_after_its_time_and_with_a_steady_load() -> None:
    edge = edge_with(pie_of("b", IDLE))
    steady = load_of(input_ratio=0.2)
    request = SessionRequest(hub="b", session="b:1", metric=BalancedMetric.INPUT)
    edge.receive(0.0, request, steady, tuple)
    edge.subscriber_came(1.0, "b:1", 1)
    assert phase_of(edge) is EdgePhase.STABILIZING
    edge.detect(5.0, steady, tuple)
    edge.detect(30.0, steady, tuple)
    assert phase_of(edge) is EdgePhase.STABILIZING
    edge.detect(35.0, load_of(input_ratio=0.3), tuple)
    assert phase_of(edge) is EdgePhase.STABILIZING
    edge.detect(40.0, load_of(input_ratio=0.3), tuple)
    assert phase_of(edge) is EdgePhase.OK


def test_two_edges_balance_from_the_first_pie_to_the_end_of_the_session() -> None:
    filter = filter_of("a = 1")
    busy = load_of(input_ratio=0.6, subscriptions=100)
    one, two = edge_with(pie_of("b", IDLE)), EdgeBalancer("b", "h", SETTINGS)
    effects = one.detect(1.0, busy, tuple)
    (asked,) = [effect for effect in effects if isinstance(effect, SendControl)]
    (answered, _) = two.receive(1.1, asked.message, IDLE, lambda: ("a > 5", "no filter"))
    assert isinstance(answered, SendControl)
    one.receive(1.2, answered.message, busy, tuple)
    sampler = one.sampler
    assert sampler is not None
    for number in range(50):
        assert not sampler.is_over(1.3)
        sampler.take({"a": number % 2}, [filter] if number % 2 else [], 0)
    assert sampler.is_over(1.3)
    (migrate,) = one.choose(5.0, busy, [OffloadedSubscription(filter, 100)])
    assert isinstance(migrate, MigrateSubscribers)
    total = migrate.offload.subscribers
    assert 0 < total < 100
    for number in range(total):
        effects = list(two.subscriber_came(6.0, "m:1", total))
        assert bool(effects) == (number == total - 1)
    (done,) = [effect for effect in effects if isinstance(effect, SendControl)]
    ended = one.receive(7.0, done.message, busy, tuple)
    assert SessionEnded("b", "m:1", True, total) in ended
    assert (one.status, two.status) == (HubStatus.STABILIZING, HubStatus.STABILIZING)


def test_a_difference_that_the_reply_does_not_confirm_begins_no_session() -> None:
    """The load of all hubs has risen since the neighbour's last PIE, and with it its own load."""
    risen = load_of(input_ratio=0.6)
    edge = edge_with(pie_of("b", load_of(input_ratio=0.45)))
    edge.detect(1.0, risen, tuple)
    assert phase_of(edge) is EdgePhase.ASKING
    reply = SessionReply(hub="b", session="m:1", status=HubStatus.OK, load=load_of(input_ratio=0.55))
    (end, _) = edge.receive(1.1, reply, risen, tuple)
    assert isinstance(end, SendControl)
    assert (phase_of(edge), has_sampler(edge)) == (EdgePhase.OK, False)
    # The reply is newer than the PIE, so the next detection finds no difference.
    assert edge.detect(6.0, risen, tuple) == []


def test_an_edge_between_its_thresholds_asks_a_less_loaded_one_after_a_while() -> None:
    """By the paper's words it would neither accept nor ask, for as long as its load does not change."""
    full = load_of(input_ratio=0.92)
    edge = edge_with(pie_of("b", load_of(input_ratio=0.79)))
    for at_s in (1.0, 6.0, 60.0):
        assert not any(isinstance(effect, SendControl) for effect in edge.detect(at_s, full, tuple))
    assert phase_of(edge) is EdgePhase.UNAVAILABLE
    (asked, _) = edge.detect(61.0, full, tuple)
    assert isinstance(asked, SendControl) and asked.hub == "b"
    edge.receive(61.1, SessionReply(hub="b", session="m:1", status=HubStatus.BUSY), full, tuple)
    assert phase_of(edge) is EdgePhase.UNAVAILABLE


def test_an_overloaded_hub_needs_no_difference_for_a_session() -> None:
    full = load_of(input_ratio=0.97)
    edge = edge_with(pie_of("b", load_of(input_ratio=0.85)))
    edge.detect(1.0, full, tuple)
    reply = SessionReply(hub="b", session="m:1", status=HubStatus.OK, load=load_of(input_ratio=0.9))
    edge.receive(1.1, reply, full, tuple)
    assert phase_of(edge) is EdgePhase.SAMPLING


def test_a_session_ends_when_the_other_hub_is_lost_at_any_step() -> None:
    busy = load_of(input_ratio=0.6)
    reply = SessionReply(hub="b", session="m:1", status=HubStatus.OK, load=IDLE)
    asking = edge_with(pie_of("b", IDLE))
    asking.detect(1.0, busy, tuple)
    assert phase_of(asking) is EdgePhase.ASKING
    asking.lost(1.5, "b")
    assert phase_of(asking) is EdgePhase.OK
    sampling = edge_with(pie_of("b", IDLE))
    sampling.detect(1.0, busy, tuple)
    sampling.receive(1.1, reply, busy, tuple)
    assert has_sampler(sampling)
    sampling.lost(2.0, "z")
    assert has_sampler(sampling)
    sampling.lost(2.0, "b")
    assert phase_of(sampling) is EdgePhase.OK
    assert not has_sampler(sampling)
    accepting = edge_with()
    accepting.receive(1.0, SessionRequest(hub="b", session="b:1", metric=BalancedMetric.INPUT), IDLE, tuple)
    accepting.lost(2.0, "b")
    assert phase_of(accepting) is EdgePhase.STABILIZING


def test_the_wait_for_a_hub_that_does_not_reply_is_bounded() -> None:
    edge = edge_with(pie_of("b", IDLE))
    edge.detect(1.0, load_of(input_ratio=0.6), tuple)
    assert edge.poll(3.9) == []
    (end, _) = edge.poll(4.0)
    assert isinstance(end, SendControl)
    assert phase_of(edge) is EdgePhase.OK


def test_newcomers_are_spread_by_room_even_between_two_pies() -> None:
    head = HeadBalancer("h", SETTINGS)
    assert head.first_edge(0.0) is None
    slow = load_of(subscriptions=0, delay_s=0.0, subscription_s=2e-3)
    fast = load_of(subscriptions=0, delay_s=0.0, subscription_s=1e-3)
    head.receive(0.0, pie_of("slow", slow))
    head.receive(0.0, pie_of("fast", fast))
    sent = [head.first_edge(1.0) for _ in range(300)]
    assert sent.count("fast") == pytest.approx(200, abs=2)


def test_an_edge_that_is_unavailable_sends_newcomers_to_the_least_full_one() -> None:
    edge = edge_with(pie_of("b", load_of(input_ratio=0.5)), pie_of("c", load_of(input_ratio=0.2)))
    full = load_of(input_ratio=0.93)
    assert edge.first_edge(0.0, full) is None
    edge.detect(1.0, full, tuple)
    assert edge.first_edge(1.0, full) == "c"
    off = EdgeBalancer("m", "h", msgspec.structs.replace(SETTINGS, first_edge=False))
    off.receive(0.0, pie_of("c", IDLE), IDLE, tuple)
    off.detect(1.0, full, tuple)
    assert off.first_edge(1.0, full) is None


def test_fullness_is_that_of_the_metric_nearest_to_its_threshold() -> None:
    assert fullness(load_of(output_ratio=0.45), 0, SETTINGS) == pytest.approx(0.5)
    assert fullness(load_of(output_ratio=0.45, subscriptions=100), 100, SETTINGS) == pytest.approx(1.0)
    assert fullness(load_of(memory_ratio=0.9), 0, SETTINGS) == pytest.approx(1.0)


def head_with(*pies: Pie) -> HeadBalancer:
    head = HeadBalancer("h", SETTINGS)
    for pie in pies:
        head.receive(0.0, pie)
    return head


def test_a_cluster_with_an_unavailable_edge_is_unavailable() -> None:
    head = head_with(pie_of("a", load_of(input_ratio=0.92), status=HubStatus.UNAVAILABLE), pie_of("b", IDLE))
    head.detect(1.0)
    assert head.phase is HeadPhase.UNAVAILABLE
    pie = head.pie(1.0)
    assert pie is not None
    assert (pie.is_global, pie.status) == (True, HubStatus.UNAVAILABLE)


def test_clusters_part_when_all_edges_are_balanced_with_each_other() -> None:
    head = head_with(
        pie_of("a", load_of(input_ratio=0.6)),
        pie_of("g", load_of(input_ratio=0.1), cluster="g", is_global=True),
    )
    (asked, _) = head.detect(1.0)
    assert isinstance(asked, SendControl)
    reply = SessionReply(hub="g", session="h:1", status=HubStatus.OK, edges=("x",), is_global=True)
    assert JoinClusters("g") in head.receive(2.0, reply)
    assert head.joined == "g"
    head.receive(3.0, pie_of("x", IDLE, cluster="g", number=2))
    assert head.detect(20.0) == []
    head.receive(21.0, pie_of("x", IDLE, cluster="g", number=3, balanced=("a",)))
    head.receive(21.0, pie_of("a", IDLE, number=3, balanced=("x",)))
    assert PartClusters("g") in head.detect(25.0)
    assert head.phase is HeadPhase.STABILIZING


def test_clusters_part_when_no_session_has_moved_a_subscriber_for_a_while() -> None:
    head = head_with(pie_of("a", load_of(input_ratio=0.6)))
    request = SessionRequest(hub="g", session="g:1", metric=BalancedMetric.INPUT, is_global=True)
    head.receive(2.0, request)
    head.receive(30.0, pie_of("a", IDLE, number=2, status=HubStatus.STABILIZING))
    assert head.detect(85.0) == []
    # From here on its sessions are fruitless: they do not keep the clusters together.
    head.receive(86.0, pie_of("a", IDLE, number=3, status=HubStatus.BUSY))
    assert head.detect(140.0) == []
    assert PartClusters("g") in head.detect(146.0)


@pytest.mark.parametrize("moved", [False, True])
def test_a_cluster_with_which_nothing_moved_does_not_keep_out_the_others(*, moved: bool) -> None:
    """Between two clusters that can help each other no more, the one in the middle joins its other neighbour."""
    head = head_with(pie_of("a", load_of(input_ratio=0.6)))
    head.receive(2.0, SessionRequest(hub="g", session="g:1", metric=BalancedMetric.INPUT, is_global=True))
    if moved:
        # The head of a third cluster is no edge of these two.
        head.receive(3.0, pie_of("a", load_of(input_ratio=0.6), number=2, status=HubStatus.STABILIZING))
    head.receive(4.0, pie_of("k", IDLE, cluster="k", is_global=True, status=HubStatus.STABILIZING))
    head.receive(5.0, pie_of("a", load_of(input_ratio=0.6), number=3))
    assert PartClusters("g") in head.detect(70.0)
    for at_s in (100.0, 105.0):
        head.receive(at_s, pie_of("g", IDLE, cluster="g", is_global=True, number=int(at_s)))
        head.detect(at_s)
    is_asking = head.phase is HeadPhase.ASKING
    assert is_asking == moved
    if not moved:
        head.receive(106.0, pie_of("k", load_of(input_ratio=0.1), cluster="k", is_global=True, number=2))
        (asked, _) = head.detect(110.0)
        assert isinstance(asked, SendControl) and asked.hub == "k"


def test_a_cluster_whose_edge_stays_unavailable_asks_another_after_a_while() -> None:
    """1. An edge is between its thresholds, so its cluster is unavailable. 2. Its own cluster cannot relieve it, and
    the mean is no overload. 3. By the paper's words the cluster would wait for ever beside an idle one."""
    head = head_with(
        pie_of("a", load_of(input_ratio=0.92), status=HubStatus.UNAVAILABLE),
        pie_of("b", load_of(input_ratio=0.8)),
        pie_of("g", IDLE, cluster="g", is_global=True),
    )
    head.detect(1.0)
    assert head.phase is HeadPhase.UNAVAILABLE
    head.receive(40.0, pie_of("b", load_of(input_ratio=0.8), number=2, status=HubStatus.STABILIZING))
    head.detect(50.0)
    head.receive(51.0, pie_of("b", load_of(input_ratio=0.8), number=3))
    head.detect(55.0)
    head.detect(110.0)
    assert head.phase is HeadPhase.UNAVAILABLE
    (asked, _) = head.detect(115.0)
    assert isinstance(asked, SendControl) and asked.hub == "g"


def test_messages_between_edges_do_not_affect_a_head_and_the_other_way_round() -> None:
    head = head_with(pie_of("a", IDLE))
    local = SessionRequest(hub="z", session="z:1", metric=BalancedMetric.INPUT)
    assert head.receive(1.0, local) == []
    edge = edge_with()
    assert edge.receive(1.0, msgspec.structs.replace(local, is_global=True), IDLE, tuple) == []
    assert (head.phase, edge.phase) == (HeadPhase.OK, EdgePhase.OK)
