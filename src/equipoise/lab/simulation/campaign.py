"""Run many seeds of several cases in a pool of tasks.

Seeds are distributed in chunks, so that a process has enough work after its imports. The result of a seed depends
neither on its process nor on earlier seeds of that process.

Ablations are listed here by name. A checker without violations may be blind, so each safeguard is listed with the
property that fails without it and a case that shows the failure. A test switches each safeguard off, requires that the
checker reports a violation within a few seeds, and requires that the same seed passes with the safeguard on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from equipoise.errors import SettingsError
from equipoise.lab.scenarios import scenario_by_name
from equipoise.lab.simulation.ablation import Ablation
from equipoise.lab.simulation.cluster.ablations import CLUSTER_ABLATIONS
from equipoise.lab.simulation.cluster.content_ablations import CONTENT_ABLATIONS
from equipoise.lab.simulation.cluster.edge_ablations import EDGE_ABLATIONS
from equipoise.lab.simulation.cluster.limit_ablations import LIMIT_ABLATIONS
from equipoise.lab.simulation.durable.ablations import DURABLE_ABLATIONS
from equipoise.lab.simulation.durable.log_ablations import LOG_ABLATIONS
from equipoise.lab.simulation.durable.subscriber_ablations import SUBSCRIBER_ABLATIONS
from equipoise.lab.simulation.hub_ablations import HUB_ABLATIONS
from equipoise.lab.simulation.runner import Run, run_seed
from equipoise.lab.task_pool import SerialPool, TaskPool, settled_collector

__all__ = ["ABLATIONS", "LISTED", "ablation_by_name", "run_campaign"]

LISTED: tuple[Ablation, ...] = (
    *HUB_ABLATIONS,
    *CLUSTER_ABLATIONS,
    *LIMIT_ABLATIONS,
    *CONTENT_ABLATIONS,
    *EDGE_ABLATIONS,
    *DURABLE_ABLATIONS,
    *LOG_ABLATIONS,
    *SUBSCRIBER_ABLATIONS,
)
# By name; `tests/simulation/test_ablations.py` checks that no name is listed twice.
ABLATIONS: dict[str, Ablation] = {one.name: one for one in LISTED}


def ablation_by_name(name: str) -> Ablation:
    """Raises SettingsError, which lists the safeguards, for an unknown name."""
    if name not in ABLATIONS:
        raise SettingsError(f"unknown safeguard {name!r}; known safeguards: {', '.join(ABLATIONS)}")
    return ABLATIONS[name]


# About a second of work: long compared with its distribution, short compared with a campaign of a minute.
CHUNK_SEEDS = 25


class _Chunk(NamedTuple):
    case: str
    first: int
    end: int
    # The safeguard to switch off; empty: none.
    without: str


def run_campaign(
    cases: Sequence[str], seeds: range, *, pool: TaskPool | None = None, without: str = ""
) -> Iterator[Run]:
    """Runs of all seeds of all cases as they finish; without a pool in order. Raises SettingsError on unknown names."""
    for case in cases:
        scenario_by_name(case)
    if without:
        ablation_by_name(without)
    chunks = [
        _Chunk(case, first, min(first + CHUNK_SEEDS, seeds.stop), without)
        for case in cases
        for first in range(seeds.start, seeds.stop, CHUNK_SEEDS)
    ]
    if pool is None or isinstance(pool, SerialPool):
        with settled_collector():
            for chunk in chunks:
                yield from _runs(chunk)
        return
    for _, runs in pool.run(_run_chunk, chunks):
        yield from runs


def _runs(chunk: _Chunk) -> Iterator[Run]:
    scenario = scenario_by_name(chunk.case)
    with ablation_by_name(chunk.without).off() if chunk.without else nullcontext():
        for seed in range(chunk.first, chunk.end):
            yield run_seed(scenario, seed)


def _run_chunk(chunk: _Chunk) -> list[Run]:
    return list(_runs(chunk))
