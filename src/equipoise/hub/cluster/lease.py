"""The lease of a hub: may it act as the single writer of limited and durable topics.

A hub holds the lease at a time if, within the term before it,

    the store has carried out a write of this hub to its own `alive` node, or
    every other hub that it counts as alive has said "you are alive to me".

The term is half the session time-out, and both are counted from when the hub asked. Why that is safe (the argument is
about the hub that comes after this one, which waits for a term once its barrier has passed, `has_lapsed_elsewhere`):

    a session lives for the whole time-out after the store has carried out a request, so a hub that cannot reach the
    store loses the lease half a time-out before its session can end, and with it its topics;
    the successor's barrier needs DONE from every hub that is alive to it, about who is alive. Each of them knew by then
    that this hub was dead, and had said "you are alive to me" for the last time before. This hub asked before that.

So without the store hubs that hear each other go on, and a hub that is cut off alone stops. What is left: all hubs of
a region, or its only one, are cut off from the store together while new hubs, unknown to them, start beside it. A hub
that counts no other as alive is such a one, even if others have only been away. So a lease by the word of hubs does not
tell that no other hub has the logs (`is_sole`): that is asked of the bookies then.

A hub that has paused does not hold the lease by the word of other hubs until it is confirmed (`standstill`): its
session may have ended in the pause, and hubs that it does not know may have started since. That matters most to a hub
that counts no other as alive, which needs no word at all.

A write, not a read: a server of an ensemble that has lost its leader still answers reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import LEASE
from equipoise.hub.cluster.link.frames import LeaseFrame, Life

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.frames import Frame
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.router import Router
    from equipoise.hub.data.ports import Shell, Timer

__all__ = ["TERM_S_MAX", "Lease", "LeaseTimes"]

# ZooKeeper may grant a shorter session than it is asked for: 40 s at most as it comes, 20 ticks.
TERM_S_MAX = 10.0
# The store, and while it is silent the other hubs, are asked so many times in a term: two answers may be lost.
ASKED_PER_TERM = 3
_NEVER = float("-inf")


class LivePeers(Protocol):
    """What the lease needs of the cluster."""

    @property
    def is_seen(self) -> bool:
        """Whether this incarnation of the hub is among those that count as alive."""

    @property
    def router(self) -> Router: ...
    @property
    def out(self) -> Mapping[str, OutLink]: ...
    def tell(self, peer: str, frame: Frame) -> None: ...


class NeedsLease(Protocol):
    @property
    def need_single_writer(self) -> bool: ...


class LeaseTimes:
    """When this hub last asked the store, and each other hub, a question that was answered. Pure."""

    def __init__(self, term_s: float) -> None:
        self.term_s = term_s
        self._store_at = _NEVER
        self._peer_at: dict[Life, float] = {}

    def store_answered(self, asked_at: float) -> None:
        self._store_at = max(self._store_at, asked_at)

    def store_left(self) -> None:
        """What the store has carried out counts no more."""
        self._store_at = _NEVER

    def peer_answered(self, peer: Life, asked_at: float) -> None:
        self._peer_at[peer] = max(self._peer_at.get(peer, _NEVER), asked_at)

    def forget_others(self, peers: Iterable[Life]) -> None:
        """Only these hubs are alive."""
        self._peer_at = {peer: self._peer_at[peer] for peer in peers if peer in self._peer_at}

    def is_valid(self, now: float, peers: Iterable[Life]) -> bool:
        """Whether the lease is held, given the other hubs that count as alive."""
        return self.is_by_store(now) or self.have_all_answered(now - self.term_s, peers)

    def is_by_store(self, now: float) -> bool:
        """Whether the store alone makes it valid."""
        return self._store_at > now - self.term_s

    def has_store_answered(self, since: float) -> bool:
        """A question that was asked at this time, or later."""
        return self._store_at >= since

    def have_all_answered(self, since: float, peers: Iterable[Life]) -> bool:
        """Each of them a question that was asked after this time."""
        return all(self._peer_at.get(peer, _NEVER) > since for peer in peers)

    def held_until(self, peers: Iterable[Life], awake_until: float) -> float:
        """Until when it is held if no answer comes again; by the word of other hubs until the second at most."""
        by_peers = min([self._peer_at.get(peer, _NEVER) for peer in peers], default=float("inf"))
        return max(self._store_at + self.term_s, min(by_peers + self.term_s, awake_until))

    def is_store_silent(self, now: float) -> bool:
        """Whether a question to the store was missed, so that the other hubs have to be asked."""
        return now - self._store_at > 1.5 * self.term_s / ASKED_PER_TERM


class Lease:
    """Owned by HubCore. A hub that belongs to no cluster always holds it."""

    def __init__(
        self, shell: Shell, session_timeout_s: float, specs: NeedsLease, awake_until: Callable[[], float]
    ) -> None:
        """`awake_until`: a later moment comes after a pause of this hub, which is not confirmed yet."""
        self.term_s = min(session_timeout_s / 2, TERM_S_MAX)
        self._times = LeaseTimes(self.term_s)
        self._now = shell.now
        self._call_later = shell.call_later
        self._specs = specs
        self._awake_until = awake_until
        self._cluster: LivePeers | None = None
        self._timer: Timer | None = None
        # The question to each hub that it has not answered yet, and when it was asked.
        self._asked: dict[int, tuple[Life, float]] = {}
        self._last_token = 0
        # Whether the hub may own logs: any topic may have one.
        self.has_logs = False

    # What others ask of it.

    def is_valid(self, now: float) -> bool:
        cluster = self._cluster
        if cluster is None:
            return True
        is_awake = now <= self._awake_until()
        return cluster.is_seen and (
            self._times.is_valid(now, self._peers(cluster)) if is_awake else self._times.is_by_store(now)
        )

    def is_sole(self, now: float) -> bool:
        """Whether no other hub can have claimed what this one owns: its session cannot have ended."""
        return self._cluster is None or (self._cluster.is_seen and self._times.is_by_store(now))

    def held_until(self) -> float:
        """Until when it is held, as far as is known now; a moment that has passed: it is not held."""
        cluster = self._cluster
        if cluster is None:
            return float("inf")
        if not cluster.is_seen:
            return _NEVER
        return self._times.held_until(self._peers(cluster), self._awake_until())

    def has_lapsed_elsewhere(self, since: float, now: float) -> bool:
        """Whether no other hub can hold a lease that it held at `since`, when this hub's barrier passed."""
        return now - since >= self.term_s

    def is_confirmed(self, since: float, now: float) -> bool:
        """Whether this incarnation is alive by the answer to a question that was asked after `since`.

        Other hubs learn of a death from the store a moment later than it happens. So their word counts only once the
        store has been silent for a while; if this hub counts no other as alive, once it has been silent for a term.
        """
        cluster = self._cluster
        if cluster is None:
            return True
        peers = self._peers(cluster)
        later = since + self._patience_s(peers)
        has_peers = now > later and self._times.have_all_answered(later, peers)
        return has_peers or self._times.has_store_answered(since)

    def _patience_s(self, peers: Sequence[Life]) -> float:
        """How long this hub, after a pause, waits for the store alone."""
        return self.interval_s if peers else self.term_s

    @property
    def is_needed(self) -> bool:
        """Whether there may be a topic that needs a single writer; until then nothing is asked."""
        return self.has_logs or self._specs.need_single_writer

    @property
    def text(self) -> str:
        """For INFO."""
        if not self.is_needed:
            return "not needed"
        return "held" if self.is_valid(self._now()) else "lost"

    # The life of a hub in a cluster.

    def start(self, cluster: LivePeers) -> None:
        """The hub, or its next life, belongs to this cluster: it holds nothing yet."""
        self.stop()
        self._cluster = cluster
        self._times = LeaseTimes(self.term_s)
        self._timer = self._call_later(self.interval_s, self._ask)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._asked.clear()

    @property
    def interval_s(self) -> float:
        return self.term_s / ASKED_PER_TERM

    def store_answered(self, asked_at: float) -> None:
        """The store has carried out a write to the hub's `alive`, in its present session and life."""
        self._times.store_answered(asked_at)

    def store_left(self) -> None:
        """The hub is about to withdraw its `alive`: others may claim what it owns before its session ends."""
        self._times.store_left()

    # Questions to other hubs, and theirs.

    def heard(self, cluster: LivePeers, peer: str, frame: LeaseFrame) -> None:
        """A hub asks whether it is alive to this one, or answers. Its link is heard only as long as it is alive."""
        if not frame.is_answer:
            if peer in cluster.router.peers:
                cluster.tell(peer, LeaseFrame(frame.token, 1))
            return
        life, asked_at = self._asked.pop(frame.token, (("", 0), 0.0))
        if life[0] == peer:
            self._times.peer_answered(life, asked_at)

    def _ask(self) -> None:
        """Ask every other hub, while the store is silent."""
        now = self._now()
        self._timer = self._call_later(self.interval_s, self._ask)
        self._asked = {token: one for token, one in self._asked.items() if one[1] > now - self.term_s}
        if self.is_needed and self._times.is_store_silent(now):
            self.ask_peers()

    def ask_peers(self) -> None:
        """Ask every other hub that counts as alive whether this one is alive to it."""
        cluster, now = self._cluster, self._now()
        assert cluster is not None, "nothing is asked outside of a cluster"
        self._times.forget_others(self._peers(cluster))
        for life in self._peers(cluster):
            link = cluster.out.get(life[0])
            if link is not None and link.incarnation == life[1] and link.can(LEASE):
                self._last_token += 1
                self._asked[self._last_token] = (life, now)
                cluster.tell(life[0], LeaseFrame(self._last_token, 0))

    def _peers(self, cluster: LivePeers) -> list[Life]:
        return [(name, facts.incarnation) for name, facts in cluster.router.peers.items()]
