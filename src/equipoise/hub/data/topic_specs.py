"""The specs in force at a hub, and the spec of each topic.

Always true: a topic's spec is looked up once per change of specs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.model import Specs, TopicSpec
from equipoise.resp.replies import bulk, integer, push

if TYPE_CHECKING:
    from equipoise.hub.data.topic import Topic

__all__ = ["TopicSpecs"]


class TopicSpecs:
    """The specs in force, and the spec of each topic. Owned by HubCore; changes through `follow`."""

    def __init__(self) -> None:
        self._specs = Specs()
        # Version of the specs, as referenced by plans.
        self.version = 0
        # The version that is applied to every topic of this hub.
        self.enforced_version = 0
        # Whether any spec needs a single writer per topic: a rate limit or a log.
        self.need_single_writer = False
        # Whether any spec needs a log, and whether any has a rate limit.
        self.has_durable = self.has_limited = False
        self._changes = 0

    def follow(self, specs: Specs, version: int) -> None:
        """Put these specs in force."""
        self._specs, self.version = specs, version
        self._changes += 1
        self.has_limited = any(spec.rate_per_s is not None for spec in specs)
        self.has_durable = any(spec.durability is not None for spec in specs)
        self.need_single_writer = self.has_limited or self.has_durable

    def tell_durable(self, proto: int, write: Callable[[bytes], object]) -> None:
        """Notify a smart client of durable topics, with the version of the specs: it then numbers its messages."""
        if self.has_durable and proto == 3:
            write(push((bulk(b"eq.durable"), integer(self.version)), 3))

    def of_name(self, name: bytes) -> TopicSpec | None:
        """The spec of a topic of this name."""
        return self._specs.of(name)

    def of(self, topic: Topic) -> TopicSpec | None:
        """The topic's spec; None: best effort. Looked up once per topic and change of specs."""
        if topic.spec_at != self._changes:
            topic.spec, topic.spec_at = self._specs.of(topic.name), self._changes
        return topic.spec
