"""Who may look and who may act. Pure.

With a token set, whoever shows it may do everything and everybody else nothing, unless loopback was said to be free to
look. Without one, loopback may look and nobody may act: a page that any other site's script could reach must not change
anything by itself.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from enum import Enum
from ipaddress import ip_address

__all__ = ["Verdict", "judge"]


class Verdict(Enum):
    ALLOWED = "allowed"
    NEEDS_TOKEN = "show the token: Authorization: Bearer TOKEN"
    READ_ONLY = "read-only without a token: start the controller with --token-file"
    FOREIGN = "without a token only loopback may look: start the controller with --token-file"


def judge(
    *,
    token: str,
    shown: str,
    peer: str,
    host: str,
    is_change: bool,
    cookies: Iterable[str] = (),
    is_loopback_free: bool = False,
) -> Verdict:
    """`shown` is the token of the request, `peer` its address, `host` the name it was sent to.

    `cookies` are tokens that the browser added by itself. All ports of a machine share them, so a wrong one may be
    another system's or an old one, and counts as none.

    `is_loopback_free`: whoever is on this machine may look though there is a token. Not for a machine with a proxy,
    which makes everybody look as if they were.
    """
    if token and any(hmac.compare_digest(one.encode(), token.encode()) for one in (shown, *cookies)):
        return Verdict.ALLOWED
    # A wrong token is told, not taken for none: its owner wants to act.
    if token and (shown or is_change or not is_loopback_free):
        return Verdict.NEEDS_TOKEN
    if is_change:
        return Verdict.READ_ONLY
    # A name that somebody made point to loopback would let that somebody's pages read ours.
    return Verdict.ALLOWED if _is_loopback(peer) and _is_own_name(host) else Verdict.FOREIGN


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _is_own_name(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name.strip("[]")
    return name == "localhost" or _is_loopback(name)
