"""Seat balance: without changes, publishers of a split topic keep their seats, and seats match the plan.

The checker reads samples of the seat list at the trunk's home and of the hub at which each publisher last published. A
series of samples with the same plan, hubs and publishers counts as settled after `SETTLED_S`. From then on no home has
more publishers than its share within the tolerance of the assignment; no seat changes; and every publisher has a seat
and publishes there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, SeatSample

__all__ = ["NAME", "check"]

NAME = "seat balance"
# Reports arrive within half a second, moves within the next, and clients switch with their next message or two.
SETTLED_S = 4.0
# A client that could not reach the restarting hub of its seat retries after some seconds.
GONE_THERE_S = 8.0
# An assignment may give a home one publisher more than its share; shares are rounded.
OVER_MAX = 1.15


def check(history: History) -> list[Violation]:
    found = []
    by_topic = sorted(history.seat_samples, key=lambda sample: (sample.topic, sample.at))
    for _, stretch in groupby(by_topic, key=lambda sample: (sample.topic, sample.circumstances)):
        samples = list(stretch)
        settled = [sample for sample in samples if sample.at - samples[0].at >= SETTLED_S]
        found += list(_check_settled(settled, samples[0].at))
    # One violation of each kind is enough, because a wrong assignment shows in every sample.
    kinds = {violation.text.split(":")[0]: violation for violation in reversed(found)}
    return [kinds[kind] for kind in sorted(kinds)]


def _check_settled(samples: list[SeatSample], since: float) -> Iterator[Violation]:
    for sample in samples:
        counts = Counter(sample.seats.values())
        for home, count in sorted(counts.items()):
            over = count - sample.parts.get(home, 0.0) * counts.total()
            if over > OVER_MAX:
                text = f"{home} has {count} of {counts.total()} publishers of {sample.topic}, {over:.2f} too many"
                yield Violation(NAME, f"unbalanced: {text} at {sample.at:.2f}")
        if sample.seats != samples[0].seats:
            yield Violation(NAME, f"flapping: seats of {sample.topic} change at {sample.at:.2f}")
        for client, (hub, at) in sorted(sample.seen.items()):
            seat = sample.seats.get(client)
            kind = "unlisted" if seat is None else f"astray from {seat}"
            if hub != seat and at >= since + (SETTLED_S if seat is None else GONE_THERE_S):
                yield Violation(NAME, f"{kind}: a publisher of {sample.topic} publishes at {hub} at {at:.2f}")
