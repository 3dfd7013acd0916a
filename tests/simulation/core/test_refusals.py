"""Calls that would leave the simulation raise an error that names them."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from equipoise.errors import SimulationError
from equipoise.lab.simulation import Simulation

Call = Callable[[asyncio.AbstractEventLoop], Any]

CALLS: dict[str, Call] = {
    "descriptor": lambda loop: loop.add_reader(0, print),
    "signal": lambda loop: loop.add_signal_handler(signal.SIGTERM, print),
    "process": lambda loop: loop.subprocess_exec(asyncio.SubprocessProtocol, "true"),
    "datagram": lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 0)),
    "Unix socket": lambda loop: loop.create_unix_connection(asyncio.Protocol, "/nowhere"),
    "pipe": lambda loop: loop.connect_read_pipe(asyncio.Protocol, None),
}


@pytest.mark.parametrize("what", list(CALLS))
def test_it_is_refused(what: str) -> None:
    async def main() -> None:
        with pytest.raises(SimulationError, match=f"{what} cannot be simulated"):
            CALLS[what](asyncio.get_running_loop())

    with Simulation() as sim:
        sim.run(main())


def test_tls_and_real_sockets_are_refused() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(SimulationError, match="TLS"):
            await asyncio.open_connection("127.0.0.1", 1, ssl=ssl.create_default_context())
        with socket.socket() as real, pytest.raises(SimulationError, match="real socket"):
            await loop.create_server(asyncio.Protocol, sock=real)

    with Simulation() as sim:
        sim.run(main())


def test_a_call_from_another_thread_is_refused() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        errors: list[Exception] = []

        def call() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except SimulationError as error:
                errors.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert len(errors) == 1

    with Simulation() as sim:
        sim.run(main())


def test_a_call_for_another_thread_from_this_one_is_a_plain_call() -> None:
    async def main() -> None:
        called = asyncio.Event()
        asyncio.get_running_loop().call_soon_threadsafe(called.set)
        await called.wait()

    with Simulation() as sim:
        sim.run(main())
