"""The process of `equipoise controller`: controller, receiver of views and web server on one event loop.

Separate from the command, so that other commands load neither Arrow nor a web server.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from equipoise.cli.support.controller_file import load
from equipoise.cli.support.split_jobs import split_job
from equipoise.control.controller import Controller
from equipoise.control.provision import CommandProvisioner, NoProvisioner, Provisioner, StoreProvisioner
from equipoise.control.settings import ControllerSettings
from equipoise.control.view_receiver import ViewReceiver
from equipoise.errors import SettingsError
from equipoise.hub.access.connection_limits import is_loopback
from equipoise.model.address import check_advertisable, joined, split_address
from equipoise.plan import PlannerSettings, policy_named
from equipoise.store import LeaderFacts, Store, Tree, open_store
from equipoise.web import ClusterFacts, Pages, WebSettings
from equipoise.web import serve as serve_pages
from equipoise.web.actions import Actions
from equipoise.web.series import Series

__all__ = ["run"]

log = logging.getLogger("equipoise.control")

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOptions:
    """The options of the command line."""

    settings: ControllerSettings
    store_url: str
    tree: Tree
    intake: Address
    # None: no pages.
    http: Address | None
    # The host under which others connect; empty: the listening address.
    advertise: str = ""
    token: str
    loopback_reads: bool
    # Files of the pages' certificate and key; empty: HTTP.
    tls_certificate: str = ""
    tls_key: str = ""
    planner: PlannerSettings = field(default_factory=PlannerSettings)
    # Other settings.
    pages: WebSettings = field(default_factory=WebSettings)
    # none, store or a command.
    provision: str

    def __post_init__(self) -> None:
        """Raises SettingsError, before anything listens, if other machines could not connect."""
        for address in (self.intake, self.http):
            if address is not None:
                self.advertised(*address)

    def advertised(self, host: str, port: int) -> str:
        """The advertised host:port of a listening address. Raises SettingsError if others could not connect to it."""
        # A port on loopback cannot be reached under another name.
        host = host if is_loopback(host) else self.advertise or host
        check_advertisable(host, who="controller", option="--advertise HOST")
        return joined(host, port)


def run(*, settings: dict[str, Any], config: Path | None, **wanted: Any) -> None:
    """Run until stopped; `settings` are those of ControllerSettings. Raises SettingsError and StoreError."""
    read = load(config, settings)
    made = ControllerOptions(settings=read.controller, planner=read.planner, pages=read.pages, **wanted)
    asyncio.run(_serve(made))


async def _serve(wanted: ControllerOptions) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    settings, tree = wanted.settings, wanted.tree
    policy = policy_named(settings.policy, bounded(wanted.planner, settings))
    async with AsyncExitStack() as stack:
        store = await open_store(wanted.store_url)
        stack.push_async_callback(store.close)
        views = ViewReceiver(token=wanted.token)
        intake = wanted.advertised(wanted.intake[0], _port(await views.start(*wanted.intake)))
        stack.push_async_callback(views.stop)
        controller = Controller(
            store,
            tree,
            settings,
            policy=policy,
            views=views,
            provisioner=await stack.enter_async_context(_provisioner(wanted.provision, store, tree)),
            facts=LeaderFacts(name=settings.name, site=settings.site, intake=intake),
            interested=views.want,
            find_split=split_job(settings, wanted.store_url, tree, time.time),
        )
        pages = await stack.enter_async_context(_pages(controller, Actions(store, tree), wanted))
        page = "" if pages is None else _redacted_url(pages, wanted)
        loop.add_signal_handler(signal.SIGHUP, _reload, pages)
        controller.leadership.facts = msgspec.structs.replace(controller.leadership.facts, http=page)
        shown = f", dashboard at {page}" if page else ""
        print(f"equipoise controller {settings.name} ready on {intake}{shown}", flush=True)
        await _run(controller, stopped)


@asynccontextmanager
async def _pages(
    controller: Controller, actions: Actions, wanted: ControllerOptions
) -> AsyncIterator[Pages | None]:
    """Serve the pages, if enabled."""
    if wanted.http is None:
        yield None
        return
    host, port = wanted.http
    web = msgspec.structs.replace(
        wanted.pages,
        host=host,
        port=port,
        token=wanted.token,
        loopback_reads_allowed=wanted.loopback_reads,
        tls_certificate=wanted.tls_certificate,
        tls_key=wanted.tls_key,
    )
    facts = ClusterFacts(controller, time.time, series=Series(web.chart_history_s))
    async with serve_pages(facts, actions, web) as pages:
        yield pages


def _redacted_url(pages: Pages, wanted: ControllerOptions) -> str:
    """The address under which others reach the pages."""
    assert wanted.http is not None, "the pages are enabled"
    scheme, _, address = pages.url.partition("://")
    return f"{scheme}://{wanted.advertised(wanted.http[0], _port(address))}"


def _reload(pages: Pages | None) -> None:
    """SIGHUP: load the certificate files again. Unusable files change nothing."""
    try:
        if pages is not None:
            pages.reload_certificate()
    except SettingsError as problem:
        log.error("certificate not reloaded: %s", problem)


def _port(address: str) -> int:
    """The port of a listening server."""
    found = split_address(address)
    assert found is not None, "it listens"
    return found[1]


async def _run(controller: Controller, stopped: asyncio.Event) -> None:
    running = asyncio.create_task(controller.run())
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    await controller.leadership.resign()
    running.cancel()
    outcome = (await asyncio.gather(running, return_exceptions=True))[0]
    if isinstance(outcome, Exception):
        raise outcome


def bounded(planner: PlannerSettings, settings: ControllerSettings) -> PlannerSettings:
    """Bound the planner by hubs_min and hubs_max: if no more hubs can be started, each takes more load."""
    servers_max = min(planner.servers_max, settings.hubs_max or settings.hubs_min)
    servers_min = min(max(planner.servers_min, settings.hubs_min), servers_max)
    return msgspec.structs.replace(planner, servers_min=servers_min, servers_max=servers_max)


@asynccontextmanager
async def _provisioner(how: str, store: Store, tree: Tree) -> AsyncIterator[Provisioner]:
    if how in ("", "none"):
        yield NoProvisioner()
    elif how == "store":
        yield StoreProvisioner(store, tree)
    else:
        commands = CommandProvisioner(how, store, tree)
        try:
            yield commands
        finally:
            await commands.close()
