"""Encode the arguments of a call as a request. Pure.

Replies are parsed by hiredis in connection.py.
"""

from __future__ import annotations

from typing import TypeAlias

from equipoise.errors import MisuseError
from equipoise.resp.replies import spell

Name: TypeAlias = str | bytes
Payload: TypeAlias = str | bytes | bytearray | memoryview


def encode_name(name: Name) -> bytes:
    """A topic or pattern as bytes; the reverse of `decode_name`, surrogate escapes included."""
    if isinstance(name, str):
        try:
            return name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise MisuseError(f"the topic {name!r} is not valid text; pass it as bytes") from error
    if isinstance(name, bytes):
        return name
    raise MisuseError(f"a topic is str or bytes, not {type(name).__name__}; convert it first")


def decode_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def encode_payload(payload: Payload) -> bytes:
    """The payload as bytes of its own: a buffer may be reused by the caller right after."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        try:
            return payload.encode()
        except UnicodeEncodeError as error:
            raise MisuseError(f"the payload is not valid text ({error.reason}); pass it as bytes") from error
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    raise MisuseError(
        f"a payload is str, bytes, bytearray or memoryview, not {type(payload).__name__}; "
        "serialise it first, for example with json.dumps"
    )


_PUBLISH = b"*3\r\n$7\r\nPUBLISH\r\n"
_PUBLISH_POSITIONED = b"*3\r\n$10\r\nEQ.PUBLISH\r\n"


def encode_publish(topic: bytes, payload: bytes) -> bytes:
    """The same as `encode_request(b"PUBLISH", …)`, in one step: this runs once per message."""
    return b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(topic), topic, len(payload), payload)


def with_position(publish: bytes) -> bytes:
    """The same request, with the message's position in the reply."""
    return publish.replace(_PUBLISH, _PUBLISH_POSITIONED, 1)


def encode_request(*words: bytes) -> bytes:
    return spell(words)
