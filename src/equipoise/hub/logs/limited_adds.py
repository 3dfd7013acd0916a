"""XADDs to topics that have a rate limit: each takes a token of the topic, like a message that is published.

A topic with a rate limit has no durable spec, so its log is apart from its channel, as in Redis. Both count against the
topic's limit. The owner of the log, which is also the home of the channel, charges an XADD when it adds the entry.

An XADD does not wait for a token, as a PUBLISH does: commands on a log are executed in their order, and reads would
wait behind it. The owner rejects it with LIMITED, and the client can retry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from equipoise.hub.access.quotas import topic_bytes
from equipoise.resp.replies import error

if TYPE_CHECKING:
    from equipoise.hub.access.quotas import Quotas
    from equipoise.hub.data.other_hubs import OtherHubs
    from equipoise.hub.data.topic_specs import TopicSpecs
    from equipoise.hub.data.topics import Topic

__all__ = ["LimitedAdds"]


class _Core(Protocol):
    @property
    def cluster(self) -> OtherHubs: ...
    @property
    def quotas(self) -> Quotas: ...
    @property
    def specs(self) -> TopicSpecs: ...
    def make_topic(self, name: bytes) -> Topic | None: ...


class LimitedAdds:
    """Owned by HubLogs."""

    def __init__(self, core: _Core) -> None:
        self._core = core

    def covers(self, name: bytes) -> bool:
        """Whether the topic has a rate limit. Called for every XADD."""
        if not self._core.specs.has_limited:
            return False
        spec = self._core.specs.of_name(name)
        return spec is not None and spec.rate_per_s is not None and not name.startswith(b"$")

    def charge(self, name: bytes) -> bytes | None:
        """Take a token for an entry that is about to be added; the rejection if the topic admits none now.

        A hub without room for the topic has no bucket for it, and rejects the entry like a message.
        """
        if not self.covers(name):
            return None
        topic = self._core.make_topic(name)
        if topic is None:
            return error(self._core.quotas.no_room(topic_bytes(name)))
        return self._core.cluster.limits.charge(topic)
