"""Choose bookies for a ledger: at the owner's site, on distinct racks, those with most free space first.

A placement with two bookies of one rack, or with one of another site, reports that as a compromise. Random numbers,
`draw` between 0 and 1, spread ledgers over equal bookies. A bookie in Java without a site counts as being at every
site.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from equipoise.ledger.registration import BookieFacts

__all__ = ["EnsemblePlacement", "place_ensemble", "replacement_for"]

# Bookies whose free shares lie in the same step count as equal: random numbers spread ledgers over them.
_ROOM_STEPS = 10


@dataclass(frozen=True, slots=True)
class EnsemblePlacement:
    members: tuple[str, ...]
    # Compromises, as text for the log.
    compromises: tuple[str, ...] = ()


def place_ensemble(
    bookies: Mapping[str, BookieFacts], count: int, *, site: str, draw: Callable[[], float]
) -> EnsemblePlacement | None:
    """This many writable bookies; None if there are fewer."""
    chosen: list[BookieFacts] = []
    while len(chosen) < count:
        found = _best(bookies, chosen, site=site, excluded=(), draw=draw)
        if found is None:
            return None
        chosen.append(found)
    return EnsemblePlacement(tuple(each.name for each in chosen), tuple(_compromises(chosen, site)))


def replacement_for(
    bookies: Mapping[str, BookieFacts], excluded: Collection[str], *, site: str, draw: Callable[[], float]
) -> str | None:
    """One more bookie, outside the given ones and their racks if possible; None if there is none."""
    others = [bookies[name] for name in sorted(excluded) if name in bookies]
    found = _best(bookies, others, site=site, excluded=excluded, draw=draw)
    return None if found is None else found.name


def _best(
    bookies: Mapping[str, BookieFacts],
    chosen: Collection[BookieFacts],
    *,
    site: str,
    excluded: Collection[str],
    draw: Callable[[], float],
) -> BookieFacts | None:
    racks = {(each.site, each.rack) for each in chosen}
    names = {each.name for each in chosen} | set(excluded)
    ranked = [
        ((_is_remote(each, site), (each.site, each.rack) in racks, -_room(each), draw()), each)
        for _, each in sorted(bookies.items())
        if each.name not in names and not each.is_read_only
    ]
    return min(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _is_remote(facts: BookieFacts, site: str) -> bool:
    return bool(site and facts.site and facts.site != site)


def _room(facts: BookieFacts) -> int:
    return _ROOM_STEPS * facts.free_bytes // facts.total_bytes if facts.total_bytes else 0


def _compromises(chosen: list[BookieFacts], site: str) -> list[str]:
    compromises = [
        f"bookie {each.name} is at site {each.site}, not at {site}"
        for each in chosen
        if _is_remote(each, site)
    ]
    racks: dict[tuple[str, str], str] = {}
    for each in chosen:
        first = racks.setdefault((each.site, each.rack), each.name)
        if first != each.name:
            compromises.append(f"bookies {first} and {each.name} share the rack {each.rack}")
    return compromises
