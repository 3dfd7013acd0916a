"""Track which hubs have applied the current routing.

A hub whose routing changes evaluates each of its topics again, in slices, and so announces every stream that is to
leave it. Then it sends DONE to all hubs, with the stamp of the routing. Links are ordered: a hub that has received DONE
with its own stamp from every live hub has received an offer of every stream that moves to it, and may open the other
topics that the plan assigns to it.

Always true: when `is_passed`, no live hub numbers a topic whose home is this hub by the current routing, except streams
that it has offered to this hub.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.frames import DoneFrame
from equipoise.hub.cluster.ports import ClusterPort, LimitsPort
from equipoise.hub.cluster.streams import State
from equipoise.hub.data.turns import LongWork

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.router import Stamp
    from equipoise.hub.data.topics import Topic

__all__ = ["EVALUATE_SLICE", "Barrier"]

# Work of one turn after a change of routing, in topics that are open here and stay: about 2 ms.
EVALUATE_SLICE = 800
# A topic with a stream, because it moves or is followed, takes as long as so many topics that are open here and stay.
STREAM_EFFORT = 40


class _Handover(Protocol):
    @property
    def has_guests(self) -> bool: ...
    def evaluate(self, topic: Topic) -> None: ...


class _Lanes(Protocol):
    def evaluate(self, topic: Topic) -> None: ...


class _Cluster(ClusterPort, Protocol):
    @property
    def handover(self) -> _Handover: ...
    @property
    def lanes(self) -> _Lanes: ...
    @property
    def limits(self) -> LimitsPort: ...
    def progressed(self) -> None: ...


class Barrier:
    """Part of one cluster."""

    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        # By peer, the stamp of its last DONE in its current incarnation.
        self._done: dict[str, Stamp] = {}
        # The stamp of this hub's last DONE.
        self._own: Stamp | None = None
        self._evaluating = LongWork(cluster.core.turns)
        # The progress at the last call of `has_progressed`; None: report progress at the next call.
        self._looked: tuple[bool, Stamp | None] | None = None

    @property
    def is_passed(self) -> bool:
        """Whether all hubs, this one included, have announced the streams that leave them under the current routing."""
        router = self._cluster.router
        stamp = router.stamp
        return (
            self._own == stamp
            and router.version > 0
            and all(self._done.get(peer) == stamp for peer in router.peers)
        )

    @property
    def is_introduced(self) -> bool:
        """Whether every live hub has sent its patterns to this hub: before that, this hub may number no message."""
        return self._done.keys() >= self._cluster.router.peers.keys()

    def receive_done(self, peer: str, stamp: Stamp, epoch: int) -> None:
        self._cluster.core.note_epoch(epoch)
        self._done[peer] = stamp
        self._cluster.progressed()

    def forget(self, peer: str) -> None:
        self._done.pop(peer, None)
        self._looked = None

    @property
    def has_progressed(self) -> bool:
        """Whether the barrier has advanced since the last call: with many hubs most DONE frames change nothing."""
        before = self._looked
        self._looked = (self.is_introduced, self._cluster.router.stamp if self.is_passed else None)
        return self._looked != before

    def evaluate_all(self) -> None:
        """Evaluate all topics again."""
        self._begin(None)

    def follow(self) -> None:
        """The routing has changed: evaluate all topics, or only the changed ones if nothing but shares has changed.

        The second only if this hub had finished with the previous routing, and no topic has pending events of peers.
        Topics with an exchange in progress are always evaluated: the exchange depends on the plan's version.
        """
        changed = self._cluster.router.reshared
        is_done = changed is not None and self._own == changed.before and not self._evaluating.is_running
        if changed is None or not is_done or self._cluster.news.has_pending:
            self._begin(None)
        else:
            self._begin(changed.topics)

    def _begin(self, only: frozenset[bytes] | None) -> None:
        self._looked = None
        known = list(self._cluster.core.index.topics.values())
        self._evaluating.run(self._evaluate(known, only), self._evaluated)

    def _evaluate(self, known: Sequence[Topic], only: frozenset[bytes] | None) -> Iterator[None]:
        """Evaluate topics one after another; a topic that is not reached yet continues under the previous plan."""
        cluster = self._cluster
        topics = cluster.core.index.topics
        effort = 0
        for topic in known:
            is_asked = only is None or topic.name in only or _is_under_way(topic)
            if is_asked and topics.get(topic.name) is topic:
                cluster.news.tell(topic)
                cluster.handover.evaluate(topic)
                cluster.lanes.evaluate(topic)
                if topic.limit is not None:
                    cluster.limits.evaluate(topic)
            effort += 1 if topic.stream is None else STREAM_EFFORT
            if effort >= EVALUATE_SLICE:
                effort = 0
                yield

    def _evaluated(self) -> None:
        self._cluster.news.all_learned()
        self.check()
        self._cluster.progressed()

    def check(self) -> None:
        """Send DONE once every topic is evaluated, and no topic is moving here that the plan assigns to another hub."""
        stamp = self._cluster.router.stamp
        if self._own == stamp or self._evaluating.is_running or self._cluster.handover.has_guests:
            return
        self._own = stamp
        for link in self._cluster.out.values():
            self.introduce(link)
        self._cluster.progressed()

    def introduce(self, link: OutLink) -> None:
        """Send DONE with the latest epoch known here: a hub that then opens a topic gives it a later epoch."""
        if self._own is not None:
            link.send(DoneFrame(*self._own, self._cluster.core.epochs.last))

    def withdraw(self) -> None:
        """Send DONE again after the next evaluation of all topics."""
        self._own = None


def _is_under_way(topic: Topic) -> bool:
    """Whether the topic waits for other hubs or for a plan."""
    stream = topic.stream
    if stream is None:
        return topic.beside is not None
    is_settled = stream.state in (State.OPEN, State.REMOTE) and stream.is_quiet and stream.joining is None
    # A hub in a tree follows its parent under a version of the plan.
    return not is_settled or topic.beside is not None or stream.under > 0
