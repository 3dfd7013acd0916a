"""Poll a running cluster once a second: its dashboard and its players.

If the API does not answer, the demo continues with the last known state.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections import deque
from collections.abc import Mapping
from typing import Any

from equipoise.lab.demo.acts import Act
from equipoise.lab.demo.scene import (
    HubLine,
    PlanEvent,
    Scene,
    SwarmLine,
    TopicLine,
    changes_of,
    hub_lines,
    percentile,
    topic_lines,
)
from equipoise.lab.demo.swarm import LIMIT_MS, Swarm
from equipoise.lab.demo.swarm import TOPIC as SWARM_TOPIC
from equipoise.lab.workload.game import GameLoad
from equipoise.model.names import to_id

__all__ = ["Watcher"]

# Window of latency and rates.
WINDOW_S = 3.0
# A message that has not arrived after this time counts as lost.
MISSED_AFTER_S = 5.0
TOPICS_SHOWN = 5
PLANS_READ = 30
CHANGES_SHOWN = 20
ANSWER_S = 3.0


class Watcher:
    """Owned by the show. `scenes` has one scene per second, for the report; `changes` has every plan change."""

    def __init__(self, api_url: str, load: GameLoad, swarm: Swarm | None = None) -> None:
        """`api_url`: URL of the dashboard's API."""
        self._api_url = api_url
        self._load = load
        self._swarm = swarm
        self._swarm_home = ""
        self.scenes: list[Scene] = []
        self.changes: list[PlanEvent] = []
        # Whether the controller has views to decide on.
        self.is_seen = False
        self._hubs: list[HubLine] = []
        self._topics: list[TopicLine] = []
        self._version = 0
        # The sent messages at each poll, as far back as messages may be in flight.
        self._sent: deque[tuple[float, Mapping[tuple[bytes, int], int]]] = deque()
        self._counts: deque[tuple[float, int, int]] = deque()

    @property
    def hubs(self) -> int:
        """Number of hubs in the plan."""
        return sum(hub.weight is not None for hub in self._hubs)

    def homes_of(self, topic: str) -> int:
        return max((len(line.homes) for line in self._topics if line.name == topic), default=0)

    async def look(self, act: Act, at_s: float) -> Scene:
        """Poll once and add a scene."""
        await self._ask_all()
        tally, now = self._load.tally, asyncio.get_running_loop().time()
        latencies = sorted(1_000 * took for when, took in tally.latencies_s if when >= now - WINDOW_S)
        published, delivered = self._rates(now)
        missed = self._missed(now)
        scene = Scene(
            at_s=at_s,
            act=act.title,
            words=act.words,
            players=self._load.players,
            hubs=self._hubs,
            topics=self._topics,
            changes=self.changes[-CHANGES_SHOWN:],
            published_per_s=published,
            delivered_per_s=delivered,
            latency_ms_p50=percentile(latencies, 0.50),
            latency_ms_p99=percentile(latencies, 0.99),
            swarm=self._swarm_line(),
            lost=missed["lost"],
            duplicated=missed["duplicated"],
            out_of_order=missed["out_of_order"],
        )
        self.scenes.append(scene)
        return scene

    def _swarm_line(self) -> SwarmLine | None:
        swarm = self._swarm
        if swarm is None or not swarm.site:
            return None
        sites = {hub.name: hub.site for hub in self._hubs}
        home = self._swarm_home
        return SwarmLine(swarm.site, swarm.latency_ms(), LIMIT_MS, home, sites.get(home, ""))

    def _rates(self, now: float) -> tuple[float, float]:
        tally = self._load.tally
        self._counts.append((now, tally.published, tally.delivered))
        while len(self._counts) > 2 and self._counts[0][0] < now - WINDOW_S:
            self._counts.popleft()
        since, published, delivered = self._counts[0]
        passed_s = now - since
        if passed_s <= 0:
            return 0.0, 0.0
        return (tally.published - published) / passed_s, (tally.delivered - delivered) / passed_s

    def _missed(self, now: float) -> dict[str, int]:
        tally = self._load.tally
        self._sent.append((now, dict(tally.sent)))
        while len(self._sent) > 1 and self._sent[1][0] <= now - MISSED_AFTER_S:
            self._sent.popleft()
        at, sent = self._sent[0]
        return tally.verdict(sent if at <= now - MISSED_AFTER_S else {})

    async def _ask_all(self) -> None:
        is_flying = self._swarm is not None and self._swarm.site
        overview, hubs, topics, plans, topic = await asyncio.gather(
            self._ask("/api/overview"),
            self._ask("/api/hubs"),
            self._ask(f"/api/topics?limit={TOPICS_SHOWN}"),
            self._ask(f"/api/plans?limit={PLANS_READ}"),
            self._ask(f"/api/topics/{to_id(SWARM_TOPIC)}") if is_flying else _nothing(),
        )
        if topic is not None:
            self._swarm_home = next(iter(topic["homes"]), "")
        self.is_seen = overview is not None and overview["state"] == "leading"
        if hubs is not None:
            self._hubs = hub_lines(hubs)
        if topics is not None:
            self._topics = topic_lines(topics)
        for change in sorted(plans or (), key=lambda one: one["version"]):
            if change["version"] > self._version:
                self._version = change["version"]
                self.changes += changes_of(change)

    async def _ask(self, path: str) -> Any:
        def get() -> Any:
            with urllib.request.urlopen(self._api_url + path, timeout=ANSWER_S) as answer:
                return json.load(answer)

        try:
            return await asyncio.to_thread(get)
        except (OSError, ValueError):
            return None


async def _nothing() -> Any:
    return None
