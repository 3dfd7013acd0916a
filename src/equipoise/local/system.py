"""Run everything on one machine and keep it running: the store first, then hubs, then what watches and plans them.

The hubs that a controller asks for, through the store, are started and stopped here: so they outlive the controller,
and end with this process at the latest.

Nobody waits for Spark: a hub serves as soon as it is ready, the pipeline comes when it comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from equipoise.errors import ClosedError, StoreError
from equipoise.local import children
from equipoise.local.children import Addresses
from equipoise.local.layout import HOST, Layout
from equipoise.processes import Change, ChildSpec, Phase, Supervisor
from equipoise.store import ServersStore, Store, Tree, Wanted, open_store
from equipoise.store.embedded import EmbeddedSettings, EmbeddedZooKeeper

__all__ = ["System", "SystemSettings"]

log = logging.getLogger("equipoise.local")

# Redis's port belongs to Redis; the next hubs follow where they are free.
PORT = 6399
STORE = "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSettings:
    """What is run."""

    hubs: int = 2
    # Hubs that the controller may ask for in all; 0: it asks for none.
    hubs_max: int = 0
    # Named sites that the hubs are spread over in turn.
    sites: tuple[str, ...] = ()
    region: str = "default"
    # A store that is there already; empty: one of our own.
    store_url: str = ""
    has_pipeline: bool = True
    has_controller: bool = True
    # Further words for each command, by its name: hub, controller, pipeline.
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class System:
    """One machine's worth. Use as an async context manager; it is up when the first hub is."""

    def __init__(
        self,
        layout: Layout,
        settings: SystemSettings,
        *,
        on_change: Callable[[Change], None] = lambda _: None,
    ) -> None:
        self.layout = layout
        self.settings = settings
        self.supervisor = Supervisor(on_change=on_change)
        self.store_url = settings.store_url
        self._zookeeper: EmbeddedZooKeeper | None = None
        self._store: Store | None = None
        self._tasks: list[asyncio.Task[None]] = []
        # The hubs that were asked for, as far as they are running.
        self._asked: dict[str, Wanted] = {}

    @property
    def addresses(self) -> Addresses:
        return Addresses(self.store_url, self.settings.region)

    @property
    def is_ready(self) -> bool:
        """Whether everything that was asked for runs."""
        phases = self.supervisor.phases
        return bool(phases) and all(phase is Phase.READY for phase in phases.values())

    def hub_url(self, number: int = 1) -> str:
        """The address of one of the first hubs, for clients."""
        return f"equipoise://{HOST}:{self.layout.known_port(_name(number))}"

    async def start(self) -> None:
        """Returns when the first hub can be used. Raises SettingsError, StoreUnavailableError."""
        self.layout.lock()
        try:
            if not self.store_url:
                await self._start_store()
            first = self._hub_spec(_name(1), 0)
            starting = asyncio.ensure_future(self.supervisor.keep(first))
            for number in range(2, self.settings.hubs + 1):
                self.supervisor.begin(self._hub_spec(_name(number), number - 1))
            self._start_control()
            await starting
            self._store = await open_store(self.store_url)
            self._tasks.append(asyncio.create_task(self._follow_wanted(self._store)))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End everything, the store last. May be called twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self.supervisor.stop()
        if self._store is not None:
            await self._store.close()
            self._store = None
        if self._zookeeper is not None:
            await self._zookeeper.stop()
            self._zookeeper = None
        self.layout.unlock()

    async def __aenter__(self) -> System:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _start_store(self) -> None:
        port = self.layout.port(STORE)
        self._zookeeper = EmbeddedZooKeeper(EmbeddedSettings(directory=self.layout.store, port=port))
        await self._zookeeper.start()
        self.store_url = self._zookeeper.url
        self._tasks.append(asyncio.create_task(self._keep_store()))

    async def _keep_store(self) -> None:
        """Start the store again when it ends: its state is on disk, and hubs do without it meanwhile."""
        assert self._zookeeper is not None, "started before"
        pause_s = 0.2
        while True:
            status = await self._zookeeper.wait()
            log.warning("the store ended with status %s; again in %.1f s", status, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 10.0)
            try:
                await self._zookeeper.start()
                pause_s = 0.2
            except Exception as problem:
                log.warning("the store does not start: %s", problem)

    def _start_control(self) -> None:
        settings, extra = self.settings, self.settings.extra
        if settings.has_controller:
            self.supervisor.begin(
                children.controller(
                    self.layout,
                    self.addresses,
                    hubs_min=settings.hubs,
                    hubs_max=settings.hubs_max,
                    extra=extra.get("controller", ()),
                )
            )
        if settings.has_pipeline:
            self.supervisor.begin(
                children.pipeline(self.layout, self.addresses, extra=extra.get("pipeline", ()))
            )

    def _hub_spec(self, name: str, turn: int, site: str = "") -> ChildSpec:
        sites = self.settings.sites
        return children.hub(
            self.layout,
            self.addresses,
            name,
            site=site or (sites[turn % len(sites)] if sites else ""),
            preferred=PORT + turn,
            extra=self.settings.extra.get("hub", ()),
        )

    async def _follow_wanted(self, store: Store) -> None:
        servers = ServersStore(store, Tree(self.settings.region))
        while True:
            try:
                async with aclosing(servers.watch()) as changes:
                    async for wanted in changes:
                        await self._run_wanted(wanted)
            except ClosedError:
                return
            except StoreError as problem:
                log.warning("cannot read which hubs are wanted: %s", problem)
                await asyncio.sleep(1.0)

    async def _run_wanted(self, wanted: Mapping[str, Wanted]) -> None:
        own = {_name(number) for number in range(1, self.settings.hubs + 1)}
        for name in sorted(self._asked.keys() - wanted.keys()):
            del self._asked[name]
            await self.supervisor.drop(name)
        for name in sorted(wanted.keys() - self._asked.keys() - own):
            self._asked[name] = wanted[name]
            turn = self.settings.hubs + len(self._asked) - 1
            self.supervisor.begin(self._hub_spec(name, turn, wanted[name].site))


def _name(number: int) -> str:
    return f"hub-{number}"
