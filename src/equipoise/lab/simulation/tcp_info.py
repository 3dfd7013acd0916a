"""What the kernel of a simulated host knows of a connection: struct tcp_info, as far as somebody reads it.

The round trip is what the links say it is, without what waits in queues: who asks wants to know how far the other end
is.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import Protocol

from equipoise.lab.simulation.topology import LinkSpec

__all__ = ["SimulatedSocket"]

# Where tcpi_rtt and tcpi_min_rtt are in it, and its length up to there.
_RTT_AT, _MIN_RTT_AT, _BYTES = 68, 148, 152


class _Direction(Protocol):
    spec: LinkSpec

    @property
    def latency_s(self) -> float: ...


class _PeerEnd(Protocol):
    @property
    def link(self) -> _Direction: ...


class _End(_PeerEnd, Protocol):
    """One end of a connection: what it sends over, and the other end."""

    @property
    def peer(self) -> _PeerEnd: ...


class SimulatedSocket:
    """The socket of one end of a connection, to be asked about; what is set is accepted and means nothing."""

    __slots__ = ("_end",)

    def __init__(self, end: _End) -> None:
        self._end = end

    def setsockopt(self, *_arguments: object) -> None:
        """Keep-alives and the like: simulated connections end when the simulation says so."""

    def getsockopt(self, level: int, option: int, size: int = 0) -> bytes:
        if (level, option) != (socket.IPPROTO_TCP, getattr(socket, "TCP_INFO", None)):
            raise OSError(errno.ENOPROTOOPT, "Protocol not available")
        links = (self._end.link, self._end.peer.link)
        least_s = sum(link.latency_s for link in links)
        mean_s = least_s + sum(link.spec.jitter_s for link in links) / 2
        info = bytearray(_BYTES)
        struct.pack_into("=I", info, _RTT_AT, round(1e6 * mean_s))
        struct.pack_into("=I", info, _MIN_RTT_AT, round(1e6 * least_s))
        return bytes(info[:size])
