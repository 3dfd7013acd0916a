"""The plan of what is measured."""

from __future__ import annotations

import pytest

from equipoise.lab.bench.cases import ROUNDS, FanoutCase, IdleCase, fanout_case, make_plan, size_label


def shapes(cases: list[FanoutCase]) -> set[tuple[int, int, int, int]]:
    return {(case.fanout, case.payload_bytes, case.batch, case.topics) for case in cases}


def test_the_default_plan_has_every_fanout_with_every_payload() -> None:
    plan = make_plan()
    pipelined = {(fanout, payload, 50, 1) for fanout in (1, 10, 100, 1000) for payload in (100, 1000)}
    assert pipelined <= shapes(plan.fanout)


def test_the_default_plan_publishes_singly_at_every_fanout_and_interleaves_topics_at_1_and_10() -> None:
    found = shapes(make_plan().fanout)
    assert {(fanout, 100, 1, 1) for fanout in (1, 10, 100, 1000)} <= found
    assert (1, 1000, 1, 1) in found
    assert {shape for shape in found if shape[3] > 1} == {(1, 100, 50, 50), (10, 100, 50, 50)}


def test_the_default_plan_takes_at_least_five_pairs_and_judges_memory_at_10000_connections() -> None:
    plan = make_plan()
    assert plan.rounds == ROUNDS >= 5
    assert plan.idle == [IdleCase(10_000, True), IdleCase(10_000, False)]


def test_the_paced_case_makes_20000_deliveries_a_second() -> None:
    (case,) = make_plan().paced
    assert case.rate_per_s * case.fanout == 20_000


def test_no_case_is_planned_twice() -> None:
    for plan in (make_plan(), make_plan(is_quick=True)):
        assert len(shapes(plan.fanout)) == len(plan.fanout)


def test_a_quick_plan_does_a_fraction_of_the_work() -> None:
    full, quick = make_plan(), make_plan(is_quick=True)
    work = [sum(case.messages for case in plan.fanout) * plan.rounds for plan in (full, quick)]
    assert work[1] < work[0] / 5
    assert shapes(quick.fanout) < shapes(full.fanout)


@pytest.mark.parametrize("topics", [1, 3, 50, 64, 200])
@pytest.mark.parametrize("batch", [1, 50])
def test_messages_are_whole_batches_and_whole_passes_over_the_topics(batch: int, topics: int) -> None:
    case = fanout_case(10, 100, batch, topics, run_s=0.1)
    assert case.messages > 0
    assert case.messages % batch == 0
    assert case.messages % topics == 0


def test_leaving_topics_out_leaves_only_cases_of_one_topic() -> None:
    assert {case.topics for case in make_plan(topics=0).fanout} == {1}


def test_a_plan_can_be_narrowed_to_the_cases_whose_label_matches() -> None:
    plan = make_plan().only("fan-out 100,.*pipelined")
    assert [case.label for case in plan.fanout] == [
        "fan-out 100, 100 B, pipelined",
        "fan-out 100, 1 kB, pipelined",
    ]
    assert (plan.paced, plan.idle) == ([], [])
    assert plan.size == 2


def test_sizes_read_as_people_write_them() -> None:
    assert [size_label(size) for size in (100, 1000, 1024, 64000)] == ["100 B", "1 kB", "1,024 B", "64 kB"]
