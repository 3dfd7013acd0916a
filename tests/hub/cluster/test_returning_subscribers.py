"""A plain subscriber that leaves a topic and returns, there or at another hub, while hubs lag behind the home."""

from __future__ import annotations

from random import Random

import pytest

from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.model import Mode
from hub.world import FakeClient

from .hubs import Hubs

NAMES = ("a", "b", "c")
STEPS = 120
# Short, so that a relay leaves the stream and follows it again.
QUICK = ClusterSettings(unsubscribe_delay_s=0.05)


def payloads(client: FakeClient) -> list[bytes]:
    return [frame[2] for frame in client.read() if isinstance(frame, list) and frame[0] == b"message"]


@pytest.mark.parametrize("seed", range(1, 9))
def test_on_one_connection_no_message_is_repeated_or_reordered(seed: int) -> None:
    """Links hold frames back, the topic moves, the subscriber leaves and returns, in any order."""
    random = Random(seed)
    hubs = Hubs(*NAMES, cluster=QUICK)
    hubs.replicate("t", Mode.SINGLE, "a")
    publishers = {name: hubs[name].client() for name in NAMES}
    subscriber = hubs["b"].client()
    got: list[bytes] = []
    number = 0
    for _ in range(STEPS):
        act = random.random()
        if act < 0.4:
            number += 1
            publishers[random.choice(NAMES)].send("PUBLISH", "t", str(number))
        elif act < 0.55:
            subscriber.send(random.choice(("SUBSCRIBE", "UNSUBSCRIBE")), "t")
        elif act < 0.7:
            hubs.held.add(tuple(random.sample(NAMES, 2)))  # type: ignore[arg-type]  # two names
        elif act < 0.85 and hubs.held:
            hubs.release(*random.choice(sorted(hubs.held)))
        elif act < 0.9:
            hubs.replicate("t", Mode.SINGLE, random.choice(NAMES))
        else:
            hubs.settle(0.06)
        hubs.settle()
        got += payloads(subscriber)
    hubs.held.clear()
    subscriber.send("SUBSCRIBE", "t")
    for _ in range(5):
        hubs.settle(0.06)
    publishers["a"].send("PUBLISH", "t", "last")
    hubs.settle()
    got += payloads(subscriber)
    assert len(got) == len(set(got)), f"twice: {sorted(one for one in set(got) if got.count(one) > 1)}"
    assert got[-1] == b"last"


def test_the_next_home_confirms_a_subscriber_once_it_is_the_home() -> None:
    """
    1. c follows the topic at a, which sends its last messages over a link that is cut.
    2. The topic moves to b and on to c. A subscriber of b gets everything.
    3. It comes to c, which still waits for what a has sent: it must not get that again.
    """
    hubs = Hubs(*NAMES)
    hubs.replicate("t", Mode.SINGLE, "a")
    settled, subscriber = hubs["c"].client(), hubs["b"].client()
    for client in (settled, subscriber):
        client.send("SUBSCRIBE", "t")
    hubs.settle()
    hubs.held.add(("a", "c"))
    publisher = hubs["b"].client()
    publisher.send("PUBLISH", "t", "1")
    hubs.settle()
    hubs.replicate("t", Mode.SINGLE, "b")
    publisher.send("PUBLISH", "t", "2")
    hubs.settle()
    hubs.replicate("t", Mode.SINGLE, "c")
    assert payloads(subscriber) == [b"1", b"2"]
    returned = hubs["c"].client()
    returned.send("SUBSCRIBE", "t")
    hubs.settle()
    assert returned.read() == []
    hubs.release("a", "c")
    publisher.send("PUBLISH", "t", "3")
    hubs.settle()
    assert payloads(settled) == [b"1", b"2", b"3"]
    assert payloads(returned) == [b"3"]
