"""Reduce a history to the rows that people watch: rates, latencies, what was missed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from equipoise.workload.history import History, Missed, Received, Track

__all__ = ["Row", "percentile", "publishing_rate", "row_of"]


class Row(NamedTuple):
    """One subscription over the last window of time. Latencies are None while nothing came."""

    name: str
    listens_to: str
    received: int
    received_per_s: float
    latency_ms_p50: float | None
    latency_ms_p99: float | None
    # Messages that gap events spoke of; unknown counts as one.
    missed: int


def row_of(track: Track, history: History, now: float, window_s: float) -> Row:
    """Read only the end of the track, however long it is."""
    latencies = []
    for event in reversed(track.events):
        if event.at < now - window_s:
            break
        if type(event) is Received:
            sent = history.sent[event.publisher, event.topic][event.sequence]
            latencies.append(1_000 * (event.at - sent.began_at))
    latencies.sort()
    return Row(
        name=track.name.partition("/")[0],
        listens_to=", ".join(track.names),
        received=sum(type(event) is Received for event in track.events),
        received_per_s=len(latencies) / window_s,
        latency_ms_p50=percentile(latencies, 0.50),
        latency_ms_p99=percentile(latencies, 0.99),
        missed=sum(event.missed or 1 for event in track.events if type(event) is Missed),
    )


def publishing_rate(history: History, now: float, window_s: float) -> float:
    """Messages begun per second."""
    begun = 0
    for stream in history.sent.values():
        for sent in reversed(stream):
            if sent.began_at < now - window_s:
                break
            begun += 1
    return begun / window_s


def percentile(ascending: Sequence[float], share: float) -> float | None:
    """The value that `share` of the values do not exceed (nearest rank)."""
    if not ascending:
        return None
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]
