"""Relayed messages in the compiled part, where it has been built.

`_relays.c` executes and writes the frames of plain messages: RUN at the home; FROM, EGRESS and NUMBERED at the hub
whose clients publish and subscribe. It changes the same state in the same order as the way in Python, and leaves all
that is special to that way, which is the only one with EQUIPOISE_PURE=1 in the environment, or where it is not built.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import RESEND
from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.cluster.publish_route import TopicAcks
from equipoise.hub.cluster.streams import State, Stream
from equipoise.hub.data.audience import Audience
from equipoise.hub.data.topic import Topic
from equipoise.hub.telemetry.meter import TopicMeter
from equipoise.resp.replies import plain_encoder
from equipoise.resp.runs import Run, read_requests
from equipoise.stream.admission import Admission

if TYPE_CHECKING:
    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.cluster.link.incoming import InLink
    from equipoise.hub.data.reply import Reply

__all__ = ["Relays", "compiled", "relays_of"]

log = logging.getLogger("equipoise.hub")

try:
    # Not built: no compiler, another system, or not wanted.
    from equipoise.hub.cluster import _relays as compiled

    _TYPES = (Topic, Stream, Audience, Admission, OutLink, TopicAcks, TopicMeter, Tag, deque, Run)
    compiled.learn(*_TYPES, plain_encoder(2, b"message", b""), State.REMOTE, RESEND)
except ImportError:
    compiled = None  # type: ignore[assignment]  # see above
except (AttributeError, TypeError) as _stale:
    log.warning("messages are relayed in Python: _relays.c has changed since it was built (%s)", _stale)
    compiled = None  # type: ignore[assignment]  # as if not built


class Relays(Protocol):
    """The compiled part of one hub."""

    def execute(
        self, peer: str, link: InLink, data: bytes, start: int, words_max: int, size_max: int, /
    ) -> int:
        """Execute plain frames from `start` on, up to the first one that is not; return how many bytes they had."""

    def send(self, topic: Topic, payloads: Sequence[bytes], /) -> bytes | Reply | None:
        """Send messages of a client to the home: as PublishRouting.publish. None: they are special; nothing is done."""


def relays_of(cluster: Cluster) -> Relays | None:
    """The compiled part for this hub; None where it has not been built."""
    if compiled is None or read_requests is None:
        return None
    core = cluster.core
    return compiled.Relays(
        core,
        cluster,
        cluster.out,
        cluster.incoming,
        cluster.news,
        cluster.router,
        cluster.feeders,
        cluster.failover,
        cluster.leaving,
        core.metering,
        core.backlogs,
        core.epochs,
        cluster.tags.blocked,
        cluster.receipts.accounts,
        cluster.ways,
        cluster.merging,
        core.sessions,
        core.limits.payload_bytes_max,
    )
