"""Many hubs under every kind of trouble, by seed: every message once, in order, and no needless word of a gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.ingress import Ingress
from equipoise.hub.cluster.link.link import OutLink, Send
from equipoise.hub.cluster.streams import Held, Stream
from equipoise.stream.relay import RelayMerge

from .judging import check_promises
from .worlds import CROWD, SETTINGS, Trouble, World, run

SEEDS = range(25)
CALM = Trouble()
LINKS = Trouble(link_resets=(1, 6), link_cuts=(0, 3))
MOVES = Trouble(moves=(1, 6))
SKEW = Trouble(moves=(1, 8), link_resets=(0, 5), link_cuts=(0, 3), pauses=(0, 2), lag_s=0.3)
BULK = Trouble(moves=(0, 3), reweighs=(1, 4), link_resets=(0, 3), joins=(0, 2), lag_s=0.3)
CRASHES = Trouble(crashes=(1, 2), is_gap_allowed=True)
ZOMBIES = Trouble(long_pauses=(1, 2), is_gap_allowed=True)
EVERYTHING = Trouble(
    moves=(1, 6),
    reweighs=(0, 2),
    link_resets=(0, 5),
    link_cuts=(0, 3),
    client_resets=(0, 4),
    pauses=(0, 2),
    long_pauses=(0, 2),
    crashes=(0, 2),
    joins=(0, 1),
    clock_error_s=3_600.0,
    lag_s=0.3,
    is_gap_allowed=True,
)
# Links that keep so little that they have to give up all of it now and then, and much that goes over them.
NARROW = replace(EVERYTHING, settings=msgspec.structs.replace(SETTINGS, link_bytes_max=64 * 1024))
LOUD = tuple(
    replace(client, publishes=(replace(talk, payload_bytes=(100, 4_000), count=300, interval_s=0.05),))
    for client in CROWD
    for talk in client.publishes
)


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(CALM, id="no-trouble-at-all"),
        pytest.param(LINKS, id="links-reset-and-cut"),
        pytest.param(MOVES, id="topics-move"),
        pytest.param(SKEW, id="topics-move-while-plans-differ-and-links-break"),
        pytest.param(BULK, id="hubs-join-and-weights-change"),
        pytest.param(CRASHES, id="hubs-crash-and-come-back"),
        pytest.param(ZOMBIES, id="hubs-wake-up-after-they-were-buried"),
        pytest.param(EVERYTHING, id="everything-at-once"),
    ],
)
def test_subscribers_of_any_hub_get_every_message_once_and_in_order(trouble: Trouble) -> None:
    for seed in SEEDS:
        outcomes = run(seed, trouble)
        check_promises(outcomes, seed)


def test_links_that_have_to_give_up_frames_lose_some_and_bring_nothing_twice_or_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overflowed, times = Cluster._overflowed, 0
    clients = tuple({**{client.name: client for client in CROWD}, **{one.name: one for one in LOUD}}.values())

    def prepare(world: World) -> None:
        def excused(cluster: Cluster, link: OutLink) -> None:
            nonlocal times
            times += 1
            world.excuse()
            overflowed(cluster, link)

        monkeypatch.setattr(Cluster, "_overflowed", excused)

    for seed in SEEDS:
        outcomes = run(seed, NARROW, clients=clients, prepare=prepare)
        check_promises(outcomes, seed)
    assert times > 25, "hardly a link had to"


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(3, SKEW).hash == run(3, SKEW).hash


# What would be missed if it were not there.


def _forget_unacknowledged(link: OutLink, offset: int, send: Send) -> bool:
    link._kept.clear()
    link._unsent.clear()
    link.base = link.end = link.written_to = offset
    link._send = send
    return True


def _never_wait(ingress: Ingress, stream: Stream, item: Held) -> bool:
    return not stream.state.is_home and (stream.peer not in ingress._cluster.out)


def _always(*words: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("owner", "name", "ablation", "trouble"),
    [
        pytest.param(OutLink, "resume", _forget_unacknowledged, LINKS, id="without-resent-links"),
        pytest.param(Ingress, "_must_wait", _never_wait, SKEW, id="without-waiting-for-words-that-are-owed"),
        pytest.param(RelayMerge, "may_take", _always, SKEW, id="without-waiting-for-the-old-source"),
        pytest.param(RelayMerge, "may_open", _always, SKEW, id="without-waiting-for-the-epoch-before"),
        pytest.param(
            Cluster, "is_barrier_passed", property(lambda cluster: True), BULK, id="without-the-barrier"
        ),
    ],
)
def test_the_checkers_notice_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, ablation: Callable[..., object], trouble: Trouble
) -> None:
    monkeypatch.setattr(owner, name, ablation)
    assert any(run(seed, trouble).violations for seed in range(60))
