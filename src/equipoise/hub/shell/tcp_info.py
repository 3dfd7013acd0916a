"""Read the round trip of a connection from the kernel.

Linux keeps two values per connection, computed from acknowledgements: a smoothed round trip, and the minimum of the
last five minutes (`net.ipv4.tcp_min_rtt_wlen`). Neither is the current round trip of the network. The minimum is up to
five minutes late when the path becomes longer. The smoothed value includes delayed acknowledgements: a receiver that is
about to send data delays its acknowledgement by up to 40 ms. On loopback a client that publishes 30 times a second
appears to be 33 ± 0.4 ms away; so a small deviation proves nothing.

But a client that sends nothing does not delay: Linux then acknowledges data when it is read, and the smoothed value of
a pure subscriber is correct. So the smoothed value is used for a client that was silent for a while, in which enough
data was sent to it, if the value is stable; and only if it exceeds the minimum by less than the shortest timer for
delayed acknowledgements of other systems. For all other clients, the part that such delays can explain is subtracted.
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
# Value of tcpi_min_rtt without a measurement.
_NONE_US = 0xFFFFFFFF
# The kernel's TCP_DELACK_MIN, and the timer of Windows; others wait longer.
_DELAYED_US = 40_000
# A client is silent if it has sent nothing for so long, and for ten times as long as the time since data was last sent
# to it: about that many acknowledgements replace a smoothed value.
_SILENT_MS = 1_000
_SENT_AS_OFTEN = 10
# A value is stable if its difference from the minimum exceeds so many mean deviations, as in the kernel's
# retransmission timeout.
_DEVIATIONS = 4


class Times(NamedTuple):
    """The kernel's measurements of one connection."""

    # The smoothed round trip, its mean deviation, and the recent minimum.
    smoothed_us: int
    deviation_us: int = 0
    least_us: int = _NONE_US
    # Time since data was last sent to the other end, and received from it, without acknowledgements.
    sent_ms: int = 0
    heard_ms: int = 0


def has_hung_up(wire: Wire) -> bool:
    """Whether a FIN or RST has arrived, which a transport with paused reading does not report."""
    info = _tcp_info(wire)
    return info is not None and len(info) > 0 and info[0] != _ESTABLISHED


def round_trip_s(wire: Wire) -> float | None:
    """The round trip; None if unknown: no TCP, not Linux, not measured yet, or the connection is closed."""
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
        # The connection is closed (uvloop raises ValueError).
        return None
    return info


def believed_us(times: Times) -> int:
    """The round trip, as far as it is certain; 0 if nothing was measured."""
    if times.least_us == _NONE_US:
        return times.smoothed_us
    above_us = times.smoothed_us - times.least_us
    is_silent = times.heard_ms >= max(_SILENT_MS, _SENT_AS_OFTEN * times.sent_ms)
    is_at_rest = above_us > _DEVIATIONS * times.deviation_us
    if is_silent and is_at_rest and above_us < _DELAYED_US:
        return times.smoothed_us
    return max(times.least_us, times.smoothed_us - _DELAYED_US)
