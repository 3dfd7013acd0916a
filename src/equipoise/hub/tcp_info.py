"""Ask the kernel how long a round trip to a connection's other end takes.

Linux keeps two numbers for every connection, made from when its segments were acknowledged: a smoothed round trip, and
the shortest of the last minutes. Receivers may wait up to 40 ms before they acknowledge, in the hope of something to
send it with: on loopback a client that publishes 100 times a second looks 11 ms away by the first number, and 5 µs by
the second. So what the first has above the second counts only as far as no such wait explains it.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.hub.wire import Wire

__all__ = ["round_trip_s"]

# struct tcp_info of linux/tcp.h: eight bytes, fifteen numbers of four bytes, then tcpi_rtt; tcpi_min_rtt came with
# Linux 4.6. Both in microseconds.
_RTT_AT = 68
_MIN_RTT_AT = 148
_BYTES = 152
# As tcpi_min_rtt: none was measured.
_NONE_US = 0xFFFFFFFF
# The kernel's TCP_DELACK_MIN: what a receiver waits that has nothing to send.
_DELAYED_US = 40_000


def round_trip_s(wire: Wire) -> float | None:
    """None where nobody knows: no TCP, no Linux, nothing measured yet, or the connection is gone."""
    sock = wire.get_extra_info("socket")
    option = getattr(socket, "TCP_INFO", None)
    if sock is None or option is None:
        return None
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, option, _BYTES)
    except (OSError, ValueError):
        # What uvloop says of a connection that is gone.
        return None
    if len(info) < _RTT_AT + 4:
        return None
    (smoothed_us,) = struct.unpack_from("=I", info, _RTT_AT)
    (least_us,) = struct.unpack_from("=I", info, _MIN_RTT_AT) if len(info) == _BYTES else (_NONE_US,)
    rtt_us = smoothed_us if least_us == _NONE_US else max(least_us, smoothed_us - _DELAYED_US)
    return rtt_us / 1e6 or None
