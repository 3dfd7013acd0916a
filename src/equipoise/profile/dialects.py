"""The bytes that a subscriber and a publisher exchange with each kind of server.

Every frame of a case has a known length, so the driver counts bytes and never parses. A dialect defines the bytes to
send, and the exact bytes of the response.
"""

from __future__ import annotations

from typing import Protocol


class ServerProtocol(Protocol):
    # Unsolicited bytes that a server sends to every connection some time after it was opened. A run starts after it.
    afterword: bytes

    def subscribe(self, topic: bytes) -> bytes:
        """The bytes that subscribe a new connection to `topic`."""

    def is_subscribed(self, received: bytes, topic: bytes) -> bool:
        """Whether `received` is, from first byte to last, the response to a new subscriber."""

    def prepare_publisher(self, *, is_single: bool) -> bytes: ...

    def is_publisher_prepared(self, received: bytes, *, is_single: bool) -> bool: ...

    def publish(self, topics: list[bytes], payload: bytes, *, is_single: bool) -> bytes:
        """One send: a publish to each of `topics` in turn, with a request for an acknowledgement."""

    def receipt(self, frames: int, fanout: int, *, is_single: bool) -> bytes:
        """The server's response to one send."""

    def deliver(self, topic: bytes, payload: bytes) -> bytes:
        """The bytes of one message at one subscriber."""


class Resp2:
    """Redis and the hub: RESP2, plain SUBSCRIBE and PUBLISH. Every publish is answered with its receivers."""

    afterword = b""

    def subscribe(self, topic: bytes) -> bytes:
        return resp_array(b"SUBSCRIBE", topic)

    def is_subscribed(self, received: bytes, topic: bytes) -> bool:
        return received == b"*3\r\n" + resp_bulk(b"subscribe") + resp_bulk(topic) + b":1\r\n"

    def prepare_publisher(self, *, is_single: bool) -> bytes:
        return resp_array(b"PING")

    def is_publisher_prepared(self, received: bytes, *, is_single: bool) -> bool:
        return received == b"+PONG\r\n"

    def publish(self, topics: list[bytes], payload: bytes, *, is_single: bool) -> bytes:
        return b"".join(resp_array(b"PUBLISH", topic, payload) for topic in topics)

    def receipt(self, frames: int, fanout: int, *, is_single: bool) -> bytes:
        return b":%d\r\n" % fanout * frames

    def deliver(self, topic: bytes, payload: bytes) -> bytes:
        return resp_array(b"message", topic, payload)


class Nats:
    """NATS's own protocol. Single publishes run in verbose mode (+OK for each); a batch ends with a PING.

    Two seconds after a client connects the server sends it one PING to learn its distance. It is awaited
    before the first run, so that it cannot fall into one.
    """

    afterword = b"PING\r\n"

    def subscribe(self, topic: bytes) -> bytes:
        return b"%sSUB %s 1\r\nPING\r\n" % (nats_connect(is_verbose=False), topic)

    def is_subscribed(self, received: bytes, topic: bytes) -> bool:
        return received.startswith(b"INFO {") and received.endswith(b"} \r\nPONG\r\n")

    def prepare_publisher(self, *, is_single: bool) -> bytes:
        return nats_connect(is_verbose=is_single) + b"PING\r\n"

    def is_publisher_prepared(self, received: bytes, *, is_single: bool) -> bool:
        ending = b"} \r\n" + (b"+OK\r\n" if is_single else b"") + b"PONG\r\n"
        return received.startswith(b"INFO {") and received.endswith(ending)

    def publish(self, topics: list[bytes], payload: bytes, *, is_single: bool) -> bytes:
        frames = b"".join(b"PUB %s %d\r\n%s\r\n" % (topic, len(payload), payload) for topic in topics)
        return frames if is_single else frames + b"PING\r\n"

    def receipt(self, frames: int, fanout: int, *, is_single: bool) -> bytes:
        return b"+OK\r\n" * frames if is_single else b"PONG\r\n"

    def deliver(self, topic: bytes, payload: bytes) -> bytes:
        return b"MSG %s 1 %d\r\n%s\r\n" % (topic, len(payload), payload)


def resp_array(*parts: bytes) -> bytes:
    return b"*%d\r\n" % len(parts) + b"".join(map(resp_bulk, parts))


def nats_connect(*, is_verbose: bool) -> bytes:
    return b'CONNECT {"verbose":%s,"pedantic":false}\r\n' % (b"true" if is_verbose else b"false")


def resp_bulk(part: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(part), part)
