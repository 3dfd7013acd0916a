"""Run many seeds of several cases in a pool of tasks.

Seeds are handed out in chunks, so that a process that has started and imported everything has work for a while. What a
seed gives does not depend on the process it runs in nor on what ran there before.

Ablations are looked up here by name. A checker that never complains may be blind: so each safeguard is listed with the
property that breaks without it and a case that shows it. A test takes each away, demands that the checker speaks within
a few seeds, and that the same seed is green with the safeguard back.
"""

from __future__ import annotations

import gc
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
from equipoise.lab.task_pool import SerialPool, TaskPool, settle_collector

__all__ = ["ABLATIONS", "ablation_by_name", "run_campaign"]

ABLATIONS: dict[str, Ablation] = {
    one.name: one
    for one in (
        *HUB_ABLATIONS,
        *CLUSTER_ABLATIONS,
        *LIMIT_ABLATIONS,
        *CONTENT_ABLATIONS,
        *EDGE_ABLATIONS,
        *DURABLE_ABLATIONS,
        *LOG_ABLATIONS,
        *SUBSCRIBER_ABLATIONS,
    )
}


def ablation_by_name(name: str) -> Ablation:
    """Raises SettingsError that lists what there is."""
    if name not in ABLATIONS:
        raise SettingsError(f"there is no safeguard {name!r}; there are: {', '.join(ABLATIONS)}")
    return ABLATIONS[name]


# A second or so of work: long against handing it out, short against a minute's campaign.
CHUNK_SEEDS = 25


class _Chunk(NamedTuple):
    case: str
    first: int
    end: int
    # A safeguard to be switched off; empty: none.
    without: str


def run_campaign(
    cases: Sequence[str], seeds: range, *, pool: TaskPool | None = None, without: str = ""
) -> Iterator[Run]:
    """Each seed of each case, as it is finished; without a pool in order. Raises SettingsError for unknown names."""
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
        settle_collector()
        try:
            for chunk in chunks:
                yield from _runs(chunk)
        finally:
            gc.unfreeze()
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
