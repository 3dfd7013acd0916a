"""The files for Grafana and Prometheus ask only for what controllers and hubs really give."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from equipoise.access import Users
from equipoise.hub import HubSettings
from equipoise.hub.membership.process import member
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.hub.telemetry.metric_table import METRICS
from equipoise.hub.telemetry.prometheus_endpoint import serve_metrics
from equipoise.hub.telemetry.settings import MetricsSettings, TelemetrySettings
from equipoise.store import MemoryStoreServer, MemoryTree
from web.site_world import Site, play

OPS = Path(__file__).resolve().parents[2] / "ops"
BOARD: dict[str, Any] = json.loads((OPS / "grafana" / "equipoise.json").read_text())
PANELS: list[dict[str, Any]] = BOARD["panels"]
ALERTS = (OPS / "prometheus" / "alerts.yml").read_text()
TIMEOUT_S = 30.0


def expressions() -> Iterator[str]:
    for panel in PANELS:
        yield from (target["expr"] for target in panel.get("targets", []))
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]
    yield from (one["expr"] for one in BOARD["annotations"]["list"])
    yield from re.findall(r"^ +expr: (.*)$", ALERTS, re.MULTILINE)


def names_in(text: str) -> set[str]:
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}


async def scraped_hub() -> str:
    """What one of two hubs gives while a topic is used."""
    async with asyncio.timeout(TIMEOUT_S), AsyncExitStack() as stack:
        server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time), host="127.0.0.1", port=0)
        await server.start()
        stack.push_async_callback(server.stop)
        for name in ("h1", "h2"):
            settings = HubSettings(
                name=name,
                port=0,
                membership=MembershipSettings(store=f"eqs://127.0.0.1:{server.port}"),
                telemetry=TelemetrySettings(window_s=0.1),
                metrics=MetricsSettings(port=0),
            )
            running = await stack.enter_async_context(member(settings, Users.open()))
            await running.wait_ready()
        address = await stack.enter_async_context(serve_metrics(running.hub))
        reader, writer = await asyncio.open_connection("127.0.0.1", running.hub.port)
        text = ""
        while "topic=" not in text:
            writer.write(b"PUBLISH topic payload\r\n")
            await reader.readuntil(b"\r\n")
            text = await asyncio.to_thread(read, str(address))
        writer.close()
        await writer.wait_closed()
        return text


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=TIMEOUT_S) as response:
        found: bytes = response.read()
    return found.decode()


@pytest.fixture(scope="module")
def given() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"hub": names_in(asyncio.run(scraped_hub()))}

    async def scenario(site: Site) -> None:
        _, text = await site.ask("/metrics")
        found["controller"] = names_in(text.decode())

    play(scenario)
    return found


def test_every_metric_that_is_asked_for_is_given(given: dict[str, set[str]]) -> None:
    asked = {name for expression in expressions() for name in re.findall(r"equipoise_[a-z0-9_]+", expression)}
    assert len(asked) > 30
    assert asked - given["hub"] - given["controller"] == set()
    assert asked & given["hub"] and asked & given["controller"]


def test_a_hub_among_others_gives_every_metric_of_its_table(given: dict[str, set[str]]) -> None:
    assert given["hub"] == {name for name, of, *_ in METRICS if of != "limited"}


def test_counters_are_asked_for_as_rates_and_gauges_are_not() -> None:
    for expression in expressions():
        for name in re.findall(r"(?:rate|increase)\((equipoise_[a-z0-9_]+)", expression):
            # The controller's count of plans is a gauge that only grows.
            assert name.endswith("_total") or name == "equipoise_controller_commits", expression
        for name in re.findall(r"equipoise_[a-z0-9_]+_total", expression):
            assert re.search(rf"(?:rate|increase)\({name}", expression), expression


def test_brackets_are_closed_in_every_expression() -> None:
    pairs = {")": "(", "]": "[", "}": "{"}
    for expression in expressions():
        still_open: list[str] = []
        for character in re.sub(r'"[^"]*"', "", expression):
            if character in pairs.values():
                still_open.append(character)
            elif character in pairs:
                assert still_open and still_open.pop() == pairs[character], expression
        assert still_open == [], expression


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    cells = [
        (x, y)
        for panel in PANELS
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert all(panel["title"] and panel["type"] in ("row", "stat", "timeseries") for panel in PANELS)
