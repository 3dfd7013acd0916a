"""Verify secrets in threads: scrypt takes about 50 ms by design.

A few are checked at once and the rest queue, as long as their clients are connected: a client that floods a hub with
logins and disconnects leaves no work behind. A successful login is cached by a keyed digest, so a fleet that reconnects
with one password is checked once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import Executor

from equipoise.access import verify_secret

REMEMBERED_MAX = 20_000
"""Cached logins, at 130 B each, under 3 MB: more than a fleet has users, since each miss costs the hub 50 ms."""


class Logins:
    """Owned by the hub; checks at most `at_once` secrets at the same time, on the executor."""

    def __init__(self, executor: Executor | None, key: bytes, *, at_once: int) -> None:
        self._executor = executor
        self._key = key
        self._slots = asyncio.Semaphore(at_once)
        self._right: dict[bytes, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def check(
        self, encoded: str, password: bytes, done: Callable[[bool], None], is_wanted: Callable[[], bool]
    ) -> None:
        task = asyncio.get_running_loop().create_task(self._check(encoded, password, done, is_wanted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(
        self, encoded: str, password: bytes, done: Callable[[bool], None], is_wanted: Callable[[], bool]
    ) -> None:
        digest = hashlib.blake2b(encoded.encode() + b"\0" + password, key=self._key).digest()
        if digest in self._right:
            done(True)
            return
        async with self._slots:
            if not is_wanted():
                return
            loop = asyncio.get_running_loop()
            is_right = await loop.run_in_executor(self._executor, verify_secret, encoded, password)
        if is_right:
            if len(self._right) >= REMEMBERED_MAX:
                del self._right[next(iter(self._right))]
            self._right[digest] = None
        done(is_right)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
