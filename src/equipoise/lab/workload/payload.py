"""Write into each payload who sent it and as which of its messages, and read that back.

    b"ann 17 ......"    the publisher, its sequence number on this topic, padding up to the wanted size

A name holds no space, so a payload is split without looking at the padding.
"""

from __future__ import annotations

__all__ = ["decode_payload", "encode_payload"]


def encode_payload(publisher: str, sequence: int, size: int) -> bytes:
    """At least `size` bytes, more only if the facts alone take more."""
    return (b"%b %d " % (publisher.encode(), sequence)).ljust(size, b".")


def decode_payload(payload: bytes) -> tuple[str, int]:
    """Raises ValueError for what no publisher of ours has written."""
    publisher, sequence, _ = payload.split(b" ", 2)
    return publisher.decode(), int(sequence)
