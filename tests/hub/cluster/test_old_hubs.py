"""Hubs of an earlier release, which announce a number in the store and no capabilities when they greet."""

from __future__ import annotations

import msgspec

from equipoise.hub.cluster.link.capabilities import VERBS, Announcement, capabilities_of_verbs
from equipoise.hub.cluster.link.capability import PROBE
from equipoise.store.records.hubs import HubFacts
from hub.cluster.hubs import Hubs


def test_a_hub_that_announces_no_number_understands_only_the_first_frames() -> None:
    old = msgspec.msgpack.encode({"hub": "a", "address": "a:1", "incarnation": 1})
    assert capabilities_of_verbs(msgspec.msgpack.decode(old, type=HubFacts).verbs) == frozenset()
    assert capabilities_of_verbs(VERBS) == {PROBE}


def test_a_hub_that_does_not_announce_probes_gets_none() -> None:
    """It would end the link at an unknown verb, and lose the frames in flight."""
    hubs = Hubs("a", "old", "new", legacy=("old",))
    node = hubs["a"]
    probing = node.core.places.probing
    probing.start(lambda: 0.5)
    for _ in range(40):
        node.shell.advance(0.5)
        hubs.settle()
    assert probing.sent > 0
    assert set(probing._in_flight) | set(probing._peers) == {"new"}


def test_hubs_exchange_capabilities_in_the_greeting_and_ignore_unknown_words() -> None:
    hubs = Hubs("a", "b", "old", legacy=("old",))
    assert hubs["a"].cluster.out["b"].can(PROBE)
    words = [*Announcement.of(hubs["a"].core.limits).words(), b"later", b"later_max=7", b"odd=x", b"\xff"]
    announced = Announcement.parse(words)
    assert announced.capabilities > {PROBE, "later"}
    hubs["b"].cluster.greeting.announced(("a", hubs["a"].core.incarnation), announced)
    assert not hubs["b"].cluster.out["a"].differences
