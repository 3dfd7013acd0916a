"""Replicate pattern subscriptions to every hub.

A pattern subscription is confirmed once every live hub has it. A hub that joins receives all patterns at the start of
each link to it, before the DONE without which it opens no topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from equipoise.hub.cluster.latch import Wait
from equipoise.hub.cluster.link.frames import MissedFrame, NoPatternFrame, PatternedFrame, PatternFrame
from equipoise.hub.cluster.pattern_gaps import send_name_gap
from equipoise.model import Glob

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.ports import ClusterPort

__all__ = ["PatternSync"]


class PatternSync:
    """Part of one cluster."""

    def __init__(self, cluster: ClusterPort) -> None:
        self._cluster = cluster
        # Patterns of this hub's clients: the hubs that have not confirmed each yet, and its ticket.
        self._unconfirmed: dict[bytes, set[str]] = {}
        self._tickets: dict[bytes, int] = {}
        self._waiters: dict[bytes, list[Callable[[], None]]] = {}

    def want(self, pattern: bytes, wait: Wait) -> None:
        """A client subscribes to the pattern: join the wait to its confirmation by all hubs."""
        unconfirmed = self._unconfirmed.get(pattern)
        if unconfirmed is None:
            unconfirmed = self._unconfirmed[pattern] = set(self._cluster.out)
            self._tickets[pattern] = self._cluster.new_ticket()
            for link in self._cluster.out.values():
                self._tell(link, pattern)
        if unconfirmed:
            wait.join(self._waiters.setdefault(pattern, []))

    def confirmed(self, peer: str, pattern: bytes, ticket: int) -> None:
        if self._tickets.get(pattern) == ticket:
            self._confirm(peer, pattern)

    def _confirm(self, peer: str, pattern: bytes) -> None:
        unconfirmed = self._unconfirmed[pattern]
        unconfirmed.discard(peer)
        if not unconfirmed:
            for proceed in self._waiters.pop(pattern, ()):
                proceed()

    def introduce(self, link: OutLink) -> None:
        for pattern in self._unconfirmed:
            self._tell(link, pattern)

    def _tell(self, link: OutLink, pattern: bytes) -> None:
        link.send(PatternFrame(pattern, self._tickets[pattern]))

    def added(self, peer: str, pattern: bytes, ticket: int) -> None:
        link = self._cluster.out.get(peer)
        if link is None:
            return
        self._cluster.core.index.add_pattern_relay(pattern, link)

        def confirm() -> None:
            wait = Wait(confirm)
            self.await_fills((pattern,), wait)
            if wait.is_over_at_once() and self._cluster.out.get(peer) is link:
                link.send(PatternedFrame(pattern, ticket))

        confirm()

    def await_fills(self, patterns: Sequence[bytes], wait: Wait) -> None:
        """Wait until durable topics whose home failed have delivered the missed messages of their logs.

        A client of the failed home has received them, and may subscribe here by a pattern: it must not receive them
        again.
        """
        logs = self._cluster.core.logs
        for topic, log in () if logs is None else logs.unfilled.items():
            if any(Glob(pattern).matches(topic.name) for pattern in patterns):
                wait.join(log.waiters)
                # Make the home open the log: it does so only when needed.
                self._cluster.core.shell.call_later(0, log.open_log)

    def removed(self, peer: str, pattern: bytes) -> None:
        link = self._cluster.out.get(peer)
        if link is not None:
            self._cluster.core.index.remove_pattern_relay(pattern, link)

    def peer_died(self, peer: str) -> None:
        """The hub is dead: wait for its confirmations no longer."""
        for pattern in self._unconfirmed_by(peer):
            self._confirm(peer, pattern)

    def ask_again(self, peer: str) -> None:
        """The hub's confirmations were lost: request them again."""
        for pattern in self._unconfirmed_by(peer):
            self._tell(self._cluster.out[peer], pattern)

    def _unconfirmed_by(self, peer: str) -> list[bytes]:
        return [pattern for pattern, unconfirmed in self._unconfirmed.items() if peer in unconfirmed]

    def links(self, topic: bytes) -> list[OutLink]:
        """The links to the hubs that follow the topic by pattern."""
        links: dict[OutLink, None] = {}
        for pattern in self._cluster.core.index.relayed.matching(topic):
            links.update(pattern.relays)
        return list(links)

    def send_missed(self, topic: bytes) -> None:
        """Messages of a topic are lost, because this hub is its home and has no room for it."""
        send_name_gap(self._cluster.core, topic)
        for link in self.links(topic):
            link.send(MissedFrame(topic))

    def missed(self, topic: bytes) -> None:
        """MISSED arrived from the home; or messages of the topic arrived, and there is no room for it here."""
        found = self._cluster.core.index.topics.get(topic)
        if found is None or found.stream is not None:
            send_name_gap(self._cluster.core, topic)

    def tidy(self, claimed: set[bytes]) -> None:
        """Withdraw the patterns that no client of this hub has or waits for."""
        known = self._cluster.core.index.patterns
        for pattern in list(self._unconfirmed):
            if pattern not in claimed and known.get(pattern) is None:
                del self._unconfirmed[pattern], self._tickets[pattern]
                for peer in self._cluster.out:
                    self._cluster.tell(peer, NoPatternFrame(pattern))
