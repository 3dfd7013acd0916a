"""Send a new subscriber to the edge with the most capacity left, so that it need not be moved later.

PIEs come every few seconds, subscribers may come by the hundred: those that were sent to an edge since its last PIE are
counted as if they were there already.

Always true: an edge that is unavailable, or would be with those that were sent to it, is chosen only if all are.
"""

from __future__ import annotations

from collections.abc import Iterable

from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import Pie
from equipoise.content.balancing.settings import BalancingSettings

__all__ = ["FirstEdge", "fullness"]


def fullness(load: EdgeLoad, newcomers: int, settings: BalancingSettings) -> float:
    """How full a hub will be, by what is nearest to its lower threshold: at 1 it is unavailable."""
    growth = (load.subscriptions + newcomers) / load.subscriptions if load.subscriptions else 1.0
    # Where matches cost, a newcomer is taken for one that matches as much as those that are there.
    match_s = load.delay_s / load.subscriptions if load.match_s and load.subscriptions else 0.0
    delay_s = load.delay_s + newcomers * max(load.subscription_s, match_s)
    # A hub that gets no messages yet will get at least one a second.
    input_ratio = max(load.input_rate, 1.0) * delay_s
    return max(
        input_ratio / settings.input.lower,
        growth * load.output_ratio / settings.output.lower,
        (load.other_cpu_ratio + input_ratio) / settings.cpu.lower,
        (load.memory_ratio + newcomers * load.subscription_memory_ratio) / settings.memory.lower,
    )


class FirstEdge:
    """Owned by a balancer of an edge or of a head."""

    def __init__(self, settings: BalancingSettings) -> None:
        self._settings = settings
        # By hub, the number of the PIE, and how many were sent since.
        self._sent: dict[str, tuple[int, int]] = {}

    def choose(self, pies: Iterable[Pie]) -> tuple[str, float] | None:
        """The least full edge, and how full it is; None: there is none."""
        best: tuple[float, str] | None = None
        for pie in pies:
            full = fullness(pie.load, self._newcomers(pie), self._settings)
            if best is None or (full, pie.hub) < best:
                best = full, pie.hub
        return None if best is None else (best[1], best[0])

    def sent(self, pie: Pie) -> None:
        """A subscriber was sent to the hub of this PIE."""
        self._sent[pie.hub] = pie.number, self._newcomers(pie) + 1

    def _newcomers(self, pie: Pie) -> int:
        number, count = self._sent.get(pie.hub, (pie.number, 0))
        return count if number == pie.number else 0
