"""The listen address of a process, and the addresses that it advertises.

Always true: an advertised address is reachable from other machines. A wildcard address (`0.0.0.0`) is for listening
only: a client that connects to it connects to its own machine.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from equipoise.errors import SettingsError

__all__ = ["check_advertisable", "joined", "split_address"]


def split_address(text: str) -> tuple[str, int] | None:
    """Host and port of `HOST:PORT`, also of `[::1]:80`; None if the text has another form."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        return None
    return host.strip("[]"), int(port)


def joined(host: str, port: int) -> str:
    """`HOST:PORT`, as `split_address` and URLs accept it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_advertisable(host: str, *, who: str, option: str) -> None:
    """Raise SettingsError, which names the option to set, unless other machines can connect to this host."""
    if _is_everywhere(host):
        raise SettingsError(
            f"others cannot connect to {host or 'every address'}: give the address of this {who} with {option}"
        )


def _is_everywhere(host: str) -> bool:
    # Resolvers take 0 for 0.0.0.0.
    if host in ("", "0", "*"):
        return True
    try:
        found = ip_address(host)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return found.is_unspecified or (mapped is not None and mapped.is_unspecified)
