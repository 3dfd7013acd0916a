"""Frames of messages on the way to their position: sent, lost, acknowledged, recounted."""

from __future__ import annotations

from equipoise.hub.cluster.link.capability import LOSS, MISSED, RECALL, RETURN, TEAR
from equipoise.hub.cluster.link.frame import Frame, Path, Payloads, Tag

__all__ = [
    "IngressFrame",
    "LossFrame",
    "MissedFrame",
    "NumberedFrame",
    "RecallFrame",
    "RecalledFrame",
    "RecountFrame",
    "RecountedFrame",
    "ReturnFrame",
    "TearFrame",
]


class IngressFrame(Frame, frozen=True):
    """Number these messages, or pass them on."""

    verb = b"EQ.L.INGRESS"
    key: bytes
    # The sender's version of the plan, and the hubs that the messages have passed before it.
    version: int
    path: Path
    # Positions of other streams of the topic that the first message comes after.
    tags: tuple[Tag, ...]
    payloads: Payloads


class LossFrame(Frame, frozen=True):
    """As INGRESS, for messages that were acknowledged to their publishers and are lost: number them as missing."""

    verb = b"EQ.L.LOSS"
    capability = LOSS
    key: bytes
    version: int
    path: Path
    tags: tuple[Tag, ...]
    count: int


class TearFrame(Frame, frozen=True):
    """As LOSS, where it is not known how many of `count` messages are missing: the stream goes on with a gap."""

    verb = b"EQ.L.TEAR"
    capability = TEAR
    key: bytes
    version: int
    path: Path
    tags: tuple[Tag, ...]
    count: int


class MissedFrame(Frame, frozen=True):
    """Messages of the topic are lost: the sender, its home, has no room for it. Subscribers by pattern are told."""

    verb = b"EQ.L.MISSED"
    capability = MISSED
    topic: bytes


class NumberedFrame(Frame, frozen=True):
    """Ack: `count` more of the messages that the receiver sent, and that had come to it by `path`, have positions.

    The last is at (epoch, n). Epoch 0: they never get one; then n is the epoch in which they are lost, if subscribers
    learn of that by a later one, and 0 if not. A publisher's next message follows that epoch, in whatever stream.
    """

    verb = b"EQ.L.NUMBERED"
    key: bytes
    path: Path
    count: int
    epoch: int
    n: int


class RecountFrame(Frame, frozen=True):
    """A link between the two hubs began anew: how many messages of that path are not acknowledged?

    The ticket comes back with the answer: an answer to an earlier question is ignored.
    """

    verb = b"EQ.L.RECOUNT"
    key: bytes
    path: Path
    ticket: int


class RecountedFrame(Frame, frozen=True):
    """The answer to RECOUNT."""

    verb = b"EQ.L.RECOUNTED"
    key: bytes
    path: Path
    ticket: int
    count: int


class RecallFrame(Frame, frozen=True):
    """The publishers of messages that this hub sent, by that path, change to another stream: return what waits."""

    verb = b"EQ.L.RECALL"
    capability = RECALL
    key: bytes
    path: Path


class RecalledFrame(Frame, frozen=True):
    """The answer to RECALL: the last messages of that path that have no position, and get none here.

    Of several frames the later ones are about earlier messages. Tags as in INGRESS.
    """

    verb = b"EQ.L.RECALLED"
    capability = RECALL
    key: bytes
    path: Path
    tags: tuple[Tag, ...]
    payloads: Payloads


class ReturnFrame(Frame, frozen=True):
    """The last messages that the receiver's clients sent to this lane have no position, and the lane ends: take them.

    Of several frames the later ones are about earlier messages. Tags as in INGRESS.
    """

    verb = b"EQ.L.RETURN"
    capability = RETURN
    key: bytes
    tags: tuple[Tag, ...]
    payloads: Payloads
