"""A simulated subscriber that reads lanes from several hubs: which messages it takes, and which wait."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from equipoise.lab.workload.lanes import Item, LaneSubscriber, LaneTopic


class Owner:
    """Stands for the subscriber."""

    is_careless = False

    def __init__(self) -> None:
        self.taken: list[bytes] = []

    def receive(self, at: float, topic: str, payload: bytes) -> None:
        self.taken.append(payload)

    def begin(self, topic: LaneTopic, lane: bytes) -> None:
        pass


async def _merge(*, is_named: bool) -> tuple[list[bytes], list[bytes]]:
    """h1 sends its lane, which follows that of h3, before the base sends that one: what is taken first, and in all."""
    owner = Owner()
    topic = LaneTopic(cast(LaneSubscriber, owner), b"t")
    topic.put(b"h1", "base", Item((5, 0), is_start=True))
    if is_named:
        topic.named[b"h3", "h1"] = 7
    topic.put(b"h1", "h1", Item((0, 0), mark=(b"h3", (7, 1))))
    topic.put(b"h1", "h1", Item((5, 1), b"second"))
    before = list(owner.taken)
    topic.put(b"h3", "base", Item((7, 0), is_start=True))
    topic.put(b"h3", "base", Item((7, 1), b"first"))
    return before, owner.taken


@pytest.mark.parametrize("is_named", [True, False])
def test_a_subscriber_waits_for_the_base_to_announce_a_lane_of_another_hub(is_named: bool) -> None:
    before, taken = asyncio.run(_merge(is_named=is_named))
    if is_named:
        assert (before, taken) == ([], [b"first", b"second"])
    else:
        assert before == [b"second"], "a lane that no hub has named is over"
