"""Encode deliveries: a run of messages of one topic, once for all subscribers that take the same form.

Two thirds of a hub's work is here, so everything that depends only on the topic is put together once, when the
topic's audience is compiled, and a run of equal-sized payloads costs one join in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from equipoise.resp.spelling import bulk

# (position of the first payload, payloads) -> bytes for one subscriber.
Encoder = Callable[[int, Sequence[bytes]], bytes]


_LARGE_RUN_BYTES = 64 * 1024


def plain_encoder(proto: int, word: bytes, *names: bytes) -> Encoder:
    """One frame per message, as Redis sends it: `word`, the names, the payload."""
    mark = b">" if proto == 3 else b"*"
    head = b"%b%d\r\n%b$" % (mark, len(names) + 2, b"".join(map(bulk, (word, *names))))
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
        if length * len(payloads) < _LARGE_RUN_BYTES:
            return b"%b%b\r\n" % (between[2:], between.join(payloads))
        # Each payload is copied once, where the line above copies twice; for small runs that is cheaper than the list.
        parts = [between] * (2 * len(payloads) + 1)
        parts[1::2] = payloads
        parts[0] = between[2:]
        parts[-1] = b"\r\n"
        return b"".join(parts)

    return encode


def positioned_encoder(epoch: int, word: bytes, *names: bytes) -> Encoder:
    """One frame per run for smart clients: `word`, the names, epoch, first position, the payloads."""
    fixed = len(names) + 3
    body = b"%b:%d\r\n:" % (b"".join(map(bulk, (word, *names))), epoch)

    def encode(first: int, payloads: Sequence[bytes]) -> bytes:
        tails = [b"%d\r\n%b\r\n" % (len(p), p) for p in payloads]
        return b">%d\r\n%b%d\r\n$%b" % (fixed + len(tails), body, first, b"$".join(tails))

    return encode


def interleaved(
    encoders: Sequence[Encoder], first: int, payloads: Sequence[bytes], piece_bytes: int
) -> Iterator[tuple[int, bytes]]:
    """For subscribers that get a message in several forms: all forms of one message before the next.

    Yields how many frames there are in a piece, and the piece, which is cut after the frame that makes it as long as
    `piece_bytes`.
    """
    frames: list[bytes] = []
    size = 0
    for n, payload in enumerate(payloads, first):
        for encode in encoders:
            frame = encode(n, (payload,))
            frames.append(frame)
            size += len(frame)
            if size >= piece_bytes:
                yield len(frames), b"".join(frames)
                frames, size = [], 0
    if frames:
        yield len(frames), b"".join(frames)
