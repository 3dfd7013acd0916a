"""HTTP requests signed with the operator's token, which is not sent. Pure.

The address of the leading controller comes from the store. A client that sent the token there would give it to whatever
address the store names. So it signs instead: method, address, path and time, by the token.

Always true: a signature opens one path at one address for reading, for a while; a server that got it by posing as
the controller cannot use it at the controller, whose address is another.
"""

from __future__ import annotations

import hashlib
import hmac

__all__ = ["SCHEME", "is_signed", "signed"]

SCHEME = "Equipoise-Signature"
# Clocks of an operator's machine and the controller's may differ by so much.
HOLDS_S = 60.0


def signed(token: str, address: str, path: str, time_s: float) -> str:
    """The header `Authorization` of a GET of the path, sent to the address (host:port)."""
    moment = f"{time_s:.0f}"
    return f"{SCHEME} {moment}:{_signature(token, address, path, moment)}"


def is_signed(header: str, *, token: str, address: str, path: str, time_s: float) -> bool:
    """Whether the header is right for this token, address and path, and was made lately."""
    scheme, _, shown = header.partition(" ")
    moment, _, signature = shown.partition(":")
    if scheme != SCHEME or not token or not (moment.isdigit() and moment.isascii() and len(moment) <= 12):
        return False
    expected = _signature(token, address, path, moment)
    return hmac.compare_digest(signature.encode(), expected.encode()) and abs(time_s - int(moment)) <= HOLDS_S


def _signature(token: str, address: str, path: str, moment: str) -> str:
    words = "\n".join(("GET", address.lower(), path, moment))
    return hmac.new(token.encode(), words.encode(), hashlib.sha256).hexdigest()
