"""Send changed subscriber counts of this hub to its peers.

A newly linked hub receives all counts first, then only changes: at most twice a second, and a bounded number of names
per round; the rest waits for the next round. When a link restarts, all counts are sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import COUNTS
from equipoise.hub.cluster.link.codec import runs
from equipoise.hub.cluster.link.frames import CountsFrame, Frame
from equipoise.hub.data.region_counts import Key, RegionCounts, format_count

if TYPE_CHECKING:
    from equipoise.hub.client_limits import Limits
    from equipoise.hub.data.ports import Shell, Timer

__all__ = ["CountedHub", "CountedIndex", "SubscriberCounts"]

# Interval between rounds, in seconds: a count is at most a second old when it arrives.
ROUND_S = 0.5
# Names sent to one hub in one round: about 5 ms.
NAMES_PER_ROUND_MAX = 5_000
# Names sent to a newly linked hub.
INTRODUCED_MAX = 100_000


class _Link(Protocol):
    @property
    def hub(self) -> str: ...
    def can(self, capability: str) -> bool: ...
    def send(self, frame: Frame) -> bool: ...


class CountedIndex(Protocol):
    """The topics and patterns of this hub."""

    @property
    def counts(self) -> RegionCounts: ...
    def own_count(self, key: Key) -> int: ...
    def counted(self) -> Iterable[Key]: ...


class CountedHub(Protocol):
    @property
    def index(self) -> CountedIndex: ...
    @property
    def shell(self) -> Shell: ...
    @property
    def limits(self) -> Limits: ...


class SubscriberCounts:
    """Part of one cluster."""

    def __init__(self, hub: CountedHub, links: Mapping[str, _Link]) -> None:
        self._hub = hub
        self._links = links
        # By hub, the names to send; and the hubs that have received none yet.
        self._pending: dict[str, dict[Key, None]] = {}
        self._unsynced: set[str] = set()
        # Runs while there are counts to send.
        self._timer: Timer | None = None
        hub.index.counts.on_change = self._wake

    def sync(self, link: _Link, *, is_restarted: bool = False) -> None:
        """The hub has announced the capability, or its link has restarted: send it all counts."""
        if link.can(COUNTS) and (is_restarted or link.hub not in self._pending):
            self._pending[link.hub] = dict.fromkeys(islice(self._hub.index.counted(), INTRODUCED_MAX))
            self._unsynced.add(link.hub)
            self._wake()

    def peer_gone(self, hub: str) -> None:
        self._pending.pop(hub, None)
        self._unsynced.discard(hub)

    def close(self) -> None:
        self._hub.index.counts.on_change = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._timer is None:
            self._timer = self._hub.shell.call_later(ROUND_S, self._send)

    def _send(self) -> None:
        self._timer = None
        changed = self._hub.index.counts.take_changed()
        for hub, pending in self._pending.items():
            pending.update(changed)
            link = self._links.get(hub)
            if link is not None and (pending or hub in self._unsynced):
                self._send_to(link, pending)
            if pending:
                self._wake()

    def _send_to(self, link: _Link, pending: dict[Key, None]) -> None:
        index = self._hub.index
        keys = list(islice(pending, NAMES_PER_ROUND_MAX))
        for key in keys:
            del pending[key]
        words = [format_count(key, index.own_count(key)) for key in keys]
        for _, part in runs(words, self._hub.limits.payload_bytes_max) if words else ():
            link.send(CountsFrame(link.hub in self._unsynced, part))
            self._unsynced.discard(link.hub)
