"""Reject calls that would leave the simulation.

Threads, descriptors, signals, processes, datagrams and TLS exist in real time or in the real kernel.
A simulated program that uses one gets an error at the call, which names it.
"""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

from equipoise.errors import SimulationError

__all__ = ["RefusingLoop"]


def _refusal(what: str, instead: str) -> Any:
    def refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
        raise SimulationError(f"{what} cannot be simulated; {instead}")

    return refuse


_STREAMS = "use create_server and create_connection with addresses of simulated hosts"
_INLINE = "use run_in_executor, which runs the function inline"
_OUTSIDE = "keep it outside the simulated program"


class RefusingLoop(asyncio.BaseEventLoop):
    """Base class of the simulated loop that rejects all calls outside of the simulation."""

    add_reader = _refusal("a file descriptor", _STREAMS)
    remove_reader = _refusal("a file descriptor", _STREAMS)
    add_writer = _refusal("a file descriptor", _STREAMS)
    remove_writer = _refusal("a file descriptor", _STREAMS)
    sock_recv = _refusal("a real socket", _STREAMS)
    sock_recv_into = _refusal("a real socket", _STREAMS)
    sock_recvfrom = _refusal("a real socket", _STREAMS)
    sock_recvfrom_into = _refusal("a real socket", _STREAMS)
    sock_sendall = _refusal("a real socket", _STREAMS)
    sock_sendto = _refusal("a real socket", _STREAMS)
    sock_connect = _refusal("a real socket", _STREAMS)
    sock_accept = _refusal("a real socket", _STREAMS)
    sock_sendfile = _refusal("a real socket", _STREAMS)
    sendfile = _refusal("sendfile", "read the file and write its bytes")
    connect_accepted_socket = _refusal("a real socket", _STREAMS)
    create_unix_connection = _refusal("a Unix socket", _STREAMS)
    create_unix_server = _refusal("a Unix socket", _STREAMS)
    create_datagram_endpoint = _refusal("a datagram", _STREAMS)
    start_tls = _refusal("TLS", "test it on a real loop")
    connect_read_pipe = _refusal("a pipe", _OUTSIDE)
    connect_write_pipe = _refusal("a pipe", _OUTSIDE)
    subprocess_exec = _refusal("a process", _OUTSIDE)
    subprocess_shell = _refusal("a process", _OUTSIDE)
    add_signal_handler = _refusal("a signal", _OUTSIDE)
    remove_signal_handler = _refusal("a signal", _OUTSIDE)
    set_default_executor = _refusal("a thread pool", _INLINE)
