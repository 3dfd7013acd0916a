"""How many XADDs a second does a lone hub acknowledge after a sync, against Redis Streams with `appendfsync always`?

`redis-benchmark` sends entries of 1 kB to `equipoise hub --data` and to a redis-server with its files on the same disk,
in turns, so that both meet the same noise: with 64 connections, with pipelines of 16 on 16 connections, and with one
connection. What counts is the median of the pairs' ratios. On a busy machine rates say little: so the CPU time that
each server, its children included, has used for an append is told too, and the 99th percentile of the latency.

Estimate: a prototype without access rules, index and telemetry, its bookie in another process, reached 0.90 of Redis at
64 connections, 0.67 with pipelines and 0.88 with one connection; the product is below that.

Finding: docs/results/durable.md. On a busy machine the disk decides, and neighbouring pairs differ tenfold: look at the
CPU time then, in which an append costs twice what it costs Redis, one publisher's three times.

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
from typing import NamedTuple

from equipoise.profile.environment import commit

HOST = "127.0.0.1"
PAYLOAD = "x" * 1_000
START_S = 60.0
# Connections and pipelined commands of each.
SHAPES = {"64 connections": (64, 1), "16 pipelines of 16": (16, 16), "1 connection": (1, 1)}


class Server(NamedTuple):
    port: int
    pid: int


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], log: Path, is_ready: Callable[[], bool]) -> Iterator[int]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ)
    try:
        until = time.monotonic() + START_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{command[0]} did not start: {log.read_text()}")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def adds(port: int) -> bool:
    """Whether an entry is acknowledged."""
    command = ["redis-cli", "-h", HOST, "-p", str(port), "XADD", "probe", "*", "f", "v"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return re.match(r"\d+-\d+", done.stdout) is not None


def cpu_s(pid: int) -> float:
    """CPU time of a process and of its children that live, from Linux's /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(cpu_s(int(child)) for child in children)


def rate(port: int, shape: tuple[int, int], requests: int) -> tuple[float, float]:
    """Acknowledged per second, and the 99th percentile of the latency in milliseconds."""
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
    # After the command's own words: rate, mean, least, p50, p95, p99, greatest.
    figures = done.stdout.splitlines()[-1].rsplit('","', 7)[1:]
    return float(figures[0]), float(figures[5])


def measure(servers: dict[str, Server], pairs: int, requests: int) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for name, shape in SHAPES.items():
        count = max(200, requests // 8) if shape[0] == 1 else requests
        rates: dict[str, list[float]] = {server: [] for server in servers}
        p99_ms: dict[str, list[float]] = {server: [] for server in servers}
        cpu_us: dict[str, list[float]] = {server: [] for server in servers}
        for number in range(pairs):
            # The one that went first goes second in the next pair.
            order = list(servers) if number % 2 else list(reversed(servers))
            for server in order:
                before = cpu_s(servers[server].pid)
                per_s, late_ms = rate(servers[server].port, shape, count)
                rates[server].append(per_s)
                p99_ms[server].append(late_ms)
                cpu_us[server].append(1e6 * (cpu_s(servers[server].pid) - before) / count)
        ratios = [hub / redis for hub, redis in zip(rates["hub"], rates["redis"], strict=True)]
        median = statistics.median(ratios)
        found[name] = {
            "rates": rates,
            "p99_ms": p99_ms,
            "cpu_us_per_append": cpu_us,
            "ratios": ratios,
            "median": median,
        }
        print(
            f"{name}: hub {_median(rates, 'hub'):,.0f}/s, redis {_median(rates, 'redis'):,.0f}/s, "
            f"median ratio {median:.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {pairs} pairs); "
            f"p99 {_median(p99_ms, 'hub'):.1f} and {_median(p99_ms, 'redis'):.1f} ms; "
            f"CPU {_median(cpu_us, 'hub'):.0f} and {_median(cpu_us, 'redis'):.0f} us per append",
            flush=True,
        )
    return found


def _median(values: dict[str, list[float]], server: str) -> float:
    return statistics.median(values[server])


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
        hub += ["--data", str(folder / "hub")]
        with (
            running(hub, folder / "hub.log", lambda: adds(ports["hub"])) as hub_pid,
            running([*redis, *durable], folder / "redis.log", lambda: adds(ports["redis"])) as redis_pid,
        ):
            servers = {"hub": Server(ports["hub"], hub_pid), "redis": Server(ports["redis"], redis_pid)}
            found = measure(servers, options.pairs, options.requests)
    if options.out is not None:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        path = options.out / f"streams-{stamp}-{commit()}.json"
        path.write_text(json.dumps({"load_average": os.getloadavg(), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
