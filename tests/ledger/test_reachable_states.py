"""Writer and recovery in every order of events: what was acknowledged is there after the ledger is closed.

The small worlds are searched exhaustively, larger ones by seeded random walks. Each safeguard is switched off once.
"""

from __future__ import annotations

from random import Random

import pytest

from equipoise.ledger.effects import Effect
from equipoise.ledger.metadata import LedgerState
from equipoise.ledger.quorum import Quorum
from equipoise.ledger.wire import Code
from equipoise.ledger.writer import LedgerWriter
from ledger.reachable import Bookie, Bounds, search, wander

LARGE = [
    Bounds(Quorum(3, 3, 2), bookies=3, entries=3, recoveries=2, has_late_answers=True),
    Bounds(Quorum(3, 3, 2), bookies=4, entries=3, recoveries=2, has_late_answers=True),
    Bounds(Quorum(2, 2, 2), bookies=3, entries=3, recoveries=2, has_late_answers=True),
    Bounds(Quorum(3, 2, 2), bookies=4, entries=3, recoveries=2, has_late_answers=True),
    Bounds(Quorum(5, 3, 2), bookies=6, entries=3, recoveries=2, has_late_answers=True),
]
WALKS = 300


def broken_by(bounds: Bounds, walks: int = 3 * WALKS) -> str | None:
    return next(
        (reason for seed in range(walks) if (reason := wander(bounds, Random(seed))[1]) is not None), None
    )


@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        (Bounds(Quorum(2, 2, 2), bookies=2, entries=1, recoveries=1, losses=0), None),
        (Bounds(Quorum(2, 2, 2), bookies=3, entries=1, recoveries=1), None),
    ],
)
def test_no_reachable_state_breaks_a_promise(bounds: Bounds, states: int | None) -> None:
    count, reason = search(bounds)
    assert reason is None
    assert count > 100


@pytest.mark.parametrize("bounds", LARGE, ids=lambda bounds: f"{bounds.quorum} on {bounds.bookies}")
def test_no_random_walk_breaks_a_promise(bounds: Bounds) -> None:
    ends = []
    for seed in range(WALKS):
        world, reason = wander(bounds, Random(seed))
        assert reason is None, f"seed {seed}"
        ends.append((world.node.state, world.acknowledged))
    # The walks reach what they are about: ledgers closed by recovery, with acknowledged entries in them.
    assert sum(state is LedgerState.CLOSED and last >= 1 for state, last in ends) > WALKS // 10


def test_without_fences_a_writer_acknowledges_behind_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery reads fence too, so the first round alone is not missed; without any fence the writer goes on."""
    serve = Bookie.serve

    def serve_without_fence(self: Bookie, request: Effect) -> tuple[Code, bytes]:
        answer = serve(self, request)
        self.is_fenced = False
        return answer

    monkeypatch.setattr(Bookie, "serve", serve_without_fence)
    assert broken_by(LARGE[0]) is not None


def test_taking_one_no_for_the_end_loses_what_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quorum, "absent", 1)
    assert broken_by(LARGE[0]) is not None


def test_keeping_acks_of_replaced_members_loses_what_is_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """apache/bookkeeper#4097: an ack of a bookie that recovery will not ask."""
    use = LedgerWriter._use

    def keep_acks(self: LedgerWriter, metadata: object) -> object:
        kept = {number: set(item.acks) for number, item in self._in_flight.items()}
        items = dict(self._in_flight)
        effects = use(self, metadata)  # type: ignore[arg-type]
        for number, acks in kept.items():
            items[number].acks |= acks
        return effects

    monkeypatch.setattr(LedgerWriter, "_use", keep_acks)
    bounds = [
        Bounds(Quorum(2, 2, 2), bookies=4, entries=4, recoveries=1, losses=2, has_late_answers=True),
        LARGE[1],
        LARGE[2],
    ]
    assert any(broken_by(each, 3_000) is not None for each in bounds)


def test_acknowledging_while_the_ensemble_changes_loses_what_is_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    advance = LedgerWriter._advance

    def advance_anyway(self: LedgerWriter) -> object:
        proposed, self._proposed = self._proposed, None
        try:
            return advance(self)
        finally:
            self._proposed = proposed

    monkeypatch.setattr(LedgerWriter, "_advance", advance_anyway)
    assert any(broken_by(bounds, 3_000) is not None for bounds in LARGE)
