"""Decide which requests may read and which may act. Pure.

With a token set, a request with it may do everything and others nothing, unless loopback is allowed to read. Without
one, loopback may read and no request may act: a page that scripts of any other site could reach must not accept
changes.

The token is accepted only in a header. A browser adds cookies by itself, and sends them to every port of the host:
another server on the machine would get the operator's token.
"""

from __future__ import annotations

import hmac
from enum import Enum
from ipaddress import ip_address

__all__ = ["AuthVerdict", "judge"]


class AuthVerdict(Enum):
    ALLOWED = "allowed"
    NEEDS_TOKEN = "a token is required: Authorization: Bearer TOKEN"
    READ_ONLY = "read-only without a token: start the controller with --token-file"
    FOREIGN = "without a token only loopback may read: start the controller with --token-file"


def judge(
    *,
    token: str,
    shown: str,
    peer: str,
    host: str,
    is_change: bool,
    is_loopback_free: bool = False,
) -> AuthVerdict:
    """`shown` is the token of the request, `peer` its address, `host` its Host header.

    `is_loopback_free`: requests from this machine may read without the token. Not for a machine with a proxy, from
    which all requests would be local.
    """
    if token and hmac.compare_digest(shown.encode(), token.encode()):
        return AuthVerdict.ALLOWED
    # A wrong token is an error, even where no token is needed: its owner wants to act.
    if token and (shown or is_change or not is_loopback_free):
        return AuthVerdict.NEEDS_TOKEN
    if is_change:
        return AuthVerdict.READ_ONLY
    # A name that an attacker has pointed to loopback would let the attacker's pages read ours.
    return AuthVerdict.ALLOWED if _is_loopback(peer) and _is_own_name(host) else AuthVerdict.FOREIGN


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _is_own_name(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]")
    return name == "localhost" or _is_loopback(name)
