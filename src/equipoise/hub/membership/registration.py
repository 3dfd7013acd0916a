"""Keep a hub's `alive` node in the store, across sessions and incarnations.

A session that has ended is no end of the hub's life: the store was away, or the hub was. It takes its place again, and
declares no hub dead for a while. But if its node was gone and another hub has been there all the while, then that one
has seen it, and this incarnation is over. So it is if a hub has begun meanwhile: it serves without this one.
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

# Sessions without declaring a hub dead after this hub has lost its own: one in which the nodes of the others may still
# go, and one in which they make them again.
_DOUBT_SESSIONS = 2
# Sessions to wait for a process of the same name to end; after kill −9 on another machine it is one, and a tick.
_PATIENCE_SESSIONS = 3
# How often a hub that stood still writes to its node until it is confirmed, in seconds.
_PROVE_S = 0.05
# A load that has changed by less is not worth a write.
_LOAD_STEP = 0.01


class HubRegistration:
    """Owned by one membership. `on_held` is called whenever the hub has come alive in the store."""

    def __init__(
        self,
        hub: Hub,
        store: Store,
        hubs: HubsStore,
        sight: FailureDetector,
        *,
        process: str,
        check_region: Callable[[], Awaitable[bool]],
        served_version: Callable[[], int],
        on_held: Callable[[], None],
        load: Callable[[], float],
    ) -> None:
        """`process`: the identity of this process, for its successor. `check_region` is asked before each
        registration: whether the store had lost the region. `served_version`: of the plan this hub serves under.
        `load`: of this hub now, told with each write."""
        self._hub = hub
        self._store = store
        self._hubs = hubs
        self._sight = sight
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
        # The session and the life that the hub is announced in; None if it is in none.
        self._held: tuple[int, int] | None = None
        # The life that was announced last, and the creation id of its first node; 0 before it.
        self.life = 0
        self._since_id = 0
        self._registered_version = 0
        self._told_load = 0.0
        self._told_edge: EdgeReport | None = None
        # The version of the specs that this hub has announced to serve under.
        self._told_specs = 0
        self._must_tell_specs = asyncio.Event()
        self._must_look = asyncio.Event()
        self._must_prove = asyncio.Event()
        hub.core.standstill.on_noticed = self._must_prove.set
        # The incarnations of other hubs that the others were told this hub cannot reach.
        self.unreachable: tuple[Life, ...] = ()
        # Returns when the hub, which has left, may register again; None if it has not left.
        self._may_return: Callable[[], Awaitable[None]] | None = None

    def is_held(self) -> bool:
        """Whether the hub is alive in the store, in the session and the life it has just now."""
        return self._held == self._present

    @property
    def _present(self) -> tuple[int, int]:
        return self._store.session, self._hub.core.incarnation

    def look_again(self, state: SessionState | None = None) -> None:
        """The session or the hub's life may be another: announce the hub if it is."""
        self._must_look.set()

    def give_up(self) -> None:
        """The node is not there, though the session has not ended as far as is known.

        For faults that the simulator does not have: an operator has removed the node, or another process that took
        this one for dead has its place.
        """
        self._held = None
        self._must_look.set()

    async def begin(self) -> None:
        """Announce the hub for the first time. Raises SettingsError if its name is another's, and StoreError."""
        try:
            await self._announce()
        except NodeExistsError as problem:
            other = await self._hubs.look(self._name)
            where = f" at {other.facts.address}" if other is not None else ""
            raise SettingsError(
                f"another hub named {self._name} is alive{where}: give this one another --name, or stop that one"
            ) from problem

    async def stay(self) -> None:
        """Announce it again whenever need be, for ever."""
        while True:
            self._must_look.clear()
            if self._store.session and not self.is_held():
                if self._may_return is not None:
                    await self._may_return()
                    self._may_return = None
                await self._announce()
            await self._must_look.wait()

    async def report(self) -> None:
        """Tell the hub's load now and then, for ever."""
        while True:
            await asyncio.sleep(self._settings.load_report_interval_s)
            is_same = abs(self._load() - self._told_load) < _LOAD_STEP and not self._is_other_edge()
            if not self.is_held() or is_same:
                continue
            await self._report()

    def specs_changed(self) -> None:
        """The hub serves under other specs than before, perhaps of a later version."""
        self._must_tell_specs.set()

    async def announce_specs(self) -> None:
        """Say which specs the hub serves under whenever that has changed, for ever."""
        while True:
            await self._must_tell_specs.wait()
            self._must_tell_specs.clear()
            if self.is_held() and self._told_specs != self._hub.core.specs.enforced_version:
                try:
                    await self._report()
                except StoreError:
                    self._must_tell_specs.set()
                    raise

    async def renew_lease(self) -> None:
        """While a topic needs a single writer, write to `alive` a few times in a term of the lease, for ever."""
        lease = self._hub.core.lease
        while True:
            await asyncio.sleep(lease.interval_s)
            if not lease.is_needed or not self.is_held():
                continue
            try:
                await self._report()
            except StoreError:
                # The lease runs out by itself; others look after the session.
                continue

    async def prove_alive(self) -> None:
        """After a standstill of the hub, write to `alive` until the incarnation is confirmed, for ever."""
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
        """Tell the others which of them this hub cannot reach."""
        self.unreachable = unreachable
        await self._report()

    async def leave(self, may_return: Callable[[], Awaitable[None]]) -> None:
        """End this incarnation, and register another one when `may_return` returns."""
        # First: the hub must not register again as soon as it sees its node gone.
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
        """Write to `alive`. That renews the lease, too."""
        load_ratio = self._load()
        specs_version, edge = self._hub.core.specs.enforced_version, self._edge()
        present, asked_at = self._present, self._hub.core.now()
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
            self._told_load, self._told_specs, self._told_edge = load_ratio, specs_version, edge
            if self._held == present == self._present and self._may_return is None:
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

    def _is_other_edge(self) -> bool:
        """Whether what was said of this hub as an edge of content topics is no longer so."""
        told, now = self._told_edge, self._edge()
        if told is None or now is None:
            return told is not now
        return (
            told.state != now.state
            or abs(told.input_ratio - now.input_ratio) >= _LOAD_STEP
            or abs(told.output_ratio - now.output_ratio) >= _LOAD_STEP
        )

    async def _announce(self) -> None:
        """Hold `alive` in the present session and life."""
        session_s = self._settings.session_timeout_s
        if await self._check_region():
            # The order of creations is that of the new store.
            self._since_id = 0
        if self.life == self._hub.core.incarnation:
            self._sight.doubt(asyncio.get_running_loop().time() + _DOUBT_SESSIONS * session_s)
            if await self._is_missed():
                self._hub.renew()
        present = self._present
        if self.life != present[1]:
            self.life, self._since_id = present[1], 0
            self._registered_version = 0
        else:
            self._registered_version = self._served_version()
        self._told_specs = self._hub.core.specs.enforced_version
        self.unreachable = ()
        # From the first write on: a hub whose load is not known would count as one without any.
        self._told_load = self._load()
        node = await self._hubs.announce(
            self._facts,
            load_ratio=self._told_load,
            since_id=self._since_id,
            served_version=self._registered_version,
            specs_version=self._told_specs,
            patience_s=_PATIENCE_SESSIONS * session_s,
        )
        self._since_id = self._since_id or node.created_id
        self._held = present
        # Either may have changed meanwhile; the next read finds out.
        self._must_look.set()
        self._must_tell_specs.set()
        self._on_held()

    async def _is_missed(self) -> bool:
        """Whether the last session had ended before this one could take its place, and another hub has seen that."""
        seen = await self._hubs.load()
        own = seen.get(self._name)
        if own is not None and own.alive is not None and own.facts.incarnation == self.life:
            return False
        return self._sight.has_witness(seen)

    @property
    def _facts(self) -> HubFacts:
        settings = self._settings
        return HubFacts(
            hub=self._name,
            address=self._address,
            incarnation=self.life,
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
