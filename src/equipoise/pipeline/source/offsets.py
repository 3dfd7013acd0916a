"""Offsets of the pipeline at each hub, as Spark keeps them in its checkpoint. Pure.

    {"h1": [incarnation, next, since, unanswered], ...}

Always true: two such states determine the records between them, so a batch that is repeated after a crash requests the
same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from equipoise.pipeline.source.hub_connection import Piece

__all__ = ["Mark", "Offsets", "Range", "advanced", "decode", "encode", "ranges", "shared_out"]


# Hubs that are kept: ten times as many as a large system has, in 50 kB of checkpoint.
MARKS_MAX = 1_000


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """One hub."""

    # 0 before the first record of the hub.
    incarnation: int = 0
    # The number of the next record to read.
    next: int = 0
    # The first number of this incarnation: that of its oldest record at the first request.
    since: int = 0
    # How often it did not reply; only increases.
    unanswered: int = 0


Offsets = dict[str, Mark]


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one hub in a batch: records `start` to `end` of an incarnation."""

    hub: str
    incarnation: int
    start: int
    end: int
    unanswered: int


def decode(raw: Mapping[str, Any]) -> Offsets:
    return msgspec.convert(raw, Offsets)


def encode(offsets: Offsets) -> dict[str, Any]:
    return {hub: list(msgspec.structs.astuple(mark)) for hub, mark in offsets.items()}


def advanced(
    start: Offsets,
    heads: Mapping[str, Piece | None],
    *,
    known: Collection[str],
    rows_max: int | None,
) -> Offsets:
    """The next state: up to the hubs' heads, within `rows_max` records in all.

    `heads` are those of the queried hubs. A hub that was not queried keeps its position, known or not: otherwise an
    emptied store would make the pipeline read everything again. Unknown ones are dropped only if there are too many.
    """
    begun = {hub: _met(start.get(hub, Mark()), piece) for hub, piece in heads.items()}
    wanted = {hub: max(0, piece.end - begun[hub].next) for hub, piece in heads.items() if piece is not None}
    granted = shared_out(wanted, rows_max)
    is_full = len(start) > MARKS_MAX
    end = {hub: mark for hub, mark in start.items() if hub in known or not is_full}
    for hub, mark in begun.items():
        end[hub] = msgspec.structs.replace(mark, next=mark.next + granted.get(hub, 0))
    return end


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """The records between two states, by hub; hubs without any are left out."""
    found = []
    for hub, mark in sorted(end.items()):
        before = start.get(hub, Mark())
        first = before.next if before.incarnation == mark.incarnation else mark.since
        unanswered = max(0, mark.unanswered - before.unanswered)
        if first < mark.next or unanswered:
            found.append(
                Range(
                    hub=hub, incarnation=mark.incarnation, start=first, end=mark.next, unanswered=unanswered
                )
            )
    return found


def _met(mark: Mark, piece: Piece | None) -> Mark:
    """The mark after a reply, or without one; a new incarnation begins with the records that it still has."""
    if piece is None:
        return msgspec.structs.replace(mark, unanswered=mark.unanswered + 1)
    if piece.incarnation == mark.incarnation:
        return mark
    return Mark(piece.incarnation, piece.first, piece.first, mark.unanswered)


def shared_out(wanted: dict[str, int], rows_max: int | None) -> dict[str, int]:
    """Equal shares; the unused part of a hub's share goes to the others."""
    if rows_max is None:
        return wanted
    granted, left = {}, rows_max
    for count, hub in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        granted[hub] = min(wanted[hub], left // (len(wanted) - count))
        left -= granted[hub]
    return granted
