"""ZooKeeper addresses with credentials and TLS files.

    zk://host:port,host:port/root?auth=FILE
    zks://host:port,host:port/root?ca=FILE&certificate=FILE&key=FILE&auth=FILE

`zks` is TLS: the CA verifies the servers, host names included, and certificate and key authenticate this client.
`auth` is a file with one line `user:password`, for ZooKeeper's digest scheme: every node is created for that user
alone.
Secrets are in files, since every user of the machine can read an address. Files are read for each session, so they can
be replaced while processes run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from equipoise.errors import AddressError, MisuseError, SettingsError
from equipoise.store.contract import check_path

__all__ = ["ZOOKEEPER_PORT", "ZooKeeperAddress", "parse_zookeeper"]

ZOOKEEPER_PORT = 2181

_HOST = r"(?:\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+)"
_URL = re.compile(
    rf"(?P<scheme>zks?)://(?P<hosts>{_HOST}(?::\d+)?(?:,{_HOST}(?::\d+)?)*)(?P<root>/[^?]*)?(?:\?(?P<query>.*))?"
)
_FILES = ("ca", "certificate", "key", "auth")


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    # Hosts with ports, in kazoo's format.
    hosts: str
    root: str = "/"
    is_tls: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = ""
    auth: str = ""

    @property
    def chroot(self) -> str:
        """Hosts and root in one, in kazoo's format."""
        return self.hosts + self.root.rstrip("/")

    def client_options(self) -> dict[str, Any]:
        """Keyword arguments of a KazooClient. Raises SettingsError if a file cannot be used."""
        options: dict[str, Any] = {}
        if self.is_tls:
            for path in filter(None, (self.ca, self.certificate, self.key)):
                _read(path)
            options |= {
                "use_ssl": True,
                "ca": self.ca or None,
                "certfile": self.certificate or None,
                "keyfile": self.key or None,
                "check_hostname": True,
            }
        if self.auth:
            # Imported here, so that addresses can be parsed without ZooKeeper's client.
            from kazoo.security import make_digest_acl  # type: ignore[import-untyped]  # kazoo ships no types

            user, colon, password = _read(self.auth).strip().partition(":")
            if not (user and colon and password):
                raise SettingsError(f"the file {self.auth} must have one line, user:password")
            options["auth_data"] = [("digest", f"{user}:{password}")]
            options["default_acl"] = [make_digest_acl(user, password, all=True)]
        return options


def parse_zookeeper(url: str) -> ZooKeeperAddress | None:
    """None if the address is not a ZooKeeper address. Raises AddressError if it is an invalid one."""
    found = _URL.fullmatch(url)
    if found is None:
        return None
    root = (found["root"] or "").rstrip("/") or "/"
    try:
        check_path(root)
        files = dict(parse_qsl(found["query"] or "", strict_parsing=bool(found["query"])))
    except (MisuseError, ValueError) as problem:
        raise AddressError(f"{url!r}: {problem}") from problem
    is_tls = found["scheme"] == "zks"
    allowed = _FILES if is_tls else ("auth",)
    if unknown := sorted(files.keys() - set(allowed)):
        raise AddressError(f"{url!r}: {', '.join(unknown)} is unknown; give {', '.join(allowed)}")
    hosts = ",".join(map(_with_port, found["hosts"].split(",")))
    return ZooKeeperAddress(hosts, root, is_tls, **files)


def _with_port(host: str) -> str:
    has_port = re.search(r":\d+$", host) and not host.endswith("]")
    return host if has_port else f"{host}:{ZOOKEEPER_PORT}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"cannot read {path}, which the store's address names: {problem}") from problem
