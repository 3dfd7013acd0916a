"""Start fits for limited topics whose latency limit does not hold, one at a time, beside the rounds.

A fit records a topic's arrivals and replays them for every number of hubs (`limits.split_fit`); that takes some ten
seconds in another process. The result goes into the planner's memory, is tried, and confirmed by the topic's measured
latency (`plan/steps/envelopes.py`). A fit that fails leaves its reason, and the last shares stay.

Always true: at most one fit is in progress; a topic is fitted again only after the last fit was judged, and a pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from equipoise.errors import EquipoiseError
from equipoise.limits.fitting import SplitFit
from equipoise.model import Specs, TopicSpec
from equipoise.plan import Memory
from equipoise.plan.latency import present_latency_s, specs_asking
from equipoise.view import View

__all__ = ["FindSplit", "SplitFits", "SplitQuestion"]

log = logging.getLogger("equipoise.control")

# Consecutive views with a broken limit before its topic is fitted: moves and bursts pass.
BROKEN_VIEWS = 5
# Pause after a failed fit, and after a judged one if the limit is still broken.
RETRY_S = 120.0
REFIT_S = 600.0


class SplitQuestion(NamedTuple):
    """Over how many hubs, up to a maximum, the topic should be split; with the cost of a message and its deliveries."""

    topic: bytes
    hubs_max: int
    message_us: float


# Raises EquipoiseError if the fit fails.
FindSplit = Callable[[SplitQuestion], Awaitable[SplitFit]]


class SplitFits:
    """Owned by the controller, which calls `look` in each round of a leader, and runs `run`."""

    def __init__(self, find: FindSplit, clock: Callable[[], float]) -> None:
        self._find = find
        self._clock = clock
        self._questions: asyncio.Queue[SplitQuestion] = asyncio.Queue(1)
        # The topic of the present fit.
        self.asked: bytes | None = None
        # By topic, consecutive views with its limit broken; and the time of the last view.
        self._broken: dict[bytes, int] = {}
        self._seen_s = 0.0
        self._found: dict[bytes, SplitFit] = {}

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            question = await self._questions.get()
            try:
                fit = await self._find(question)
            except EquipoiseError as problem:
                fit = SplitFit(self._clock(), note=str(problem)[:200])
            shown = question.topic.decode("utf-8", "backslashreplace")
            log.info("fit of %s: %s", shown, fit.note or f"{fit.hubs} hubs, {1e3 * fit.latency_s:.2f} ms")
            self._found[question.topic] = fit
            self.asked = None

    def merged(self, memory: Memory) -> Memory:
        """The memory with the results since then."""
        if not self._found:
            return memory
        found, self._found = self._found, {}
        fits = dict(memory.fits)
        for topic, fit in found.items():
            before = fits.get(topic)
            is_failed = not fit.hubs and before is not None
            fits[topic] = before.failed(fit.at_s, fit.note) if before is not None and is_failed else fit
        return msgspec.structs.replace(memory, fits=fits)

    def look(
        self, view: View, specs: Specs, memory: Memory, *, publication_us: float, delivery_us: float
    ) -> None:
        """Start a fit for the topic that has been above its limit for longest, if none is in progress."""
        if view.time_s <= self._seen_s:
            return
        self._seen_s = view.time_s
        rows = specs_asking(view, specs, _is_fitted)
        present_s = present_latency_s(view.topics, {row: spec.quantile for row, spec in rows.items()})
        names = view.topics.names
        broken = [row for row, spec in rows.items() if present_s[row] * 1e3 > (spec.latency_ms or 0.0)]
        self._broken = {names[row]: self._broken.get(names[row], 0) + 1 for row in broken}
        due = [row for row in broken if self._is_due(names[row], memory)]
        hubs_max = int(view.hubs.is_alive.sum())
        if not due or self.asked is not None or hubs_max < 2:
            return
        row = max(due, key=lambda row: (self._broken[names[row]], names[row]))
        topics = view.topics
        readers = float(topics.deliveries_per_s[row]) / max(1e-9, float(topics.publications_per_s[row]))
        self.asked = names[row]
        self._questions.put_nowait(
            SplitQuestion(names[row], min(hubs_max, 64), publication_us + readers * delivery_us)
        )

    def doubt(self, topic: bytes, fit: SplitFit | None) -> str:
        """Why no better split of the topic is known than this one; empty if its limit holds, or the split is tried."""
        if self.asked == topic:
            return "arrivals are being recorded and replayed"
        if fit is None:
            return "the latency limit was not broken long enough"
        if not fit.note and fit.is_confirmed and self._broken.get(topic, 0) >= BROKEN_VIEWS:
            again = f"the next fit is {REFIT_S / 60:.0f} min after the last"
            return f"the limit is broken again: arrivals have changed; {again}"
        return fit.note

    def _is_due(self, topic: bytes, memory: Memory) -> bool:
        if self._broken[topic] < BROKEN_VIEWS or topic in self._found:
            return False
        fit = memory.fits.get(topic)
        if fit is None:
            return True
        if fit.hubs and not fit.is_confirmed:
            # It is being tried.
            return False
        return self._clock() - fit.at_s >= (REFIT_S if fit.hubs and not fit.is_failed else RETRY_S)


def _is_fitted(spec: TopicSpec) -> bool:
    """Whether topics of this spec can be split, and have a limit to be fitted to."""
    return spec.rate_per_s is not None and spec.latency_ms is not None and spec.durability is None
