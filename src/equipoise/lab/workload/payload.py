"""Encode publisher and sequence number in each payload, and decode them.

    b"ann 17 ......"    the publisher, its sequence number on this topic, padding up to the wanted size

A name contains no space, so decoding ignores the padding. For filter subscribers the payload is a JSON object with the
same values and one derived value:

    {"publisher":"ann","number":17,"third":2,"padding":"..."}
"""

from __future__ import annotations

import json

__all__ = ["attributes_of_message", "decode_payload", "encode_json", "encode_payload"]


def encode_payload(publisher: str, sequence: int, size: int) -> bytes:
    """At least `size` bytes; more only if name and number need more."""
    return (b"%b %d " % (publisher.encode(), sequence)).ljust(size, b".")


def attributes_of_message(publisher: str, sequence: int) -> dict[str, object]:
    return {"publisher": publisher, "number": sequence, "third": sequence % 3}


def encode_json(publisher: str, sequence: int, size: int) -> bytes:
    attributes = attributes_of_message(publisher, sequence)
    text = json.dumps({**attributes, "padding": ""}, separators=(",", ":"))
    return (text[:-2] + "." * (size - len(text)) + text[-2:]).encode()


def decode_payload(payload: bytes) -> tuple[str, int]:
    """Raises ValueError for a payload of another format."""
    if payload.startswith(b"{"):
        facts = json.loads(payload)
        return str(facts["publisher"]), int(facts["number"])
    publisher, sequence, _ = payload.split(b" ", 2)
    return publisher.decode(), int(sequence)
