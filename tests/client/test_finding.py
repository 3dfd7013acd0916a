"""The bus computes its coordinate and reports it to its hubs, in virtual time, with scripted hubs."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import equipoise
from equipoise.client.wire.codec import encode_request
from equipoise.client.wire.requests import LOST
from equipoise.coordinates import Coordinate, Finder
from equipoise.coordinates.finder import FinderStep
from equipoise.errors import AddressError, DisconnectedError, MisuseError
from equipoise.gateway import Gateway, GatewaySettings
from equipoise.lab.simulation import LinkSpec, Simulation, Sites
from support.polling import until

from .peer import Session, always, push
from .where_hubs import PORT, WhereHub, place, sites, triangle

URL = f"equipoise://a:{PORT},b:{PORT},c:{PORT}"
TRUE_MS = {"a": 6.0, "b": 34.0, "c": 34.0}

Story = Callable[["Scene"], Awaitable[None]]


class Scene:
    """Three hubs and a client; the story runs on the client's host."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.hubs = {hub.name: hub for hub in triangle(sim)}
        self.a = self.hubs["a"]

    def bus(self, url: str = URL, **settings: Any) -> equipoise.Bus:
        return equipoise.connect(url, rng=random.Random("bus"), **settings)

    def gateway(self, name: str, at: str) -> Gateway:
        """A real one, at the site of a hub."""
        host = self.sim.host(name, place=f"site-{at}")
        gateway = Gateway(URL, GatewaySettings(host="0.0.0.0"), rng=host.random)
        host.spawn(gateway.start())
        return gateway

    def distances_ms(self, at: Coordinate | None) -> dict[str, float]:
        assert at is not None
        return {
            name: 1_000 * at.distance_s(hub.coordinate)
            for name, hub in self.hubs.items()
            if hub.coordinate is not None
        }


def play(story: Story, topology: Sites | None = None, *, seed: int = 1) -> None:
    with Simulation(seed=seed, topology=topology or sites(**TRUE_MS)) as sim:
        scene = Scene(sim)

        async def live() -> None:
            await asyncio.sleep(0.1)
            await story(scene)

        async def main() -> None:
            await sim.host("client", place="client").spawn(live())

        sim.run(main())


@pytest.mark.parametrize("seed", range(5))
def test_a_bus_knows_within_a_minute_its_distance_to_all_hubs_of_its_url(seed: int) -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus:
            assert bus.coordinate is None
            await asyncio.sleep(60.0)
            for name, ms in scene.distances_ms(bus.coordinate).items():
                assert abs(ms - TRUE_MS[name]) < 2.5

    play(story, seed=seed)


def test_a_bus_without_topics_sends_no_report() -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus:
            await asyncio.sleep(60.0)
            assert bus.coordinate is not None
        assert scene.a.told == []

    play(story)


def test_the_hub_of_a_subscription_gets_the_coordinate_every_five_seconds() -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus, bus.subscribe("t"):
            await asyncio.sleep(60.0)
            before = len(scene.a.told)
            await asyncio.sleep(60.0)
            assert 11 <= len(scene.a.told) - before <= 14
            _, rtt_us, at = scene.a.told[-1]
            assert rtt_us == pytest.approx(6_000, abs=50) and at == bus.coordinate

    play(story)


def test_visited_hubs_get_the_coordinate_of_the_visitor() -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus:
            await asyncio.sleep(240.0)
            assert bus.coordinate is not None
            for name in "bc":
                _, rtt_us, told = scene.hubs[name].told[-1]
                assert rtt_us == pytest.approx(34_000, abs=50)
                assert told.numbers == pytest.approx(bus.coordinate.numbers, abs=0.005)
            assert scene.a.told == []

    play(story)


def test_a_publisher_reports_its_coordinate_to_every_hub_that_has_one_of_its_topics() -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus, bus.subscribe("t"):
            await asyncio.sleep(120.0)
            scene.a.last.send(_home(b"u", scene.hubs["b"]))
            await bus.publish("u", "x")
            scene.a.last.send(_home(b"u", scene.hubs["b"]))
            began_at = scene.sim.now
            before = len(scene.hubs["b"].told)
            await until(lambda: len(scene.hubs["b"].told) > before)
            at, _, told = scene.hubs["b"].told[before]
            # Once the connection is up, which takes some round trips.
            assert at - began_at < 0.5
            assert told == bus.coordinate
            await asyncio.sleep(20.0)
            assert scene.a.told[-1][0] > scene.sim.now - 6
            assert scene.hubs["b"].told[-1][0] > scene.sim.now - 6

    play(story)


def _home(topic: bytes, hub: WhereHub) -> bytes:
    words = (b"eq.home", topic, b":1", b"single", hub.address)
    parts = [b":1\r\n" if word == b":1" else b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b">5\r\n" + b"".join(parts)


def test_a_restarted_hub_gets_a_report_as_soon_as_the_client_has_reconnected() -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus(f"equipoise://a:{PORT}") as bus, bus.subscribe("t"):
            await until(lambda: scene.a.told)
            host = scene.sim.host("a")
            host.crash()
            await asyncio.sleep(2.0)
            told, at = len(scene.a.told), bus.coordinate
            assert at is not None
            host.restart()
            scene.a.serve(place="site-a")
            await until(lambda: bus.is_connected)
            back_at = scene.sim.now
            await until(lambda: len(scene.a.told) > told)
            assert scene.a.told[-1][0] - back_at < 0.1

    play(story)


def test_a_plain_redis_is_asked_once_on_each_connection() -> None:
    async def story(scene: Scene) -> None:
        for hub in scene.hubs.values():
            hub.answers[b"EQ.WHERE"] = always(
                b"-ERR unknown command 'EQ.WHERE', with args beginning with: \r\n"
            )
        async with scene.bus() as bus, bus.subscribe("t"):
            await asyncio.sleep(120.0)
            assert bus.coordinate is None
            sessions = [session for hub in scene.hubs.values() for session in hub.sessions]
            # The bus's own connection, and one visit to each of the others.
            assert len(sessions) == 3
            assert [session.count(b"EQ.WHERE") for session in sessions] == [1, 1, 1]
            scene.a.last.reset()
            await until(lambda: len(scene.hubs["b"].sessions) == 2)
            await asyncio.sleep(20.0)
            assert scene.hubs["b"].last.count(b"EQ.WHERE") == 1
            await bus.publish("t", "goes on")

    play(story)


def test_a_wrong_coordinate_of_one_hub_does_not_displace_the_client() -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus:
            await asyncio.sleep(60.0)
            scene.hubs["c"].coordinate = place(9_000, 9_000, error=0.0)
            await asyncio.sleep(600.0)
            found = scene.distances_ms(bus.coordinate)
            assert abs(found["a"] - 6) < 6 and abs(found["b"] - 34) < 6

    play(story)


def test_switched_off_no_request_or_report_is_sent() -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus(coordinate_enabled=False) as bus, bus.subscribe("t"):
            await asyncio.sleep(60.0)
            assert bus.coordinate is None
            with pytest.raises(MisuseError, match="coordinate_enabled=True"):
                await bus.use_gateway("gw:6390")
        assert sum(len(hub.sessions) for hub in scene.hubs.values()) == 1
        assert all(hub.words == [] for hub in scene.hubs.values())

    play(story)


@pytest.mark.parametrize("seconds", [1.5, 5.0, 40.0])
def test_a_closed_bus_sends_no_more_requests(seconds: float) -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus, bus.subscribe("t"):
            await asyncio.sleep(seconds)
        await asks_nobody(scene)

    play(story)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.02, 0.05, 0.1])
def test_a_bus_that_is_closed_during_a_visit_sends_no_more_requests(seconds: float) -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus, bus.subscribe("t"):
            finder = finder_of(bus)
            while finder.visiting is None:  # noqa: ASYNC110  # in virtual time
                await asyncio.sleep(0.001)
            await asyncio.sleep(seconds)
        await asks_nobody(scene)

    play(story)


async def asks_nobody(scene: Scene) -> None:
    await asyncio.sleep(0.1)
    asked = sum(len(hub.words) for hub in scene.hubs.values())
    await asyncio.sleep(60.0)
    assert sum(len(hub.words) for hub in scene.hubs.values()) == asked
    assert sum(hub.open_sessions for hub in scene.hubs.values()) == 0
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not any(name.startswith("equipoise") for name in names)


def finder_of(bus: equipoise.Bus) -> Finder:
    finding = bus._routing.coordinate_agent
    assert finding is not None
    return finding.finder


def test_a_failed_turn_is_logged_once_and_followed_by_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """1. Every step fails after it has chosen whom to ask and to visit. 2. Then none does."""
    step = Finder.step
    failures = 0

    def fail(finder: Finder, *args: Any) -> FinderStep:
        nonlocal failures
        found = step(finder, *args)
        if finder.visiting is None or failures >= 3:
            return found
        failures += 1
        raise KeyError("hub")

    async def story(scene: Scene) -> None:
        async with scene.bus() as bus, bus.subscribe("t"):
            # Each counts as a visit that failed, so the next comes twice as late.
            await asyncio.sleep(400.0)
            assert failures == 3
            assert bus.coordinate is not None
            assert all(hub.told for hub in scene.hubs.values())
            assert scene.a.told[-1][0] > scene.sim.now - 6

    monkeypatch.setattr(Finder, "step", fail)
    play(story)
    assert sum("computing the coordinate failed" in record.message for record in caplog.records) == 1


def test_a_hub_with_a_name_that_is_not_utf_8_is_measured_and_gets_reports() -> None:
    async def story(scene: Scene) -> None:
        scene.a.answers[b"EQ.LINK"] = lambda session, request: push(b"eq.here", b"\xff\xfe:1") + b"+OK\r\n"
        async with scene.bus() as bus, bus.subscribe("t"):
            await asyncio.sleep(60.0)
            assert bus.coordinate is not None and scene.a.told

    play(story)


def test_a_request_over_a_lost_connection_fails_at_once() -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus:
            connection = bus._routing.base.connection
            assert connection is not None
            connection.abort(DisconnectedError("cut"))
            answers: list[object] = []
            connection.measure(encode_request(b"EQ.WHERE"), lambda reply, rtt_s: answers.append(reply))
            assert answers == []
            await asyncio.sleep(0)
            assert answers == [LOST]

    play(story)


def test_hubs_that_close_visits_are_visited_less_and_less() -> None:
    """A connection that was lost is no answer: it counts as a visit that failed."""

    def hang_up(session: Session, request: list[bytes]) -> bytes:
        session.reset()
        return b""

    async def story(scene: Scene) -> None:
        others = [scene.hubs["b"], scene.hubs["c"]]
        for hub in others:
            hub.answers[b"EQ.WHERE"] = hang_up
        async with scene.bus() as bus, bus.subscribe("t"):
            await asyncio.sleep(90.0)
        # After 10, 20 and 40 s; every 10 s, it would be eight.
        assert 2 <= sum(len(hub.sessions) for hub in others) <= 4

    play(story)


def test_a_bus_that_loses_its_connection_during_a_request_closes_without_an_error() -> None:
    """1. A subscriber asks its hub. 2. Nothing comes back. 3. It has nothing to flush, so nothing is uncertain."""

    async def story(scene: Scene) -> None:
        async with scene.bus(f"equipoise://a:{PORT}") as bus, bus.subscribe("t"):
            await asyncio.sleep(2.5)
            scene.sim.cut("client", "a")
            await asyncio.sleep(2.0)
            asked = bus._routing.base.connection
            assert asked is not None and asked.in_flight._entries

    play(story)


def test_a_new_coordinate_costs_some_hundred_bytes_a_second_and_updates_less_than_a_hundred() -> None:
    async def story(scene: Scene) -> None:
        def spent_bytes() -> int:
            sessions = [session for hub in scene.hubs.values() for session in hub.sessions]
            requests = [request for session in sessions for request in session.requests]
            answers_bytes = sum(95 if request[0] == b"EQ.WHERE" else 60 for request in requests)
            return answers_bytes + sum(len(encode_request(*request)) for request in requests)

        async with scene.bus() as bus, bus.subscribe("t"):
            before = spent_bytes()
            await asyncio.sleep(60.0)
            assert (spent_bytes() - before) / 60 < 350
            await asyncio.sleep(60.0)
            before = spent_bytes()
            await asyncio.sleep(600.0)
            assert (spent_bytes() - before) / 600 < 90

    play(story)


def test_round_trips_behind_a_backlog_of_ones_own_do_not_count() -> None:
    """1. The way to the hub takes 100 kB/s. 2. A burst of 2 MB waits there for 20 s. 3. Probes wait behind it."""
    slow = LinkSpec(latency_s=0.003, bandwidth_bytes_per_s=100_000)

    async def story(scene: Scene) -> None:
        scene.sim.shape("client", "a", bandwidth_bytes_per_s=slow.bandwidth_bytes_per_s)
        async with scene.bus(f"equipoise://a:{PORT}") as bus:
            await bus.publish("t", "x")
            await asyncio.sleep(10.0)
            for _ in range(20):
                await asyncio.gather(*(bus.publish("t", b"x" * 20_000, timeout_s=60.0) for _ in range(20)))
            at = bus.coordinate
            assert at is not None
            # A probe may share its packet with what follows it, which takes 15 ms here; none takes longer.
            assert 5.0 <= scene.distances_ms(at)["a"] <= 21.0
            assert bus._routing.coordinate_agent is not None
            assert bus._routing.coordinate_agent.finder.samples >= 8

    play(story)


# Behind a gateway.


def test_a_gateway_computes_its_coordinate_and_replies_before_it_has_one() -> None:
    async def story(scene: Scene) -> None:
        gateway = scene.gateway("gw", "b")
        async with scene.bus() as bus:
            assert not await bus.use_gateway("gw:6390", timeout_s=0.5)
            await asyncio.sleep(20.0)
            found = scene.distances_ms(gateway.coordinate)
            assert abs(found["a"] - 30) < 3 and abs(found["c"] - 30) < 3 and found["b"] < 2
            assert bus.coordinate is not None

    play(story)


def test_a_change_of_gateway_is_reported_at_once_to_the_hubs_in_use() -> None:
    async def story(scene: Scene) -> None:
        one, other = scene.gateway("gw-b", "b"), scene.gateway("gw-c", "c")
        await asyncio.sleep(60.0)
        async with scene.bus(coordinate_gateway="gw-b:6390") as bus, bus.subscribe("t"):
            await until(lambda: scene.a.told)
            access_ms = 34.0
            for address, gateway in (("gw-c:6390", other), ("gw-b:6390", one)):
                began_at = scene.sim.now
                assert await bus.use_gateway(address)
                assert bus.coordinate is not None and gateway.coordinate is not None
                await asyncio.sleep(0.1)
                # Gateways report their coordinates as well, and have no access line.
                at, rtt_us, told = [one for one in scene.a.told if one[2].height_s > 0.030][-1]
                # Connect, greet, ask: three round trips to the gateway; then one way to the hub.
                assert at - began_at < 3.5 * access_ms / 1_000
                # Not measured from there yet, unless a report was due meanwhile.
                assert rtt_us in (0, 6_000)
                assert told.point_s == gateway.coordinate.point_s
                assert told.height_s - gateway.coordinate.height_s == pytest.approx(
                    access_ms / 1_000, abs=0.001
                )
            mobile = [told for name in "bc" for _, _, told in scene.hubs[name].told if told.height_s > 0.030]
            assert mobile == []

    play(story)


def test_a_lost_connection_to_a_gateway_is_restored_and_the_gateway_is_used_again() -> None:
    async def story(scene: Scene) -> None:
        scene.gateway("gw", "b")
        await asyncio.sleep(30.0)
        async with scene.bus(coordinate_gateway="gw:6390") as bus, bus.subscribe("t"):
            await until(lambda: bus.coordinate)
            for _ in range(3):
                scene.sim.reset_connections("client", "gw")
                await asyncio.sleep(40.0)
            # Longer than its last word holds, and the client has not had to look for its place by itself.
            assert finder_of(bus).guide.has_replied and finder_of(bus).samples == 0

    play(story)


def test_the_coordinate_of_a_dead_gateway_is_used_for_a_while_before_the_client_measures_its_own() -> None:
    async def story(scene: Scene) -> None:
        gateway = scene.gateway("gw", "b")
        await asyncio.sleep(30.0)
        async with scene.bus(coordinate_gateway="gw:6390") as bus, bus.subscribe("t"):
            await until(lambda: bus.coordinate)
            await asyncio.sleep(10.0)
            last = bus.coordinate
            assert last is not None and gateway.coordinate is not None
            scene.sim.host("gw").crash()
            await asyncio.sleep(24.0)
            assert bus.coordinate == last
            await asyncio.sleep(60.0)
            for name, ms in scene.distances_ms(bus.coordinate).items():
                assert abs(ms - TRUE_MS[name]) < 3
            assert scene.a.told[-1][2] == bus.coordinate

    play(story)


def test_a_silent_gateway_is_abandoned_as_well() -> None:
    async def story(scene: Scene) -> None:
        scene.gateway("gw", "b")
        await asyncio.sleep(30.0)
        async with scene.bus(coordinate_gateway="gw:6390") as bus, bus.subscribe("t"):
            await until(lambda: bus.coordinate)
            scene.sim.cut("client", "gw")
            await asyncio.sleep(90.0)
            assert abs(scene.distances_ms(bus.coordinate)["a"] - 6) < 3
            scene.sim.heal("client", "gw")
            await asyncio.sleep(30.0)
            assert scene.distances_ms(bus.coordinate)["b"] == pytest.approx(34, abs=4)
            assert scene.distances_ms(bus.coordinate)["a"] > 50

    play(story)


def test_the_login_of_the_hubs_is_not_shown_to_a_gateway() -> None:
    async def story(scene: Scene) -> None:
        spy = WhereHub(scene.sim, "spy", place(1, 1))
        spy.serve(place="site-a")
        await asyncio.sleep(0.1)
        async with scene.bus(f"equipoise://ann:secret@a:{PORT}") as bus:
            assert await bus.use_gateway(f"spy:{PORT}")
        assert b"secret" in scene.a.last.requests[0]
        assert not any(b"secret" in word for request in spy.last.requests for word in request)

    play(story)


def test_an_invalid_address_is_rejected_with_the_expected_form() -> None:
    async def story(scene: Scene) -> None:
        async with scene.bus() as bus:
            with pytest.raises(AddressError, match="host:6390"):
                await bus.use_gateway("nowhere")

    play(story)
