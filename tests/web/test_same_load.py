"""One load per hub: the planner, `hubs ls`, the dashboard and Prometheus show the same load of the same hub."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from equipoise.cli.hubs import hub_rows
from equipoise.hub.telemetry.settings import TelemetrySettings
from equipoise.model import Plan
from equipoise.pipeline.samples import sampled
from equipoise.pipeline.settings import Plausible
from equipoise.pipeline.sliding_window import SlidingWindow
from equipoise.pipeline.validation import judged
from equipoise.plan import PlannerSettings
from equipoise.plan.load import capacities
from equipoise.store import HubAlive, HubFacts, HubSeen
from equipoise.view import View
from hub.metered import MeteredWorld
from pipeline.records import batch_of, view_of
from web.site_world import Site, play

Settings = dict[str, Any]


def measured_hub(settings: Settings, *, cpu_s: float, messages: int) -> tuple[float, View]:
    """A hub that has worked for some windows: the load that it reports, and the view of its records."""
    world = MeteredWorld(telemetry=TelemetrySettings(**settings))
    subscriber, publisher = world.client(), world.client()
    subscriber.send("SUBSCRIBE", "news")
    records = []
    for second in range(4):
        world.process.used_s += cpu_s * (1 + second / 10)
        for _ in range(messages):
            publisher.send("PUBLISH", "news", "x" * 100)
        records += world.window()
    reported = world.core.metering.load_ratio
    batch = judged(batch_of(records), now_us=1 << 60, plausible=Plausible())
    window = SlidingWindow()
    window.add(sampled([batch], Counter()))
    found = window.view()
    assert found is not None
    return reported, view_of(found)


@pytest.mark.parametrize(
    "settings, cpu_s, messages",
    [
        ({}, 0.4, 1),
        ({"out_bytes_per_s_max": 20_000.0}, 0.1, 10),
        ({"deliveries_per_s_max": 20.0}, 0.1, 12),
    ],
    ids=["CPU", "bandwidth", "deliveries"],
)
def test_the_same_hub_has_the_same_load_everywhere(settings: Settings, cpu_s: float, messages: int) -> None:
    reported, view = measured_hub(settings, cpu_s=cpu_s, messages=messages)
    (name,) = view.hubs.names
    assert 0.3 < reported < 3.0
    planned = capacities(view, {}, {}, PlannerSettings()).measured[0]
    facts = HubFacts(hub=name, address="a:1", incarnation=1)
    seen = HubSeen(facts, HubAlive(facts=facts, load_ratio=reported))
    (listed,) = hub_rows(Plan(), {name: seen})
    shown: dict[str, float] = {}

    async def look(site: Site) -> None:
        # The site's own hubs are called a and b; the view of ours takes the place of theirs.
        site.views.latest = View.of(view.time_s, (), [_renamed(view, "a")])
        _, hubs = await site.ask("/api/hubs")
        shown["dashboard"] = next(hub["load"] for hub in hubs if hub["hub"] == "a")
        _, text = await site.ask("/metrics")
        found = re.search(rb'equipoise_hub_load_ratio\{hub="a"\} (\S+)', text)
        assert found is not None
        shown["prometheus"] = float(found[1])

    play(look)
    # Records tell lengths of windows in whole microseconds.
    assert listed["load"] == pytest.approx(planned, rel=1e-5)
    assert shown == pytest.approx({"dashboard": planned, "prometheus": planned}, rel=1e-12)


def _renamed(view: View, name: str) -> Any:
    (hub,) = view.hub_rows()
    return replace(hub, name=name)
