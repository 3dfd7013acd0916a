"""Read the round trip of a connection from the kernel.

Linux keeps two numbers for every connection, made from when its segments were acknowledged: a smoothed round trip, and
the shortest of the last five minutes (`net.ipv4.tcp_min_rtt_wlen`). Neither is the way as it is now. The second is that
long late when the way becomes longer. The first has waits in it: a receiver that is about to send something lets its
acknowledgement go with that, for up to 40 ms. On loopback a client that publishes 30 times a second looks 33 ms away,
give or take 0.4; so a small deviation proves nothing.

But a client that sends nothing has nothing to wait for: Linux acknowledges what is read from then on, and a client that
only listens looks as near as it is. So the smoothed number is believed of a client that was silent for a while in which
it was sent enough, if it has come to rest; and only where it is above the least by less than the shortest timer of
those that other systems acknowledge by, whichever side sends. Of all others counts what no such wait explains.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from equipoise.hub.data.ports import Wire

__all__ = ["Times", "believed_us", "has_hung_up", "round_trip_s"]

# struct tcp_info of linux/tcp.h: eight bytes, then numbers of four. The last one came with Linux 4.6.
# The first byte is the state, by the numbers of net/tcp_states.h.
_ESTABLISHED = 1
_LAST_SENT_AT = 44
_LAST_HEARD_AT = 52
_RTT_AT = 68
_MIN_RTT_AT = 148
_BYTES = 152
# As tcpi_min_rtt: none was measured.
_NONE_US = 0xFFFFFFFF
# The kernel's TCP_DELACK_MIN, and the timer of Windows; others wait longer.
_DELAYED_US = 40_000
# A client is silent if it has sent nothing for so long, and was sent something ten times as lately: a smoothed number
# forgets what was before with about as many acknowledgements.
_SILENT_MS = 1_000
_SENT_AS_OFTEN = 10
# At rest: so many mean deviations, as in the kernel's own time-out of retransmission, do not explain the difference.
_DEVIATIONS = 4


class Times(NamedTuple):
    """What the kernel knows of one connection."""

    # The smoothed round trip, its mean deviation, and the least of late.
    smoothed_us: int
    deviation_us: int = 0
    least_us: int = _NONE_US
    # How long ago something was sent to the other end, and received from it, acknowledgements apart.
    sent_ms: int = 0
    heard_ms: int = 0


def has_hung_up(wire: Wire) -> bool:
    """Whether a FIN or RST has come, which a transport whose reading is paused does not notice."""
    info = _tcp_info(wire)
    return info is not None and len(info) > 0 and info[0] != _ESTABLISHED


def round_trip_s(wire: Wire) -> float | None:
    """None where it is not known: no TCP, no Linux, nothing measured yet, or the connection is gone."""
    info = _tcp_info(wire)
    if info is None or len(info) < _RTT_AT + 8:
        return None
    smoothed_us, deviation_us = struct.unpack_from("=II", info, _RTT_AT)
    (least_us,) = struct.unpack_from("=I", info, _MIN_RTT_AT) if len(info) == _BYTES else (_NONE_US,)
    (sent_ms,) = struct.unpack_from("=I", info, _LAST_SENT_AT)
    (heard_ms,) = struct.unpack_from("=I", info, _LAST_HEARD_AT)
    return believed_us(Times(smoothed_us, deviation_us, least_us, sent_ms, heard_ms)) / 1e6 or None


def _tcp_info(wire: Wire) -> bytes | None:
    sock = wire.get_extra_info("socket")
    option = getattr(socket, "TCP_INFO", None)
    if sock is None or option is None:
        return None
    try:
        info: bytes = sock.getsockopt(socket.IPPROTO_TCP, option, _BYTES)
    except (OSError, ValueError):
        # What uvloop says of a connection that is gone.
        return None
    return info


def believed_us(times: Times) -> int:
    """The round trip as far as it is sure; 0 if nothing was measured."""
    if times.least_us == _NONE_US:
        return times.smoothed_us
    above_us = times.smoothed_us - times.least_us
    is_silent = times.heard_ms >= max(_SILENT_MS, _SENT_AS_OFTEN * times.sent_ms)
    is_at_rest = above_us > _DEVIATIONS * times.deviation_us
    if is_silent and is_at_rest and above_us < _DELAYED_US:
        return times.smoothed_us
    return max(times.least_us, times.smoothed_us - _DELAYED_US)
