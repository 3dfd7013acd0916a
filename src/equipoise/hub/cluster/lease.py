"""The lease of a hub: whether it may act as the single writer of limited and durable topics.

A hub holds the lease at a time if, within the term before it,
    the store has executed a write of this hub to its own `alive` node, or
    every other hub that it considers alive has confirmed that this hub is alive to it (LEASE).

The term is half the session timeout; both are counted from the time of the hub's request. This is safe, because the
hub's successor waits for a term after its barrier has passed (`has_lapsed_elsewhere`), and
    a session lasts for the whole timeout after the store has executed a request, so a hub that cannot reach the store
    loses the lease half a timeout before its session can end, and with it its topics;
    the successor's barrier needs DONE, for the current set of live hubs, from every hub that it considers alive. Each
    of them had applied the death of this hub by then, and had confirmed this hub for the last time before that. This
    hub had sent its request before that confirmation.

So without the store, hubs that reach each other continue, and a hub that is isolated stops. One case is left: all hubs
of a region, or its only one, lose the store together while new hubs, unknown to them, start beside it. A hub that
considers no other hub alive is in that case, even if others were only disconnected. So a lease by confirmations of hubs
does not prove that no other hub has the logs (`is_sole`): the hub then asks the bookies.

A hub that has paused does not hold the lease by confirmations of hubs until it is confirmed (`standstill`): its session
may have ended during the pause, and unknown hubs may have started since. That matters most to a hub that considers no
other hub alive, which needs no confirmation at all.

The request to the store is a write, not a read: a server of an ensemble that has lost its leader still serves reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from equipoise.hub.cluster.link.capability import LEASE
from equipoise.hub.cluster.link.frames import LeaseFrame, Life

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.frames import Frame
    from equipoise.hub.cluster.link.link import OutLink
    from equipoise.hub.cluster.router import Router
    from equipoise.hub.data.ports import Shell, Timer

__all__ = ["TERM_S_MAX", "Lease", "LeaseTimes"]

# Seconds. ZooKeeper may grant a shorter session than requested: at most 40 s (20 ticks) by default.
TERM_S_MAX = 10.0
# Requests per term to the store, and to the other hubs while the store does not reply: two replies may be lost.
ASKED_PER_TERM = 3
_NEVER = float("-inf")


class LivePeers(Protocol):
    """The interface of the cluster to the lease."""

    @property
    def is_seen(self) -> bool:
        """Whether this incarnation of the hub is registered in the routing."""

    @property
    def router(self) -> Router: ...
    @property
    def out(self) -> Mapping[str, OutLink]: ...
    def tell(self, peer: str, frame: Frame) -> None: ...


class NeedsLease(Protocol):
    @property
    def need_single_writer(self) -> bool: ...


class LeaseTimes:
    """The times of this hub's last confirmed request to the store and to each other hub. Pure."""

    def __init__(self, term_s: float) -> None:
        self.term_s = term_s
        self._store_at = _NEVER
        self._peer_at: dict[Life, float] = {}

    def store_answered(self, asked_at: float) -> None:
        self._store_at = max(self._store_at, asked_at)

    def store_left(self) -> None:
        """Discard the store's confirmations."""
        self._store_at = _NEVER

    def peer_answered(self, peer: Life, asked_at: float) -> None:
        self._peer_at[peer] = max(self._peer_at.get(peer, _NEVER), asked_at)

    def forget_others(self, peers: Iterable[Life]) -> None:
        """Discard the confirmations of all hubs but `peers`, the live ones."""
        self._peer_at = {peer: self._peer_at[peer] for peer in peers if peer in self._peer_at}

    def is_valid(self, now: float, peers: Iterable[Life]) -> bool:
        """Whether the lease is held, given the other hubs that are considered alive."""
        return self.is_by_store(now) or self.have_all_answered(now - self.term_s, peers)

    def is_by_store(self, now: float) -> bool:
        """Whether the store's confirmation alone makes the lease valid."""
        return self._store_at > now - self.term_s

    def has_store_answered(self, since: float) -> bool:
        """Whether the store has confirmed a request sent at this time or later."""
        return self._store_at >= since

    def have_all_answered(self, since: float, peers: Iterable[Life]) -> bool:
        """Whether each of these hubs has confirmed a request sent after this time."""
        return all(self._peer_at.get(peer, _NEVER) > since for peer in peers)

    def held_until(self, peers: Iterable[Life], awake_until: float) -> float:
        """The time until which the lease is held without further replies; by hubs, at most until `awake_until`."""
        by_peers = min([self._peer_at.get(peer, _NEVER) for peer in peers], default=float("inf"))
        return max(self._store_at + self.term_s, min(by_peers + self.term_s, awake_until))

    def is_store_silent(self, now: float) -> bool:
        """Whether the store has missed a reply, so that the hub has to ask the other hubs."""
        return now - self._store_at > 1.5 * self.term_s / ASKED_PER_TERM


class Lease:
    """Owned by HubCore. A hub that belongs to no cluster always holds it."""

    def __init__(
        self, shell: Shell, session_timeout_s: float, specs: NeedsLease, awake_until: Callable[[], float]
    ) -> None:
        """`awake_until`: any later time is after a pause of this hub, which is not confirmed yet."""
        self.term_s = min(session_timeout_s / 2, TERM_S_MAX)
        self._times = LeaseTimes(self.term_s)
        self._now = shell.now
        self._call_later = shell.call_later
        self._specs = specs
        self._awake_until = awake_until
        self._cluster: LivePeers | None = None
        self._timer: Timer | None = None
        # Outstanding requests by token: the hub's incarnation, and the time of the request.
        self._requests: dict[int, tuple[Life, float]] = {}
        self._last_token = 0
        # Whether the hub may own logs: any topic may have one.
        self.has_logs = False

    # Queries.

    def is_valid(self, now: float) -> bool:
        cluster = self._cluster
        if cluster is None:
            return True
        is_awake = now <= self._awake_until()
        return cluster.is_seen and (
            self._times.is_valid(now, self._peers(cluster)) if is_awake else self._times.is_by_store(now)
        )

    def is_sole(self, now: float) -> bool:
        """Whether no other hub can have claimed this hub's logs: its session cannot have ended."""
        return self._cluster is None or (self._cluster.is_seen and self._times.is_by_store(now))

    def held_until(self) -> float:
        """The time until which the lease is held without further replies; a past time: it is not held."""
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
        """Whether a reply to a request sent after `since` confirms that this incarnation is alive.

        Other hubs learn of a death from the store with a delay, and may have lost the store, too. So their
        confirmations count only after the store has not replied for a term: time enough to begin a session.
        """
        cluster = self._cluster
        if cluster is None:
            return True
        peers = self._peers(cluster)
        later = since + self._store_patience_s
        has_peers = now > later and self._times.have_all_answered(later, peers)
        return has_peers or self._times.has_store_answered(since)

    @property
    def _store_patience_s(self) -> float:
        """How long this hub, after a pause, accepts only the store's confirmation."""
        return self.term_s

    @property
    def is_needed(self) -> bool:
        """Whether there may be a topic that needs a single writer; otherwise the hub sends no requests."""
        return self.has_logs or self._specs.need_single_writer

    @property
    def text(self) -> str:
        """The state of the lease, for INFO."""
        if not self.is_needed:
            return "not needed"
        return "held" if self.is_valid(self._now()) else "lost"

    # Start and stop.

    def start(self, cluster: LivePeers) -> None:
        """The hub, or its next incarnation, has joined this cluster: it does not hold the lease yet."""
        self.stop()
        self._cluster = cluster
        self._times = LeaseTimes(self.term_s)
        self._timer = self._call_later(self.interval_s, self._send_requests)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._requests.clear()

    @property
    def interval_s(self) -> float:
        return self.term_s / ASKED_PER_TERM

    def store_answered(self, asked_at: float) -> None:
        """The store has executed a write to the hub's `alive` node, in its current session and incarnation."""
        self._times.store_answered(asked_at)

    def store_left(self) -> None:
        """The hub is about to delete its `alive` node: others may claim its logs before its session ends."""
        self._times.store_left()

    # Requests to other hubs, and of other hubs.

    def receive(self, cluster: LivePeers, peer: str, frame: LeaseFrame) -> None:
        """A request or a reply of a hub arrived. Links of hubs that are not alive are not read."""
        if not frame.is_answer:
            if peer in cluster.router.peers:
                cluster.tell(peer, LeaseFrame(frame.token, 1))
            return
        life, asked_at = self._requests.pop(frame.token, (("", 0), 0.0))
        if life[0] == peer:
            self._times.peer_answered(life, asked_at)

    def _send_requests(self) -> None:
        """Send requests to all other hubs while the store does not reply."""
        now = self._now()
        self._timer = self._call_later(self.interval_s, self._send_requests)
        self._requests = {token: one for token, one in self._requests.items() if one[1] > now - self.term_s}
        if self.is_needed and self._times.is_store_silent(now):
            self.ask_peers()

    def ask_peers(self) -> None:
        """Send every other live hub a request to confirm that this hub is alive to it."""
        cluster, now = self._cluster, self._now()
        assert cluster is not None, "requests are sent within a cluster only"
        self._times.forget_others(self._peers(cluster))
        for life in self._peers(cluster):
            link = cluster.out.get(life[0])
            if link is not None and link.incarnation == life[1] and link.can(LEASE):
                self._last_token += 1
                self._requests[self._last_token] = (life, now)
                cluster.tell(life[0], LeaseFrame(self._last_token, 0))

    def _peers(self, cluster: LivePeers) -> list[Life]:
        return [(name, facts.incarnation) for name, facts in cluster.router.peers.items()]
