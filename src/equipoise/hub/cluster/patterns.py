"""Patterns have to be known wherever topics live: tell every hub about ours, and keep those of the others.

A pattern subscription is answered once every live hub has it. A hub that joins is told all patterns at the beginning
of the link to it, ahead of the DONE without which it opens nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.cluster.frames import Verb, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from equipoise.hub.cluster.cluster import Cluster
    from equipoise.hub.cluster.links import OutLink
    from equipoise.hub.cluster.waiting import Wait

__all__ = ["Patterns"]


class Patterns:
    """Part of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Ours: by pattern, the hubs that have not confirmed it yet.
        self._unconfirmed: dict[bytes, set[str]] = {}
        self._waiters: dict[bytes, list[Callable[[], None]]] = {}

    def want(self, pattern: bytes, wait: Wait) -> None:
        """A client subscribes to the pattern; the wait is longer if some hub does not have it yet."""
        unconfirmed = self._unconfirmed.get(pattern)
        if unconfirmed is None:
            unconfirmed = self._unconfirmed[pattern] = set(self._cluster.out)
            for peer in self._cluster.out:
                self._cluster.tell(peer, Verb.PATTERN, pattern)
        if unconfirmed:
            self._waiters.setdefault(pattern, []).append(wait.add())

    def confirmed(self, peer: str, pattern: bytes) -> None:
        unconfirmed = self._unconfirmed.get(pattern)
        if unconfirmed is not None:
            unconfirmed.discard(peer)
            if not unconfirmed:
                for proceed in self._waiters.pop(pattern, ()):
                    proceed()

    def introduce(self, link: OutLink) -> None:
        for pattern in self._unconfirmed:
            link.write(encode(Verb.PATTERN, pattern))

    def added(self, peer: str, pattern: bytes) -> None:
        link = self._cluster.out.get(peer)
        if link is not None:
            self._cluster.core.index.add_pattern_relay(pattern, link)
            link.write(encode(Verb.PATTERNED, pattern))

    def removed(self, peer: str, pattern: bytes) -> None:
        link = self._cluster.out.get(peer)
        if link is not None:
            self._cluster.core.index.remove_pattern_relay(pattern, link)

    def peer_gone(self, peer: str, link: OutLink) -> None:
        self._cluster.core.index.remove_pattern_relays(link)
        for pattern in list(self._unconfirmed):
            self.confirmed(peer, pattern)

    def tidy(self, claimed: set[bytes]) -> None:
        """Take back the patterns that no client of ours has any more, or waits for."""
        known = self._cluster.core.index.patterns
        for pattern in list(self._unconfirmed):
            if pattern not in claimed and known.get(pattern) is None:
                del self._unconfirmed[pattern]
                for peer in self._cluster.out:
                    self._cluster.tell(peer, Verb.NOPATTERN, pattern)
