"""Views sent to a real intake: the newest is sent, and an unreachable controller costs nothing."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from equipoise.control.view_receiver import ViewReceiver
from equipoise.pipeline.sender import ViewSender
from equipoise.pipeline.sliding_window import WindowedView
from equipoise.view import HubView, TopicView, View, to_tables
from support.polling import until

NOW_S = 1_000_000.0


def view_at(time_s: float) -> WindowedView:
    view = View.of(time_s, [TopicView(name=b"\xff", carried_by={"h1": 1.0})], [HubView(name="h1")])
    return WindowedView(time_s, 10.0, to_tables(view))


def play(scenario: Callable[[ViewReceiver, str], Coroutine[Any, Any, None]], token: str = "") -> None:
    async def main() -> None:
        intake = ViewReceiver(token=token, clock=lambda: NOW_S)
        address = await intake.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(30):
                await scenario(intake, address)
        finally:
            await intake.stop()
            # The loop has to run once more for the transports to be gone.
            await asyncio.sleep(0.01)

    asyncio.run(main())


def test_views_reach_the_controller_one_after_the_other() -> None:
    async def scenario(intake: ViewReceiver, address: str) -> None:
        sender = ViewSender(lambda: address, "a token of some length")
        for at in range(3):
            sender.offer(view_at(NOW_S - 10 + at))
            await until(lambda at=at: intake.views == at + 1)  # type: ignore[misc]  # mypy knows no lambda's default
        latest = intake.latest
        assert latest is not None
        assert (latest.time_s, latest.window_s, list(latest.topics.names)) == (NOW_S - 8, 10.0, [b"\xff"])
        await asyncio.to_thread(sender.close)
        assert sender.counts == Counter({"taken": 3})

    play(scenario, token="a token of some length")


def test_a_view_that_the_controller_rejects_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(intake: ViewReceiver, address: str) -> None:
        sender = ViewSender(lambda: address)
        sender.offer(view_at(NOW_S - 5))
        await until(lambda: intake.views == 1)
        sender.offer(view_at(NOW_S - 6))
        await until(lambda: sender.counts["refused"] == 1)
        await asyncio.to_thread(sender.close)

    play(scenario)
    assert "not newer than the last one" in caplog.text


def test_without_the_right_token_views_fail_with_a_probable_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(intake: ViewReceiver, address: str) -> None:
        sender = ViewSender(lambda: address, "wrong")
        sender.offer(view_at(NOW_S - 5))
        await until(lambda: sender.counts["failed"] == 1)
        await asyncio.to_thread(sender.close)
        assert intake.views == 0

    play(scenario, token="right")
    assert "cannot be reached" in caplog.text


def test_a_controller_that_starts_later_gets_the_next_view() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    async def main() -> None:
        leader = [""]
        sender = ViewSender(lambda: leader[0])
        sender.offer(view_at(NOW_S - 9))
        await until(lambda: sender.counts["passed over"] == 1)
        leader[0] = f"127.0.0.1:{port}"
        sender.offer(view_at(NOW_S - 8))
        await until(lambda: sender.counts["failed"] == 1)
        intake = ViewReceiver(clock=lambda: NOW_S)
        await intake.start("127.0.0.1", port)
        sender.offer(view_at(NOW_S - 7))
        await until(lambda: intake.views == 1)
        await asyncio.to_thread(sender.close)
        await intake.stop()
        await asyncio.sleep(0.01)

    asyncio.run(main())


def test_offering_never_blocks_and_the_newest_view_is_sent_next() -> None:
    with socket.socket() as mute:
        # It accepts by the kernel's backlog, and never answers.
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        sender = ViewSender(lambda: f"127.0.0.1:{mute.getsockname()[1]}")
        for at in range(50):
            sender.offer(view_at(NOW_S + at))
        # One that waited for its view to be sent would have passed over none.
        assert sender.counts["passed over"] >= 48
        # The peer goes: the sender need not wait for its time-out to end.
        mute.close()
        sender.close()
