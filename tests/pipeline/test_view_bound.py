"""A bounded view: topics without a row are counted, and rows and remainder add up to the total."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from equipoise.control.rounds import interest_of
from equipoise.errors import ProtocolError
from equipoise.model import Member, Plan, Specs
from equipoise.pipeline.samples import sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import SlidingWindow
from equipoise.pipeline.validation import judged
from equipoise.pipeline.view_bound import ViewBound
from equipoise.plan import Memory, Planner, PlannerSettings
from equipoise.plan.load import capacities, needs, sums
from equipoise.view import HubView, TopicView, View
from equipoise.view.interest import Interest, decode_interest, encode_interest
from pipeline.records import SECOND_US, START_US, batch_of, hub_record, numbered, topic_record, view_of

SETTINGS = PlannerSettings()


def view_with(bound: ViewBound | None, *, topics: int = 40, hubs: int = 2) -> View:
    window = SlidingWindow()
    for hub in range(hubs):
        records = [
            topic_record(
                b"hub-%d/topic-%d" % (hub, at),
                START_US,
                publications=at,
                deliveries=10 * at,
                bytes_out=1000 * at,
            )
            for at in range(topics)
        ]
        total = sum(range(topics))
        own = hub_record(
            START_US,
            publications=total,
            deliveries=10 * total,
            out_bytes_per_s=1000.0 * total + 4 * total,
            out_bytes_per_s_max=2e6,
            cpu_ratio=0.5,
        )
        batch = judged(
            batch_of(numbered(f"h{hub}", [*records, own])),
            now_us=START_US + SECOND_US,
            plausible=Plausible(),
        )
        window.add(sampled([batch], Counter()))
    window.bound = bound
    found = window.view()
    assert found is not None
    return view_of(found)


def test_the_heaviest_of_each_hub_have_their_names_and_the_rest_is_counted() -> None:
    view = view_with(ViewBound(5, Interest()))
    assert sorted(view.topics.names) == sorted(
        b"hub-%d/topic-%d" % (hub, at) for hub in range(2) for at in range(35, 40)
    )
    whole = view_with(None)
    for hub in ("h0", "h1"):
        row = view.hub(hub)
        assert row.rest_topics == 35
        assert row.rest_deliveries_per_s == 10 * sum(range(35))
        assert row.rest_out_bytes_per_s == 1000 * sum(range(35))
        assert whole.hub(hub).rest_topics == 0
    assert view.topics.publications_per_s.sum() + view.hubs.rest_publications_per_s.sum() == pytest.approx(
        whole.topics.publications_per_s.sum()
    )


def test_topics_of_interest_have_a_row_whatever_their_load() -> None:
    names = frozenset({b"hub-0/topic-3"})
    view = view_with(ViewBound(2, Interest(names=names, prefixes=(b"hub-1/topic-1",))))
    assert {b"hub-0/topic-3", b"hub-1/topic-1", b"hub-1/topic-15"} <= set(view.topics.names)
    assert view.hub("h0").rest_topics == 37
    opened = view_with(ViewBound(2, Interest(hubs=frozenset({"h1"}))))
    assert (opened.hub("h0").rest_topics, opened.hub("h1").rest_topics) == (38, 0)


def test_hubs_with_few_topics_have_no_remainder() -> None:
    assert not view_with(ViewBound(40, Interest())).hubs.rest_topics.any()


def test_the_planner_sees_the_same_load_with_and_without_names() -> None:
    found = []
    for bound in (None, ViewBound(5, Interest())):
        view = view_with(bound)
        caps = capacities(view, {}, {}, SETTINGS)
        need = needs(view, caps, SETTINGS)
        count = view.hubs.count
        flow = caps.flow_ratio(
            sums(view.carried.hub, need.carried_bytes, count),
            sums(view.carried.hub, need.carried_work, count),
        )
        found.append((caps.measured, flow, caps.price, np.array([caps.answer_bytes])))
    for one, other in zip(*found, strict=True):
        assert other == pytest.approx(one, rel=1e-9)


def test_an_overloaded_hub_is_opened_up_and_then_relieved() -> None:
    """1. A hub is overloaded by topics that the view does not name; 2. the planner moves nothing that it does not know,
    and asks for their names; 3. with them it moves some."""
    plan = Plan.of(members=[Member("h0"), Member("h1")])
    memory = Memory(profiles={}, joined_s={})
    policy = Planner(PlannerSettings(servers_max=2))
    moves: list[int] = []
    interest = Interest()
    for second in range(30):
        seen = overloaded(interest, at_s=100.0 + second)
        decision = policy.decide(seen, plan, Specs(), seen.time_s, memory)
        memory = decision.memory
        interest = interest_of(plan, Specs(), decision)
        moves.append(len(decision.change.entries))
        if decision.change.entries:
            break
        assert "h0" in interest.hubs
    assert moves[0] == 0 and moves[-1] > 0


def overloaded(interest: Interest, at_s: float) -> View:
    """One hub with a hundred topics on the ring that fill it, of which five are named until it is opened up."""
    ring = Plan.of(members=[Member("h0"), Member("h1")])
    names = [name for name in (b"t%d" % at for at in range(400)) if ring.home_of(name).homes == ("h0",)][:100]
    named = names if "h0" in interest.hubs else names[:5]
    rate = 0.95 * 1e6 / len(names)
    topics = [TopicView(name=name, out_bytes_per_s=rate, carried_by={"h0": 1.0}) for name in named]
    rest = float(len(names) - len(named))
    full = HubView(
        name="h0",
        out_bytes_per_s=0.95e6,
        out_bytes_per_s_max=1e6,
        rest_topics=rest,
        rest_out_bytes_per_s=rest * rate,
    )
    return View.of(at_s, topics, [full, HubView(name="h1", out_bytes_per_s_max=1e6)])


def test_an_interest_survives_encoding() -> None:
    interest = Interest(names=frozenset({b"a\n\xff", b"b"}), prefixes=(b"game/",), hubs=frozenset({"h1"}))
    line = encode_interest(interest)
    assert b"\n" not in line
    assert decode_interest(line) == interest
    assert decode_interest(encode_interest(Interest())) == Interest()
    for bad in (b"{", b'{"names": ["*"]}', b"[1]"):
        with pytest.raises(ProtocolError):
            decode_interest(bad)
