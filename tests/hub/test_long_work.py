"""Long work runs a turn at a time until its end, until it is cancelled, or until other work replaces it."""

from __future__ import annotations

from collections.abc import Iterator

from equipoise.hub.data.turns import LongWork, Turns
from hub.world import FakeShell


class Desk:
    """One piece of work at a time, on a clock that the test moves."""

    def __init__(self, turn_s: float = 0.0) -> None:
        self.shell = FakeShell(1 << 30)
        self.turns = Turns(self.shell)
        self.work = LongWork(self.turns, turn_s=turn_s)
        self.log: list[str] = []

    def steps(self, name: str, count: int) -> Iterator[None]:
        for i in range(count):
            self.log.append(f"{name}{i}")
            yield

    def run(self, name: str, count: int) -> None:
        self.work.run(self.steps(name, count), lambda: self.log.append(f"{name} done"))

    def turn(self) -> list[str]:
        """What one turn of the loop does."""
        self.log.clear()
        if self.shell.timers_pending:
            self.shell.run_one()
        return list(self.log)


def test_a_step_in_each_turn_the_first_at_once() -> None:
    desk = Desk()
    desk.run("a", 2)
    assert desk.log == ["a0"]
    assert desk.turn() == ["a1"]
    assert desk.turn() == ["a done"]
    assert not desk.work.is_running
    assert desk.turn() == []
    assert desk.turns.count == 3


def test_work_without_steps_is_done_at_once() -> None:
    desk = Desk()
    desk.run("a", 0)
    assert desk.log == ["a done"]
    assert desk.shell.timers_pending == 0


def test_a_turn_uses_its_whole_time() -> None:
    desk = Desk(turn_s=0.01)
    desk.shell.tick_s = 0.004
    desk.run("a", 100)
    first = len(desk.log)
    assert 1 < first < 10
    assert 1 < len(desk.turn()) < 10
    assert desk.turns.turn_s_max >= 0.01


def test_work_that_is_cancelled_does_nothing_more() -> None:
    desk = Desk()
    desk.run("a", 5)
    desk.work.cancel()
    assert desk.turn() == []
    assert desk.shell.timers_pending == 0
    assert not desk.work.is_running


def test_other_work_replaces_running_work_in_its_next_turn() -> None:
    desk = Desk()
    desk.run("a", 5)
    desk.run("b", 1)
    assert desk.log == ["a0"]
    assert desk.turn() == ["b0"]
    assert desk.turn() == ["b done"]


def test_a_step_may_cancel_its_work_or_put_other_work_in_its_place() -> None:
    desk = Desk(turn_s=1.0)

    def cancels() -> Iterator[None]:
        desk.work.cancel()
        yield

    desk.work.run(cancels(), lambda: desk.log.append("done"))
    assert desk.log == []
    assert not desk.work.is_running

    def restarts() -> Iterator[None]:
        desk.run("b", 1)
        yield

    # The last step of the replaced work: its end is not the end of the new work.
    desk.work.run(restarts(), lambda: desk.log.append("done"))
    assert desk.log == []
    assert desk.turn() == ["b0", "b done"]


def test_the_call_at_the_end_may_start_work_again() -> None:
    desk = Desk()
    desk.work.run(desk.steps("a", 1), lambda: desk.run("b", 1))
    assert desk.turn() == ["b0"]
    assert desk.turn() == ["b done"]
