"""Successful logins are cached, for as many users as a fleet has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from equipoise.hub.access import login
from equipoise.hub.access.login import Logins


class Inline(Executor):
    """Runs submitted work at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def test_each_password_of_a_fleet_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = []

    def verify(encoded: str, password: bytes) -> bool:
        checked.append(encoded)
        return True

    async def story() -> None:
        made = Logins(Inline(), b"key", at_once=2)
        for _ in range(2):
            answers: list[asyncio.Future[bool]] = []
            for user in range(2_000):
                answer = asyncio.get_running_loop().create_future()
                answers.append(answer)
                made.check(f"user-{user}", b"secret", answer.set_result, lambda: True)
            async with asyncio.timeout(30.0):
                assert all(await asyncio.gather(*answers))
        made.close()

    monkeypatch.setattr(login, "verify_secret", verify)
    asyncio.run(story())
    assert len(checked) == 2_000
