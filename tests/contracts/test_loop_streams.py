"""What programs on asyncio's streams may rely on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from contracts.loop_peers import HOST, port_of, unused_port

Run = Callable[[Coroutine[Any, Any, None]], None]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[int]:
    """Serve with a handler; the value is the port. Leaving waits for the handlers.

    It must do so itself: `wait_closed` of Python 3.11 and of uvloop does not.
    """
    handlers: dict[asyncio.Task[None], None] = {}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers[task] = None
        await handler(reader, writer)

    server = await asyncio.start_server(handle, HOST, 0)
    try:
        yield port_of(server)
    finally:
        server.close()
        await asyncio.gather(*handlers, return_exceptions=True)
        await server.wait_closed()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
        await writer.drain()
    writer.close()
    await writer.wait_closed()


def test_an_echo_server_returns_every_line(run: Run) -> None:
    async def main() -> None:
        async with serving(_echo) as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            for number in range(50):
                line = b"line %d\n" % number
                writer.write(line)
                await writer.drain()
                assert await reader.readline() == line
            writer.close()
            await writer.wait_closed()

    run(main())


def test_many_connections_do_not_mix(run: Run) -> None:
    async def main() -> None:
        async def talk(port: int, name: bytes) -> None:
            reader, writer = await asyncio.open_connection(HOST, port)
            for _ in range(10):
                writer.write(name * 100)
                assert await reader.readexactly(len(name) * 100) == name * 100
            writer.close()
            await writer.wait_closed()

        async with serving(_echo) as port, asyncio.TaskGroup() as group:
            for number in range(60):
                group.create_task(talk(port, b"<%d>" % number))

    run(main())


def test_a_big_transfer_arrives_whole_under_drain(run: Run) -> None:
    async def main() -> None:
        data = bytes(range(256)) * 16384  # 4 MiB

        async def send(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for start in range(0, len(data), 100_000):
                writer.write(data[start : start + 100_000])
                await writer.drain()
            writer.close()
            await writer.wait_closed()

        async with serving(send) as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            assert await reader.read() == data
            writer.close()
            await writer.wait_closed()

    run(main())


def test_drain_waits_for_a_reader_that_does_not_read(run: Run) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def lazy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            await reader.read()
            writer.close()
            await writer.wait_closed()

        async with serving(lazy) as port:
            _, writer = await asyncio.open_connection(HOST, port)
            writer.write(bytes(32 * 1024 * 1024))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await writer.drain()
            go_on.set()
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    run(main())


def test_readuntil_and_readexactly_find_their_places_in_split_data(run: Run) -> None:
    async def main() -> None:
        async def dribble(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for byte in b"alpha||beta||12345rest":
                writer.write(bytes([byte]))
                await asyncio.sleep(0.0005)
            writer.close()
            await writer.wait_closed()

        async with serving(dribble) as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            assert await reader.readuntil(b"||") == b"alpha||"
            assert await reader.readuntil(b"||") == b"beta||"
            assert await reader.readexactly(5) == b"12345"
            assert await reader.read() == b"rest"
            writer.close()
            await writer.wait_closed()

    run(main())


def test_the_end_in_the_middle_of_a_read_gives_the_part_that_came(run: Run) -> None:
    async def main() -> None:
        async def stop_early(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"abc")
            writer.close()
            await writer.wait_closed()

        async with serving(stop_early) as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            with pytest.raises(asyncio.IncompleteReadError) as caught:
                await reader.readexactly(10)
            assert caught.value.partial == b"abc"
            assert reader.at_eof()
            writer.close()
            await writer.wait_closed()

    run(main())


def test_a_line_over_the_limit_is_an_error(run: Run) -> None:
    async def main() -> None:
        async def long_line(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"x" * 10_000 + b"\n")
            writer.close()
            await writer.wait_closed()

        async with serving(long_line) as port:
            reader, writer = await asyncio.open_connection(HOST, port, limit=1000)
            with pytest.raises(ValueError, match="limit"):
                await reader.readline()
            writer.transport.abort()

    run(main())


def test_half_close_lets_a_request_end_and_its_answer_come(run: Run) -> None:
    async def main() -> None:
        async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"%d" % len(await reader.read()))
            writer.close()
            await writer.wait_closed()

        async with serving(count) as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(b"x" * 12_345)
            writer.write_eof()
            assert await reader.read() == b"12345"
            writer.close()
            await writer.wait_closed()

    run(main())


def test_a_read_that_times_out_can_be_repeated_without_loss(run: Run) -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def slow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"first ")
            await asked.wait()
            writer.write(b"second")
            writer.close()
            await writer.wait_closed()

        async with serving(slow) as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reader.readexactly(12)
            asked.set()
            assert await reader.readexactly(12) == b"first second"
            writer.close()
            await writer.wait_closed()

    run(main())


def test_a_cancelled_handler_runs_its_finally_and_its_peer_sees_the_end(run: Run) -> None:
    async def main() -> None:
        handlers: list[asyncio.Task[None]] = []
        cleaned = asyncio.Event()

        async def wait_for_ever(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            handlers.append(task)
            writer.write(b"ready")
            try:
                await reader.read()
            finally:
                writer.close()
                cleaned.set()

        async with serving(wait_for_ever) as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            assert await reader.readexactly(5) == b"ready"
            handlers[0].cancel()
            assert await reader.read() == b""
            await cleaned.wait()
            writer.close()
            await writer.wait_closed()

    run(main())


def test_a_connection_that_nobody_accepts_is_refused(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOST, await unused_port())

    run(main())


def test_wait_closed_ends_though_the_peer_stays_open(run: Run) -> None:
    async def main() -> None:
        release = asyncio.Event()

        async def stay(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            writer.close()
            await writer.wait_closed()

        async with serving(stay) as port:
            _, writer = await asyncio.open_connection(HOST, port)
            writer.close()
            await writer.wait_closed()
            release.set()

    run(main())


def test_drain_after_the_peer_has_gone_raises_connection_error(run: Run) -> None:
    async def main() -> None:
        async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.abort()

        async with serving(hang_up) as port:
            reader, writer = await asyncio.open_connection(HOST, port)
            assert await reader.read() == b""
            with pytest.raises(ConnectionError):
                while True:
                    writer.write(b"data")
                    await writer.drain()
                    await asyncio.sleep(0.001)
            writer.close()

    run(main())
