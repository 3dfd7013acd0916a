"""Topics in slices: however topics change, records have the counters of each topic once."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.hub.data.topics import Topic
from equipoise.hub.telemetry import window
from equipoise.hub.telemetry.window import Slice, joined
from hub.metered import MeteredWorld
from hub.world import FakeClient

NAMES = [b"t%d" % i for i in range(9)]
# A step of a topic's life in one window: how many messages, by which of two clients, and who comes or goes.
STEPS = st.tuples(
    st.sampled_from(NAMES),
    st.integers(0, 2),
    st.booleans(),
    st.sampled_from(["", "SUBSCRIBE", "UNSUBSCRIBE"]),
)


class Model:
    """The expected counters of one window."""

    def __init__(self) -> None:
        self.published: Counter[bytes] = Counter()
        self.publishers: dict[bytes, set[int]] = {}
        self.touched: set[bytes] = set()


def take(
    step: tuple[bytes, int, bool, str], clients: list[FakeClient], heard: dict[bytes, bool], model: Model
) -> None:
    name, count, is_other, change = step
    if change and heard[name] != (change == "SUBSCRIBE"):
        clients[2].send(change, name)
        heard[name] = not heard[name]
        model.touched.add(name)
    for _ in range(count):
        clients[is_other].send("PUBLISH", name, "xx")
        model.publishers.setdefault(name, set()).add(int(is_other))
        model.touched.add(name)
        model.published[name] += 1


@settings(max_examples=60, deadline=None)
@given(windows=st.lists(st.lists(STEPS, max_size=12), max_size=6), size=st.integers(1, 4))
def test_records_are_exact_however_topics_are_created_and_removed(
    windows: list[list[tuple[bytes, int, bool, str]]], size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("equipoise.hub.telemetry.window.SLICE", size)
        patch.setattr("equipoise.hub.telemetry.recorder.SLICE", size)
        world = MeteredWorld()
        clients = [world.client() for _ in range(3)]
        heard = dict.fromkeys(NAMES, False)
        for steps in windows:
            model = Model()
            for step in steps:
                take(step, clients, heard, model)
            found = world.topics()
            assert found.keys() == model.touched
            for name, record in found.items():
                count = model.published[name]
                assert (record["publications"], record["bytes_in"]) == (count, 2 * count)
                assert record["publishers"] == len(model.publishers.get(name, ()))
                assert record["subscribers"] == heard[name]


def test_names_and_audiences_that_stay_are_kept_once() -> None:
    world = MeteredWorld()
    ring = world.core.metering.ring
    publisher = world.client()
    taken = []
    for _ in range(6):
        for i in range(200):
            publisher.send("PUBLISH", b"a/topic/with/a/rather/long/name/%03d" % i, "x")
        world.end_window()
        taken.append(ring.bytes)
    assert taken[-1] - taken[-2] < taken[0] / 3


def slice_of(world: MeteredWorld, count: int) -> Slice:
    topics: list[Topic] = []
    for _ in range(count):
        topic = world.core.make_topic(b"t%d" % len(world.core.index.topics))
        assert topic is not None and world.core.metering.touch(topic) is not None
        topics.append(topic)
    return Slice(topics)


@given(sizes=st.lists(st.integers(1, 8), max_size=12))
@settings(max_examples=50, deadline=None)
def test_joining_keeps_every_topic_in_order_and_leaves_few_slices(sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "SLICE", 8)
        world = MeteredWorld()
        given_slices = [slice_of(world, size) for size in sizes]
        found = list(joined(given_slices))
    assert [topic for each in found for topic in each.topics] == [
        topic for each in given_slices for topic in each.topics
    ]
    lengths = [len(each.topics) for each in found]
    assert all(length <= 8 for length in lengths)
    assert all(one + other > 8 for one, other in pairwise(lengths))
    for each in found:
        for topic in each.topics:
            assert topic.meter is not None and topic.meter.published_before == topic.published
