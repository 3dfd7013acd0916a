"""Offsets of the pipeline at each hub, as Spark keeps them in its checkpoint. Pure.

    {"h1": [incarnation, next, since, unanswered], ...}

Always true: from two such states alone it follows which records lie between them, so a batch that is run again after a
crash asks for the same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from equipoise.pipeline.source.hub_connection import Piece

__all__ = ["Mark", "Offsets", "Range", "advanced", "decode", "encode", "ranges", "shared_out"]


# Hubs that are remembered: ten times as many as a large system has, in 50 kB of checkpoint.
MARKS_MAX = 1_000


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """One hub."""

    # 0 while nothing of the hub has been read.
    incarnation: int = 0
    # The number of the next record to read.
    next: int = 0
    # The number this incarnation was begun at: the oldest there was when it was met.
    since: int = 0
    # How often it did not answer when asked; only grows.
    unanswered: int = 0


Offsets = dict[str, Mark]


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """What one hub contributes to a batch: records `start` to `end` of an incarnation."""

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
    """The next state: as far as hubs reach, within `rows_max` records over all of them.

    `heads` are the hubs that were asked. A hub that was not asked stays where it was, known or not: a store that was
    emptied must not make us read everything again. Only when there are too many are unknown ones forgotten.
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
    """What lies between two states, hub by hub; hubs without anything are left out."""
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
    """The mark once the hub has, or has not, answered; an incarnation that is new begins with what it still has."""
    if piece is None:
        return msgspec.structs.replace(mark, unanswered=mark.unanswered + 1)
    if piece.incarnation == mark.incarnation:
        return mark
    return Mark(piece.incarnation, piece.first, piece.first, mark.unanswered)


def shared_out(wanted: dict[str, int], rows_max: int | None) -> dict[str, int]:
    """Equal shares; what a hub does not need of its share goes to the others."""
    if rows_max is None:
        return wanted
    granted, left = {}, rows_max
    for count, hub in enumerate(sorted(wanted, key=lambda name: (wanted[name], name))):
        granted[hub] = min(wanted[hub], left // (len(wanted) - count))
        left -= granted[hub]
    return granted
