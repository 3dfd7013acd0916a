"""What a protocol may rely on: the order of its calls, flow control, and the ways a connection ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from contracts.loop_peers import HOST, Recorder, connected, port_of

Run = Callable[[Coroutine[Any, Any, None]], None]

# More than two kernels buffer on loopback, so that a reader that has stopped is felt.
HUGE_BYTES = 32 * 1024 * 1024


def test_a_protocol_is_made_then_fed_then_told_of_the_end_then_lost(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.client.transport.write(b"hello")
            pair.client.transport.close()
            await pair.server.until_lost()
            assert pair.server.calls == [
                "connection_made",
                "data_received",
                "eof_received",
                "connection_lost",
            ]
            assert pair.server.data == b"hello"
            assert pair.server.error is None

    run(main())


def test_the_closing_side_gets_no_eof_and_loses_without_error(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.client.transport.close()
            await pair.client.until_lost()
            assert pair.client.calls == ["connection_made", "connection_lost"]
            assert pair.client.error is None

    run(main())


def test_connection_lost_is_not_called_inside_close(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.client.transport.close()
            assert pair.client.calls == ["connection_made"]
            assert pair.client.transport.is_closing()
            await pair.client.until_lost()

    run(main())


def test_bytes_arrive_in_order_whatever_the_sizes_of_the_writes(run: Run) -> None:
    async def main() -> None:
        parts = [bytes([size % 251]) * size for size in (1, 2, 0, 3000, 1, 70_000, 5, 200_000, 13)]
        async with connected() as pair:
            for part in parts:
                pair.client.transport.write(part)
            expected = b"".join(parts)
            await pair.server.until_received(len(expected))
            assert pair.server.data == expected

    run(main())


def test_writelines_and_other_bytes_like_objects_send_their_bytes(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.client.transport.writelines([b"a", b"", b"bc"])
            pair.client.transport.write(bytearray(b"de"))
            pair.client.transport.write(memoryview(b"xfgx")[1:3])
            await pair.server.until_received(7)
            assert pair.server.data == b"abcdefg"

    run(main())


def test_a_bytearray_may_be_changed_after_it_was_written(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            data = bytearray(b"before")
            pair.client.transport.write(data)
            # uvloop sends at the end of the iteration and holds the buffer until then.
            await asyncio.sleep(0.01)
            data[:] = b"after!"
            await pair.server.until_received(6)
            assert pair.server.data == b"before"

    run(main())


def test_text_cannot_be_written(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            with pytest.raises(TypeError):
                pair.client.transport.write("text")  # type: ignore[arg-type]  # that is the point

    run(main())


def test_what_was_written_before_close_still_arrives(run: Run) -> None:
    async def main() -> None:
        data = bytes(range(256)) * 8192
        async with connected() as pair:
            pair.client.transport.write(data)
            pair.client.transport.close()
            await pair.server.until_lost()
            assert pair.server.data == data

    run(main())


def test_a_write_after_close_is_dropped(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.client.transport.write(b"kept")
            # Once the first write has left: asyncio adds to a buffer that is still being emptied.
            await pair.server.until_received(4)
            pair.client.transport.close()
            pair.client.transport.write(b"dropped")
            await pair.server.until_lost()
            assert pair.server.data == b"kept"

    run(main())


def test_close_and_abort_may_be_called_again(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.client.transport.close()
            pair.client.transport.close()
            pair.client.transport.abort()
            await pair.client.until_lost()
            pair.client.transport.abort()
            await asyncio.sleep(0.01)
            assert pair.client.calls.count("connection_lost") == 1

    run(main())


def test_abort_ends_both_sides_at_once_though_the_buffer_is_full(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.server.transport.pause_reading()
            pair.client.transport.write(bytes(HUGE_BYTES))
            assert pair.client.transport.get_write_buffer_size() > 0
            pair.client.transport.abort()
            await pair.client.until_lost()
            assert pair.client.error is None
            pair.server.transport.resume_reading()
            await pair.server.until_lost()
            assert len(pair.server.data) < HUGE_BYTES

    run(main())


def test_a_reader_that_pauses_stops_the_writer_and_lets_it_go_on(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.server.transport.pause_reading()
            pair.client.transport.write(bytes(HUGE_BYTES))
            assert pair.client.calls == ["connection_made", "pause_writing"]
            await asyncio.sleep(0.05)
            assert pair.server.data == b""
            assert pair.client.transport.get_write_buffer_size() > 0
            pair.server.transport.resume_reading()
            await pair.server.until_received(HUGE_BYTES)
            await pair.client.until(lambda: "resume_writing" in pair.client.calls)
            assert pair.client.transport.get_write_buffer_size() == 0
            assert pair.client.calls == ["connection_made", "pause_writing", "resume_writing"]

    run(main())


def test_the_water_marks_decide_when_a_writer_is_paused(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            client = pair.client.transport
            client.set_write_buffer_limits(high=HUGE_BYTES)
            assert client.get_write_buffer_limits() == (HUGE_BYTES // 4, HUGE_BYTES)
            pair.server.transport.pause_reading()
            client.write(bytes(HUGE_BYTES // 2))
            await asyncio.sleep(0.01)
            assert "pause_writing" not in pair.client.calls
            client.write(bytes(HUGE_BYTES * 2))
            assert "pause_writing" in pair.client.calls

    run(main())


def test_water_marks_in_the_wrong_order_are_refused(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            with pytest.raises(ValueError, match="high"):
                pair.client.transport.set_write_buffer_limits(high=10, low=20)

    run(main())


def test_pausing_and_resuming_reading_may_be_repeated(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            server = pair.server.transport
            server.pause_reading()
            server.pause_reading()
            assert not server.is_reading()
            pair.client.transport.write(b"later")
            await asyncio.sleep(0.01)
            assert pair.server.data == b""
            server.resume_reading()
            server.resume_reading()
            assert server.is_reading()
            await pair.server.until_received(5)

    run(main())


def test_the_end_of_the_peers_data_waits_while_reading_is_paused(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.server.transport.pause_reading()
            pair.client.transport.write(b"last words")
            pair.client.transport.write_eof()
            await asyncio.sleep(0.01)
            assert pair.server.calls == ["connection_made"]
            pair.server.transport.resume_reading()
            await pair.server.until_lost()
            assert pair.server.data == b"last words"

    run(main())


def test_a_half_closed_connection_still_carries_data_the_other_way(run: Run) -> None:
    async def main() -> None:
        async with connected(server_keeps_open=True) as pair:
            assert pair.client.transport.can_write_eof()
            pair.client.transport.write(b"question")
            pair.client.transport.write_eof()
            await pair.server.until(lambda: "eof_received" in pair.server.calls)
            assert not pair.server.transport.is_closing()
            pair.server.transport.write(b"answer")
            await pair.client.until_received(6)
            pair.server.transport.close()
            await pair.client.until_lost()
            assert pair.client.calls == [
                "connection_made",
                "data_received",
                "eof_received",
                "connection_lost",
            ]

    run(main())


def test_eof_answered_with_false_closes_the_connection(run: Run) -> None:
    async def main() -> None:
        async with connected(server_keeps_open=False) as pair:
            pair.client.transport.write_eof()
            await pair.server.until_lost()
            await pair.client.until_lost()
            assert pair.server.calls == ["connection_made", "eof_received", "connection_lost"]

    run(main())


def test_nothing_can_be_written_after_write_eof(run: Run) -> None:
    async def main() -> None:
        async with connected(server_keeps_open=True) as pair:
            pair.client.transport.write_eof()
            pair.client.transport.write_eof()
            with pytest.raises(RuntimeError):
                pair.client.transport.write(b"too late")

    run(main())


def test_eof_comes_after_everything_written_before_it(run: Run) -> None:
    async def main() -> None:
        data = bytes(4 * 1024 * 1024)
        async with connected(server_keeps_open=True) as pair:
            pair.client.transport.write(data)
            pair.client.transport.write_eof()
            await pair.server.until(lambda: "eof_received" in pair.server.calls)
            assert len(pair.server.data) == len(data)

    run(main())


def test_writing_to_a_peer_that_has_closed_ends_in_an_error(run: Run) -> None:
    async def main() -> None:
        async with connected(server_keeps_open=True) as pair:
            pair.client.transport.close()
            await pair.server.until(lambda: "eof_received" in pair.server.calls)
            while "connection_lost" not in pair.server.calls:
                pair.server.transport.write(b"anyone there?")
                await asyncio.sleep(0.001)
            assert isinstance(pair.server.error, ConnectionError)

    run(main())


def test_closing_with_unread_data_resets_the_peer(run: Run) -> None:
    async def main() -> None:
        async with connected(client_keeps_open=True) as pair:
            pair.server.transport.pause_reading()
            pair.client.transport.write(b"never read")
            await asyncio.sleep(0.05)
            pair.server.transport.close()
            await pair.client.until_lost()
            assert isinstance(pair.client.error, ConnectionResetError)

    run(main())


def test_both_ends_know_each_others_address(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            client, server = pair.client.transport, pair.server.transport
            assert client.get_extra_info("peername") == (HOST, port_of(pair.listener))
            assert server.get_extra_info("sockname") == (HOST, port_of(pair.listener))
            assert client.get_extra_info("sockname") == server.get_extra_info("peername")
            assert client.get_extra_info("sslcontext") is None
            assert client.get_extra_info("no such thing", "default") == "default"

    run(main())


def test_another_protocol_may_take_over_a_transport(run: Run) -> None:
    async def main() -> None:
        async with connected() as pair:
            pair.client.transport.write(b"one")
            await pair.server.until_received(3)
            second = Recorder()
            second.calls.append("set_protocol")
            pair.server.transport.set_protocol(second)
            assert pair.server.transport.get_protocol() is second
            pair.client.transport.write(b"two")
            await second.until_received(3)
            assert (bytes(pair.server.data), bytes(second.data)) == (b"one", b"two")
            pair.server.transport.set_protocol(pair.server)

    run(main())


class _Buffered(asyncio.BufferedProtocol):
    """Receives through a buffer of its own that is smaller than what comes."""

    def __init__(self) -> None:
        self.buffer = bytearray(16)
        self.data = bytearray()
        self.lost = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


def test_a_buffered_protocol_receives_the_same_bytes(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        data = bytes(range(256)) * 40
        made: asyncio.Queue[_Buffered] = asyncio.Queue()

        def accept() -> _Buffered:
            protocol = _Buffered()
            made.put_nowait(protocol)
            return protocol

        server = await loop.create_server(accept, HOST, 0)
        transport, _ = await loop.create_connection(asyncio.Protocol, HOST, port_of(server))
        transport.write(data)
        transport.close()
        receiver = await made.get()
        assert await receiver.lost is None
        assert receiver.data == data
        server.close()
        await server.wait_closed()

    run(main())
