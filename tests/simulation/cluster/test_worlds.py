"""Many hubs under every kind of trouble, by seed: every message once, in order, and no needless word of a gap."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.link.link import OutLink
from equipoise.lab.simulation.cluster.world import ClusterWorld

from .worlds import case, check_promises, check_seeds, run

SEEDS = range(25)


@pytest.mark.parametrize(
    "name",
    [
        "cluster-calm",
        "cluster-links",
        "cluster-moves",
        "cluster-skew",
        "cluster-ring",
        "cluster-crashes",
        "cluster-zombies",
        "cluster-everything",
    ],
)
def test_subscribers_of_any_hub_get_every_message_once_and_in_order(name: str) -> None:
    check_seeds(name, SEEDS)


def test_links_that_have_to_give_up_frames_lose_some_and_bring_nothing_twice_or_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overflowed, times = Cluster._overflowed, 0

    def prepare(world: ClusterWorld) -> None:
        def excused(cluster: Cluster, link: OutLink) -> None:
            nonlocal times
            times += 1
            world.excuse()
            overflowed(cluster, link)

        monkeypatch.setattr(Cluster, "_overflowed", excused)

    for seed in SEEDS:
        check_promises(run(seed, case("cluster-narrow"), prepare=prepare), seed)
    assert times > 25, "hardly a link had to"


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(3, case("cluster-skew")).hash == run(3, case("cluster-skew")).hash
