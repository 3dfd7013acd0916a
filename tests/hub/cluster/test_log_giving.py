"""The owner of a log releases it to any hub that requests it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from equipoise.hub.cluster.link.log_frames import ReleasedFrame, ReleaseFrame
from equipoise.hub.cluster.log_giving import OFFER_S, LogGiving
from equipoise.hub.cluster.ports import ClusterPort
from equipoise.hub.logs.live_log import LiveLog, LogStage
from hub.world import FakeShell


class World:
    """A hub with one open log, whose home is h2."""

    def __init__(self) -> None:
        self.shell = FakeShell(1 << 30)
        self.live = cast("LiveLog", SimpleNamespace(name=b"t", stage=LogStage.OPEN, is_sealing=False))
        self.sealed: list[bytes] = []
        self.told: list[tuple[str, object]] = []
        self.wakes = 0
        link = SimpleNamespace(hub="h2", incarnation=1, can=lambda capability: True, send=lambda frame: None)
        logs = SimpleNamespace(by_name={b"t": self.live}, seal=lambda live: self.sealed.append(live.name))
        core = SimpleNamespace(logs=logs, now=self.shell.now, shell=self)
        cluster = SimpleNamespace(
            core=core,
            router=SimpleNamespace(home=lambda key: "h2"),
            out={"h2": link},
            tell=lambda peer, frame: self.told.append((peer, frame)),
        )
        self.giving = LogGiving(cast("ClusterPort", cluster))

    def call_later(self, delay_s: float, *what: Any) -> object:
        self.wakes += 1
        assert self.wakes < 100, "it sets a timer of no length again and again"
        return self.shell.call_later(delay_s, *what)


@pytest.mark.parametrize("peer", ["h2", "h3"])
def test_a_log_is_released_though_another_hub_than_its_next_home_has_requested_it(peer: str) -> None:
    """
    1. The plan moves the log to h3, which asks for it; another plan moves it to h2.
    2. h2 does not ask for it: it has not applied that plan, or refuses to open the log.
    """
    world = World()
    world.giving.routed([world.live])
    world.giving.requested(peer, ReleaseFrame(b"t"))
    world.shell.advance(OFFER_S + 0.1)
    assert world.sealed == [b"t"]
    world.giving.released(b"t", 7, b"node")
    assert world.told == [(peer, ReleasedFrame(b"t", 7, b"node"))]
    before = world.wakes
    world.shell.advance(10 * OFFER_S)
    assert world.wakes == before
