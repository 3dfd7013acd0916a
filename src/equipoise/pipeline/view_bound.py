"""Bound the topics named in a view: the heaviest of each hub and those of interest; the rest is a remainder. Pure.

Always true: for each hub, named topics and remainder together have the same sums as before; a hub with no more topics
than the minimum of names has no remainder.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # It ships no types.
import pyarrow.compute as pc  # type: ignore[import-untyped]  # As above.
from numpy.typing import NDArray

from equipoise.pipeline.hub_sums import HubSums
from equipoise.view.interest import Interest
from equipoise.view.schema import REST

__all__ = ["ViewBound", "bounded"]

Flags = NDArray[np.bool_]


class ViewBound(NamedTuple):
    """How many topics of each hub are named. Sent to tasks."""

    topics_per_hub: int
    interest: Interest


def bounded(sums: HubSums, bound: ViewBound) -> HubSums:
    """The sums with fewer topics by name, and the remainder of each hub in its row."""
    code = sums.topics.column("code").to_numpy()
    counts = np.bincount(code, minlength=len(sums.hubs))
    if not (counts > bound.topics_per_hub).any():
        return sums
    is_named = _heaviest(sums, code, counts, bound.topics_per_hub) | _of_interest(sums, code, bound.interest)
    if is_named.all():
        return sums
    rest, hubs = sums.topics.filter(pa.array(~is_named)), sums.hubs
    of = rest.column("code").to_numpy()
    for name, source in REST.items():
        values = np.ones(len(rest)) if source is None else rest.column(source).to_numpy()
        total = hubs.column(name).to_numpy() + np.bincount(of, values, minlength=len(hubs))
        hubs = hubs.set_column(hubs.schema.get_field_index(name), name, pa.array(total))
    return HubSums(sums.topics.filter(pa.array(is_named)), hubs)


def _heaviest(sums: HubSums, code: NDArray[np.int32], counts: NDArray[np.int64], count: int) -> Flags:
    """The heaviest topics of each hub, by their parts of its publications, deliveries and bytes."""
    weight = np.zeros(len(code))
    for name in ("publications_per_s", "deliveries_per_s", "out_bytes_per_s"):
        values = sums.topics.column(name).to_numpy()
        totals = np.bincount(code, values, minlength=len(counts))
        weight += values / np.maximum(totals, 1e-12)[code]
    order = np.lexsort((-weight, code))
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank = np.empty(len(code), np.int64)
    rank[order] = np.arange(len(code)) - first[code[order]]
    heaviest: Flags = rank < count
    return heaviest


def _of_interest(sums: HubSums, code: NDArray[np.int32], interest: Interest) -> Flags:
    topic = sums.topics.column("topic")
    wanted = pc.is_in(topic, pa.array(sorted(interest.names), pa.binary()))
    for prefix in interest.prefixes:
        wanted = pc.or_(wanted, pc.starts_with(topic, prefix))
    is_open = np.array([hub in interest.hubs for hub in sums.hubs.column("hub").to_pylist()], np.bool_)
    return np.asarray(wanted.to_numpy()) | is_open[code]
