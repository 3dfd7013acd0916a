"""Health checks of the parts of a system, by the service that they give."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from equipoise.access import parse_users
from equipoise.hub import Hub, HubSettings
from equipoise.local.checks import (
    BATCH_S_MAX,
    FIRST_BATCH_S_MAX,
    controller_answers,
    hub_answers,
    pipeline_works,
)
from equipoise.processes import ask, free_port

HOST = "127.0.0.1"
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def asked_of_server(answer: Answer, check: Callable[[str, int], object]) -> bool | None:
    server = await asyncio.start_server(answer, HOST, 0)
    try:
        made = check(HOST, server.sockets[0].getsockname()[1])
        assert callable(made)
        return await ask(made, 1.0, 0.5)
    finally:
        server.close()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """As a process that hangs: the kernel accepts for it."""
    await reader.read()
    writer.close()


def saying(line: bytes) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(line)
        writer.close()

    return answer


def test_a_hub_is_healthy_if_it_replies_even_if_it_rejects_clients() -> None:
    async def scene() -> None:
        rules = parse_users('[users.ann]\ncertificates = ["ann"]\npublish = ["*"]\n')
        for users in (None, rules):
            hub = Hub(HubSettings(host=HOST, port=0), users)
            await hub.start()
            assert await ask(hub_answers(HOST, hub.port), 1.0, 5.0) is True
            await hub.stop()

    asyncio.run(scene())


def test_a_hub_that_hangs_or_another_server_is_not_healthy() -> None:
    assert asyncio.run(asked_of_server(silent, hub_answers)) is False
    assert asyncio.run(asked_of_server(saying(b"HTTP/1.1 400 what?\r\n"), hub_answers)) is False
    assert asyncio.run(ask(hub_answers(HOST, free_port()), 1.0, 0.5)) is False


def test_a_controller_is_healthy_if_its_health_page_is() -> None:
    assert asyncio.run(asked_of_server(saying(b"HTTP/1.1 200 OK\r\n\r\n"), controller_answers)) is True
    assert asyncio.run(asked_of_server(saying(b"HTTP/1.1 503 No\r\n\r\n"), controller_answers)) is False
    assert asyncio.run(asked_of_server(saying(b"x" * 100_000), controller_answers)) is False
    assert asyncio.run(asked_of_server(silent, controller_answers)) is False


def test_a_pipeline_is_healthy_if_this_process_has_finished_a_batch_recently(tmp_path: Path) -> None:
    commits = tmp_path / "commits"

    def judged(lived_s: float, *, is_fed: bool = True) -> bool | None:
        return asyncio.run(ask(pipeline_works(tmp_path, is_fed=lambda: is_fed), lived_s, 1.0))

    def finished(ago_s: float) -> None:
        at = time.time() - ago_s
        os.utime(commits, (at, at))

    # There never was a batch: it is waited for, and not for ever.
    assert judged(10.0) is False
    assert judged(FIRST_BATCH_S_MAX + 1) is None
    commits.mkdir()
    finished(20.0)
    assert judged(30.0) is True
    # That one was of a former life.
    assert judged(10.0) is False
    finished(BATCH_S_MAX + 10)
    assert judged(1_000.0) is False
    # There is no process to read from.
    assert judged(1_000.0, is_fed=False) is None
