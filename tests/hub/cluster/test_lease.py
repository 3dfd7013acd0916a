"""The lease over time: what renews it, what does not, and that it ends before a session can."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.lease import ASKED_PER_TERM, TERM_S_MAX, Lease, LeaseTimes
from equipoise.hub.cluster.standstill import ALWAYS_AWAKE
from equipoise.hub.data.topic_specs import TopicSpecs
from equipoise.model import Durability, Specs, TopicSpec
from hub.world import FakeShell, World

from .hubs import Hubs

SESSION_S = 6.0
TERM_S = 3.0
ANN, BOB = ("ann", 1), ("bob", 1)
LIMITED = Specs([TopicSpec(pattern=b"limited", rate_per_s=10.0)])


def always_awake() -> float:
    return ALWAYS_AWAKE


@pytest.mark.parametrize(
    ("store_at", "ann_at", "bob_at", "is_valid"),
    [
        (None, None, None, False),
        (8.0, None, None, True),
        (7.0, None, None, False),
        # Every other hub, not only one; each reply counts from the time of its request.
        (None, 8.0, None, False),
        (None, 8.0, 7.0, False),
        (None, 8.0, 7.001, True),
        (5.0, 9.0, 9.0, True),
    ],
)
def test_the_store_or_every_other_hub_has_answered_within_the_term(
    store_at: float | None, ann_at: float | None, bob_at: float | None, is_valid: bool
) -> None:
    times = LeaseTimes(TERM_S)
    if store_at is not None:
        times.store_answered(store_at)
    for peer, at in ((ANN, ann_at), (BOB, bob_at)):
        if at is not None:
            times.peer_answered(peer, at)
    assert times.is_valid(10.0, [ANN, BOB]) is is_valid


def test_late_and_repeated_replies_do_not_shorten_the_lease() -> None:
    times = LeaseTimes(TERM_S)
    times.store_answered(8.0)
    times.store_answered(2.0)
    assert times.is_valid(10.9, [ANN])
    assert not times.is_valid(11.0, [ANN])
    times.peer_answered(ANN, 9.0)
    times.peer_answered(ANN, 1.0)
    assert times.is_valid(11.9, [ANN])


def test_a_hub_without_others_holds_it_without_the_store_but_may_not_be_the_only_one() -> None:
    hubs = LeasedHubs("a")
    hubs.begin()
    lease, now = hubs["a"].core.lease, hubs["a"].core.now()
    assert lease.is_valid(now)
    assert not lease.is_sole(now)
    lease.store_answered(now)
    assert lease.is_sole(now + lease.term_s / 2)
    assert not lease.is_sole(now + lease.term_s)
    # It withdraws its `alive`: others need not wait until its session has ended.
    lease.store_left()
    assert not lease.is_sole(now)


def test_a_reply_counts_for_the_incarnation_that_sent_it() -> None:
    times = LeaseTimes(TERM_S)
    times.peer_answered(("ann", 1), 9.0)
    assert not times.is_valid(10.0, [("ann", 2)])
    times.forget_others([("ann", 2)])
    assert not times.is_valid(10.0, [("ann", 1)])


def test_a_hub_in_no_cluster_always_holds_it_and_the_term_is_half_the_session() -> None:
    shell = FakeShell(1 << 30)
    assert Lease(shell, SESSION_S, TopicSpecs(), always_awake).is_valid(1e9)
    assert Lease(shell, SESSION_S, TopicSpecs(), always_awake).term_s == TERM_S
    # ZooKeeper would not grant a session of ten minutes.
    assert Lease(shell, 600.0, TopicSpecs(), always_awake).term_s == TERM_S_MAX
    assert World().info("lease") == "not needed"


def test_a_successor_waits_for_the_term() -> None:
    lease = Lease(FakeShell(1 << 30), SESSION_S, TopicSpecs(), always_awake)
    assert not lease.has_lapsed_elsewhere(10.0, 12.9)
    assert lease.has_lapsed_elsewhere(10.0, 13.0)


@pytest.mark.parametrize(
    ("spec", "is_needed"),
    [
        (TopicSpec(pattern=b"a", latency_ms=40.0), False),
        (TopicSpec(pattern=b"a", rate_per_s=1.0), True),
        (TopicSpec(pattern=b"a", durability=Durability()), True),
    ],
)
def test_the_lease_is_needed_if_a_spec_requires_a_single_writer(spec: TopicSpec, is_needed: bool) -> None:
    specs = TopicSpecs()
    specs.follow(Specs([spec]), 1)
    assert specs.need_single_writer is is_needed


class LeasedHubs(Hubs):
    """Hubs without a store: only they can keep each other's lease."""

    def begin(self, specs: Specs = LIMITED) -> None:
        for name in self.alive:
            core = self[name].core
            core.specs.follow(specs, 1)
            core.lease.start(self[name].cluster)

    def pass_time(self, terms: float) -> None:
        steps = round(terms * ASKED_PER_TERM)
        for _ in range(steps):
            for name in sorted(self.alive):
                self[name].shell.advance(self[name].core.lease.interval_s)
            self.settle()

    def holders(self) -> list[str]:
        return [name for name in sorted(self.alive) if self[name].core.lease.is_valid(self[name].core.now())]


def test_without_the_store_hubs_that_reach_each_other_hold_the_lease() -> None:
    hubs = LeasedHubs("a", "b", "c")
    hubs.begin()
    assert hubs.holders() == []
    hubs.pass_time(1)
    assert hubs.holders() == ["a", "b", "c"]
    hubs.pass_time(5)
    assert hubs.holders() == ["a", "b", "c"]


def test_a_hub_that_one_other_hub_does_not_reach_loses_the_lease_within_a_term() -> None:
    hubs = LeasedHubs("a", "b", "c")
    hubs.begin()
    hubs.pass_time(1)
    hubs.held |= {("c", "a")}
    hubs.pass_time(1)
    # b receives from both; between a and c frames pass one way only, and the reply to c's request is on the other.
    assert hubs.holders() == ["b"]
    hubs.release("c", "a")
    hubs.pass_time(1)
    assert hubs.holders() == ["a", "b", "c"]


def test_replies_that_were_held_back_for_a_term_do_not_count() -> None:
    hubs = LeasedHubs("a", "b")
    hubs.begin()
    hubs.held |= {("b", "a")}
    hubs.pass_time(1.4)
    hubs.release("b", "a")
    # a receives replies to requests, the latest of which was sent just before.
    assert hubs.holders() == ["a", "b"]
    hubs.held |= {("b", "a")}
    hubs.pass_time(1)
    assert hubs.holders() == []


def test_no_hub_waits_for_a_hub_that_is_known_to_be_dead() -> None:
    hubs = LeasedHubs("a", "b", "c")
    hubs.begin()
    hubs.pass_time(1)
    hubs.kill("c")
    hubs.pass_time(1)
    assert hubs.holders() == ["a", "b"]


def test_no_request_is_sent_if_no_topic_needs_the_lease() -> None:
    hubs = LeasedHubs("a", "b")
    hubs.begin(Specs([TopicSpec(pattern=b"t", latency_ms=40.0)]))
    hubs.pass_time(3)
    assert hubs.holders() == []
    assert hubs["a"].info("lease") == "not needed"
    hubs["a"].core.specs.follow(LIMITED, 2)
    hubs.pass_time(1)
    assert hubs["a"].info("lease") == "held"


def after_a_pause(*names: str) -> tuple[LeasedHubs, Lease]:
    """The first of the hubs has paused for a session; before, it held the lease by the replies of other hubs."""
    hubs = LeasedHubs(*names)
    hubs.begin()
    hubs.pass_time(1)
    node = hubs[names[0]]
    node.core.standstill.start()
    assert node.core.lease.is_valid(node.core.now())
    node.shell.stall(SESSION_S)
    assert not node.core.lease.is_valid(node.core.now())
    assert node.core.lease.held_until() <= node.core.now()
    return hubs, node.core.lease


def test_a_hub_without_others_waits_for_the_store_for_a_term_after_a_pause() -> None:
    hubs, lease = after_a_pause("a")
    hubs.pass_time(1)
    assert not lease.is_valid(hubs["a"].core.now())
    hubs.pass_time(1)
    # The store is unreachable: the hub continues.
    assert lease.is_valid(hubs["a"].core.now())
    assert lease.held_until() > hubs["a"].core.now()


def test_after_a_pause_a_reply_of_the_store_renews_the_lease_at_once() -> None:
    hubs, lease = after_a_pause("a")
    now = hubs["a"].core.now()
    lease.store_answered(now)
    assert lease.is_valid(now)
    assert lease.held_until() == now + TERM_S


def test_after_a_pause_confirmations_of_other_hubs_count_after_a_term() -> None:
    hubs, lease = after_a_pause("a", "b")
    node = hubs["a"]
    node.shell.advance(0.0)
    lease.ask_peers()
    hubs.settle()
    # The other hub may have lost the store, too: the store has a term to reply.
    assert not lease.is_valid(node.core.now())
    hubs.pass_time(1)
    assert not lease.is_valid(node.core.now())
    hubs.pass_time(1)
    assert lease.is_valid(node.core.now())
