"""Fits of rate-limited topics for the controller: `equipoise profile split` in a child process.

The process records arrivals at all hubs and replays them as a Spark job. It has its own memory and its own JVM, so a
failed job does not affect the controller.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

from equipoise.control.settings import ControllerSettings
from equipoise.control.split_fits import FindSplit, SplitQuestion
from equipoise.errors import EquipoiseError, PipelineError
from equipoise.limits.fitting import SplitFit
from equipoise.store.tree import Tree

__all__ = ["command_of", "split_job"]

RECORD = "10s"
# For the recording, the start of a JVM, and the job.
JOB_S_MAX = 180.0


def command_of(
    question: SplitQuestion, settings: ControllerSettings, store_url: str, tree: Tree
) -> list[str]:
    """Raises PipelineError for a topic whose name is not UTF-8."""
    try:
        topic = question.topic.decode()
    except UnicodeDecodeError as problem:
        raise PipelineError("the name of the topic is not UTF-8") from problem
    words = [sys.executable, "-m", "equipoise.cli.main", "profile", "split", "--record", RECORD]
    words += [
        "--deal",
        "--json",
        "--hubs",
        str(question.hubs_max),
        "--message-us",
        f"{question.message_us:.3f}",
    ]
    words += ["--store", store_url, "--region", tree.region, "--master", settings.fit_master]
    if settings.fit_user:
        words += ["--user", settings.fit_user, "--password-file", settings.fit_password_file]
    return [*words, "--", topic]


def split_job(
    settings: ControllerSettings, store_url: str, tree: Tree, clock: Callable[[], float]
) -> FindSplit:
    async def find(question: SplitQuestion) -> SplitFit:
        process = await asyncio.create_subprocess_exec(
            *command_of(question, settings, store_url, tree),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(JOB_S_MAX):
                out, problem = await process.communicate()
        except TimeoutError:
            raise PipelineError(f"the fit took longer than {JOB_S_MAX:.0f} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise PipelineError(_last_line(problem))
        return _fit(out, clock())

    return find


def _last_line(problem: bytes) -> str:
    lines = problem.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("equipoise: ") if lines else "the fit failed without output"


def _fit(out: bytes, now: float) -> SplitFit:
    try:
        found = json.loads(out)
        return SplitFit(
            now,
            hubs=int(found["hubs"]),
            latency_s=float(found["latency_s"]),
            undivided_s=float(found["undivided_s"]),
            is_within=bool(found["is_within"]),
            order=int(found["order_number"]),
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise EquipoiseError(f"the fit's output cannot be read: {problem}") from problem
