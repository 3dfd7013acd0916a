"""Turns of logs that a hub takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from equipoise.hub.shell.log_turns import TAKEN_AT_ONCE, LogTurns

LOGS = TAKEN_AT_ONCE + 3


class Takers:
    """Logs that take a turn each, in order; the test ends the turns."""

    def __init__(self) -> None:
        self.turns = LogTurns()
        self.inside: list[int] = []
        self._ends = [asyncio.Event() for _ in range(LOGS)]
        self.tasks = [asyncio.create_task(self._take(log)) for log in range(LOGS)]

    async def _take(self, log: int) -> None:
        async with self.turns.turn(log):
            self.inside.append(log)
            await self._ends[log].wait()
            self.inside.remove(log)

    async def end(self, log: int) -> None:
        self._ends[log].set()
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def play(tell: Callable[[Takers], Awaitable[None]]) -> None:
    async def main() -> None:
        takers = Takers()
        await settle()
        await tell(takers)
        for log in range(LOGS):
            await takers.end(log)
        await asyncio.gather(*takers.tasks, return_exceptions=True)
        # Every turn was given back.
        async with asyncio.timeout(10.0), takers.turns.turn("one"), takers.turns.turn("two"):
            pass

    asyncio.run(main())


def test_only_a_few_logs_have_a_turn_and_the_next_one_follows() -> None:
    async def tell(takers: Takers) -> None:
        assert takers.inside == list(range(TAKEN_AT_ONCE))
        await takers.end(0)
        assert takers.inside == list(range(1, TAKEN_AT_ONCE + 1))

    play(tell)


def test_a_log_that_is_open_nowhere_does_not_wait_and_takes_no_turn_of_others() -> None:
    async def tell(takers: Takers) -> None:
        takers.turns.hurry(LOGS - 1)
        takers.turns.hurry(LOGS - 1)
        takers.turns.hurry("unknown")
        await settle()
        assert takers.inside == [*range(TAKEN_AT_ONCE), LOGS - 1]
        await takers.end(LOGS - 1)
        assert takers.inside == list(range(TAKEN_AT_ONCE))

    play(tell)


def test_a_log_that_is_released_while_it_waits_or_at_its_turn_leaves_no_turn() -> None:
    async def tell(takers: Takers) -> None:
        waiting = takers.tasks[TAKEN_AT_ONCE]
        waiting.cancel()
        # Its turn comes in the same moment.
        takers.tasks[0].cancel()
        takers.tasks[TAKEN_AT_ONCE + 1].cancel()
        await settle()
        assert len([log for log in takers.inside if not takers.tasks[log].done()]) == TAKEN_AT_ONCE

    play(tell)
