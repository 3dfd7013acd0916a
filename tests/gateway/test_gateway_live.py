"""The gateway as a server: what it bounds, how it ends, and the command that runs it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable

import hiredis
import pytest

from client.where_hubs import PORT, sites, triangle
from equipoise.errors import AddressError, SettingsError
from equipoise.gateway import Gateway, GatewaySettings
from equipoise.lab.simulation import Simulation
from support.processes import ROOT

URL = f"equipoise://a:{PORT},b:{PORT},c:{PORT}"
WHERE = b"*1\r\n$8\r\nEQ.WHERE\r\n"


def play(story: Callable[[Simulation, Gateway], Awaitable[None]], **settings: float) -> None:
    """A gateway at a place 6 ms from hub a and 34 ms from the others; the story runs on a host beside it."""
    with Simulation(seed=1, topology=sites(a=6, b=34, c=34)) as sim:
        triangle(sim)
        chosen = GatewaySettings(host="0.0.0.0", **settings)  # type: ignore[arg-type]  # fields by name
        gateway = Gateway(URL, chosen, rng=random.Random(1))
        host = sim.host("gw", place="client")

        async def main() -> None:
            await asyncio.sleep(0.1)
            await host.spawn(gateway.start())
            await sim.host("near", place="client").spawn(live())
            await host.spawn(gateway.stop())

        async def live() -> None:
            await story(sim, gateway)

        sim.run(main())


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(WHERE)
    return await reader.readexactly(95)


def test_a_gateway_knows_its_place_within_twenty_seconds_and_goes_on_measuring() -> None:
    async def story(sim: Simulation, gateway: Gateway) -> None:
        await asyncio.sleep(20.0)
        first = gateway.coordinate
        assert first is not None
        reader, writer = await asyncio.open_connection("gw", 6390)
        assert await ask(reader, writer) == b"$88\r\n" + first.to_bytes() + b"\r\n"
        writer.close()
        sim.shape("gw", "b", latency_s=0.050)
        sim.shape("b", "gw", latency_s=0.050)
        await asyncio.sleep(180.0)
        assert gateway.coordinate != first

    play(story)


def test_hubs_that_are_lost_are_found_again() -> None:
    async def story(sim: Simulation, gateway: Gateway) -> None:
        await asyncio.sleep(20.0)
        for name in "abc":
            sim.reset_connections("gw", name)
        await asyncio.sleep(5.0)
        assert len(gateway._hubs.connections()) == 3

    play(story)


def test_a_hub_that_vanished_without_a_word_is_given_up_and_found_again() -> None:
    async def story(sim: Simulation, gateway: Gateway) -> None:
        await asyncio.sleep(20.0)
        sim.cut("gw", "b")
        # Three rounds of pings, and what is left of one.
        await asyncio.sleep(4 * 30.0)
        assert sorted(gateway._hubs.connections()) == [f"a:{PORT}", f"c:{PORT}"]
        assert not gateway._finding.finder._peers[f"b:{PORT}"].is_asked  # type: ignore[union-attr]  # it has begun
        sim.heal("gw", "b")
        await asyncio.sleep(60.0)
        assert len(gateway._hubs.connections()) == 3

    play(story)


def test_a_gateway_may_report_seldom() -> None:
    async def story(sim: Simulation, gateway: Gateway) -> None:
        await asyncio.sleep(20.0)
        assert gateway.coordinate is not None

    play(story, report_interval_s=60.0)


def test_more_clients_than_may_be_are_told_so_and_closed() -> None:
    async def story(sim: Simulation, gateway: Gateway) -> None:
        await asyncio.sleep(20.0)
        held = [await asyncio.open_connection("gw", 6390) for _ in range(3)]
        reader, writer = await asyncio.open_connection("gw", 6390)
        assert await reader.read() == b"-ERR max number of clients reached\r\n"
        writer.close()
        assert gateway.refused == 1
        held[0][1].close()
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("gw", 6390)
        assert await ask(reader, writer)
        for _, other in [*held, (reader, writer)]:
            other.close()

    play(story, connections_max=3)


def test_who_asks_nothing_for_a_while_is_closed_and_who_asks_stays() -> None:
    async def story(sim: Simulation, gateway: Gateway) -> None:
        idle = await asyncio.open_connection("gw", 6390)
        busy = await asyncio.open_connection("gw", 6390)
        await asyncio.sleep(20.0)
        for _ in range(20):
            await ask(*busy)
            await asyncio.sleep(5.0)
        assert await idle[0].read() == b""
        assert len(gateway.clients) == 1
        for _, writer in (idle, busy):
            writer.close()

    play(story)


def test_who_asks_and_does_not_listen_is_cut() -> None:
    async def story(sim: Simulation, gateway: Gateway) -> None:
        await asyncio.sleep(20.0)
        _, writer = await asyncio.open_connection("gw", 6390, limit=1_024)
        for _ in range(1_000):
            writer.write(WHERE * 100)
            await asyncio.sleep(0.01)
            if not gateway.clients:
                break
        assert not gateway.clients
        writer.close()

    play(story)


def test_a_gateway_that_stops_leaves_nothing_behind() -> None:
    with Simulation(seed=1, topology=sites(a=6, b=34, c=34)) as sim:
        hubs = triangle(sim)
        gateway = Gateway(URL, GatewaySettings(host="0.0.0.0"), rng=random.Random(1))
        host = sim.host("gw", place="client")

        async def main() -> None:
            await asyncio.sleep(0.1)
            await host.spawn(gateway.start())
            await asyncio.sleep(20.0)
            await host.spawn(gateway.stop())
            await asyncio.sleep(1.0)
            assert sum(hub.open_sessions for hub in hubs) == 0
            asked = sum(len(hub.words) for hub in hubs)
            await asyncio.sleep(60.0)
            assert sum(len(hub.words) for hub in hubs) == asked

        sim.run(main())


def test_a_port_that_is_taken_and_an_address_that_is_none_are_told() -> None:
    async def story() -> None:
        one = Gateway("equipoise://127.0.0.1:1", GatewaySettings(port=0))
        await one.start()
        with pytest.raises(SettingsError, match="Choose another port"):
            await Gateway("equipoise://127.0.0.1:1", GatewaySettings(port=one.port)).start()
        await one.stop()

    asyncio.run(story())
    with pytest.raises(AddressError):
        Gateway("nowhere")


def test_the_command_answers_until_it_is_stopped_and_logs_as_json() -> None:
    words = ["gateway", "--hubs", "equipoise://127.0.0.1:1", "--port", "0", "--json", "--log-format", "json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "equipoise.cli.main", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        with socket.create_connection((ready["host"], ready["port"]), 10) as client:
            client.sendall(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" + WHERE)
            reader = hiredis.Reader()
            replies: list[object] = []
            while len(replies) < 2:
                reader.feed(client.recv(4_096))
                while (reply := reader.gets()) is not False:
                    replies.append(reply)
        assert replies[1] is None
        process.send_signal(signal.SIGTERM)
        _, logged = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "no server listens there" in json.loads(logged.splitlines()[0])["message"]
