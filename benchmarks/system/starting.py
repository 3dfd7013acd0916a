"""How soon does `equipoise up` accept messages, how soon does it plan, and how soon does it stop?

From the command line to the first published message, to the first decision on a view, and from Ctrl-C to the end of the
last process. A fresh directory each time.

Estimate: the interpreter and its imports 0.3 s, then ZooKeeper's JVM (0.7 s) beside a hub's imports (0.7 s), then the
hub's place in the plan (0.2 s): two seconds. Spark needs 12 s, and the controller's round comes within 5 s of its view.

With --data: from `equipoise hub --data FOLDER`, a fresh folder, to the first XADD that is answered, and the CPU time of
the hub and of its bookie until then. Estimate: the hub's imports, then the bookie's, one sync: below two seconds where
a core is free. Found at a load of 20 on two cores: 0.43 and 0.25 s of CPU, 3.6 s by the clock, which is the machine's.
Where Python may not keep compiled sources (PYTHONDONTWRITEBYTECODE) they are compiled at each start: 0.85 and 0.39 s.

    python benchmarks/system/starting.py [--data] [--rounds 3] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from equipoise.profile.environment import report_result

PATIENCE_S = 180.0
_XADD = b"*5\r\n$4\r\nXADD\r\n$4\r\nnews\r\n$1\r\n*\r\n$1\r\nf\r\n$1\r\nv\r\n"
_PUBLISH = b"*3\r\n$7\r\nPUBLISH\r\n$4\r\nnews\r\n$5\r\nhello\r\n"


def once(folder: Path) -> dict[str, float]:
    """One run, in seconds."""
    log = folder / "up.log"
    words = [sys.executable, "-m", "equipoise.cli.main", "up", "--hubs", "2", "--dir", str(folder / "data")]
    with log.open("wb") as out:
        began = time.monotonic()
        process = subprocess.Popen(words, stdout=out, stderr=out, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        found = _until(lambda: re.search(r"equipoise://127\.0\.0\.1:(\d+)", log.read_text()), process)
        with socket.create_connection(("127.0.0.1", int(found[1])), 20) as hub:
            hub.sendall(_PUBLISH)
            assert hub.recv(64).startswith(b":")
        message_s = time.monotonic() - began
        page = _until(lambda: re.search(r"dashboard: (http://\S+)", log.read_text()), process)[1]
        _until(lambda: _state(page) == "leading", process)
        plan_s = time.monotonic() - began
        stopping = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait(60)
        return {"message_s": message_s, "plan_s": plan_s, "stop_s": time.monotonic() - stopping}
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def first_append(folder: Path) -> dict[str, float]:
    """One start of a lone hub with a place for logs, in seconds."""
    log = folder / "hub.log"
    words = [sys.executable, "-m", "equipoise.cli.main", "hub", "--port", "0", "--data", str(folder / "data")]
    with log.open("wb") as out:
        began = time.monotonic()
        process = subprocess.Popen(words, stdout=out, stderr=out, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        found = _until(lambda: re.search(r"ready on 127\.0\.0\.1:(\d+)", log.read_text()), process)
        with socket.create_connection(("127.0.0.1", int(found[1])), PATIENCE_S) as hub:
            hub.sendall(_XADD)
            assert hub.recv(64).startswith(b"$")
        append_s = time.monotonic() - began
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        bookie_cpu_s = sum(_cpu_s(int(child)) for child in children)
        return {"append_s": append_s, "hub_cpu_s": _cpu_s(process.pid), "bookie_cpu_s": bookie_cpu_s}
    finally:
        process.terminate()
        process.wait(60)


def _cpu_s(pid: int) -> float:
    """CPU time of a process, from Linux's /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _until(look: Any, process: subprocess.Popen[bytes]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert process.poll() is None and time.monotonic() < deadline, "it did not come up"
        time.sleep(0.01)
    return found


def _state(page: str) -> str:
    try:
        with urllib.request.urlopen(page + "/api/overview", timeout=5) as answer:
            return str(json.load(answer)["state"])
    except OSError:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    parser.add_argument("--data", action="store_true", help="start a lone hub with a place for logs instead")
    chosen = parser.parse_args()
    start = first_append if chosen.data else once
    rounds = []
    for _ in range(chosen.rounds):
        with tempfile.TemporaryDirectory(prefix="equipoise-starting-") as folder:
            rounds.append(start(Path(folder)))
    found = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    report_result("starting-data" if chosen.data else "starting", {**found, "rounds": rounds}, chosen.out)


if __name__ == "__main__":
    main()
