"""Keep a hub's `alive` node in the store, across sessions and incarnations.

The end of a session does not end the incarnation: the store or the hub was unreachable. The hub registers again, and
declares no hub dead for a while. But if its node was deleted while another hub kept its session, that hub has seen the
deletion, and this incarnation has ended. It has also ended if a hub has started meanwhile, which serves without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from equipoise.errors import NodeExistsError, NoNodeError, SettingsError, StoreError
from equipoise.hub.cluster.link.capabilities import VERBS
from equipoise.store.contract import SessionState, Store
from equipoise.store.records.hubs import HubFacts, HubsStore
from equipoise.store.records.hubs_snapshot import EdgeReport

if TYPE_CHECKING:
    from equipoise.hub.cluster.link.frames import Life
    from equipoise.hub.membership.liveness import FailureDetector
    from equipoise.hub.shell.server import Hub

__all__ = ["HubRegistration"]

# Session timeouts without declaring a hub dead after this hub's session has expired: one in which the nodes of other
# hubs may still expire, and one in which those hubs register again.
_DOUBT_SESSIONS = 2
# Session timeouts to wait for a hub of the same name to expire; after kill -9 on another machine it takes one, and a
# tick.
_PATIENCE_SESSIONS = 3
# Interval at which a hub writes to its node after a standstill, until it is confirmed, in seconds.
_PROVE_S = 0.05
# Least change of the load ratio that is reported.
_LOAD_STEP = 0.01


class HubRegistration:
    """Owned by one membership. `on_held` is called whenever the hub has registered."""

    def __init__(
        self,
        hub: Hub,
        store: Store,
        hubs: HubsStore,
        liveness: FailureDetector,
        *,
        process: str,
        check_region: Callable[[], Awaitable[bool]],
        served_version: Callable[[], int],
        on_held: Callable[[], None],
        load: Callable[[], float],
    ) -> None:
        """`process`: the identity of this process, for its successor. `check_region`: called before each registration;
        whether the store had lost the region. `served_version`: the version of the plan that this hub serves under.
        `load`: the current load of this hub, reported with each write."""
        self._hub = hub
        self._store = store
        self._hubs = hubs
        self._liveness = liveness
        self._process = process
        self._check_region = check_region
        self._served_version = served_version
        self._on_held = on_held
        self._load = load
        self._settings = settings = hub.settings.membership
        self._name = hub.settings.name
        self._address = settings.advertise or f"{hub.settings.host}:{hub.port}"
        host = self._address.rpartition(":")[0]
        own_tls = f"{host}:{hub.tls_port}" if hub.tls_port is not None else ""
        self._tls_address = settings.advertise_tls or own_tls
        # The session and incarnation that are registered; None if none is.
        self._held: tuple[int, int] | None = None
        # The incarnation that was registered last, and the creation id of its first node; 0: none.
        self.incarnation = 0
        self._since_id = 0
        self._registered_version = 0
        self._reported_load = 0.0
        self._reported_edge: EdgeReport | None = None
        # The version of the specs that this hub has reported as applied.
        self._reported_specs = 0
        self._must_report_specs = asyncio.Event()
        self._must_look = asyncio.Event()
        self._must_prove = asyncio.Event()
        hub.core.standstill.on_noticed = self._must_prove.set
        # The incarnations of other hubs that this hub has reported as unreachable.
        self.unreachable: tuple[Life, ...] = ()
        # After the hub has left: a coroutine that returns when it may register again. None: it has not left.
        self._may_return: Callable[[], Awaitable[None]] | None = None

    def is_held(self) -> bool:
        """Whether the hub is registered with its current session and incarnation."""
        return self._held == self._current

    @property
    def _current(self) -> tuple[int, int]:
        return self._store.session, self._hub.core.incarnation

    def look_again(self, state: SessionState | None = None) -> None:
        """The session or the incarnation may have changed: register again if it has."""
        self._must_look.set()

    def give_up(self) -> None:
        """The node is missing although the session has not ended, as far as this hub knows.

        For faults that the simulator does not have: an operator has deleted the node, or another process, which
        considered this one dead, has registered.
        """
        self._held = None
        self._must_look.set()

    async def begin(self) -> None:
        """Register for the first time. Raises SettingsError if another live hub has this name, and StoreError."""
        try:
            await self._announce()
        except NodeExistsError as problem:
            other = await self._hubs.look(self._name)
            where = f" at {other.facts.address}" if other is not None else ""
            raise SettingsError(
                f"another hub named {self._name} is alive{where}: give this one another --name, or stop that one"
            ) from problem

    async def stay(self) -> None:
        """Register again whenever necessary. Runs until it is cancelled."""
        while True:
            self._must_look.clear()
            if self._store.session and not self.is_held():
                if self._may_return is not None:
                    await self._may_return()
                    self._may_return = None
                await self._announce()
            await self._must_look.wait()

    async def report(self) -> None:
        """Report the hub's load when it has changed. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._settings.load_report_interval_s)
            is_same = abs(self._load() - self._reported_load) < _LOAD_STEP and not self._has_edge_changed()
            if not self.is_held() or is_same:
                continue
            await self._report()

    def specs_changed(self) -> None:
        """The hub has applied other specs, perhaps of a later version."""
        self._must_report_specs.set()

    async def announce_specs(self) -> None:
        """Report the version of the applied specs whenever it has changed. Runs until it is cancelled."""
        while True:
            await self._must_report_specs.wait()
            self._must_report_specs.clear()
            if self.is_held() and self._reported_specs != self._hub.core.specs.enforced_version:
                try:
                    await self._report()
                except StoreError:
                    self._must_report_specs.set()
                    raise

    async def renew_lease(self) -> None:
        """While a topic needs a single writer, write to `alive` several times per lease term. Runs until cancelled."""
        lease = self._hub.core.lease
        while True:
            await asyncio.sleep(lease.interval_s)
            if not lease.is_needed or not self.is_held():
                continue
            try:
                await self._report()
            except StoreError:
                # The lease expires by itself; other tasks handle the session.
                continue

    async def prove_alive(self) -> None:
        """After a standstill, write to `alive` until the incarnation is confirmed. Runs until it is cancelled."""
        standstill = self._hub.core.standstill
        while True:
            if not standstill.is_holding:
                await self._must_prove.wait()
            self._must_prove.clear()
            while standstill.is_holding:
                if self.is_held():
                    await self._report()
                await asyncio.sleep(_PROVE_S)

    async def accuse(self, unreachable: tuple[Life, ...]) -> None:
        """Report the peers that this hub cannot reach."""
        self.unreachable = unreachable
        await self._report()

    async def leave(self, may_return: Callable[[], Awaitable[None]]) -> None:
        """End this incarnation, and register another one when `may_return` returns."""
        # First, so that the hub does not register again as soon as its node is deleted.
        self._may_return = may_return
        self._hub.core.lease.store_left()
        try:
            await self._hubs.withdraw(self._name)
        except StoreError:
            self._may_return = None
            raise
        self._held = None
        self._hub.renew()

    async def _report(self) -> None:
        """Write to the `alive` node, which also renews the lease."""
        load_ratio = self._load()
        specs_version, edge = self._hub.core.specs.enforced_version, self._edge()
        current, asked_at = self._current, self._hub.core.now()
        try:
            await self._hubs.report(
                self._facts,
                load_ratio=load_ratio,
                since_id=self._since_id,
                served_version=self._registered_version,
                specs_version=specs_version,
                unreachable=self.unreachable,
                edge=edge,
            )
        except NoNodeError:
            self.give_up()
        else:
            self._reported_load, self._reported_specs, self._reported_edge = load_ratio, specs_version, edge
            if self._held == current == self._current and self._may_return is None:
                self._hub.core.lease.store_answered(asked_at)

    def _edge(self) -> EdgeReport | None:
        edge = self._hub.core.cluster.edge
        if not edge.state:
            return None
        facts = edge.facts
        return EdgeReport(
            edge.state,
            facts.content_input_ratio,
            facts.content_output_ratio,
            facts.content_delay_s,
            facts.content_subscriptions,
        )

    def _has_edge_changed(self) -> bool:
        """Whether the last report of this hub as an edge of content topics is outdated."""
        reported, now = self._reported_edge, self._edge()
        if reported is None or now is None:
            return reported is not now
        return (
            reported.state != now.state
            or abs(reported.input_ratio - now.input_ratio) >= _LOAD_STEP
            or abs(reported.output_ratio - now.output_ratio) >= _LOAD_STEP
        )

    async def _announce(self) -> None:
        """Create the `alive` node for the current session and incarnation."""
        session_s = self._settings.session_timeout_s
        if await self._check_region():
            # The restored store has its own order of creations.
            self._since_id = 0
        if self.incarnation == self._hub.core.incarnation:
            self._liveness.doubt(asyncio.get_running_loop().time() + _DOUBT_SESSIONS * session_s)
            if await self._was_deletion_seen():
                self._hub.renew()
        current = self._current
        if self.incarnation != current[1]:
            self.incarnation, self._since_id = current[1], 0
            self._registered_version = 0
        else:
            self._registered_version = self._served_version()
        self._reported_specs = self._hub.core.specs.enforced_version
        self.unreachable = ()
        # In the first write, because a hub without a reported load counts as one without load.
        self._reported_load = self._load()
        node = await self._hubs.announce(
            self._facts,
            load_ratio=self._reported_load,
            since_id=self._since_id,
            served_version=self._registered_version,
            specs_version=self._reported_specs,
            patience_s=_PATIENCE_SESSIONS * session_s,
        )
        self._since_id = self._since_id or node.created_id
        self._held = current
        # Both may have changed meanwhile: check again.
        self._must_look.set()
        self._must_report_specs.set()
        self._on_held()

    async def _was_deletion_seen(self) -> bool:
        """Whether this hub's node was deleted with its last session, and another hub has seen that."""
        seen = await self._hubs.load()
        own = seen.get(self._name)
        if own is not None and own.alive is not None and own.facts.incarnation == self.incarnation:
            return False
        return self._liveness.has_witness(seen)

    @property
    def _facts(self) -> HubFacts:
        settings = self._settings
        return HubFacts(
            hub=self._name,
            address=self._address,
            incarnation=self.incarnation,
            site=settings.site,
            rack=settings.rack,
            verbs=VERBS,
            login=settings.cluster_user,
            tls_address=self._tls_address,
            process=self._process,
            keeps_limits=True,
            keeps_logs=True,
            carries_content=True,
        )
