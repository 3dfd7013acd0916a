"""Acknowledged entries are kept: in ledgers, readable and on enough disks; in logs, exactly once."""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History
from equipoise.lab.workload.log_history import LedgerTrack, LogTrack

__all__ = ["NAME", "check"]

NAME = "kept"


def check(history: History) -> list[Violation]:
    return [
        Violation(NAME, f"{track.name}, ledger {track.ledger}: {text}")
        for track in history.ledgers
        if not track.is_deleted
        for text in _wrong(track)
    ] + [Violation(NAME, f"log of {log.topic}: {text}") for log in history.logs for text in _wrong_log(log)]


def _wrong_log(log: LogTrack) -> list[str]:
    wrong = list(log.problems)
    place = {at: (number, value) for number, (at, value) in enumerate(log.final)}
    values = [value for _, value in log.final if value.partition(b".")[0].decode() not in log.resent]
    if len(set(values)) != len(values):
        wrong.append("an entry is in the log twice")
    latest: dict[str, int] = {}
    received = {name: story.values for name, story in log.subscribers.items()}
    of_value = {value: at for at, value in log.final}
    # Entries before a requested trim may be missing; entries before an acknowledged trim must be.
    may_lack = max((_key(at) for at, _ in log.trimmed), default=(0, 0))
    must_lack = max((_key(at) for at, is_acked in log.trimmed if is_acked), default=(0, 0))
    if log.final and _key(log.final[0][0]) < must_lack:
        wrong.append(f"{log.final[0]} is in the log after it was trimmed")
    for client, number, known in log.acked:
        value = f"{client}.{number}".encode()
        # The reply to PUBLISH has no id.
        at = known or of_value.get(value, b"")
        if at not in place and known and _key(known) < may_lack:
            continue
        if log.is_consumed and at not in place:
            missing = [name for name, values in received.items() if value not in values]
            if missing:
                wrong.append(f"acknowledged {value!r} was trimmed before {missing[0]} received it")
                break
            continue
        if at not in place or place[at][1] != value:
            wrong.append(f"{value!r} was acknowledged as {at!r} but is not in the log")
            break
        if place[at][0] <= latest.get(client, -1):
            wrong.append(f"{value!r} is before an earlier entry of the same client")
            break
        latest[client] = place[at][0]
    return wrong


def _key(spelled: bytes) -> tuple[int, int]:
    ms, _, seq = spelled.partition(b"-")
    return int(ms), int(seq or 0)


def _wrong(track: LedgerTrack) -> list[str]:
    wrong = list(track.problems)
    if len(track.ends) > 1:
        wrong.append(f"recoveries found different ends: {sorted(track.ends)}")
    end = max(track.ends, default=-1)
    behind = [entry for entry in sorted(track.acknowledged) if entry > end]
    if behind:
        wrong.append(f"{len(behind)} acknowledged entries are after the end {end}, the first is {behind[0]}")
    for entry in sorted(track.acknowledged):
        if entry <= end and track.found.get(entry) != track.appended[entry]:
            wrong.append(f"entry {entry} was acknowledged but a read returns another value or none")
            break
    for entry, payload in sorted(track.found.items()):
        if entry and track.appended.get(entry, payload) != payload:
            wrong.append(f"entry {entry} differs from the appended value")
            break
    needed = max(1, track.ack_quorum - track.copies_lost_max)
    for entry in sorted(track.acknowledged):
        if entry <= end and track.copies.get(entry, 0) < needed:
            wrong.append(
                f"entry {entry} is on {track.copies.get(entry, 0)} disks, at least {needed} are required"
            )
            break
    return wrong
