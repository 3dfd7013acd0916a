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
    """Messages to number, or to forward to the home."""

    verb = b"EQ.L.INGRESS"
    key: bytes
    # The sender's version of the plan, and the hubs that the messages have passed through before it.
    version: int
    path: Path
    # Dependencies of the first message, in other streams of the topic.
    tags: tuple[Tag, ...]
    payloads: Payloads


class LossFrame(Frame, frozen=True):
    """Like INGRESS, for messages that were acknowledged to their publishers and are lost: to number as missing."""

    verb = b"EQ.L.LOSS"
    capability = LOSS
    key: bytes
    version: int
    path: Path
    tags: tuple[Tag, ...]
    count: int


class TearFrame(Frame, frozen=True):
    """Like LOSS, if an unknown number of `count` messages is missing: the stream continues with a gap."""

    verb = b"EQ.L.TEAR"
    capability = TEAR
    key: bytes
    version: int
    path: Path
    tags: tuple[Tag, ...]
    count: int


class MissedFrame(Frame, frozen=True):
    """Messages of the topic are lost: its home, the sender, has no room for it. Subscribers by pattern get a gap."""

    verb = b"EQ.L.MISSED"
    capability = MISSED
    topic: bytes


class NumberedFrame(Frame, frozen=True):
    """Acknowledges `count` more messages that the receiver has sent, and had received by `path`.

    The last is at (epoch, n). Epoch 0: they get no position; then n is the epoch in which they are lost, if a later
    epoch shows that to subscribers, else 0. A publisher's next message follows that epoch, in any stream.
    """

    verb = b"EQ.L.NUMBERED"
    key: bytes
    path: Path
    count: int
    epoch: int
    n: int


class RecountFrame(Frame, frozen=True):
    """A link between the two hubs has restarted: queries the number of unacknowledged messages of that path.

    The reply has the same ticket; replies to earlier requests are ignored.
    """

    verb = b"EQ.L.RECOUNT"
    key: bytes
    path: Path
    ticket: int


class RecountedFrame(Frame, frozen=True):
    """The reply to RECOUNT."""

    verb = b"EQ.L.RECOUNTED"
    key: bytes
    path: Path
    ticket: int
    count: int


class RecallFrame(Frame, frozen=True):
    """The sender's publishers, by that path, change to another stream: requests their waiting messages back."""

    verb = b"EQ.L.RECALL"
    capability = RECALL
    key: bytes
    path: Path


class RecalledFrame(Frame, frozen=True):
    """The reply to RECALL: the last messages of that path without a position, which the sender drops.

    Of several frames, the later ones have earlier messages. Tags as in INGRESS.
    """

    verb = b"EQ.L.RECALLED"
    capability = RECALL
    key: bytes
    path: Path
    tags: tuple[Tag, ...]
    payloads: Payloads


class ReturnFrame(Frame, frozen=True):
    """The lane ends: returns the last messages of the receiver's clients, which have no position.

    Of several frames, the later ones have earlier messages. Tags as in INGRESS.
    """

    verb = b"EQ.L.RETURN"
    capability = RETURN
    key: bytes
    tags: tuple[Tag, ...]
    payloads: Payloads
