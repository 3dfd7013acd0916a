"""Send a new subscriber to the edge with the most capacity left, so that it need not be moved later.

PIEs arrive every few seconds, subscribers maybe by the hundred: subscribers sent to an edge since its last PIE are
counted as if they had attached.

Always true: an edge that is unavailable, or would be with the subscribers sent to it, is chosen only if all are.
"""

from __future__ import annotations

from collections.abc import Iterable

from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import Pie
from equipoise.content.balancing.settings import BalancingSettings

__all__ = ["FirstEdge", "fullness"]


def fullness(load: EdgeLoad, newcomers: int, settings: BalancingSettings) -> float:
    """The highest ratio of a metric to its lower threshold after a subscription: at 1 the hub is unavailable."""
    growth = (load.subscriptions + newcomers) / load.subscriptions if load.subscriptions else 1.0
    # If matches have a cost, a new subscriber counts with the average matches of the present ones.
    match_s = load.delay_s / load.subscriptions if load.match_s and load.subscriptions else 0.0
    delay_s = load.delay_s + newcomers * max(load.subscription_s, match_s)
    # A hub without messages yet is assumed to receive at least one a second.
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
        # By hub, the number of the PIE, and the subscribers sent since.
        self._sent: dict[str, tuple[int, int]] = {}

    def choose(self, pies: Iterable[Pie]) -> tuple[str, float] | None:
        """The least full edge, and its fullness; None: there is none."""
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
