"""How long does it take from a hub's record to the controller's view, and what does Spark cost?

    python benchmarks/system/pipeline.py [--hubs 4] [--topics 12500] [--seconds 60] [--json] [--out benchmarks/results]

Estimate: a batch begins once a second, so a record waits half a second on average and one at worst. Reading, judging,
sampling and writing take some 5 µs of a core per record, 50,000 of them a quarter of a second on two cores; a view
of 50,000 topics takes another 0.1 s to sum up and send. So 1 s at the median and 1.5 s at the 95th percentile would be
near what a trigger of one second allows; 2 s is asked.

Finding: docs/results/control.md.

Method: real hub processes, each with so many topics to which a message is published every second by a process of its
own; the pipeline in this process, on `local[*]`, with lake; an intake on a real socket, as the controller has. For
every window of every hub: the time from its end, by the hub's clock, to the moment the intake has decoded the first
view that holds it. The first ten seconds after the query has caught up do not count. Memory is the most that was
resident, of the JVM, of this process and of Spark's Python workers together.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from equipoise.control.view_receiver import ViewReceiver
from equipoise.pipeline.job import Pipeline
from equipoise.pipeline.sender import ViewSender
from equipoise.pipeline.settings import PipelineSettings, SessionSettings, SourceSettings
from equipoise.pipeline.source.hub_directory import ListedHubs
from equipoise.pipeline.spark.session import SparkDriver
from equipoise.pipeline.sums_choice import SumsAt
from equipoise.profile.environment import keep
from equipoise.profile.meters import process_cpu_s, resident_bytes
from equipoise.resp.replies import spell

_READY = re.compile(r"ready on \S+:(\d+)")
# Caught up means: the newest view is younger than this.
_PRESENT_S = 3.0
_WARM_S = 10.0
_STEPS = 50


class Views:
    """An intake in a thread, which notes when each view was taken, by the end of its window."""

    def __init__(self) -> None:
        self.taken_at_s: dict[float, float] = {}
        self.address = ""
        self._intake = ViewReceiver()
        self._listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, daemon=True).start()
        self._listening.wait()

    def _run(self) -> None:
        self._loop.run_until_complete(self._note())

    async def _note(self) -> None:
        self.address = await self._intake.start("127.0.0.1", 0)
        self._listening.set()
        while True:
            await self._intake.news.wait()
            self._intake.news.clear()
            assert self._intake.latest is not None
            self.taken_at_s[self._intake.latest.time_s] = time.time()


def publish(ports: list[int], topics: int) -> None:
    """Once to each topic of each hub every second, spread over it. Runs in a process of its own."""
    links = []
    for number, port in enumerate(ports):
        link = socket.create_connection(("127.0.0.1", port))
        frames = [spell([b"PUBLISH", b"topic-%d-%d" % (number, at), b"x" * 50]) for at in range(topics)]
        links.append((link, [b"".join(frames[step::_STEPS]) for step in range(_STEPS)]))
        threading.Thread(target=_drain, args=(link,), daemon=True).start()
    started_at, step = time.monotonic(), 0
    while True:
        for link, sends in links:
            link.sendall(sends[step % _STEPS])
        step += 1
        time.sleep(max(0.0, started_at + step / _STEPS - time.monotonic()))


def _drain(link: socket.socket) -> None:
    while link.recv(1 << 20):
        pass


def start_hub(number: int, stack: ExitStack) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "equipoise.cli.main", "hub", "--name", f"h{number}", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    found = _READY.search(process.stdout.readline())
    assert found is not None, "the hub did not start"
    return int(found[1])


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


class Memory(threading.Thread):
    """The most that was resident, each second."""

    def __init__(self, jvm: int) -> None:
        super().__init__(daemon=True)
        self._jvm = jvm
        self.jvm_bytes_max = self.python_bytes_max = self.workers_bytes_max = 0
        self.start()

    def run(self) -> None:
        while True:
            try:
                self.jvm_bytes_max = max(self.jvm_bytes_max, resident_bytes(self._jvm))
                self.python_bytes_max = max(self.python_bytes_max, resident_bytes(os.getpid()))
                workers = sum(resident_bytes(pid) for pid in descendants(self._jvm))
                self.workers_bytes_max = max(self.workers_bytes_max, workers)
            except (OSError, ValueError):
                pass  # A worker ended while it was looked at.
            time.sleep(1.0)


def quantile(values: list[float], rank: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(rank * len(ordered)))]


def lags(pipeline: Pipeline, views: Views, seconds: float) -> tuple[list[float], list[dict[str, float]]]:
    """Watch for so long; from the end of each hub's window to the view that holds it, and what each batch took."""
    shown: list[tuple[float, float]] = []
    batches: list[dict[str, float]] = []
    until_s = time.time() + seconds
    known, last, count = pipeline.newest_us, pipeline.status.view_time_s, pipeline.status.batches
    while time.time() < until_s:
        time.sleep(0.01)
        if pipeline.status.view_time_s != last:
            last = pipeline.status.view_time_s
            newest = pipeline.newest_us
            for hub, us in newest.items():
                shown += [(end_us / 1e6, last) for end_us in windows_between(known.get(hub, us), us)]
            known = newest
        if pipeline.status.batches != count:
            count = pipeline.status.batches
            batches.append({"records": float(pipeline.status.records), **pipeline.status.took_s})
    time.sleep(2.0)
    found = [views.taken_at_s[view_s] - end_s for end_s, view_s in shown if view_s in views.taken_at_s]
    return found, batches


def windows_between(before_us: int, newest_us: int) -> list[float]:
    """When a hub's windows ended that came since: one a second, the last at the newest record."""
    count = max(1, round((newest_us - before_us) / 1e6)) if newest_us > before_us else 0
    return [before_us + (newest_us - before_us) * at / count for at in range(1, count + 1)]


def measure(options: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    cache = folder / "cache" if options.cold else None
    if not options.cold:
        # As every start but the first finds it.
        from equipoise.pipeline.spark.spark_home import cache_folder

        subprocess.run(
            [sys.executable, "-m", "equipoise.pipeline.spark.spark_home", str(cache_folder())], check=True
        )
    hubs = [start_hub(number, stack) for number in range(options.hubs)]
    ports = [port_of(process) for process in hubs]
    load = multiprocessing.get_context("spawn").Process(
        target=publish, args=(ports, options.topics), daemon=True
    )
    load.start()
    stack.callback(load.kill)
    views = Views()
    listed = ",".join(f"h{number}=127.0.0.1:{port}" for number, port in enumerate(ports))
    began_at = time.monotonic()
    driver = SparkDriver.start(SessionSettings(cache=cache, master=options.master))
    stack.callback(driver.stop)
    session_s = time.monotonic() - began_at
    sender = ViewSender(lambda: views.address)
    stack.callback(sender.close)
    settings = PipelineSettings(
        source=SourceSettings(hubs=listed), directory=folder / "pipeline", sums=SumsAt(options.sums)
    )
    pipeline = Pipeline(settings, driver, ListedHubs(listed), sender)
    stack.callback(pipeline.stop)
    pipeline.start()
    memory = Memory(driver.jvm.pid)
    wait(lambda: bool(views.taken_at_s), pipeline)
    first_view_s = time.monotonic() - began_at
    wait(lambda: time.time() - max(views.taken_at_s) < _PRESENT_S, pipeline)
    caught_up_s = time.monotonic() - began_at
    time.sleep(_WARM_S)
    pids = [driver.jvm.pid, os.getpid(), *descendants(driver.jvm.pid)]
    before = pipeline.status.records, cpu_s(pids), [process_cpu_s(hub.pid) for hub in hubs], time.monotonic()
    found, batches = lags(pipeline, views, options.seconds)
    took_s = time.monotonic() - before[3]
    pipeline.check()
    return {
        "telemetry_to_view_s": {
            "p50": quantile(found, 0.5),
            "p95": quantile(found, 0.95),
            "p99": quantile(found, 0.99),
            "max": max(found),
            "windows": len(found),
        },
        "sums_at": pipeline.status.sums_at.value,
        "batches": summed_up(batches, pipeline),
        "records_per_s": (pipeline.status.records - before[0]) / took_s,
        "rejected": dict(pipeline.status.rejected),
        "views": dict(sender.counts),
        "start_s": {"session": session_s, "first_view": first_view_s, "caught_up": caught_up_s},
        "cpu_ratio": {
            "pipeline": (cpu_s(pids) - before[1]) / took_s,
            "hubs": [
                (process_cpu_s(hub.pid) - was) / took_s for hub, was in zip(hubs, before[2], strict=True)
            ],
        },
        "resident_bytes_max": {
            "jvm": memory.jvm_bytes_max,
            "driver_python": memory.python_bytes_max,
            "workers": memory.workers_bytes_max,
        },
        "load_average": os.getloadavg()[0],
    }


def summed_up(batches: list[dict[str, float]], pipeline: Pipeline) -> dict[str, Any]:
    """What batches took, in seconds, by part: the median and the slowest; and Spark's own account of it."""
    told = pipeline.spark_progress()
    parts = {name: [batch[name] for batch in batches] for name in ("tasks", "view", "commit")}
    parts |= (
        {f"spark_{name}": [each.get(name, 0) / 1e3 for each in told] for name in told[-1]} if told else {}
    )
    return {
        name: {
            "p50": round(quantile(values, 0.5), 4),
            "p95": round(quantile(values, 0.95), 4),
            "max": round(max(values), 4),
        }
        for name, values in parts.items()
        if values
    }


def cpu_s(pids: list[int]) -> float:
    """Of those that still run."""
    total = 0.0
    for pid in pids:
        try:
            total += process_cpu_s(pid)
        except OSError:
            pass
    return total


def wait(condition: Any, pipeline: Pipeline) -> None:
    while not condition():
        pipeline.check()
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hubs", type=int, default=4)
    parser.add_argument("--topics", type=int, default=12_500, help="at each hub")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--sums", choices=[each.value for each in SumsAt], default="auto", help="where windows are summed"
    )
    parser.add_argument("--master", default="local[*]", help="such as local-cluster[2,1,1024]")
    parser.add_argument("--cold", action="store_true", help="start without an archive of classes")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    with ExitStack() as stack:
        measured = measure(options, stack)
    found = {
        "hubs": options.hubs,
        "topics_per_hub": options.topics,
        "seconds": options.seconds,
        "is_cold": options.cold,
        "master": options.master,
        "spark_versions": {name: version(name) for name in ("pyspark", "pyarrow")},
        **measured,
    }
    text = keep("pipeline", found, options.out)
    if options.json:
        print(text, end="")
    else:
        show(found)


def show(result: dict[str, Any]) -> None:
    view, start = result["telemetry_to_view_s"], result["start_s"]
    memory = {name: f"{size / 2**20:,.0f} MiB" for name, size in result["resident_bytes_max"].items()}
    print(f"records per second   {result['records_per_s']:,.0f}")
    print(f"telemetry to view    p50 {view['p50']:.2f} s, p95 {view['p95']:.2f} s, p99 {view['p99']:.2f} s")
    print(f"start                session {start['session']:.1f} s, first view {start['first_view']:.1f} s")
    print(
        f"resident             JVM {memory['jvm']}, driver {memory['driver_python']}, workers {memory['workers']}"
    )
    print(f"CPU                  {result['cpu_ratio']['pipeline']:.2f} cores")


if __name__ == "__main__":
    main()
