"""EQ.WHERE: exchange network coordinates between hub and client.

    EQ.WHERE                       returns the hub's coordinate, null if it is not known yet
    EQ.WHERE rtt_us coordinate     also reports the client's coordinate and its measured round trip to this hub

A report is valid until the next one, until reports have been missing for long, or until the connection ends. An invalid
report is rejected with an error. An implausible one gets the usual reply and is ignored (`Locations.tell`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.coordinates import Coordinate
from equipoise.errors import CoordinateError
from equipoise.hub.locations.client_location import Place
from equipoise.resp.replies import bulk, null

if TYPE_CHECKING:
    from equipoise.hub.core import HubCore
    from equipoise.hub.data.session import Session

__all__ = ["where"]

_USAGE = (
    "ERR syntax error: EQ.WHERE [rtt_us coordinate]; the round trip to this hub in microseconds, 0 if it was not "
    "measured, and eleven little-endian float64: point (8), error, height, adjustment"
)
_DIGITS_MAX = 10


def where(core: HubCore, session: Session, command: list[bytes]) -> bytes | str:
    if len(command) == 1:
        core.places.asked(session)
    else:
        problem = _apply_report(core, session, command[1:])
        if problem is not None:
            return problem
    own = core.places.own
    return null(session.proto) if own is None else bulk(own.to_bytes())


def _apply_report(core: HubCore, session: Session, words: list[bytes]) -> str | None:
    """Apply the client's report; return the error text if it is invalid."""
    if len(words) != 2:
        return _USAGE
    rtt, data = words
    settings = core.places.settings
    if not (rtt.isdigit() and rtt.isascii()) or len(rtt) > _DIGITS_MAX:
        return _USAGE
    rtt_s = int(rtt) / 1e6
    if rtt_s > settings.rtt_s_max:
        return f"ERR a round trip takes at most {settings.rtt_s_max:g} s: drop the wrong measurement"
    try:
        coordinate = Coordinate.from_bytes(data, settings)
    except CoordinateError as problem:
        return f"ERR {problem}: restart from the origin"
    core.places.tell(session, Place(coordinate, rtt_s / 2 if rtt_s else None))
    return None
