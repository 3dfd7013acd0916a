"""Telemetry of a hub on real sockets and in a process of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import redis

from equipoise.cli.support.arrival_traces import read_trace, record_arrivals
from equipoise.hub.telemetry.settings import TelemetrySettings
from hub.live import Peer, live_hub, on_both_loops, on_uvloop
from support import processes
from support.polling import until
from telemetry.records import read_stream

QUICK = TelemetrySettings(window_s=0.1)
TIMEOUT_S = 20.0


@on_both_loops
async def test_the_records_of_a_real_hub_add_up() -> None:
    async with (
        live_hub(telemetry=QUICK) as hub,
        Peer.connected(hub) as subscriber,
        Peer.connected(hub) as peer,
    ):
        await subscriber.do("SUBSCRIBE", "t")
        for _ in range(100):
            await peer.do("PUBLISH", "t", "x" * 50)
        metering = hub.core.metering
        await until(lambda: metering.ring.end and not metering.topics_active)
        await peer.do("HELLO", "3")
        incarnation = str(hub.core.incarnation)
        _, first, following, stream, end = await peer.do("EQ.TELEMETRY", incarnation, "0", "1000000")
        assert first == 0 and following <= end
        records = read_stream(stream)
        topics = [record for record in records if record["topic"] == b"t"]
        assert sum(record["publications"] for record in topics) == 100
        assert sum(record["deliveries"] for record in topics) == 100
        hubs = [record for record in records if record["kind"] == "hub"]
        assert sum(record["publications"] for record in hubs) == 100
        assert all(record["memory_bytes"] > 1_000_000 and record["cpu_ratio"] >= 0 for record in hubs)


@on_uvloop
async def test_arrivals_are_recorded_at_real_hubs_and_put_together(tmp_path: Path) -> None:
    async with (
        live_hub(telemetry=QUICK) as one,
        live_hub(telemetry=QUICK) as two,
        Peer.connected(one) as first,
        Peer.connected(two) as second,
    ):
        seen: dict[str, Any] = {
            name: SimpleNamespace(facts=SimpleNamespace(address=f"127.0.0.1:{hub.port}"))
            for name, hub in (("one", one), ("two", two))
        }
        recording = asyncio.create_task(
            record_arrivals(seen, None, b"t", 1.0, lambda done: None, tmp_path / "trace.csv")
        )
        await until(lambda: one.core.metering.arrivals.topics and two.core.metering.arrivals.topics)
        for _ in range(5):
            await first.do("PUBLISH", "t", "x")
            await second.do("EQ.PUBLISH", "t", "x", "x")
        trace = await recording
        assert (len(trace.times), trace.publishers, trace.is_cut) == (15, 2, False)
        assert list(trace.times) == sorted(trace.times)
        assert len(read_trace(tmp_path / "trace.csv").times) == 15
        assert not one.core.metering.arrivals.topics


def test_a_hub_in_its_own_process_serves_records_and_never_loads_arrow() -> None:
    """Loading it takes more memory than an idle hub uses, and stalls all clients."""
    with processes.hub() as server:
        client = redis.Redis(port=server.port, protocol=3)
        ask: Callable[..., Any] = client.execute_command
        incarnation = ask("EQ.TELEMETRY", 0, 0, 0)[0]
        assert ask("EQ.ARRIVALS", "t", "ON") == b"OK"
        client.publish("t", b"x")
        records: list[dict[str, Any]] = []
        until = time.monotonic() + TIMEOUT_S
        while not any(record["kind"] == "arrival" for record in records):
            assert time.monotonic() < until
            stream = ask("EQ.TELEMETRY", incarnation, 0, 1_000_000)[3]
            records = read_stream(stream)
            time.sleep(0.02)
        mapped = Path(f"/proc/{server.pid}/maps").read_text()
        client.close()
    assert {record["kind"] for record in records} >= {"topic", "arrival"}
    assert "arrow" not in mapped and "numpy" not in mapped


def test_importing_the_hub_imports_neither_arrow_nor_numpy() -> None:
    code = "import sys, equipoise.hub; print(sorted({'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout == "[]\n"
