"""A controller on a store in memory, with two hubs and three topics, and its pages on loopback."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from equipoise.control.controller import Controller
from equipoise.control.provision import CommandProvisioner, NoProvisioner
from equipoise.control.settings import ControllerSettings
from equipoise.model import Plan
from equipoise.plan import Static
from equipoise.store import HubFacts, HubsStore, LeaderFacts, MemoryStore, MemoryTree, PlanStore, Tree
from equipoise.view import HubView, TopicView, View
from equipoise.web import ClusterFacts, Pages, WebSettings, serve
from equipoise.web.actions import Actions

TREE = Tree("test")
# How often open pages are sent an overview.
REFRESH_S = 0.5
# With what base64 has and addresses do not.
TOKEN = "a+token/of-some=length=="
HOT = b"game/tile 1\xff"


class Views:
    """What the pipeline would send, by hand."""

    def __init__(self) -> None:
        self.latest: View | None = None
        self.news = asyncio.Event()


class Site:
    """A controller with two hubs and three topics, and the address of its pages."""

    def __init__(
        self,
        pages: Pages,
        stores: MemoryTree,
        controller: Controller,
        views: Views,
        hubs: dict[str, MemoryStore],
    ) -> None:
        self.pages = pages
        self.address = pages.url
        # What to trust, where pages are served over HTTPS.
        self.context: ssl.SSLContext | None = None
        self.hubs = hubs
        self.stores = stores
        self.controller = controller
        self.views = views

    async def ask(
        self, path: str, *, body: object = None, token: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        return await asyncio.to_thread(self._ask, path, body, token, headers or {})

    def _ask(self, path: str, body: object, token: str, headers: dict[str, str]) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data=data, headers=headers)
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=20, context=self.context) as response:
                text = response.read()
                status = response.status
        except urllib.error.HTTPError as refusal:
            text, status = refusal.read(), refusal.code
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    async def kill(self, hub: str) -> None:
        """Its session ends, and with it its sign of life."""
        await self.hubs[hub].close()

    async def plan(self) -> Plan:
        store = await MemoryStore(self.stores).open()
        return await PlanStore(store, TREE).load()


def some_view() -> View:
    topics = [
        TopicView(
            name=HOT, publications_per_s=50, deliveries_per_s=500, out_bytes_per_s=5e4, carried_by={"a": 1.0}
        ),
        TopicView(
            name=b"calm",
            publications_per_s=1,
            deliveries_per_s=2,
            out_bytes_per_s=200,
            latency_s_p50=0.02,
            latency_s_p90=0.03,
            latency_s_p99=0.05,
            latency_s_max=0.06,
            latency_s_worst=0.09,
        ),
        TopicView(name=b"quiet", publications_per_s=0.5),
    ]
    hubs = [HubView(name="a", cpu_ratio=0.5, incarnation=1), HubView(name="b", cpu_ratio=0.1, incarnation=1)]
    return View.of(time.time(), topics, hubs)


async def _renew(views: Views) -> None:
    """A view of the present every second, as from a pipeline, until a scenario gives one of its own: a page that takes
    long to come up must not find everything frozen."""
    made = views.latest
    while views.latest is made:
        await asyncio.sleep(1.0)
        if views.latest is made:
            views.latest = made = some_view()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def play(
    scenario: Callable[[Site], Coroutine[Any, Any, None]],
    *,
    token: str = "",
    provision: str = "",
    certificate: tuple[str, str] = ("", ""),
    is_renewed: bool = True,
    run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
) -> None:
    """`provision`: a command that starts and stops hubs. `certificate`: files of the pages' certificate and key.
    `is_renewed`: whether there is a new view every second. `run`: on whose loop.
    """

    async def main() -> None:
        async with asyncio.timeout(150), AsyncExitStack() as stack:
            tree = MemoryTree(asyncio.get_running_loop().time)
            hubs: dict[str, MemoryStore] = {}
            for name in ("a", "b"):
                hub_store = hubs[name] = await MemoryStore(tree).open()
                facts = HubFacts(hub=name, address=f"{name}:6399", incarnation=1, site="paris")
                await HubsStore(hub_store, TREE).announce(facts)
            store, views = await MemoryStore(tree).open(), Views()
            controller = Controller(
                store,
                TREE,
                ControllerSettings(
                    period_s=0.05, hubs_min=3 if provision else 1, hubs_max=3 if provision else 0
                ),
                policy=Static(),
                views=views,
                provisioner=CommandProvisioner(provision, store, TREE) if provision else NoProvisioner(),
                facts=LeaderFacts(name="one"),
            )
            running = asyncio.create_task(controller.run())
            stack.push_async_callback(_end, running)
            while len(controller.knowledge.plan.members) < 2:  # noqa: ASYNC110  what a task learns has no event
                await asyncio.sleep(0.01)
            views.latest = some_view()
            if is_renewed:
                stack.push_async_callback(_end, asyncio.create_task(_renew(views)))
            facts_shown = ClusterFacts(controller, time.time)
            facts_shown.refresh()
            settings = WebSettings(
                port=0,
                token=token,
                refresh_interval_s=REFRESH_S,
                tls_certificate=certificate[0],
                tls_key=certificate[1],
            )
            # No hub follows specs here: a request that waits for them reports that and continues.
            actions = Actions(store, TREE, specs_timeout_s=0.01)
            pages = await stack.enter_async_context(serve(facts_shown, actions, settings))
            controller.leadership.facts = LeaderFacts(name="one", http=pages.url)
            await scenario(Site(pages, tree, controller, views, hubs))

    run(main())
