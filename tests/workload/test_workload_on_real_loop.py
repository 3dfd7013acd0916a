"""The clients of the simulator on a real event loop with a real hub."""

from __future__ import annotations

import asyncio
import random

import pytest

from equipoise.hub import Hub, HubSettings
from equipoise.lab.scenarios import Client, Dialect, PublishedStream, Subscribing, Workload
from equipoise.lab.simulation.checkers import CHECKERS
from equipoise.lab.workload import History, HubEndpoint, PublishOutcome, RunPhases, cast_client, hurried
from equipoise.lab.workload.hostile import ATTACKS, attack
from equipoise.lab.workload.payload import decode_payload, encode_payload
from support.polling import until

WORKLOAD = Workload(
    clients=(
        Client(
            name="ann",
            publishes=(
                PublishedStream(topics=("a", "b"), count=60, burst=(1, 9), interval_s=0.002, receipts=0.3),
            ),
            subscribes=(Subscribing(names=("a",)),),
        ),
        Client(name="bob", subscribes=(Subscribing(names=("*",), is_pattern=True),)),
        Client(name="cat", dialect=Dialect.RESP2, subscribes=(Subscribing(names=("a", "b")),)),
        Client(name="dan", dialect=Dialect.RESP3, subscribes=(Subscribing(names=("?",), is_pattern=True),)),
    )
)
# Sent on each of the two topics before any client concludes.
EACH = 30


async def play() -> History:
    hub = Hub(HubSettings(name="h", port=0))
    await hub.start()
    stage, history = RunPhases(), History()
    settings = hurried()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for client in WORKLOAD.each():
            place = HubEndpoint("127.0.0.1", hub.port, settings, random.Random(client.name))
            group.create_task(cast_client(client, place, stage, history).run())
        await until(lambda: all(track.is_live for track in history.tracks))
        stage.begin.set()
        await until(lambda: history.messages >= 2 * EACH)
        history.healed_at = asyncio.get_running_loop().time()
        stage.conclude.set()
        await until(lambda: len(history.markers) == 2 and all_have(history))
        stage.stop.set()
    await hub.stop()
    return history


def all_have(history: History) -> bool:
    return all(
        track.has_reached(stream, sequence or 0, history.healed_at)
        for stream, sequence in history.markers
        for track in history.tracks
        if track.wants(stream[1])
    )


def test_a_workload_runs_on_a_real_loop_and_its_history_is_fair() -> None:
    history = asyncio.run(play())
    for name, check in CHECKERS.items():
        assert check(history) == [], name
    assert all(sent.outcome is PublishOutcome.ACKNOWLEDGED for sent in history.sent["ann", "a"][:EACH])
    deliveries = {
        track.name: sum(hasattr(event, "publisher") for event in track.events) for track in history.tracks
    }
    assert deliveries["ann/0"] >= EACH
    assert all(deliveries[name] >= 2 * EACH for name in ("bob/0", "cat/0", "dan/0"))


@pytest.mark.parametrize("size", [0, 10, 500])
def test_a_payload_has_its_publisher_and_number(size: int) -> None:
    payload = encode_payload("ann", 17, size)
    assert len(payload) >= size
    assert decode_payload(payload) == ("ann", 17)


def test_a_payload_of_another_format_is_an_error() -> None:
    with pytest.raises(ValueError):
        decode_payload(b"hello")


@pytest.mark.parametrize("kind", ATTACKS)
def test_a_hub_survives_each_kind_of_attack(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.lab.workload.hostile.ATTACKS", {kind: ATTACKS[kind]})

    async def main() -> bytes:
        hub = Hub(HubSettings(name="h", port=0))
        await hub.start()
        await attack("127.0.0.1", hub.port, rng=random.Random(1), lasts_s=0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
        writer.write(b"PING\r\n")
        async with asyncio.timeout(10):
            answer = await reader.readline()
        writer.close()
        await hub.stop()
        return answer

    assert asyncio.run(main()) == b"+PONG\r\n"
