"""HTTP requests signed with the operator's token, which is not sent. Pure.

The address of the leading controller comes from the store. A client that sent the token there would reveal it to any
server that the store names. So the client signs method, address, path and time with the token instead.

Always true: a signature allows reading one path at one address, for a limited time; a server that poses as the
controller cannot use it at the controller, which has another address.
"""

from __future__ import annotations

import hashlib
import hmac

__all__ = ["SCHEME", "is_signed", "signed"]

SCHEME = "Equipoise-Signature"
# The clocks of an operator's machine and the controller's may differ by this much.
HOLDS_S = 60.0


def signed(token: str, address: str, path: str, time_s: float) -> str:
    """The header `Authorization` of a GET of the path, sent to the address (host:port)."""
    moment = f"{time_s:.0f}"
    return f"{SCHEME} {moment}:{_signature(token, address, path, moment)}"


def is_signed(header: str, *, token: str, address: str, path: str, time_s: float) -> bool:
    """Whether the header is valid for this token, address and path, and recent."""
    scheme, _, shown = header.partition(" ")
    moment, _, signature = shown.partition(":")
    if scheme != SCHEME or not token or not (moment.isdigit() and moment.isascii() and len(moment) <= 12):
        return False
    expected = _signature(token, address, path, moment)
    return hmac.compare_digest(signature.encode(), expected.encode()) and abs(time_s - int(moment)) <= HOLDS_S


def _signature(token: str, address: str, path: str, moment: str) -> str:
    words = "\n".join(("GET", address.lower(), path, moment))
    return hmac.new(token.encode(), words.encode(), hashlib.sha256).hexdigest()
