"""Check secrets beside the loop: scrypt takes some 50 ms by design, and nobody else shall wait for it.

A few are checked at once and the rest queue. A login that was right is remembered by a keyed digest, so that a
fleet that reconnects with one password pays once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from concurrent.futures import Executor

from equipoise.access import verify_secret

REMEMBERED_MAX = 1_000


class Logins:
    """Owned by the hub; `executor` has as many workers as logins may be checked at once."""

    def __init__(self, executor: Executor | None, key: bytes) -> None:
        self._executor = executor
        self._key = key
        self._right: dict[bytes, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, encoded: str, password: bytes, done: Callable[[bool], None]) -> None:
        task = asyncio.get_running_loop().create_task(self._check(encoded, password, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _check(self, encoded: str, password: bytes, done: Callable[[bool], None]) -> None:
        digest = hashlib.blake2b(encoded.encode() + b"\0" + password, key=self._key).digest()
        if digest in self._right:
            done(True)
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
