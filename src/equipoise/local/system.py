"""Run and supervise a local cluster: store and first hub, then the other parts.

The store and the first hub start concurrently and have the machine to themselves; all other parts start once that hub
is ready. So no message waits for Spark. A hub serves no client before it has read the users from the store, so it
waits for the store.

This process starts and stops the hubs that a controller requests in the store: so they outlive the controller, and end
with this process at the latest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from equipoise.errors import ClosedError, SettingsError, StoreError
from equipoise.local import children
from equipoise.local.children import Addresses
from equipoise.local.layout import HOST, Layout
from equipoise.local.store_process import StoreKeeper
from equipoise.processes import ChildSpec, HealthSettings, Phase, PhaseChange, Supervisor
from equipoise.store import ServersStore, Store, Tree, WantedServer, open_store
from equipoise.store.embedded.zookeeper_process import (
    EmbeddedSettings,
    EmbeddedZooKeeper,
    find_jars,
    find_java,
)

if TYPE_CHECKING:
    from equipoise.local.authority import HubCertificate

__all__ = ["LocalSystem", "SystemSettings"]

log = logging.getLogger("equipoise.local")

# Redis's port belongs to Redis; the next hubs follow where ports are free.
PORT = 6399
STORE = "store"
_HUB = "hub-"
_BOOKIE = "bookie-"
# Of the five seconds for a complete stop: hubs and other parts have three.
STORE_STOP_S = 1.0
GOODBYE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSettings:
    """What is run."""

    hubs: int = 2
    # Maximum number of hubs that the controller may request; 0: none.
    hubs_max: int = 0
    # Bookies, which store the logs of topics; 0: no logs.
    bookies: int = 0
    # Sites, over which hubs and bookies are distributed in turn.
    sites: tuple[str, ...] = ()
    region: str = "default"
    # An existing store; empty: start one.
    store_url: str = ""
    # Whether hubs get a login for each other; False if their settings file has one.
    has_login: bool = True
    # Whether hubs also serve TLS, and use it among themselves, and the dashboard HTTPS, with certificates of an
    # authority generated here.
    has_tls: bool = False
    has_pipeline: bool = True
    has_controller: bool = True
    # Further arguments of each command, by its name: hub, controller, pipeline; for one hub, by the hub's own name.
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The health checks of processes.
    health: HealthSettings = field(default_factory=HealthSettings)


class LocalSystem:
    """The system on one machine. Use as an async context manager; it is up when the first hub is."""

    def __init__(
        self,
        layout: Layout,
        settings: SystemSettings,
        *,
        on_change: Callable[[PhaseChange], None] = lambda _: None,
    ) -> None:
        self.layout = layout
        self.settings = settings
        self.supervisor = Supervisor(on_change=self._see)
        self.store_url = settings.store_url
        # The address of the pages once the controller is up; known from the start on, empty without a controller.
        self.dashboard_url = ""
        self._zookeeper: EmbeddedZooKeeper | None = None
        self._certificate: HubCertificate | None = None
        self._store: Store | None = None
        self._tasks: list[asyncio.Task[None]] = []
        # The requested hubs that are running.
        self._asked: dict[str, WantedServer] = {}
        self._on_change = on_change
        # Whether all parts were started, and whether all have run at the same time.
        self._has_begun = False
        self._was_ready = False
        self._refusal: asyncio.Future[SettingsError] | None = None

    @property
    def addresses(self) -> Addresses:
        # An existing store may have users already, and hubs of others.
        is_own = self.settings.has_login and not self.settings.store_url
        password = self.layout.hubs_password() if is_own else None
        return Addresses(self.store_url, self.settings.region, password)

    @property
    def is_ready(self) -> bool:
        """Whether all requested parts run."""
        phases = self.supervisor.phases
        return self._has_begun and all(phase is Phase.READY for phase in phases.values())

    @property
    def tls_url(self) -> str:
        """The TLS address of the first hub, for clients; empty if there is none."""
        name = children.tls_port_name(_name(1))
        return f"equipoises://{HOST}:{self.layout.known_port(name)}" if self.settings.has_tls else ""

    def hub_url(self, number: int = 1) -> str:
        """The address of one of the first hubs, for clients."""
        return f"equipoise://{HOST}:{self.layout.known_port(_name(number))}"

    async def start(self) -> None:
        """Returns when the first hub is ready. Raises SettingsError, StoreUnavailableError."""
        self._refusal = asyncio.get_running_loop().create_future()
        self.layout.lock()
        try:
            if self.settings.has_tls:
                # Imported here, so that only a system with TLS loads the code for certificates.
                from equipoise.local.authority import hub_certificate

                now = datetime.now(UTC)
                self._certificate = hub_certificate(self.layout.tls, (HOST, "localhost", "::1"), now)
            if self.settings.has_controller:
                port = self.layout.port(children.DASHBOARD, children.DASHBOARD_PORT)
                self.dashboard_url = f"{'https' if self.settings.has_tls else 'http'}://{HOST}:{port}"
            await self._start_first()
            for number in range(1, self.settings.bookies + 1):
                site = self._site(number - 1)
                spec = children.bookie(self.layout, self.addresses, f"{_BOOKIE}{number}", site=site)
                self._begin(spec)
            for number in range(2, self.settings.hubs + 1):
                self._begin(self._hub_spec(_name(number), number - 1))
            self._start_control()
            self._has_begun = True
            self._tasks.append(asyncio.create_task(self._follow_wanted()))
        except BaseException:
            await self.stop()
            raise

    async def _start_first(self) -> None:
        """Start the store, unless it exists, and a hub; a failure of one ends the other's start."""
        if not self.store_url:
            # Before any start: without Java there is nothing to clean up, and one line of output.
            await asyncio.to_thread(find_java)
            find_jars()
            self._zookeeper = self._make_store()
            self.store_url = self._zookeeper.url
        try:
            async with asyncio.TaskGroup() as group:
                if self._zookeeper is not None:
                    group.create_task(self._zookeeper.start())
                group.create_task(self.supervisor.keep(self._watched(self._hub_spec(_name(1), 0))))
        except ExceptionGroup as problems:
            raise problems.exceptions[0] from problems
        if self._zookeeper is not None:
            keeper = StoreKeeper(
                STORE, self._zookeeper, on_change=self._on_change, health=self.settings.health
            )
            self._tasks.append(asyncio.create_task(keeper.run()))

    async def refused(self) -> SettingsError:
        """Wait until a part reports that it cannot run with its settings; return its message.

        Only until all parts have run: a later failure is logged and retried, and ends no other process.
        """
        assert self._refusal is not None, "started before"
        return await asyncio.shield(self._refusal)

    async def stop(self) -> None:
        """Stop all parts, the store last. May be called twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.supervisor.stop()
        if self._store is not None:
            # No wait for a store that does not respond: the session ends with it, or by time-out.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    await self._store.close()
            self._store = None
        if self._zookeeper is not None:
            await self._zookeeper.stop()
            self._zookeeper = None
        self.layout.unlock()

    async def __aenter__(self) -> LocalSystem:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _make_store(self) -> EmbeddedZooKeeper:
        settings = EmbeddedSettings(
            directory=self.layout.store, port=self.layout.port(STORE), stop_timeout_s=STORE_STOP_S
        )
        return EmbeddedZooKeeper(settings)

    def _begin(self, spec: ChildSpec) -> None:
        self.supervisor.begin(self._watched(spec))

    def _watched(self, spec: ChildSpec) -> ChildSpec:
        return replace(spec, health=self.settings.health)

    def _see(self, change: PhaseChange) -> None:
        self._was_ready = self._was_ready or self.is_ready
        if change.refusal is not None and change.name not in self._asked and not self._was_ready:
            self._refuse(change.refusal)
        self._on_change(change)

    def _refuse(self, refusal: SettingsError) -> None:
        assert self._refusal is not None, "set before the first start"
        if not self._refusal.done():
            self._refusal.set_result(refusal)

    def _has_hub(self) -> bool:
        """Whether a hub runs."""
        phases = self.supervisor.phases
        return any(name.startswith(_HUB) and phase is Phase.READY for name, phase in phases.items())

    def _start_control(self) -> None:
        settings, extra = self.settings, self.settings.extra
        if settings.has_controller:
            self._begin(
                children.controller(
                    self.layout,
                    self.addresses,
                    hubs_min=settings.hubs,
                    hubs_max=settings.hubs_max,
                    certificate=self._certificate,
                    extra=extra.get("controller", ()),
                )
            )
        if settings.has_pipeline:
            self._begin(
                children.pipeline(
                    self.layout, self.addresses, is_fed=self._has_hub, extra=extra.get("pipeline", ())
                )
            )

    def _site(self, turn: int) -> str:
        sites = self.settings.sites
        return sites[turn % len(sites)] if sites else ""

    def _hub_spec(self, name: str, turn: int, site: str = "") -> ChildSpec:
        return children.hub(
            self.layout,
            self.addresses,
            name,
            site=site or self._site(turn),
            preferred=PORT + turn,
            certificate=self._certificate,
            extra=(*self.settings.extra.get("hub", ()), *self.settings.extra.get(name, ())),
        )

    async def _follow_wanted(self) -> None:
        while True:
            try:
                if self._store is None:
                    self._store = await open_store(self.store_url)
                servers = ServersStore(self._store, Tree(self.settings.region))
                async with aclosing(servers.watch()) as changes:
                    async for wanted in changes:
                        await self._run_wanted(wanted)
            except ClosedError:
                return
            except StoreError as problem:
                log.warning("cannot read which hubs are wanted: %s", problem)
                await asyncio.sleep(1.0)

    async def _run_wanted(self, wanted: Mapping[str, WantedServer]) -> None:
        own = {_name(number) for number in range(1, self.settings.hubs + 1)}
        for name in sorted(self._asked.keys() - wanted.keys()):
            del self._asked[name]
            await self.supervisor.drop(name)
        for name in sorted(wanted.keys() - self._asked.keys() - own):
            self._asked[name] = wanted[name]
            turn = self.settings.hubs + len(self._asked) - 1
            self._begin(self._hub_spec(name, turn, wanted[name].site))


def _name(number: int) -> str:
    return f"{_HUB}{number}"
