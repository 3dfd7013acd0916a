"""Hubs of an older program among newer ones."""

from __future__ import annotations

import msgspec

from equipoise.hub.cluster.link.codec import PROBING, VERBS
from equipoise.hub.cluster.router import LiveHub, Routing
from equipoise.store.records.hubs import HubFacts
from hub.cluster.hubs import PORT, Hubs


def test_a_hub_that_does_not_say_which_verbs_it_knows_knows_the_first_ones() -> None:
    old = msgspec.msgpack.encode({"hub": "a", "address": "a:1", "incarnation": 1})
    assert msgspec.msgpack.decode(old, type=HubFacts).verbs < PROBING <= VERBS


def test_a_hub_that_does_not_know_probes_gets_none() -> None:
    """It would end the link over a verb that it does not know, and with it what is on its way."""
    hubs = Hubs("a", "old", "new")
    node = hubs["a"]
    facts = {
        name: LiveHub(hubs[name].core.incarnation, name, PORT, verbs=1 if name == "old" else VERBS)
        for name in hubs.nodes
    }
    router = node.cluster.router
    node.cluster.apply(Routing(router.routing.plan, facts))
    hubs.settle()
    probing = node.core.places.probing
    probing.start(lambda: 0.5)
    for _ in range(40):
        node.shell.advance(0.5)
        hubs.settle()
    assert probing.sent > 0
    assert set(probing._under_way) | set(probing._peers) == {"new"}
