"""Ask a process whether it is well, and say when it hangs.

A process that hangs is one that did not answer several questions in a row. They are counted rather than timed: when
the whole machine has slept, that is one answer that did not come, not an hour without any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

__all__ = ["Check", "HealthSettings", "ask", "until_it_hangs"]

# Asked with the seconds that the process has lived. True: it is well; False: it is not, or does not answer; None: it
# cannot be known, for reasons that are not its own.
Check = Callable[[float], Awaitable[bool | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    # A question takes one connection and less than a millisecond of both sides.
    every_s: float = 5.0
    # A process that waits for its turn on a busy machine, swaps or collects garbage answers within seconds.
    timeout_s: float = 10.0
    # Answers in a row that do not come: 20 s of refusals, a minute of silence. Sooner would end processes that only
    # have a hard time, and a restart makes that harder.
    failures_max: int = 4


async def ask(check: Check, lived_s: float, timeout_s: float) -> bool | None:
    """The answer; False if there is none in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await check(lived_s)
    except (OSError, TimeoutError):
        return False


async def until_it_hangs(check: Check, settings: HealthSettings, *, lived_s: Callable[[], float]) -> str:
    """Return, with words about it, once so many answers in a row did not come; what cannot be known does not count."""
    failures = 0
    while failures < settings.failures_max:
        await asyncio.sleep(settings.every_s)
        answer = await ask(check, lived_s(), settings.timeout_s)
        if answer is not None:
            failures = 0 if answer else failures + 1
    return f"hangs: {failures} questions in a row without a good answer"
