"""PADRES's experiments at the size of a test: subscribers move, loads converge, no message is lost or duplicated."""

from __future__ import annotations

import msgspec
import pytest

from equipoise.lab.experiments.experiment import silent
from equipoise.lab.experiments.padres_common import OURS, PAPER
from equipoise.lab.experiments.padres_estimates import EXPERIMENT_7, EstimateScale, accuracy
from equipoise.lab.experiments.padres_global import chain
from equipoise.lab.experiments.padres_hubs import LabEdge
from equipoise.lab.experiments.padres_local import EXPERIMENT_6, LocalTimes, balance_locally, star
from equipoise.lab.experiments.padres_reading import settled_s, spreads
from equipoise.lab.experiments.padres_world import FederationRun, FederationScale, run_federation
from equipoise.lab.experiments.registry import experiments_by_name

# A tenth of the paper's subscribers and a quarter of its messages: matching costs forty times as much.
SLOW = star(subscription_s=800e-6)
SMALL = FederationScale(
    SLOW, PAPER, publishers=10, subscribers=200, joins_s=(10.0, 110.0), changes_s=400.0, ends_s=450.0
)


@pytest.fixture(scope="module")
def balanced() -> FederationRun:
    return run_federation(SMALL, 1)


def test_there_is_one_for_each_figure() -> None:
    assert [experiment.name for experiment in experiments_by_name("padres")] == [
        "padres-6",
        "padres-7",
        "padres-8",
    ]


def test_subscribers_move_to_stronger_edges_and_nothing_is_lost_or_seen_twice(
    balanced: FederationRun,
) -> None:
    assert balanced.moved > 50
    assert (balanced.lost, balanced.twice) == (0, 0)
    assert balanced.expected > 5_000
    counts = [samples[-1].subscribers for samples in balanced.edges.values()]
    assert sum(counts) == 200
    assert counts[3] > 2 * counts[0] > 0


def test_the_same_seed_gives_the_same_run(balanced: FederationRun) -> None:
    again = run_federation(SMALL, 1)
    assert (again.moved, again.control, again.edges) == (balanced.moved, balanced.control, balanced.edges)


def test_a_loss_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An edge that lets subscribers go before it has matched what they still are to have from it loses messages."""

    def early(edge: LabEdge, subscriber: object, position: int) -> None:
        detach(edge, subscriber, position - 5)  # type: ignore[arg-type]

    detach = LabEdge.detach
    monkeypatch.setattr(LabEdge, "detach", early)
    assert run_federation(SMALL, 1).lost > 0


def test_a_message_seen_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(edge: LabEdge, subscriber: object, position: int) -> None:
        detach(edge, subscriber, position + 5)  # type: ignore[arg-type]

    detach = LabEdge.detach
    monkeypatch.setattr(LabEdge, "detach", late)
    assert run_federation(SMALL, 1).twice > 0


def test_a_first_edge_that_is_chosen_saves_moves(balanced: FederationRun) -> None:
    ours = run_federation(SMALL._replace(settings=OURS), 1)
    assert ours.moved < balanced.moved / 2
    assert (ours.lost, ours.twice) == (0, 0)


def test_without_balancing_messages_wait() -> None:
    run = run_federation(SMALL._replace(is_balanced=False), 1)
    assert run.moved == 0
    assert max(delay_s for delay_s in run.delay_s if delay_s == delay_s) > 10


def test_clusters_of_a_chain_take_subscribers_of_the_first() -> None:
    slow = tuple(
        (head, tuple(edge._replace(subscription_s=8e-3) for edge in edges)) for head, edges in chain(2, 65e-6)
    )
    run = run_federation(
        FederationScale(
            slow,
            PAPER,
            publishers=10,
            subscribers=100,
            joins_s=(10.0, 20.0),
            changes_s=500.0,
            ends_s=500.0,
        ),
        1,
    )
    assert (run.lost, run.twice) == (0, 0)
    counts = {name: samples[-1].subscribers for name, samples in run.edges.items()}
    assert counts["B21"] + counts["B22"] > 20


def test_figures_and_claims_depend_on_the_outcome() -> None:
    times = LocalTimes((10.0, 20.0), 50.0, 60.0, 20.0, 100.0, (2,), (0.2,), 210.0, 30)
    findings = EXPERIMENT_6.judge(balance_locally(times, 1, silent))
    assert len(findings.figures) == 4
    for figure in findings.figures:
        for panel in figure.panels:
            assert all(len(line.x) == len(line.y) for line in panel.lines)
    scale = EstimateScale((10.0, 20.0), 60.0, 100.0, (5, 50), 30)
    found = EXPERIMENT_7.find(scale, 1)
    assert [claim.holds for claim in found.claims if "lost" in claim.claim] == [True]


def test_settled_is_the_time_from_which_all_stay_within_a_trigger(balanced: FederationRun) -> None:
    widest = {
        time_s: max(spreads(balanced, at))
        for at, time_s in enumerate(balanced.times_s)
        if 110.0 <= time_s < 400.0
    }
    within = max(list(widest.values())[-5:])
    found = settled_s(balanced, 110.0, 400.0, within=within)
    assert found is not None
    assert found > 110.0
    assert all(wide <= within for time_s, wide in widest.items() if time_s >= found)
    assert widest[max(time_s for time_s in widest if time_s < found)] > within
    assert settled_s(balanced, 110.0, 400.0, within=1e-9) is None


def test_accuracy_is_one_less_the_relative_error(balanced: FederationRun) -> None:
    pair = balanced.pairs[0]
    realised = msgspec.structs.replace(pair.realised, input_rate=10.0, delay_s=0.05)
    estimated = msgspec.structs.replace(realised, input_rate=9.0)
    tested = pair._replace(realised=realised, estimated=estimated)
    assert accuracy([tested], lambda load: load.input_ratio) == [pytest.approx(0.9)]
