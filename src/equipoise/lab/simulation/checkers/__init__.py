"""One checker per property: a pure function from a history to a list of violations."""

from collections.abc import Callable

from equipoise.lab.simulation.checkers import (
    authorised,
    balance,
    envelope,
    fair_turns,
    full_use,
    held_up,
    kept,
    log_views,
    marks,
    memory,
    needless_gap,
    once,
    order,
    progress,
    seat_balance,
)
from equipoise.lab.simulation.checkers.violation import Violation
from equipoise.lab.workload.history import History

__all__ = ["CHECKERS", "Violation"]

CHECKERS: dict[str, Callable[[History], list[Violation]]] = {
    checker.NAME: checker.check
    for checker in (
        once,
        order,
        memory,
        authorised,
        progress,
        needless_gap,
        envelope,
        fair_turns,
        full_use,
        held_up,
        kept,
        balance,
        seat_balance,
    )
} | {
    log_views.PREFIXES: log_views.check_prefixes,
    log_views.ONE_EPOCH: log_views.check_epochs,
    marks.NAME: marks.check,
}
