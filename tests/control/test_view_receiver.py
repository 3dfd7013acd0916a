"""Views received over a real socket: valid, old and forged ones, and invalid bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from equipoise.control.view_receiver import GREETING_S, SENDERS_MAX, ViewReceiver
from equipoise.errors import SettingsError
from equipoise.view import HubView, TopicView, View, to_tables
from equipoise.view.codec import encode_view, greeting

TOKEN = "secret-of-the-pipeline"
NOW = 1_000_000.0


def view_at(time_s: float) -> View:
    topics = [TopicView(name=b"\xff\x00", out_bytes_per_s=10.0, carried_by={"a": 0.5, "b": 0.5})]
    return View.of(time_s, topics, [HubView(name="a", site="paris"), HubView(name="b")])


def sent(view: View) -> bytes:
    return encode_view(view.time_s, view.window_s, to_tables(view))


class Sender:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> bytes:
        """The answer; empty if the connection was ended instead."""
        self._writer.write(data)
        try:
            return await self._reader.readline()
        except ConnectionError:
            return b""


def play(
    scenario: Callable[[ViewReceiver, Sender], Coroutine[Any, Any, None]], *, token: str = TOKEN
) -> ViewReceiver:
    async def main() -> ViewReceiver:
        async with asyncio.timeout(30):
            intake = ViewReceiver(token=TOKEN, clock=lambda: NOW)
            host, _, port = (await intake.start("127.0.0.1", 0)).rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(greeting(token))
            try:
                await scenario(intake, Sender(reader, writer))
            finally:
                writer.transport.abort()
                await intake.stop()
                # The loop has to run once more for the transports to be gone.
                await asyncio.sleep(0.01)
            return intake

    return asyncio.run(main())


def test_a_view_arrives_as_it_was_sent() -> None:
    async def scenario(intake: ViewReceiver, sender: Sender) -> None:
        view = view_at(NOW - 1)
        assert await sender.send(sent(view)) == b"+\n"
        assert intake.latest is not None and intake.age_s == 1.0
        # A latency that is not known equals nothing, not even itself.
        assert repr(list(intake.latest.topic_rows())) == repr(list(view.topic_rows()))
        assert list(intake.latest.hub_rows()) == list(view.hub_rows())

    assert play(scenario).views == 1


def test_an_older_view_never_replaces_a_newer_one() -> None:
    async def scenario(intake: ViewReceiver, sender: Sender) -> None:
        assert await sender.send(sent(view_at(NOW - 1))) == b"+\n"
        assert (await sender.send(sent(view_at(NOW - 2)))).startswith(b"-it is not newer")
        assert (await sender.send(sent(view_at(NOW - 1)))).startswith(b"-it is not newer")
        assert await sender.send(sent(view_at(NOW))) == b"+\n"

    intake = play(scenario)
    assert (intake.views, intake.refused) == (2, 2)


def test_a_view_with_a_future_time_is_rejected() -> None:
    async def scenario(intake: ViewReceiver, sender: Sender) -> None:
        assert b"ahead" in await sender.send(sent(view_at(NOW + 3_600)))
        assert await sender.send(sent(view_at(NOW))) == b"+\n"

    play(scenario)


def test_a_forged_view_is_rejected_and_the_sender_may_continue() -> None:
    async def scenario(intake: ViewReceiver, sender: Sender) -> None:
        view = view_at(NOW)
        tables = to_tables(view)
        forged = tables._replace(topics=tables.hubs)
        assert (await sender.send(encode_view(NOW, 10.0, forged))).startswith(b"-not a view")
        no_window = sent(replace(view, window_s=10.0))[:12] + b"\x00" * 8 + sent(view)[20:]
        assert (await sender.send(no_window)).startswith(b"-")
        assert await sender.send(sent(view)) == b"+\n"

    assert play(scenario).refused == 2


@pytest.mark.parametrize("data", [b"x" * 64, b"VIEW" + b"\xff" * 60, b"VIEW" + b"\x00" * 16 + b"\xff" * 12])
def test_invalid_bytes_end_the_connection(data: bytes) -> None:
    async def scenario(intake: ViewReceiver, sender: Sender) -> None:
        assert await sender.send(data) == b""

    assert play(scenario).latest is None


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x"])
def test_a_sender_without_the_token_is_rejected(token: str) -> None:
    async def scenario(intake: ViewReceiver, sender: Sender) -> None:
        assert await sender.send(sent(view_at(NOW))) == b""

    assert play(scenario, token=token).latest is None


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_silent_connections_block_no_sender() -> None:
    """
    1. One address opens a hundred connections to the controller and sends nothing.
    2. A pipeline on the same machine connects, greets and is served at once.
    3. The silent ones are gone: most because their address opened more, the last ones after two seconds.
    """

    async def scenario(intake: ViewReceiver, sender: Sender) -> None:
        assert await sender.send(sent(view_at(NOW - 3))) == b"+\n"
        assert intake._server is not None
        port = intake._server.sockets[0].getsockname()[1]
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(greeting(TOKEN))
        assert await Sender(reader, writer).send(sent(view_at(NOW - 2))) == b"+\n"
        async with asyncio.timeout(GREETING_S + 5):
            assert all([await is_closed(reader) for reader, _ in silent])
        assert await sender.send(sent(view_at(NOW - 1))) == b"+\n"
        assert len(intake._serving) == 2
        for _, one in (*silent, (reader, writer)):
            one.transport.abort()

    assert play(scenario).views == 3


def test_the_number_of_senders_with_the_token_is_limited() -> None:
    async def scenario(intake: ViewReceiver, sender: Sender) -> None:
        assert intake._server is not None
        port = intake._server.sockets[0].getsockname()[1]
        assert await sender.send(sent(view_at(NOW - 20))) == b"+\n"
        writers = []
        for n in range(SENDERS_MAX):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(greeting(TOKEN))
            writers.append(writer)
            answer = await Sender(reader, writer).send(sent(view_at(NOW - 10 + n)))
            assert answer == (b"+\n" if n < SENDERS_MAX - 1 else b"")
        for writer in writers:
            writer.transport.abort()

    play(scenario)


def test_an_address_in_use_is_an_error() -> None:
    async def scenario(intake: ViewReceiver, sender: Sender) -> None:
        assert intake._server is not None
        with pytest.raises(SettingsError, match="cannot receive views"):
            await ViewReceiver().start("127.0.0.1", intake._server.sockets[0].getsockname()[1])

    play(scenario)
