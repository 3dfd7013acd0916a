"""Publishes to rate-limited topics, whose replies come later: see EQ.DEFER.

If a publish has to wait for tokens, the hub replies that its result is deferred, with a number, and sends the result in
a push with that number. Meanwhile the connection serves other topics. The push may even overtake the reply.

Always true: `counts` has, by topic, the number of publishes without a result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["DeferredPublishes"]

# Completes one publish with its reply, or with an error.
Settle = Callable[[object], None]


class DeferredPublishes:
    """Owned by one connection."""

    __slots__ = ("_barriers", "_early", "_settles", "counts")

    def __init__(self) -> None:
        # By number: the topic, and the callback for the result.
        self._settles: dict[int, tuple[bytes, Settle]] = {}
        # Results that arrived before their deferral.
        self._early: dict[int, object] = {}
        self._barriers: list[tuple[set[int], asyncio.Future[None]]] = []
        self.counts: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._settles)

    def add(self, number: int, topic: bytes, settle: Settle) -> None:
        if number in self._early:
            settle(self._early.pop(number))
            return
        self._settles[number] = (topic, settle)
        self.counts[topic] = self.counts.get(topic, 0) + 1

    def answer(self, number: int, reply: object) -> bytes | None:
        """The result has arrived; return the topic, if the publish was waiting for it."""
        found = self._settles.pop(number, None)
        if found is None:
            self._early[number] = reply
            return None
        topic, settle = found
        left = self.counts[topic] - 1
        if left:
            self.counts[topic] = left
        else:
            del self.counts[topic]
        settle(reply)
        if self._barriers:
            self._pass(number)
        return topic

    def answered(self) -> asyncio.Future[None]:
        """Done when all publishes deferred at present have results, or never will."""
        future = asyncio.get_running_loop().create_future()
        self._barriers.append((set(self._settles), future))
        return future

    def _pass(self, number: int) -> None:
        for numbers, future in self._barriers:
            numbers.discard(number)
            if not numbers and not future.done():
                future.set_result(None)
        self._barriers = [barrier for barrier in self._barriers if not barrier[1].done()]

    def fail(self, reason: Callable[[], object]) -> None:
        """The connection is lost. `reason` makes the error of each."""
        settles, self._settles = self._settles, {}
        self.counts.clear()
        for _, settle in settles.values():
            settle(reason())
        barriers, self._barriers = self._barriers, []
        for _, future in barriers:
            if not future.done():
                future.set_result(None)
