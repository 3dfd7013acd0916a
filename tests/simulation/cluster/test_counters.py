"""The counters of a hub in a cluster in INFO."""

from __future__ import annotations

import asyncio

from equipoise.hub.telemetry.info import render_info
from equipoise.lab.simulation.cluster.world import ClusterWorld

from .worlds import CALM, run


def _info(world: ClusterWorld, name: str, section: str) -> dict[str, int]:
    hub = world.hubs[name].hub
    assert hub is not None
    core = hub.core
    *_, totals = core.index.totals()
    session = next(iter(core.sessions.values()))
    lines = render_info(core, session, {section}, totals).splitlines()
    facts = (line.partition(":")[::2] for line in lines if line and not line.startswith("#"))
    return {key: int(value) for key, value in facts if value.lstrip("-").isdigit()}


def test_info_counts_links_and_moves_and_only_what_was_numbered_here_as_published() -> None:
    """
    1. the home of a is h1, of b and c h2; clients publish and subscribe at any hub;
    2. a is moved to h3;
    3. h1 has begun and finished one move, and all hubs are settled under the last plan;
    4. the sum of the hubs' published counters is the number of messages, though most passed several hubs.
    """
    seen: dict[str, dict[str, int]] = {}
    published: list[int] = []
    moves: list[int] = []

    async def story(world: ClusterWorld) -> None:
        await asyncio.sleep(0.8)
        for topic, hub in (("a", "h1"), ("b", "h2"), ("c", "h2")):
            world.move(topic, hub)
        await asyncio.sleep(0.7)
        before = _info(world, "h1", "cluster")
        world.move("a", "h3")
        await asyncio.sleep(1.2)
        for name in world.hubs:
            seen[name] = _info(world, name, "cluster")
            published.append(_info(world, name, "equipoise")["published"])
        published.append(-world.history.messages)
        moves.append(seen["h1"]["moves_started"] - before["moves_started"])

    outcomes = run(5, CALM, prepare=lambda world: world.keep(story(world)))
    assert not outcomes.violations
    assert moves == [1]
    assert sum(facts["moves_taken"] for facts in seen.values()) == sum(
        facts["moves_finished"] for facts in seen.values()
    )
    for name in ("h1", "h2", "h3"):
        facts = seen[name]
        assert facts["moves_started"] == facts["moves_finished"]
        assert (facts["links"], facts["links_connected"], facts["hubs"]) == (2, 2, 3)
        assert facts["plan_is_applied_by_all"] and facts["cluster_enabled"] == 0
        assert not any(
            facts[key]
            for key in (
                "messages_lost",
                "messages_dropped",
                "ingress_pending_bytes",
                "moves_in_flight",
                "topics_moving",
                "merge_overflows",
            )
        )
    assert abs(sum(published)) <= 30, "but for what is under way"
