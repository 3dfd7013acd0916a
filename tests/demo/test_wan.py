"""Delaying relays: round trips take the configured latencies, and no byte is lost or reordered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from equipoise.client.wire.codec import encode_request
from equipoise.lab.demo.wan import HOST, SiteDelays, Wan, caller_of


def ways() -> SiteDelays:
    return SiteDelays(
        between_s=0.03,
        access_s=0.002,
        places={"hub-w": "west", "hub-e": "east", "drone": "west"},
        movers={"drone"},
    )


@pytest.mark.parametrize(
    ("caller", "called", "one_way_s"),
    [
        ("hub-w", "hub-e", 0.03),
        ("hub-w", "hub-w", 0.0),
        ("drone", "hub-w", 0.002),
        ("drone", "hub-e", 0.032),
        ("client", "hub-e", 0.0),
        ("", "hub-e", 0.0),
        ("drone", "nowhere", 0.0),
    ],
)
def test_the_latency_of_a_path_is_the_sum_of_its_parts(caller: str, called: str, one_way_s: float) -> None:
    assert ways().one_way_s(caller, called) == pytest.approx(one_way_s)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ((b"HELLO", b"3", b"SETNAME", b"drone-1"), "drone-1"),
        ((b"HELLO", b"3", b"AUTH", b"u", b"s", b"SETNAME", b"x"), "x"),
        ((b"HELLO", b"3"), ""),
        ((b"HELLO", b"3", b"SETNAME"), ""),
        ((b"EQ.L.HELLO", b"1", b"hub-2", b"7", b"0", b"hub-1", b"9"), "hub-2"),
        ((b"SUBSCRIBE", b"tile"), ""),
    ],
)
def test_a_relay_identifies_callers_by_their_first_command_in_any_pieces(
    words: tuple[bytes, ...], name: str
) -> None:
    data = encode_request(*words)
    assert caller_of(data) == name
    assert caller_of(data + b"*1\r\n$4\r\nPING\r\n") == name
    assert all(caller_of(data[:cut]) is None for cut in range(len(data)))


def test_invalid_and_endless_first_commands_have_no_caller() -> None:
    assert caller_of(b"\x00\x01garbage\r\n") == ""
    assert caller_of(b"*2\r\n$9999999\r\n" + b"x" * 5_000) == ""


def through_a_door(
    scenario: Callable[[Wan, int, list[bytes]], Coroutine[Any, Any, None]],
) -> None:
    """Run with an echo behind a door to hub-e, and what the echo has heard."""

    async def main() -> None:
        heard: list[bytes] = []
        echoing: list[asyncio.Task[None] | None] = []

        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            echoing.append(asyncio.current_task())
            try:
                while data := await reader.read(65_536):
                    heard.append(data)
                    writer.write(data)
            except ConnectionError:
                pass
            finally:
                writer.transport.abort()

        server = await asyncio.start_server(echo, HOST, 0)
        wan = Wan(ways())
        port = await wan.open("hub-e", lambda: (HOST, server.sockets[0].getsockname()[1]))
        async with asyncio.timeout(30):
            await scenario(wan, port, heard)
        await wan.close()
        server.close()
        await asyncio.gather(*(task for task in echoing if task is not None))

    asyncio.run(main())


async def round_trip_s(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> float:
    began = asyncio.get_running_loop().time()
    writer.write(data)
    assert await reader.readexactly(len(data)) == data
    return asyncio.get_running_loop().time() - began


def test_a_round_trip_has_both_latencies_and_new_ones_after_a_move() -> None:
    async def scenario(wan: Wan, port: int, heard: list[bytes]) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        hello = encode_request(b"HELLO", b"3", b"SETNAME", b"drone")
        assert await round_trip_s(reader, writer, hello) >= 0.064
        assert await round_trip_s(reader, writer, b"ping") >= 0.064
        wan.ways.places["drone"] = "east"
        times_s = [await round_trip_s(reader, writer, b"ping") for _ in range(5)]
        assert 0.004 <= min(times_s) < 0.064
        writer.transport.abort()

    through_a_door(scenario)


def test_a_caller_without_a_site_is_not_delayed() -> None:
    async def scenario(wan: Wan, port: int, heard: list[bytes]) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        hello = encode_request(b"SUBSCRIBE", b"x")
        times_s = [await round_trip_s(reader, writer, hello) for _ in range(5)]
        assert min(times_s) < 0.03
        writer.transport.abort()

    through_a_door(scenario)


def test_bytes_keep_their_order_when_ways_get_shorter_and_the_end_comes_last() -> None:
    async def scenario(wan: Wan, port: int, heard: list[bytes]) -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        sent = encode_request(b"HELLO", b"3", b"SETNAME", b"drone")
        writer.write(sent)
        for number in range(200):
            if number == 100:
                wan.ways.places["drone"] = "east"
            piece = b"%06d" % number * 100
            sent += piece
            writer.write(piece)
            await asyncio.sleep(0)
        assert await reader.readexactly(len(sent)) == sent
        writer.write(b"the end")
        writer.close()
        await writer.wait_closed()
        while b"".join(heard) != sent + b"the end":  # noqa: ASYNC110  what the echo hears has no event
            await asyncio.sleep(0.001)

    through_a_door(scenario)


def test_a_relay_without_a_target_closes_the_connection() -> None:
    async def scenario(wan: Wan, port: int, heard: list[bytes]) -> None:
        closed = await wan.open("hub-w", lambda: (HOST, 1))
        reader, writer = await asyncio.open_connection(HOST, closed)
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
        writer.transport.abort()

    through_a_door(scenario)
