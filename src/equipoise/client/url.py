"""Read bus URLs: `equipoise://user:secret@host:port,host:port`.

Schemes: `equipoise` (alias `redis`) without encryption, `equipoises` (alias `rediss`) with TLS. Several hosts,
separated
by commas, are tried in turn. A user without a secret, a database and a query are refused rather than ignored. No error
text contains the secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from equipoise.errors import AddressError

PORT_DEFAULT = 6_399
"""The hub's own default; also for `redis://`, since the address means a hub."""

_SCHEMES = {"equipoise": False, "redis": False, "equipoises": True, "rediss": True}
_EXAMPLE = "write it like equipoise://user:secret@host:6399"
_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]{1,253}):[0-9]{1,5}").fullmatch
_HOST = re.compile(r"(?P<host>\[[^\[\]]+\]|[^\[\]:]*)(:(?P<port>[^:]*))?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a hub."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BusUrl:
    """The parts of a URL. `user` is `default` if only a secret is given, as in Redis."""

    endpoints: tuple[Endpoint, ...]
    is_tls: bool = False
    user: str | None = None
    secret: str | None = field(default=None, repr=False)


def parse_url(url: str) -> BusUrl:
    """Raises AddressError with the mistake and the correct form."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        raise AddressError(f"the bus URL has no scheme; {_EXAMPLE}")
    if scheme.lower() not in _SCHEMES:
        raise AddressError(f"the bus URL scheme {scheme!r} is none of {', '.join(_SCHEMES)}; {_EXAMPLE}")
    # A raw slash in the secret would end the authority early, so split the login off first.
    login, at, place = rest.rpartition("@")
    hosts, slash, path = place.partition("/")
    if "?" in place or "#" in place:
        raise AddressError(
            "the bus URL takes no ?query or #fragment; pass settings as arguments of connect()"
        )
    if slash and path not in ("", "0"):
        raise AddressError(f"the bus URL names the database {path!r}, but a hub has none; leave out /{path}")
    user, secret = _parse_login(login) if at else (None, None)
    return BusUrl(
        endpoints=tuple(_parse_endpoint(part) for part in hosts.split(",")),
        is_tls=_SCHEMES[scheme.lower()],
        user=user,
        secret=secret,
    )


def parse_address(address: object) -> Endpoint | None:
    """An address that a hub has announced: `host:port`; None if it is invalid."""
    if not isinstance(address, bytes):
        return None
    try:
        text = address.decode("ascii")
        return _parse_endpoint(text) if _HOST_AND_PORT(text) else None
    except (UnicodeDecodeError, AddressError):
        return None


def _parse_login(login: str) -> tuple[str, str]:
    user, colon, secret = login.partition(":")
    if not colon or not secret:
        raise AddressError(f"the bus URL has a user without a secret; {_EXAMPLE}")
    names = unquote(user) or "default", unquote(secret)
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        raise AddressError("the bus URL's login is not valid text; percent-encode it as UTF-8") from None
    return names


def _parse_endpoint(text: str) -> Endpoint:
    match = _HOST.fullmatch(text)
    if match is None:
        raise AddressError(
            f"the bus URL has a host {text!r} that cannot be read; IPv6 goes in brackets: [::1]:6399"
        )
    host, port = unquote(match["host"].strip("[]")), match["port"]
    if not host or any(character.isspace() for character in host):
        raise AddressError(f"the bus URL lacks a host in {text!r}; {_EXAMPLE}")
    try:
        host.encode("idna")
    except UnicodeError:
        raise AddressError(f"the bus URL has a host {host!r} that cannot be a name; {_EXAMPLE}") from None
    if port is None:
        return Endpoint(host, PORT_DEFAULT)
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535):
        raise AddressError(f"the bus URL has the port {port!r}; a port is a number from 1 to 65535")
    return Endpoint(host, int(port))
