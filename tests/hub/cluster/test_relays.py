"""Relayed messages: the compiled part has the same effects as the Python code, in every state of the hubs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equipoise.hub.cluster import relays
from equipoise.hub.cluster.link.codec import encode
from equipoise.hub.cluster.link.frames import EgressFrame, NumberedFrame
from equipoise.hub.core import HubCore
from equipoise.hub.data.topic import Topic
from equipoise.lab.scenarios import scenario_by_name
from equipoise.lab.simulation.runner import run_seed
from equipoise.model import Mode
from hub.cluster.hubs import Hubs
from hub.world import FakeClient, pipeline

needs_relays = pytest.mark.skipif(
    relays.compiled is None, reason="_relays.c is not built: `make setup` does where there is a C compiler"
)

NAMES = ("h1", "h2", "h3")
TOPICS = ("t", "other")

hubs_of = st.sampled_from(NAMES)
topics_of = st.sampled_from(TOPICS)
links_of = st.tuples(hubs_of, hubs_of).filter(lambda link: link[0] != link[1])
actions = st.one_of(
    st.tuples(
        st.just("publish"), hubs_of, topics_of, st.lists(st.binary(max_size=30), min_size=1, max_size=5)
    ),
    st.tuples(st.just("publish"), hubs_of, topics_of, st.lists(st.just(b"abc"), min_size=2, max_size=4)),
    st.tuples(st.sampled_from(["SUBSCRIBE", "UNSUBSCRIBE", "EQ.SUBSCRIBE"]), hubs_of, topics_of),
    st.tuples(st.sampled_from(["PSUBSCRIBE", "PUNSUBSCRIBE"]), hubs_of, st.sampled_from(["t*", "o*"])),
    st.tuples(st.sampled_from(["hold", "release", "cut", "fall"]), links_of),
    st.tuples(st.just("move"), topics_of, hubs_of),
    st.tuples(st.just("replicate"), topics_of),
    st.tuples(st.just("settle")),
    st.tuples(st.just("kill")),
)


def part_of(core: HubCore, topic: Topic) -> dict[str, Any]:
    """What a hub knows of a topic, as far as relayed messages change it."""
    stream, meter = topic.stream, topic.meter
    facts: dict[str, Any] = {
        "at": (topic.epoch, topic.n, topic.published, topic.bytes_in, topic.delivered, topic.bytes_out),
        "meter": meter
        and (meter.ingress_messages, meter.ingress_bytes, meter.egress_messages, meter.egress_bytes),
        "account": (account := core.cluster.receipts.accounts.get(topic))  # type: ignore[attr-defined]
        and (account.taken, account.acked, account.at),
    }
    if stream is not None:
        admission = stream.admission
        facts |= {
            "sent": [(way, list(sent)) for way, sent in admission.in_flight.items()],
            "kept": [(sequence, list(payloads)) for sequence, payloads in admission.kept],
            "waiting": {path: len(items) for path, items in admission.waiting.items()},
            "admission": (admission.vouched, admission.numbered_at, admission.loss, admission.unresolved),
            "stream": (stream.state, stream.source, stream.position, stream.seen, len(stream.pending)),
        }
    return facts


class Script:
    """Hubs with a client each that publishes, and one that subscribes."""

    def __init__(self) -> None:
        self.hubs = Hubs(*NAMES)
        self.hubs.move(TOPICS, "h1")
        self.publishers = {name: self.hubs[name].client() for name in NAMES}
        self.subscribers = {name: self.hubs[name].client(3) for name in NAMES}

    def play(self, action: tuple[Any, ...]) -> None:
        hubs, (verb, *words) = self.hubs, action
        if verb == "publish":
            hub, topic, payloads = words
            self.publishers[hub].send_raw(pipeline([["PUBLISH", topic, payload] for payload in payloads]))
        elif verb.isupper():
            self.subscribers[words[0]].send(verb, words[1])
        elif verb == "move":
            hubs.move([words[0]], words[1])
        elif verb == "replicate":
            hubs.replicate(words[0], Mode.ALL_SUBSCRIBERS, "h1", "h2")
        elif verb == "kill":
            hubs.kill("h3")
        elif verb == "hold":
            hubs.held.add(words[0])
        elif verb == "release":
            hubs.release(*words[0])
        elif verb == "cut" and words[0] in hubs.connections and words[0] in hubs.links:
            hubs.links[words[0]].suspend()
            hubs.connections.pop(words[0])
        elif verb == "fall" and words[0] in hubs.links:
            hubs.links[words[0]].fall()
        if verb != "publish":
            hubs.settle()

    def outcome(self) -> Any:
        links = {
            key: (link.base, link.end, link.written_to, link.generation)
            for key, link in self.hubs.links.items()
        }
        topics = {
            (name, topic.name): part_of(node.core, topic)
            for name, node in self.hubs.nodes.items()
            for topic in node.core.index.topics.values()
        }
        clients = [*self.publishers.values(), *self.subscribers.values()]
        return [bytes_to(client) for client in clients], links, topics


def bytes_to(client: FakeClient) -> Any:
    return None if client.wire.is_closing else client.read()


def outcomes(script: list[tuple[Any, ...]], *, is_compiled: bool) -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        if not is_compiled:
            patch.setattr(relays, "compiled", None)
        played = Script()
        found = []
        for action in script:
            played.play(action)
            found.append(played.outcome())
        for link in list(played.hubs.held):
            played.hubs.release(*link)
        played.hubs.settle()
        return [*found, played.outcome()]


RUN = ("publish", "h2", "t", [b"abc", b"", b"defg"])
LINK = ("h2", "h1")


@needs_relays
@settings(max_examples=150, deadline=None)
@given(st.lists(actions, max_size=14))
@example([("SUBSCRIBE", "h2", "t"), RUN, ("settle",), RUN, RUN, ("settle",), RUN])
@example([("EQ.SUBSCRIBE", "h2", "t"), RUN, ("settle",), RUN, ("hold", LINK), RUN, ("release", LINK)])
@example(
    [("SUBSCRIBE", "h3", "t"), RUN, ("settle",), RUN, ("fall", LINK), RUN, RUN, ("move", "t", "h3"), RUN]
)
def test_both_ways_leave_the_same_state(script: list[tuple[Any, ...]]) -> None:
    assert outcomes(script, is_compiled=True) == outcomes(script, is_compiled=False)


class Counted:
    """The compiled part, and its results."""

    def __init__(self, part: relays.Relays) -> None:
        self.part, self.bytes = part, 0

    def execute(self, *words: Any) -> int:
        size = self.part.execute(*words)
        self.bytes += size
        return size


def counted(hubs: Hubs) -> dict[str, Counted]:
    found = {}
    for name, node in hubs.nodes.items():
        assert node.cluster.relays is not None
        found[name] = Counted(node.cluster.relays)
        for link in node.cluster.incoming.values():
            link.latest._relays = found[name]  # type: ignore[union-attr]
    return found


@needs_relays
def test_messages_of_a_plain_client_at_another_hub_are_relayed_by_the_compiled_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.publish_first("h2", "t")
    subscriber, publisher = hubs["h2"].client(), hubs["h2"].client()
    subscriber.send("SUBSCRIBE", "t")
    publisher.send("PUBLISH", "t", "first of another client")
    hubs.settle()
    subscriber.read()
    publisher.read()
    before = {link: end.end for link, end in hubs.links.items()}
    parts, routing = counted(hubs), hubs["h2"].cluster.ways
    monkeypatch.setattr(type(routing), "publish", None)
    publisher.send_raw(pipeline([["PUBLISH", "t", b"%d" % number] for number in range(5)]))
    hubs.settle_now()
    assert publisher.read() == [1] * 5
    assert subscriber.read() == [[b"message", b"t", b"%d" % number] for number in range(5)]
    written = {link: end.end - before[link] for link, end in hubs.links.items()}
    assert (parts["h1"].bytes, parts["h2"].bytes) == (written["h2", "h1"], written["h1", "h2"])


@needs_relays
@pytest.mark.parametrize(
    "frame",
    [
        encode(EgressFrame(b"t", 1, 1, [b"x"])).replace(b"$1\r\n1", b"$1\r\nx", 1),
        encode(NumberedFrame(b"t", (), 5, 1, 1)).replace(b"$1\r\n5", b"$2\r\n-5"),
        encode(NumberedFrame(b"t", (), 5, 1, 1)).replace(b"*6", b"*7") + b"$1\r\n1\r\n",
        b"*1\r\n$8\r\nEQ.L.RUN\r\n",
        b"*4\r\n$8\r\nEQ.L.RUN\r\n$1\r\nt\r\n$1\r\n1\r\n$1\r\n1\r\n",
        b"*5\r\n$8\r\nEQ.L.RUN\r\n$1\r\nt\r\n$1\r\n1\r\n$19\r\n9999999999999999999\r\n$1\r\nx\r\n",
    ],
)
def test_frames_that_are_not_plain_are_left_to_python(frame: bytes) -> None:
    hubs = Hubs("h1", "h2")
    hubs.replicate("t", Mode.SINGLE, "h1")
    hubs.publish_first("h2", "t")
    for name, peer in (("h1", "h2"), ("h2", "h1")):
        cluster = hubs[name].cluster
        assert cluster.relays is not None
        assert cluster.relays.execute(peer, cluster.incoming[peer], frame, 0, 1_000, 1_000) == 0


@needs_relays
@pytest.mark.parametrize("case", ["cluster-everything", "cluster-followers-crashes", "limits-relays"])
def test_a_simulation_is_the_same_with_and_without_the_compiled_part(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = scenario_by_name(case)
    compiled = run_seed(scenario, 3).trace_hash
    monkeypatch.setattr(relays, "compiled", None)
    assert run_seed(scenario, 3).trace_hash == compiled
