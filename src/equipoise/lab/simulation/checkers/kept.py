"""Every acknowledged entry of a ledger is kept: read back by clients, and found on enough disks."""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History, LedgerTrack

__all__ = ["NAME", "check"]

NAME = "kept"


def check(history: History) -> list[Violation]:
    return [
        Violation(NAME, f"{track.name}, ledger {track.ledger}: {text}")
        for track in history.ledgers
        if not track.is_deleted
        for text in _wrong(track)
    ]


def _wrong(track: LedgerTrack) -> list[str]:
    wrong = list(track.problems)
    if len(track.ends) > 1:
        wrong.append(f"recoveries found different ends: {sorted(track.ends)}")
    end = max(track.ends, default=-1)
    behind = [entry for entry in sorted(track.acknowledged) if entry > end]
    if behind:
        wrong.append(f"{len(behind)} acknowledged entries lie behind the end {end}, the first is {behind[0]}")
    for entry in sorted(track.acknowledged):
        if entry <= end and track.found.get(entry) != track.appended[entry]:
            wrong.append(f"entry {entry} is not read back as it was acknowledged")
            break
    for entry, payload in sorted(track.found.items()):
        if entry and track.appended.get(entry, payload) != payload:
            wrong.append(f"entry {entry} is read back as something else than was appended")
            break
    needed = max(1, track.ack_quorum - track.copies_lost_max)
    for entry in sorted(track.acknowledged):
        if entry <= end and track.copies.get(entry, 0) < needed:
            wrong.append(
                f"entry {entry} lies on {track.copies.get(entry, 0)} disks, {needed} at least were promised"
            )
            break
    return wrong
