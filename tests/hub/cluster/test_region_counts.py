"""Subscriber counts of the whole region in PUBSUB and PUBLISH at every hub, at most a second old."""

from __future__ import annotations

import random
from typing import Any

import pytest

from equipoise.hub.data import region_counts
from equipoise.hub.data.region_counts import PATTERN, SHARD, TOPIC, RegionCounts, format_count, parse_count
from equipoise.model import Mode
from hub.cluster.hubs import Hubs


def a_second(hubs: Hubs) -> None:
    for _ in range(4):
        for node in hubs.nodes.values():
            node.shell.advance(0.25)
        hubs.settle()


def asked(hubs: Hubs, hub: str, *words: str) -> Any:
    client = hubs[hub].client()
    client.send(*words)
    hubs.settle()
    (reply,) = client.read()
    client.wire.abort()
    return reply


def test_every_hub_counts_the_subscribers_of_all_hubs() -> None:
    hubs = Hubs("h1", "h2", "h3")
    first, second, by_pattern, shard = (hubs[name].client() for name in ("h1", "h2", "h2", "h3"))
    first.send("SUBSCRIBE", "news", "only.h1")
    second.send("SUBSCRIBE", "news")
    by_pattern.send("PSUBSCRIBE", "n*", "o*")
    shard.send("SSUBSCRIBE", "s")
    hubs.settle()
    a_second(hubs)
    for hub in hubs.nodes:
        assert asked(hubs, hub, "PUBSUB", "NUMSUB", "news", "only.h1", "none") == [
            b"news", 2, b"only.h1", 1, b"none", 0,
        ]  # fmt: skip
        assert sorted(asked(hubs, hub, "PUBSUB", "CHANNELS")) == [b"news", b"only.h1"]
        assert asked(hubs, hub, "PUBSUB", "CHANNELS", "o*") == [b"only.h1"]
        assert asked(hubs, hub, "PUBSUB", "NUMPAT") == 2
        assert asked(hubs, hub, "PUBSUB", "SHARDCHANNELS") == [b"s"]
        assert asked(hubs, hub, "PUBSUB", "SHARDNUMSUB", "s") == [b"s", 1]
        # Two by name and one by pattern; one and one.
        assert asked(hubs, hub, "PUBLISH", "news", "x") == 3
        assert asked(hubs, hub, "PUBLISH", "only.h1", "x") == 2
        hubs.settle()


def test_subscribers_that_leave_are_no_longer_counted() -> None:
    hubs = Hubs("h1", "h2")
    client, other = hubs["h1"].client(), hubs["h1"].client()
    client.send("SUBSCRIBE", "a", "b")
    client.send("PSUBSCRIBE", "p*")
    other.send("PSUBSCRIBE", "p*")
    hubs.settle()
    a_second(hubs)
    assert asked(hubs, "h2", "PUBLISH", "p1", "x") == 2
    client.send("UNSUBSCRIBE", "a")
    client.send("PUNSUBSCRIBE", "p*")
    hubs.settle()
    a_second(hubs)
    assert asked(hubs, "h2", "PUBSUB", "CHANNELS") == [b"b"]
    assert asked(hubs, "h2", "PUBLISH", "p1", "x") == 1
    client.wire.abort()
    other.wire.abort()
    a_second(hubs)
    assert asked(hubs, "h2", "PUBSUB", "CHANNELS") == []
    assert asked(hubs, "h2", "PUBSUB", "NUMPAT") == 0
    assert asked(hubs, "h2", "PUBLISH", "b", "x") == 0


def test_counts_follow_a_topic_that_moves() -> None:
    hubs = Hubs("h1", "h2")
    for name in ("h1", "h2"):
        hubs[name].client().send("SUBSCRIBE", "t")
    hubs.settle()
    for home in ("h1", "h2", "h1"):
        hubs.replicate("t", Mode.SINGLE, home)
        a_second(hubs)
        for hub in ("h1", "h2"):
            assert asked(hubs, hub, "PUBLISH", "t", "x") == 2
            hubs.settle()


def test_the_subscribers_of_a_dead_hub_are_no_longer_counted() -> None:
    hubs = Hubs("h1", "h2", "h3")
    hubs["h1"].client().send("SUBSCRIBE", "t")
    hubs["h3"].client().send("SUBSCRIBE", "t")
    hubs.settle()
    a_second(hubs)
    assert asked(hubs, "h2", "PUBSUB", "NUMSUB", "t") == [b"t", 2]
    hubs.kill("h1")
    assert asked(hubs, "h2", "PUBSUB", "NUMSUB", "t") == [b"t", 1]


def test_a_hub_of_an_earlier_release_gets_no_counts_and_counts_its_own() -> None:
    hubs = Hubs("h1", "h2", legacy=["h2"])
    hubs["h1"].client().send("SUBSCRIBE", "t")
    hubs["h2"].client().send("SUBSCRIBE", "t")
    hubs.settle()
    a_second(hubs)
    for hub in ("h1", "h2"):
        assert asked(hubs, hub, "PUBSUB", "NUMSUB", "t") == [b"t", 1]


def test_a_hub_without_changes_sends_nothing() -> None:
    hubs = Hubs("h1", "h2")
    hubs["h1"].client().send("SUBSCRIBE", "t")
    hubs.settle()
    assert hubs["h1"].cluster.counts._timer is not None
    a_second(hubs)
    assert hubs["h1"].cluster.counts._timer is None


@pytest.mark.parametrize("seed", range(3))
def test_counts_agree_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    counts = RegionCounts()
    told: dict[str, dict[tuple[bytes, bytes], int]] = {}
    for _ in range(500):
        hub = rng.choice("abc")
        if rng.random() < 0.1:
            counts.forget(hub)
            told.pop(hub, None)
            continue
        key = rng.choice((TOPIC, PATTERN, SHARD)), rng.choice((b"x", b"y z", b"", b"\n"))
        count = rng.randrange(4)
        assert parse_count(format_count(key, count)) == (key, count)
        is_first = rng.random() < 0.1
        if is_first:
            told.pop(hub, None)
        counts.update(hub, [(key, count)], is_first=is_first)
        told.setdefault(hub, {})[key] = count
        for kind in (TOPIC, PATTERN, SHARD):
            sums = {
                name: sum(table.get((kind, name), 0) for table in told.values())
                for table in told.values()
                for other, name in table
                if other == kind
            }
            assert set(counts.names(kind)) == {name for name, total in sums.items() if total}
            assert all(counts.of(kind, name) == total for name, total in sums.items())


def test_the_counts_of_others_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(region_counts, "ENTRIES_MAX", 3)
    counts = RegionCounts()
    counts.update("a", [((TOPIC, b"%d" % i), 1) for i in range(5)], is_first=True)
    assert sorted(counts.names(TOPIC)) == [b"0", b"1", b"2"]
    assert counts.left_out == 2
    counts.update("a", [((TOPIC, b"0"), 0), ((TOPIC, b"4"), 1)], is_first=False)
    assert sorted(counts.names(TOPIC)) == [b"1", b"2", b"4"]


@pytest.mark.parametrize("word", [b"", b"t", b"t1", b"x1 a", b"t-1 a", b"tx a", b"t9999999999 a"])
def test_an_invalid_count_is_rejected(word: bytes) -> None:
    with pytest.raises(ValueError, match="not a count"):
        parse_count(word)
