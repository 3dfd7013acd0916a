"""Publishers of a limited topic change streams: their messages that wait for tokens follow, in order."""

from __future__ import annotations

import pytest

from equipoise.hub.cluster.lane_returns import LaneReturns
from equipoise.hub.cluster.link.capability import CAPABILITIES, RECALL
from equipoise.model import Mode
from equipoise.stream.admission import Admission
from equipoise.stream.submission import Path
from hub.cluster.hubs import Hubs
from hub.cluster.test_rate_limits import limited, pass_time
from hub.world import FakeClient, pipeline

MESSAGES = 6


def waiting_at_h1(*, rate: float = 1.0) -> tuple[Hubs, FakeClient, FakeClient]:
    """A subscriber of x at h1, its home, and a client of h2 of whose messages one has come, and more wait."""
    hubs = limited("h1", "h2", "h3", rate=rate, burst=4, wait_ms=60_000.0)
    hubs.replicate("x", Mode.SINGLE, "h1")
    subscriber = hubs["h1"].client()
    subscriber.send("SUBSCRIBE", "x")
    hubs.settle()
    assert len(subscriber.read()) == 1
    busy, publisher = hubs["h1"].client(), hubs["h2"].client()
    # What the bucket has, and the turns after that.
    busy.send_raw(pipeline(["PUBLISH", "x", "other"] for _ in range(20)))
    publisher.send_raw(pipeline(["PUBLISH", "x", str(n)] for n in range(MESSAGES)))
    pass_time(hubs, 0.5)
    return hubs, subscriber, publisher


def received(subscriber: FakeClient) -> list[int]:
    return [int(message[2]) for message in subscriber.read() if message[2] != b"other"]


@pytest.mark.parametrize("trunk", ["h1", "h3"], ids=["the trunk stays", "the trunk moves as well"])
def test_messages_do_not_wait_in_a_stream_that_their_publisher_has_left(trunk: str) -> None:
    """
    1. Messages of h2's client wait at h1 for tokens.
    2. The topic is split: h2 has nearly all of the rate. If the trunk moves, h1 has forwarded the messages waiting
    there. 3. They come back to h2 and have its tokens. At the trunk, one would wait for a minute and a half.
    """
    hubs, subscriber, publisher = waiting_at_h1()
    before = received(subscriber)
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, trunk, "h2", shares=(10_000, 990_000))
    pass_time(hubs, 10.0)
    assert [*before, *received(subscriber)] == list(range(MESSAGES))
    assert len(publisher.read()) == MESSAGES
    assert hubs["h2"].cluster.lanes.returns.taken > 0


def test_a_recall_waits_for_a_hub_that_has_not_replied() -> None:
    """One of an earlier release does not know the question."""
    hubs, subscriber, publisher = waiting_at_h1(rate=4.0)
    hubs["h2"].cluster.out["h1"].capabilities = CAPABILITIES - {RECALL}
    before = received(subscriber)
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h2", shares=(500_000, 500_000))
    pass_time(hubs, 20.0)
    assert [*before, *received(subscriber)] == list(range(MESSAGES))
    assert len(publisher.read()) == MESSAGES
    assert hubs["h2"].cluster.lanes.returns.taken == 0


def test_a_publisher_that_comes_back_at_once_does_not_overtake_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    1. Messages of h2's client wait at h1, and h2 asks for them since its clients go to its own lane.
    2. Before they are back the plan makes the topic whole again.
    3. What the client sends meanwhile goes to h1 behind them.
    """
    hubs, subscriber, publisher = waiting_at_h1(rate=4.0)
    before = received(subscriber)
    ask = LaneReturns._ask

    def answered_late(returns: LaneReturns, key: bytes, path: Path, admission: Admission) -> bool:
        hubs.held.add(("h1", "h2"))
        return ask(returns, key, path, admission)

    monkeypatch.setattr(LaneReturns, "_ask", answered_late)
    hubs.replicate("x", Mode.ALL_SUBSCRIBERS, "h1", "h2", shares=(500_000, 500_000))
    pass_time(hubs, 0.5)
    assert ("h1", "h2") in hubs.held
    hubs.replicate("x", Mode.SINGLE, "h1")
    publisher.send("PUBLISH", "x", str(MESSAGES))
    pass_time(hubs, 0.5)
    monkeypatch.undo()
    hubs.release("h1", "h2")
    pass_time(hubs, 20.0)
    assert hubs["h2"].cluster.lanes.returns.taken > 0
    assert [*before, *received(subscriber)] == list(range(MESSAGES + 1))
    assert len(publisher.read()) == MESSAGES + 1
