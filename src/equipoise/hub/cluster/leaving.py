"""Shut a hub down in order, so that peers know that its end loses no message.

A hub that stops has ended its clients' connections. It asks the others to send it no more messages (LEAVE 0); each
holds those that it has, and answers (1) behind the last that it sent. Once all have answered, all messages that came
through the hub have their positions, and all that it wrote has been executed, it says so (LEAVE 2). Hubs that
declare it dead then tell no subscriber of a gap on account of what it might have held. What they held for it goes to
the next homes.

A hub that crashes, or that does not get so far in time, is a dead hub like any other.
"""

from __future__ import annotations

from typing import Protocol

from equipoise.hub.cluster.link.frames import LeaveFrame
from equipoise.hub.cluster.ports import ClusterPort

__all__ = ["Leaving"]

# The steps of LEAVE.
ASK, ANSWER, DONE = range(3)


class _Acks(Protocol):
    @property
    def is_settled(self) -> bool: ...


class _Logs(Protocol):
    @property
    def has_left(self) -> bool: ...
    def leave(self) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def calls(self) -> _Logs: ...
    @property
    def receipts(self) -> _Acks: ...


class Leaving:
    """Which hubs stop, this one included. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Hubs that take no more messages, and those among them that have nothing under way.
        self.hubs: set[str] = set()
        self._done: set[str] = set()
        # Of this hub, while it stops: those that have answered.
        self._answered: set[str] = set()

    # This hub stops.

    def begin(self) -> None:
        self._cluster.calls.leave()
        self._tell(ASK)

    @property
    def is_over(self) -> bool:
        """Whether nothing can come any more, and nothing is under way."""
        out, index = self._cluster.out, self._cluster.core.index
        if not self._answered >= out.keys() or not self._cluster.receipts.is_settled:
            return False
        if not self._cluster.calls.has_left:
            return False
        streams = (topic.stream for topic in (*index.topics.values(), *index.lanes.values()))
        return all(stream is None or stream.admission.is_idle for stream in streams) and self.is_flushed

    @property
    def is_flushed(self) -> bool:
        """Whether the others have executed all that this hub has written."""
        return all(link.kept_bytes == 0 for link in self._cluster.out.values())

    def finish(self) -> None:
        self._tell(DONE)

    def _tell(self, step: int) -> None:
        for link in self._cluster.out.values():
            link.send(LeaveFrame(step))

    # Another hub stops.

    def heard(self, peer: str, step: int) -> None:
        if step == ASK:
            self.hubs.add(peer)
            self._cluster.tell(peer, LeaveFrame(ANSWER))
        elif step == ANSWER:
            self._answered.add(peer)
        else:
            self._done.add(peer)

    def has_left(self, hub: str) -> bool:
        """Whether the hub, which is dead, had nothing under way."""
        return hub in self._done

    def forget(self, hub: str) -> None:
        """The hub is dead: another of its name is another one."""
        for hubs in (self.hubs, self._done, self._answered):
            hubs.discard(hub)
