"""Orderly shutdown of a hub: its peers learn that its end loses no message.

A hub that stops has closed its clients' connections. It asks its peers to send it no more messages (LEAVE 0); each
peer holds its messages for the hub, and replies (LEAVE 1) behind the last message sent. Once all peers have replied,
all messages through the hub are numbered, and all its frames have been executed, the hub sends LEAVE 2. Hubs that then
declare it dead send no gaps for messages that it might have held. Messages that they held for it are sent to the next
homes.

A hub that crashes, or that does not finish in time, is treated like any dead hub.
"""

from __future__ import annotations

from typing import Protocol

from equipoise.hub.cluster.link.frames import LeaveFrame
from equipoise.hub.cluster.ports import ClusterPort

__all__ = ["Leaving"]

# The steps of LEAVE.
ASK, REPLY, DONE = range(3)


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
    """The hubs that are stopping, this one included. Owned by the cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # Hubs that accept no more messages, and those among them that have no message in flight.
        self.hubs: set[str] = set()
        self._done: set[str] = set()
        # While this hub stops: the peers that have replied.
        self._replied: set[str] = set()

    # This hub stops.

    def begin(self) -> None:
        self._cluster.calls.leave()
        self._broadcast(ASK)

    @property
    def is_over(self) -> bool:
        """Whether no more messages can arrive, and none is in flight."""
        out, index = self._cluster.out, self._cluster.core.index
        if not self._replied >= out.keys() or not self._cluster.receipts.is_settled:
            return False
        if not self._cluster.calls.has_left:
            return False
        streams = (topic.stream for topic in (*index.topics.values(), *index.lanes.values()))
        return all(stream is None or stream.admission.is_idle for stream in streams) and self.is_flushed

    @property
    def is_flushed(self) -> bool:
        """Whether the peers have executed all frames of this hub."""
        return all(link.kept_bytes == 0 for link in self._cluster.out.values())

    def finish(self) -> None:
        self._broadcast(DONE)

    def _broadcast(self, step: int) -> None:
        for link in self._cluster.out.values():
            link.send(LeaveFrame(step))

    # Another hub stops.

    def receive(self, peer: str, step: int) -> None:
        if step == ASK:
            self.hubs.add(peer)
            self._cluster.tell(peer, LeaveFrame(REPLY))
        elif step == REPLY:
            self._replied.add(peer)
        else:
            self._done.add(peer)

    def has_left(self, hub: str) -> bool:
        """Whether the dead hub had finished its shutdown, with no message in flight."""
        return hub in self._done

    def forget(self, hub: str) -> None:
        """The hub is dead: discard its state. A new hub of the same name is another incarnation."""
        for hubs in (self.hubs, self._done, self._replied):
            hubs.discard(hub)
