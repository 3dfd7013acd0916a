"""Registration nodes and cookies of a bookie in the store, in BookKeeper's format.

Our bookies add properties that Java's ignore: site, rack, free space, and the identity of their directory. A bookie
without them is one in Java; its identity is that of its cookie.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from equipoise.errors import DamagedError
from equipoise.ledger.protobuf import MalformedError, bytes_field, fields, varint_field

__all__ = [
    "BookieFacts",
    "Cookie",
    "decode_cookie",
    "decode_facts",
    "encode_cookie",
    "encode_facts",
    "local_socket",
]

_RPC = b"bookie-rpc"
_COOKIE_VERSION = "5"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieFacts:
    """One registered bookie."""

    name: str
    host: str
    port: int
    site: str = ""
    # Its failure domain inside the site; default: the host.
    rack: str = ""
    free_bytes: int = 0
    total_bytes: int = 0
    # The 99th percentile of recent syncs; 0: no sync yet.
    sync_us_p99: int = 0
    # Identity of its stored data: unchanged by a restart, another for an emptied disk.
    directory: str = ""
    is_read_only: bool = False
    # Whether it uses TLS and requires a login.
    is_secured: bool = False
    # Whether it supports batch reads. Earlier releases close the connection.
    has_batches: bool = False


# A bookie may have a Unix socket beside its port: clients on its machine use that with less CPU.
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))


def local_socket(host: str, directory: str) -> str:
    """The name, in Linux's abstract namespace, of the Unix socket of a bookie that listens on this host; empty: none.

    Every user of the machine can list such names, and checksums contain the directory's identity: so the name is a
    digest.
    """
    if host not in _LOOPBACK:
        return ""
    return f"\0equipoise-bookie-{hashlib.blake2b(directory.encode(), digest_size=16).hexdigest()}"


def encode_facts(facts: BookieFacts) -> bytes:
    endpoint = b"".join(
        (
            bytes_field(1, _RPC),
            varint_field(2, facts.port),
            bytes_field(3, facts.host.encode()),
            bytes_field(4, _RPC),
        )
    )
    properties = {
        "site": facts.site,
        "rack": facts.rack,
        "free": str(facts.free_bytes),
        "total": str(facts.total_bytes),
        "sync": str(facts.sync_us_p99),
        "directory": facts.directory,
        "secured": "1" if facts.is_secured else "",
        "batches": "1" if facts.has_batches else "",
    }
    return bytes_field(6, endpoint) + b"".join(
        bytes_field(7, bytes_field(1, name.encode()) + bytes_field(2, value.encode()))
        for name, value in properties.items()
    )


def decode_facts(name: str, data: bytes, *, is_read_only: bool) -> BookieFacts:
    """Raises DamagedError. A node without content is named host:port."""
    host, _, port = name.rpartition(":")
    properties: dict[str, str] = {}
    try:
        for number, value in fields(data):
            if number == 6 and isinstance(value, bytes):
                endpoint = dict(fields(value))
                # Java's bookies use another name for the endpoint; the protocol decides.
                if _RPC in (endpoint.get(4), endpoint.get(1)):
                    host, port = _text(endpoint.get(3, b"")), str(endpoint.get(2, ""))
            elif number == 7 and isinstance(value, bytes):
                pair = dict(fields(value))
                properties[_text(pair.get(1, b""))] = _text(pair.get(2, b""))
        return BookieFacts(
            name=name,
            host=host,
            port=int(port),
            site=properties.get("site", ""),
            rack=properties.get("rack", "") or host,
            free_bytes=int(properties.get("free", 0)),
            total_bytes=int(properties.get("total", 0)),
            sync_us_p99=int(properties.get("sync", 0)),
            directory=properties.get("directory", ""),
            is_read_only=is_read_only,
            is_secured=bool(properties.get("secured", "")),
            has_batches=bool(properties.get("batches", "")),
        )
    except (MalformedError, ValueError, UnicodeDecodeError) as error:
        raise DamagedError(f"registration of bookie {name}", str(error)) from error


def _text(value: int | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cookie:
    """A bookie of this name is part of the cluster. It is in the store while the bookie counts as one."""

    bookie: str
    # Its data: the identity of the directory in the place of Java's path.
    directory: str
    instance: str

    @property
    def is_ours(self) -> bool:
        """Java's bookies set the path of their journal."""
        return not self.directory.startswith("/")


def encode_cookie(cookie: Cookie) -> bytes:
    return (
        f'{_COOKIE_VERSION}\nbookieHost: "{cookie.bookie}"\njournalDir: "{cookie.directory}"\n'
        f'ledgerDirs: "1\\t{cookie.directory}"\ninstanceId: "{cookie.instance}"\n'
    ).encode()


def decode_cookie(path: str, data: bytes) -> Cookie:
    """Raises DamagedError."""
    found = dict(re.findall(r'^(\w+): "([^"]*)"$', data.decode(errors="replace"), re.MULTILINE))
    try:
        return Cookie(bookie=found["bookieHost"], directory=found["journalDir"], instance=found["instanceId"])
    except KeyError as error:
        raise DamagedError(path, f"the cookie lacks {error}") from error
