"""What an edge measures: sending that comes after a run, and the part of a processor that the hub gets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from equipoise.content.balancing.settings import BalancingSettings
from equipoise.hub.content.edge_probe import EdgeProbe
from equipoise.hub.content.topic_filters import MatchedRun, TopicFilters
from equipoise.hub.data.turns import UngatheredTurns

from .world import FakeShell


class Gathering(UngatheredTurns):
    """Turns whose output is sent at their end."""

    def __init__(self) -> None:
        self.sent_s, self.bytes = 0.0, 0

    def turn(self, work: Callable[[], object], /) -> object:
        return work()

    def gathered(self, write: Callable[[bytes], object], /) -> Callable[[bytes], object]:
        return write

    def sent(self) -> tuple[float, int] | None:
        return self.sent_s, self.bytes


class Stats:
    messages = matches = 0
    matching_s = 0.0

    def fine_now(self) -> float:
        return 0.0

    def call_soon(self, work: Callable[[], None]) -> object:
        return None


class Stream:
    name = b"t"
    bytes_out = 0


class ProbeWorld:
    """A hub whose clocks the test moves: `work_s` is the wall clock of work, `cpu_s` the processor's."""

    def __init__(self) -> None:
        self.shell = FakeShell(1 << 30)
        self.turns = self.shell.turns = Gathering()
        self.work_s = self.cpu_s = 0.0
        self.shell.work_s = lambda: self.work_s  # type: ignore[method-assign]
        self.shell.cpu_s = lambda: self.cpu_s  # type: ignore[method-assign]
        self.stream = Stream()
        self.filters = TopicFilters(Stats(), lambda: None)  # type: ignore[arg-type, return-value]  # matches nothing
        self.filters.subscriptions = 10
        self.probe = EdgeProbe(self.shell, BalancingSettings(), 1e6)

    def deliver(self, messages: int, *, work_s: float, cpu_s: float, size: int) -> None:
        start = self.probe.begin(self.stream)
        self.work_s += work_s
        self.cpu_s += cpu_s
        self.stream.bytes_out += size
        run = MatchedRun([b"{}"] * messages, [(None, ())] * messages, [10] * messages)
        self.probe.delivered(self.filters, self.stream, run, start)


def test_a_message_is_charged_its_part_of_what_the_turn_sends() -> None:
    world = ProbeWorld()
    world.deliver(2, work_s=0.002, cpu_s=0.002, size=600)
    world.turns.sent_s, world.turns.bytes = 0.02, 800
    assert world.probe.load(10).delay_s == 0.0
    world.shell.advance()
    # Others have written a quarter of what the turn sent.
    assert world.probe.load(10).delay_s == pytest.approx((0.002 + 0.75 * 0.02) / 2)


def test_a_processor_that_is_had_in_part_is_full_when_that_part_is_used() -> None:
    world = ProbeWorld()
    for _ in range(10):
        # Work takes ten times its processor time: the hub gets a tenth of a core.
        world.deliver(1, work_s=0.05, cpu_s=0.005, size=100)
        world.cpu_s += 0.045
        world.shell.advance(1.0)
        world.probe.tick()
    load = world.probe.load(10)
    # Half of a tenth of a core is used: 0.05 of the second for messages, the rest for other things.
    assert load.cpu_ratio == pytest.approx(0.5, abs=0.1)
    assert load.input_ratio == pytest.approx(0.05, abs=0.01)
    assert load.cpu_ratio == pytest.approx(load.input_ratio + load.other_cpu_ratio)
