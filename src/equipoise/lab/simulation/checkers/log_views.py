"""Log views: all reads of a log, and all its owners, agree on one history.

prefixes    a read from the beginning returns a prefix of the final log, with all entries acknowledged before the
            request; a reader of single entries reads the log from its start position without a hole; the messages of
            a subscriber to a durable topic are a part of the log, in its order and without a hole (of a plain
            subscriber per connection, of a smart one over all connections)
one epoch   an epoch has one owner, and epochs increase
"""

from __future__ import annotations

from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History
from equipoise.lab.workload.log_history import LogTrack

__all__ = ["ONE_EPOCH", "PREFIXES", "check_epochs", "check_prefixes"]

PREFIXES = "prefixes"
ONE_EPOCH = "one epoch"


def check_prefixes(history: History) -> list[Violation]:
    return [
        Violation(PREFIXES, f"log of {log.topic}: {text}") for log in history.logs for text in _unlike(log)
    ]


def _unlike(log: LogTrack) -> list[str]:
    wrong: list[str] = []
    values = [value for _, value in log.final]
    for before, shown in log.shown:
        if shown != values[: len(shown)]:
            wrong.append(f"a read returned {len(shown)} entries that are not the beginning of the log")
            break
        missing = {f"{client}.{number}".encode() for client, number, _ in log.acked[:before]} - set(shown)
        if missing:
            wrong.append(f"a read did not return {min(missing)!r}, acknowledged before the request")
            break
    place = {value: number for number, value in enumerate(values)}
    for subscriber, connections in log.heard.items():
        for heard in connections:
            if _is_part(heard, values):
                continue
            # Messages that are not in the log were never committed.
            places = [place.get(value, -1) for value in heard]
            if -1 in places or places != sorted(set(places)):
                wrong.append(f"{subscriber} received messages that are not in the log, or not in its order")
            elif places and len(places) != places[-1] + 1 - places[0]:
                hole = next(n for n in range(places[0], places[-1]) if n not in places)
                wrong.append(f"{subscriber} missed {values[hole]!r} and received later messages")
    greatest = [(0, 0)]
    for _, _, at in log.acked:
        greatest.append(max(greatest[-1], _key(at or b"0")))
    for before, last in log.looks:
        if _key(last) < greatest[before]:
            wrong.append(
                f"a read returned {last!r} as the last entry after {greatest[before]} was acknowledged"
            )
            break
    for reader, (since, got) in log.read.items():
        behind = [(at, value) for at, value in log.final if _key(at) > _key(since)]
        if got != behind[: len(got)]:
            number = next(
                (i for i, (one, other) in enumerate(zip(got, behind, strict=False)) if one != other),
                len(behind),
            )
            wrong.append(f"{reader} read {got[number]} where the log has {behind[number : number + 1]}")
    return wrong


def _key(spelled: bytes) -> tuple[int, int]:
    ms, _, seq = spelled.partition(b"-")
    return int(ms), int(seq or 0)


def _is_part(heard: list[bytes], values: list[bytes]) -> bool:
    """Whether the messages are a part of the log without a hole, in which an entry may be twice."""
    starts = (at for at, value in enumerate(values) if heard and value == heard[0])
    return any(values[at : at + len(heard)] == heard for at in starts)


def check_epochs(history: History) -> list[Violation]:
    wrong: list[Violation] = []
    for log in history.logs:
        owned: dict[int, tuple[str, int]] = {}
        last = 0
        for owner, incarnation, epoch in log.owners:
            if owner and owned.setdefault(epoch, (owner, incarnation)) != (owner, incarnation):
                wrong.append(Violation(ONE_EPOCH, f"log of {log.topic}: epoch {epoch} has two owners"))
            if epoch < last:
                wrong.append(Violation(ONE_EPOCH, f"log of {log.topic}: epoch {epoch} follows {last}"))
            last = max(last, epoch)
        if log.epochs != sorted(log.epochs):
            wrong.append(Violation(ONE_EPOCH, f"log of {log.topic}: its ledgers have epochs {log.epochs}"))
    return wrong
