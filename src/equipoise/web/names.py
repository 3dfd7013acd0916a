"""Names of topics, which are any bytes, as text that people read and as text that comes back as the same bytes."""

from __future__ import annotations

from equipoise.store.tree import escape, unescape

__all__ = ["from_id", "shown", "to_id"]


def shown(name: bytes) -> str:
    """For people. Two different names may look alike; their ids do not."""
    text = name.decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def to_id(name: bytes) -> str:
    """For addresses."""
    return escape(name)


def from_id(text: str) -> bytes:
    return unescape(text)
