"""How many XADDs a second does a lone hub acknowledge after a sync, against Redis Streams with `appendfsync always`?

`redis-benchmark` sends entries of 1 kB to `equipoise hub --data` and to a redis-server with its files on the same disk,
in turns, so that both meet the same noise: with 64 connections, with pipelines of 16 on 16 connections, and with one
connection. What counts is the median of the pairs' ratios.

Estimate: a prototype without access rules, index and telemetry, its bookie in another process, reached 0.90 of Redis at
64 connections, 0.67 with pipelines and 0.88 with one connection; the product is below that.

    python benchmarks/system/streams.py [--pairs 5] [--requests 4000] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.profile.environment import commit

HOST = "127.0.0.1"
PAYLOAD = "x" * 1_000
START_S = 60.0
# Connections and pipelined commands of each.
SHAPES = {"64 connections": (64, 1), "16 pipelines of 16": (16, 16), "1 connection": (1, 1)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], log: Path, is_ready: Callable[[], bool]) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ)
    try:
        until = time.monotonic() + START_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{command[0]} did not start: {log.read_text()}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


def adds(port: int) -> bool:
    """Whether an entry is acknowledged."""
    command = ["redis-cli", "-h", HOST, "-p", str(port), "XADD", "probe", "*", "f", "v"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return re.match(r"\d+-\d+", done.stdout) is not None


def rate(port: int, shape: tuple[int, int], requests: int) -> float:
    """Acknowledged per second."""
    connections, pipelined = shape
    load = ["-n", str(requests), "-c", str(connections), "-P", str(pipelined)]
    command = [
        "redis-benchmark",
        "-h",
        HOST,
        "-p",
        str(port),
        *load,
        "--csv",
        "XADD",
        "bench",
        "*",
        "f",
        PAYLOAD,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1].rsplit('","', 7)[1])


def measure(ports: dict[str, int], pairs: int, requests: int) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, shape in SHAPES.items():
        count = max(200, requests // 8) if shape[0] == 1 else requests
        rates: dict[str, list[float]] = {server: [] for server in ports}
        for number in range(pairs):
            # The one that went first goes second in the next pair.
            order = list(ports) if number % 2 else list(reversed(ports))
            for server in order:
                rates[server].append(rate(ports[server], shape, count))
        ratios = [hub / redis for hub, redis in zip(rates["hub"], rates["redis"], strict=True)]
        median = statistics.median(ratios)
        found[name] = {"rates": rates, "ratios": ratios, "median": median}
        medians = {server: statistics.median(values) for server, values in rates.items()}
        print(
            f"{name}: hub {medians['hub']:,.0f}/s, redis {medians['redis']:,.0f}/s, "
            f"median ratio {median:.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {pairs} pairs)",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    ports = {"hub": free_port(), "redis": free_port()}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        (folder / "redis").mkdir()
        hub = [sys.executable, "-m", "equipoise.cli.main", "hub", "--port", str(ports["hub"])]
        redis = ["redis-server", "--port", str(ports["redis"]), "--dir", str(folder / "redis"), "--save", ""]
        durable = ["--appendonly", "yes", "--appendfsync", "always"]
        with (
            running([*hub, "--data", str(folder / "hub")], folder / "hub.log", lambda: adds(ports["hub"])),
            running([*redis, *durable], folder / "redis.log", lambda: adds(ports["redis"])),
        ):
            found = measure(ports, options.pairs, options.requests)
    if options.out is not None:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        path = options.out / f"streams-{stamp}-{commit()}.json"
        path.write_text(json.dumps({"load_average": os.getloadavg(), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
