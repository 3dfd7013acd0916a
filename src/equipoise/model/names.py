"""Topic names, which are any bytes, as readable text and as text that converts back exactly."""

from __future__ import annotations

import re

__all__ = ["from_id", "shown", "to_id"]

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")
_ID = re.compile(r"(?:[A-Za-z0-9_.-]|~[0-9A-F]{2})*")


def shown(name: bytes) -> str:
    """For display. Two different names may look alike; their ids do not."""
    text = name.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def to_id(name: bytes) -> str:
    """For URLs: letters, digits and _ - . stand for themselves, every other byte is ~XX, the empty name is ~.

    Not percent-encoding: proxies decode that, and a slash in a name would become a separator of the URL's path.
    """
    if not name:
        return "~"
    # `.` and `..` are relative segments in a URL's path.
    plain = _PLAIN - {ord(".")} if not name.strip(b".") else _PLAIN
    return "".join(chr(byte) if byte in plain else f"~{byte:02X}" for byte in name)


def from_id(text: str) -> bytes:
    """Raises ValueError if the text is not an id."""
    if text == "~":
        return b""
    if not text or not _ID.fullmatch(text):
        raise ValueError(
            f"{text!r} is not an id of a topic: write every byte but letters, digits and _ - . as ~XX"
        )
    return re.sub(rb"~([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())
