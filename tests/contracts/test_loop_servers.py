"""What a server and its callers may rely on: listening, closing, names and refusals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from contracts.loop_peers import HOST, Acceptor, Recorder, port_of, unused_port

Run = Callable[[Coroutine[Any, Any, None]], None]


def test_port_zero_gives_a_free_port_that_can_be_asked_for(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        one = await loop.create_server(asyncio.Protocol, HOST, 0)
        other = await loop.create_server(asyncio.Protocol, HOST, 0)
        assert port_of(one) != port_of(other)
        assert one.sockets[0].getsockname() == (HOST, port_of(one))
        for server in (one, other):
            server.close()
            await server.wait_closed()
            assert len(server.sockets) == 0

    run(main())


def test_a_port_in_use_cannot_be_bound_again_until_it_is_closed(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        first = await loop.create_server(asyncio.Protocol, HOST, 0)
        port = port_of(first)
        with pytest.raises(OSError, match="in use"):
            await loop.create_server(asyncio.Protocol, HOST, port)
        first.close()
        await first.wait_closed()
        second = await loop.create_server(asyncio.Protocol, HOST, port)
        second.close()
        await second.wait_closed()

    run(main())


def test_a_closed_server_refuses_callers_and_keeps_its_connections(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        accepted = Acceptor()
        server = await loop.create_server(accepted, HOST, 0)
        port = port_of(server)
        transport, _ = await loop.create_connection(Recorder, HOST, port)
        peer = await accepted.first()
        server.close()
        assert not server.is_serving()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, HOST, port)
        transport.write(b"still here")
        await peer.until_received(10)
        transport.close()
        await peer.until_lost()
        await server.wait_closed()

    run(main())


def test_a_server_that_has_not_started_refuses_until_it_does(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        port = await unused_port()
        server = await loop.create_server(Recorder, HOST, port, start_serving=False)
        assert not server.is_serving()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, HOST, port)
        await server.start_serving()
        assert server.is_serving()
        transport, client = await loop.create_connection(Recorder, HOST, port)
        transport.close()
        await client.until_lost()
        server.close()
        await server.wait_closed()

    run(main())


def test_serve_forever_ends_with_its_task_and_closes_the_server(run: Run) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Recorder, HOST, 0)
        task = asyncio.create_task(server.serve_forever())
        await asyncio.sleep(0)
        assert server.is_serving()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not server.is_serving()

    run(main())


def test_a_server_closes_at_the_end_of_its_with_block(run: Run) -> None:
    async def main() -> None:
        async with await asyncio.get_running_loop().create_server(Recorder, HOST, 0) as server:
            assert server.is_serving()
        assert not server.is_serving()

    run(main())


def test_localhost_is_a_name_for_the_loopback_address(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo("localhost", 80, family=socket.AF_INET, type=socket.SOCK_STREAM)
        assert found[0][4] == ("127.0.0.1", 80)

    run(main())


def test_a_numeric_address_resolves_to_itself(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo("127.0.0.1", 6379, type=socket.SOCK_STREAM)
        assert found[0][0] == socket.AF_INET
        assert found[0][4] == ("127.0.0.1", 6379)

    run(main())


def test_an_unknown_name_is_an_error_of_the_resolver(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(socket.gaierror):
            await loop.getaddrinfo("no-such-host.invalid", 80)
        with pytest.raises(socket.gaierror):
            await loop.create_connection(Recorder, "no-such-host.invalid", 80)

    run(main())


def test_a_cancelled_connect_leaves_nothing_behind(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        accepted = Acceptor()
        server = await loop.create_server(accepted, HOST, 0)
        task = asyncio.create_task(loop.create_connection(Recorder, HOST, port_of(server)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # A kernel may have accepted already; if so the other side must see the end.
        await asyncio.sleep(0.05)
        for recorder in accepted.made:
            await recorder.until_lost()
        server.close()
        await server.wait_closed()

    run(main())


def test_a_server_aborts_a_protocol_that_raises_and_serves_on(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        complaints: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))

        class Raises(Recorder):
            def data_received(self, data: bytes) -> None:
                raise ValueError(f"cannot take {data!r}")

        server = await loop.create_server(Raises, HOST, 0)
        for _ in range(2):
            transport, client = await loop.create_connection(Recorder, HOST, port_of(server))
            transport.write(b"x")
            await client.until_lost()
        assert [type(context["exception"]) for context in complaints] == [ValueError, ValueError]
        server.close()
        await server.wait_closed()

    run(main())
