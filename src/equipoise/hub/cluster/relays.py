"""Relayed messages in the compiled part, where it has been built.

`_relays.c` executes and writes the frames of plain messages: RUN at the home; FROM, EGRESS and NUMBERED at the hub
whose clients publish and subscribe. It changes the same state in the same order as the way in Python, and leaves all
that is special to that way, which is the only one with EQUIPOISE_PURE=1 in the environment, or where it is not built.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import RESEND
from equipoise.hub.cluster.link.frames import Tag
from equipoise.hub.cluster.link.incoming import InLink, PlainFrames
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.cluster.publish_route import ClientAcks, TopicAcks
from equipoise.hub.cluster.streams import State, Stream
from equipoise.hub.data.audience import Audience
from equipoise.hub.data.topic import Topic
from equipoise.hub.telemetry.meter import TopicMeter
from equipoise.resp.replies import plain_encoder
from equipoise.resp.runs import Run, read_requests
from equipoise.stream.admission import Admission

if TYPE_CHECKING:
    from equipoise.hub.data.reply import Reply

__all__ = ["Publish", "Relays", "compiled", "relays_of"]

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


# Publishes messages of a client.
Publish = Callable[["Topic", Sequence[bytes]], "bytes | Reply"]


class Relays(PlainFrames, Protocol):
    """The compiled part of one hub."""

    def submit(self, topic: Topic, payloads: Sequence[bytes], /) -> bytes | Reply:
        """As PublishRouting.publish, which it calls for all but plain messages."""


class _Dependencies(Protocol):
    @property
    def blocked(self) -> dict[Stream, None]: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def incoming(self) -> dict[str, InLink]: ...
    @property
    def receipts(self) -> ClientAcks: ...
    @property
    def tags(self) -> _Dependencies: ...

    # Of these the compiled part reads a few attributes, or calls a method.

    @property
    def failover(self) -> object: ...
    @property
    def feeders(self) -> object: ...
    @property
    def leaving(self) -> object: ...
    @property
    def merging(self) -> object: ...
    @property
    def ways(self) -> object: ...


def relays_of(cluster: _Cluster) -> Relays | None:
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
