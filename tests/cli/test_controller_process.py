"""`equipoise controller` on a store in memory and real sockets: its announced addresses are correct."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import make_app
from equipoise.cli.support import controller_process
from equipoise.cli.support.controller_process import ControllerOptions
from equipoise.control.settings import ControllerSettings
from equipoise.errors import SettingsError
from equipoise.model.address import split_address
from equipoise.store import LeaderFacts, LeaderStore, MemoryStore, MemoryTree, Store, Tree
from equipoise.view import HubView, View, to_tables
from equipoise.view.codec import encode_view, greeting
from equipoise.web import ClusterFacts, Pages, WebSettings
from equipoise.web.actions import Actions

TOKEN = "what operators and the pipeline show"
TREE = Tree("default")


def wanted(**given: Any) -> ControllerOptions:
    usual: dict[str, Any] = {
        "settings": ControllerSettings(name="one"),
        "store_url": "",
        "tree": TREE,
        "intake": ("127.0.0.1", 0),
        "http": None,
        "token": TOKEN,
        "loopback_reads": True,
        "provision": "none",
    }
    return ControllerOptions(**{**usual, **given})


def serve(
    made: ControllerOptions,
    scenario: Callable[[LeaderFacts], Coroutine[Any, Any, None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Run the whole of it until it leads and the scenario is over."""

    async def main() -> None:
        tree = MemoryTree(asyncio.get_running_loop().time)

        async def open_store(_: str) -> Store:
            return await MemoryStore(tree).open()

        monkeypatch.setattr(controller_process, "open_store", open_store)
        async with asyncio.timeout(30):
            serving = asyncio.create_task(controller_process._serve(made))
            reader = await MemoryStore(tree).open()
            async for leader in LeaderStore(reader, TREE).watch():
                if leader is not None:
                    await scenario(leader)
                    break
            signal.raise_signal(signal.SIGTERM)
            await serving
            await reader.close()
            # The loop has to run once more for the transports to be gone.
            await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_leader_on_every_address_gets_its_views_at_the_address_in_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(leader: LeaderFacts) -> None:
        address = split_address(leader.intake)
        assert address is not None and address[0] == "localhost" and address[1] > 0
        reader, writer = await asyncio.open_connection(*address)
        view = View.of(time.time(), hubs=[HubView(name="a")])
        writer.write(greeting(TOKEN) + encode_view(view.time_s, view.window_s, to_tables(view)))
        assert await reader.readline() == b"+\n"
        writer.transport.abort()

    serve(wanted(intake=("0.0.0.0", 0), advertise="localhost"), scenario, monkeypatch)


def test_the_pages_are_announced_with_their_actual_port(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(leader: LeaderFacts) -> None:
        assert leader.http.startswith("http://127.0.0.1:") and not leader.http.endswith(":0")
        answer = await asyncio.to_thread(urllib.request.urlopen, f"{leader.http}/", timeout=10)
        with answer:
            assert answer.status == 200

    serve(wanted(http=("127.0.0.1", 0)), scenario, monkeypatch)


def test_the_pages_are_served_by_the_settings_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[ClusterFacts, WebSettings]] = []

    @asynccontextmanager
    async def serve_pages(facts: ClusterFacts, _: Actions, settings: WebSettings) -> AsyncIterator[Pages]:
        served.append((facts, settings))
        yield Pages("http://127.0.0.1:6398")

    async def scenario(leader: LeaderFacts) -> None:
        assert leader.http == "http://127.0.0.1:6398"

    monkeypatch.setattr(controller_process, "serve_pages", serve_pages)
    pages = WebSettings(refresh_interval_s=0.5, chart_history_s=30.0, metrics_topics_max=7)
    serve(wanted(http=("127.0.0.1", 6398), pages=pages), scenario, monkeypatch)
    ((facts, settings),) = served
    assert (settings.refresh_interval_s, settings.metrics_topics_max, settings.token) == (0.5, 7, TOKEN)
    for second in (0.0, 20.0, 40.0):
        facts.series.add(View.of(second), [])
    assert [sample.at_s for sample in facts.series.samples] == [20.0, 40.0]


@pytest.mark.parametrize("place", ["intake", "http"])
def test_listening_on_every_address_without_an_advertised_host_is_rejected(place: str) -> None:
    with pytest.raises(SettingsError, match=r"others cannot connect to 0.0.0.0: .* with --advertise HOST"):
        wanted(**{place: ("0.0.0.0", 6397)})


def test_a_loopback_address_is_announced_unchanged() -> None:
    made = wanted(http=("0.0.0.0", 6398), advertise="db7")
    assert (made.advertised("0.0.0.0", 6398), made.advertised("127.0.0.1", 6397)) == (
        "db7:6398",
        "127.0.0.1:6397",
    )
    assert made.advertised("10.0.0.5", 6398) == "db7:6398"


@pytest.mark.parametrize("advertise", ["db7:6397", "http://db7"])
def test_the_advertised_address_of_a_controller_has_no_port(advertise: str) -> None:
    words = ["controller", "--store", "zk://zk.example", "--advertise", advertise]
    result = CliRunner().invoke(make_app(["controller"]), words)
    assert result.exit_code != 0 and "give the host alone" in result.output
