"""Encode deliveries: a run of messages of one topic, once for all subscribers that take the same form.

Two thirds of a hub's work is here, so everything that depends only on the topic is put together once, when the
topic's audience is compiled, and a run of equal-sized payloads costs one join in C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

# (position of the first payload, payloads) -> bytes for one subscriber.
Encoder = Callable[[int, Sequence[bytes]], bytes]


def plain_encoder(proto: int, word: bytes, *names: bytes) -> Encoder:
    """One frame per message, as Redis sends it: `word`, the names, the payload."""
    mark = b">" if proto == 3 else b"*"
    head = b"%b%d\r\n%b$" % (mark, len(names) + 2, b"".join(map(_bulk, (word, *names))))
    # Most payloads of a topic are of one size, so the head with its length is kept from run to run.
    sized: dict[int, bytes] = {}

    def encode(first: int, payloads: Sequence[bytes]) -> bytes:
        if len(payloads) == 1:
            payload = payloads[0]
            return b"%b%d\r\n%b\r\n" % (head, len(payload), payload)
        lengths = set(map(len, payloads))
        if len(lengths) > 1:
            return head + head.join([b"%d\r\n%b\r\n" % (len(p), p) for p in payloads])
        (length,) = lengths
        between = sized.get(length)
        if between is None:
            if len(sized) >= 4:
                sized.clear()
            between = sized[length] = b"\r\n%b%d\r\n" % (head, length)
        return b"%b%b\r\n" % (between[2:], between.join(payloads))

    return encode


def positioned_encoder(epoch: int, word: bytes, *names: bytes) -> Encoder:
    """One frame per run for smart clients: `word`, the names, epoch, first position, the payloads."""
    fixed = len(names) + 3
    body = b"%b:%d\r\n:" % (b"".join(map(_bulk, (word, *names))), epoch)

    def encode(first: int, payloads: Sequence[bytes]) -> bytes:
        tails = [b"%d\r\n%b\r\n" % (len(p), p) for p in payloads]
        return b">%d\r\n%b%d\r\n$%b" % (fixed + len(tails), body, first, b"$".join(tails))

    return encode


def interleaved(encoders: Sequence[Encoder]) -> Encoder:
    """For a subscriber that gets a message in several forms: all forms of one message before the next."""

    def encode(first: int, payloads: Sequence[bytes]) -> bytes:
        return b"".join(
            [form(first + i, (payload,)) for i, payload in enumerate(payloads) for form in encoders]
        )

    return encode


def _bulk(value: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(value), value)
