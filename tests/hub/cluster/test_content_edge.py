"""Edges of content topics: which hubs are edges, what they exchange, and how subscribers migrate between them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from equipoise.content.balancing.edge_events import EdgePhase
from equipoise.content.balancing.load import EdgeLoad
from equipoise.content.balancing.messages import HubStatus, Pie, SessionEstimate, SessionRequest, encode
from equipoise.content.balancing.pair_estimate import BalancedMetric
from equipoise.content.parsing import parse_filter
from equipoise.hub.content.content_edge import ContentEdge
from equipoise.hub.content.edge_probe import covers_of, tagged
from equipoise.model import Mode
from equipoise.telemetry import EDGE_STATES
from hub.cluster.hubs import Hubs
from hub.world import FakeClient, users


def begun(*names: str) -> Hubs:
    hubs = Hubs(*(names or ("h1", "h2", "h3")))
    hubs.replicate("t", Mode.CONTENT, *(names or ("h1", "h2", "h3")))
    return hubs


def edge(hubs: Hubs, hub: str) -> ContentEdge:
    return hubs[hub].cluster.edge


def pass_time(hubs: Hubs, seconds: int) -> None:
    for _ in range(seconds):
        for node in hubs.nodes.values():
            node.shell.advance(1.0)
        hubs.settle()


def publish(hubs: Hubs, hub: str, topic: str, payload: str | bytes) -> list[Any]:
    client = hubs[hub].client()
    client.send("PUBLISH", topic, payload)
    hubs.settle()
    return client.read()


def listener(hubs: Hubs, hub: str, topic: str) -> FakeClient:
    client = hubs[hub].client()
    client.send("SUBSCRIBE", topic)
    hubs.settle()
    client.read()
    return client


def test_a_topic_placed_at_a_hub_has_no_home_once_that_hub_is_dead() -> None:
    hubs = begun()
    heard = listener(hubs, "h3", "$at/h2/x")
    assert hubs["h2"].core.index.topics[b"$at/h2/x"].is_home
    assert publish(hubs, "h1", "$at/h2/x", "hello")
    assert heard.read() == [[b"message", b"$at/h2/x", b"hello"]]
    hubs.kill("h2")
    assert hubs["h1"].cluster.router.home(b"$at/h2/x") is None
    assert hubs["h1"].cluster.router.home(b"$at/stranger/x") is None
    publish(hubs, "h1", "$at/h2/x", "late")
    assert heard.read() == []


def test_only_operators_may_publish_and_subscribe_to_hub_topics() -> None:
    hubs = Hubs(
        "h1",
        users=users(
            ann="publish = ['*']\nsubscribe = ['*']\ncreate = ['*']",
            bob="operate = ['*']",
            hub="link = ['*']",
        ),
    )
    for user, is_allowed in (("ann", False), ("bob", True)):
        client = hubs["h1"].client(user=user)
        for command in (("PUBLISH", "$at/h1/content", "x"), ("SUBSCRIBE", "$at/h1/content")):
            client.send(*command)
            hubs.settle()
            assert str(client.read()[0]).startswith("NOPERM") is not is_allowed


def test_hubs_with_subscribers_of_one_topic_exchange_their_load() -> None:
    hubs = begun()
    assert edge(hubs, "h1").balancer is None, "the head carries none"
    heard = listener(hubs, "h1", "$at/h2/content")
    pass_time(hubs, 8)
    (message,) = heard.read()
    assert json.loads(message[2])["hub"] == "h3"
    balancer = edge(hubs, "h2").balancer
    assert balancer is not None and set(balancer.neighbours(hubs["h2"].core.now())) == {"h3"}


def test_invalid_messages_are_counted_and_change_nothing() -> None:
    hubs = begun()
    stranger = Pie(hub="h9", cluster="content", status=HubStatus.OK, load=EdgeLoad())
    for payload in (b"x", b"{}", b'{"type": "pie"}', encode(stranger)):
        publish(hubs, "h1", "$at/h2/content", payload)
    assert (edge(hubs, "h2").control.invalid, edge(hubs, "h2").control.received) == (4, 0)
    balancer = edge(hubs, "h2").balancer
    assert balancer is not None and balancer.neighbours(hubs["h2"].core.now()) == {}


def test_a_hub_is_an_edge_as_long_as_the_plan_names_it() -> None:
    hubs = begun()
    pass_time(hubs, 8)
    request = SessionRequest(hub="h3", session="h3:1", metric=BalancedMetric.MATCH)
    publish(hubs, "h1", "$at/h2/content", encode(request))
    balancer = edge(hubs, "h2").balancer
    assert balancer is not None and str(balancer.phase) == EdgePhase.ACCEPTING
    # The other hub is no longer an edge: the session has ended.
    hubs.replicate("t", Mode.CONTENT, "h1", "h2")
    assert str(balancer.phase) == EdgePhase.STABILIZING
    assert edge(hubs, "h2").balancer is None and edge(hubs, "h3").balancer is None
    assert not hubs["h2"].core.index.topics[b"$at/h2/content"].members


def test_a_session_ends_when_the_other_hub_dies() -> None:
    hubs = begun("h1", "h2", "h3", "h4")
    request = SessionRequest(hub="h3", session="h3:1", metric=BalancedMetric.MATCH)
    publish(hubs, "h1", "$at/h2/content", encode(request))
    balancer = edge(hubs, "h2").balancer
    assert balancer is not None and str(balancer.phase) == EdgePhase.ACCEPTING
    hubs.kill("h3")
    assert str(balancer.phase) == EdgePhase.STABILIZING and edge(hubs, "h2").topics == {
        b"t": frozenset({"h4"})
    }


def test_only_topics_that_the_hub_is_an_edge_of_are_measured() -> None:
    hubs = begun()
    client = hubs["h2"].client(3)
    for number, topic in enumerate(("t", "other")):
        client.send("EQ.FSUBSCRIBE", str(number), topic, "even = true")
    hubs.settle()
    for topic in ("t", "t", "other"):
        publish(hubs, "h1", topic, '{"even": true}')
    probe = edge(hubs, "h2").probe
    assert probe is not None and probe.messages == 2
    load = probe.load(1)
    assert load.input_rate == pytest.approx(2.0) and load.output_bytes_per_s > 0
    topics = hubs["h2"].core.index.topics
    assert topics[b"other"].content is not None and topics[b"other"].content.probe is None


def test_filters_of_several_topics_are_distinguished_by_one_more_constraint() -> None:
    one, other = (tagged(topic, parse_filter(b"a > 1")) for topic in (b"one", b"t\xff\0"))
    assert one is not None and other is not None
    assert parse_filter(str(other).encode()) == other
    assert tagged(b"one", one) is None
    narrow = tagged(b"one", parse_filter(b"a > 2 and b = 'x'"))
    assert narrow is not None
    assert set(covers_of([one, other, narrow, one])) == {str(one), str(other)}


def test_a_subscriber_that_connects_to_a_full_edge_is_redirected_to_one_with_room() -> None:
    hubs = begun()
    pass_time(hubs, 8)
    full = edge(hubs, "h2")
    assert full.balancer is not None
    load = EdgeLoad(input_rate=100.0, delay_s=0.0099, subscriptions=10)
    full.balancer.detect(hubs["h2"].core.now(), load, tuple)
    full._load = (hubs["h2"].core.now(), load)
    for has_routes, told in ((True, 1), (False, 0)):
        client = hubs["h2"].client(3)
        if has_routes:
            client.send("EQ.LINK", f"link-{1:016}", "ROUTES")
        client.send("EQ.FSUBSCRIBE", "1", "t", "even = true")
        hubs.settle()
        assert len([words for words in client.read() if words[0] == b"eq.edge"]) == told


def test_info_shows_the_state_and_the_measurements_of_an_edge() -> None:
    hubs = begun()
    client = hubs["h2"].client(3)
    client.send("EQ.FSUBSCRIBE", "1", "t", "even = true")
    hubs.settle()
    publish(hubs, "h1", "t", '{"even": true}')
    publish(hubs, "h1", "$at/h2/content", "nonsense")
    for hub, state, nonsense in (("h1", "", 0), ("h2", "ok", 1)):
        reader = hubs[hub].client()
        reader.send("INFO", "stats")
        facts = dict(line.split(":", 1) for line in reader.read()[0].decode().splitlines() if ":" in line)
        assert facts["eq_content_state"] == state
        assert int(facts["eq_content_nonsense"]) == nonsense
        assert float(facts["eq_content_output_ratio"]) >= 0.0
    facts_of = edge(hubs, "h2").facts
    assert facts_of.content_output_ratio > 0.0 and edge(hubs, "h1").facts.content_output_ratio == 0.0


def test_the_numbers_of_states_agree_with_those_in_records() -> None:
    assert ("", *(phase.value for phase in EdgePhase)) == EDGE_STATES


def test_an_acceptor_compares_the_estimate_with_its_load_a_window_later() -> None:
    hubs = begun()
    pass_time(hubs, 8)
    node, shell = edge(hubs, "h2"), hubs["h2"].shell
    request = SessionRequest(hub="h3", session="h3:1", metric=BalancedMetric.MATCH)
    estimate = EdgeLoad(input_rate=10.0, delay_s=0.02, bandwidth_bytes_per_s=4.0, output_bytes_per_s=1.0)
    for message in (
        SessionEstimate(hub="h3", session="h3:0", load=EdgeLoad(input_rate=1.0)),
        request,
        SessionEstimate(hub="h3", session="h3:1", load=estimate),
    ):
        publish(hubs, "h1", "$at/h2/content", encode(message))
    client = hubs["h2"].client(3)
    client.send("EQ.LINK", f"link-{1:016}", "ROUTES")
    client.send("EQ.FSUBSCRIBE", "1", "t", "even = true", "SESSION", "h3:1", "1")
    hubs.settle()
    assert node.balancer is not None and str(node.balancer.phase) == EdgePhase.STABILIZING
    assert node.session_compared == ""
    publish(hubs, "h1", "t", '{"even": true}')
    pass_time(hubs, 32)
    assert node.session_compared == "h3:1" and shell.now() > 0
    facts = node.facts
    assert facts.content_estimated_input_ratio == pytest.approx(0.2)
    assert facts.content_estimated_output_ratio == pytest.approx(0.25)
    assert facts.content_estimated_delay_s == 0.02
    assert (facts.content_sessions, facts.content_came, facts.content_subscriptions) == (1, 1, 1)
