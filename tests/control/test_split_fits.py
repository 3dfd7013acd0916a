"""The controller fits limited topics by itself, one at a time, and keeps the reason of each failure."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from itertools import pairwise

import pytest

from equipoise.cli.support import split_jobs
from equipoise.control.settings import ControllerSettings
from equipoise.control.split_fits import BROKEN_VIEWS, REFIT_S, RETRY_S, FindSplit, SplitFits, SplitQuestion
from equipoise.errors import PipelineError
from equipoise.limits.fitting import SplitFit
from equipoise.model import Specs, TopicSpec
from equipoise.plan import Memory
from equipoise.store.tree import Tree
from equipoise.view import View
from plan.small import topic, view

LATE = Specs([TopicSpec(pattern=b"t*", rate_per_s=1_000.0, burst_messages=100, latency_ms=1.0)])
HUBS = ("a", "b", "c")


class World:
    """Fits whose answers the test gives; time passes by views."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[SplitQuestion] = []
        self.answer: SplitFit | Exception = SplitFit(0.0, hubs=2, latency_s=0.0006, is_within=True)
        self.fits = SplitFits(self._find, lambda: self.now)
        self.memory = Memory()

    async def _find(self, question: SplitQuestion) -> SplitFit:
        self.asked.append(question)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def seen(self, latency_s: float) -> View:
        rows = [replace(topic(name, 0.3, "a"), latency_s_p99=latency_s) for name in ("t1", "t2", "free")]
        return view(rows, HUBS, at_s=self.now, plan_version=1)

    async def look(self, times: int, latency_s: float = 0.004) -> None:
        running = asyncio.create_task(self.fits.run())
        for _ in range(times):
            self.now += 1.0
            self.fits.look(self.seen(latency_s), LATE, self.memory, publication_us=5.0, delivery_us=2.0)
            for _ in range(5):
                await asyncio.sleep(0)
            self.memory = self.fits.merged(self.memory)
        running.cancel()


def test_a_topic_above_its_limit_is_fitted_after_some_views_and_one_at_a_time() -> None:
    async def scenario() -> None:
        world = World()
        await world.look(BROKEN_VIEWS - 1)
        await world.look(1, latency_s=0.0005)
        await world.look(BROKEN_VIEWS - 1)
        assert world.asked == []
        await world.look(1)
        assert [question.topic for question in world.asked] == [b"t2"]
        assert world.asked[0].hubs_max == 3
        assert world.asked[0].message_us > 5.0
        assert world.memory.fits == {b"t2": world.answer}
        await world.look(20)
        # What was found is being tried; without limits nothing is fitted.
        assert {question.topic for question in world.asked} == {b"t1", b"t2"}

    asyncio.run(scenario())


def test_the_reason_of_a_failed_fit_is_kept_and_it_is_retried_later() -> None:
    async def scenario() -> None:
        world = World()
        world.answer = PipelineError("too few arrivals: 12 messages")
        await world.look(BROKEN_VIEWS)
        (fit,) = world.memory.fits.values()
        assert (fit.hubs, fit.note) == (0, "too few arrivals: 12 messages")
        await world.look(int(RETRY_S) + 10)
        asked = [question.topic for question in world.asked]
        assert asked.count(b"t1") == asked.count(b"t2") == 2

    asyncio.run(scenario())


def test_a_failed_fit_keeps_the_previous_result_and_a_reason() -> None:
    async def scenario() -> None:
        world = World()
        world.answer = SplitFit(0.0, hubs=2, latency_s=0.0006, is_within=True, is_confirmed=True, order=4)
        await world.look(2 * BROKEN_VIEWS)
        world.answer = PipelineError("the JVM is gone")
        world.now += REFIT_S
        await world.look(2)
        assert len(world.asked) == 4
        for name, fit in world.memory.fits.items():
            assert (fit.hubs, fit.order, fit.is_confirmed, fit.note) == (2, 4, True, "the JVM is gone")
            assert world.fits.doubt(name, fit) == "the JVM is gone"
        # An attempt that has failed is repeated as soon as any other, not after the time of one that was judged.
        await world.look(int(RETRY_S) + 10)
        assert len(world.asked) == 6

    asyncio.run(scenario())


def test_a_limit_that_is_broken_again_after_its_split_was_confirmed_has_its_reason_shown() -> None:
    """
    1. A split is confirmed: no message is shown.
    2. Groups change their phases, and the limit is broken again. The split stays.
    3. The page shows that until the next fit is due, and then that it is running.
    """

    async def scenario() -> None:
        world = World()
        world.answer = SplitFit(100.0, hubs=2, latency_s=0.0006, is_within=True, is_confirmed=True)
        assert "not broken long enough" in world.fits.doubt(b"t1", None)
        await world.look(2 * BROKEN_VIEWS)
        await world.look(1, latency_s=0.0005)
        assert world.fits.doubt(b"t1", world.memory.fits[b"t1"]) == ""
        await world.look(BROKEN_VIEWS)
        assert "arrivals have changed" in world.fits.doubt(b"t1", world.memory.fits[b"t1"])
        assert len(world.asked) == 2
        world.now += REFIT_S
        view = world.seen(0.004)
        world.fits.look(view, LATE, world.memory, publication_us=5.0, delivery_us=2.0)
        asked = world.fits.asked
        assert asked is not None and "being recorded" in world.fits.doubt(asked, world.memory.fits[asked])

    asyncio.run(scenario())


def play(script: str, monkeypatch: pytest.MonkeyPatch) -> SplitFit:
    """The job of a fit, with a program in place of the command."""
    monkeypatch.setattr(split_jobs, "command_of", lambda *_: [sys.executable, "-S", "-c", script])
    find = split_jobs.split_job(ControllerSettings(), "zk://none", Tree(), lambda: 7.0)
    return asyncio.run(_ask(find))


async def _ask(find: FindSplit) -> SplitFit:
    return await find(SplitQuestion(b"t", 3, 5.0))


def test_a_job_prints_its_result_or_the_reason_of_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"hubs": 2, "latency_s": 0.5, "undivided_s": 0.25, "is_within": True, "order_number": 3}
    fit = play(f"print({json.dumps(json.dumps(found))})", monkeypatch)
    assert fit == SplitFit(7.0, hubs=2, latency_s=0.5, undivided_s=0.25, is_within=True, order=3)
    with pytest.raises(PipelineError, match=r"^too few$"):
        play("import sys; sys.exit('x\\nequipoise: too few')", monkeypatch)


def test_the_command_names_store_region_and_master() -> None:
    settings = ControllerSettings(fit_master="local[1]", fit_user="ann", fit_password_file="secret")
    words = split_jobs.command_of(SplitQuestion(b"-t", 4, 12.5), settings, "zk://x", Tree("lab"))
    assert words[-2:] == ["--", "-t"]
    pairs = dict(pairwise(words))
    assert pairs["--store"] == "zk://x" and pairs["--region"] == "lab" and pairs["--master"] == "local[1]"
    assert pairs["--hubs"] == "4" and pairs["--user"] == "ann" and pairs["--record"] == "10s"
    with pytest.raises(PipelineError, match="not UTF-8"):
        split_jobs.command_of(SplitQuestion(b"\xff", 4, 1.0), settings, "zk://x", Tree())
