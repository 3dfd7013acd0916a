"""Does a hub of this tree delay other topics less than hubs of other trees, beside a publisher above its limit?

    python benchmarks/system/beside_trees.py TREE [TREE ...] [--seconds 170]

As `limits.py --only beside`, with a hub of each tree in turns, all of them running: the machine's other load and its
clock rate hit all alike. Each tree has a store of its own, in memory. Printed: CPU time of each hub, percentiles of the
other topic's messages without and with the flood, and the ratios of the 99th percentiles.

Finding: docs/results/limits.md.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from statistics import median

# The script beside this one. By name, since tests/limits is called the same.
limits = import_module("limits")

FIRST_PORT = 46_401
QUANTILES = (0.5, 0.9, 0.98, 0.99)
STORE = """
import asyncio
from equipoise.store import MemoryStoreServer, MemoryTree

async def serve():
    server = MemoryStoreServer(MemoryTree(asyncio.get_running_loop().time), host="127.0.0.1", port=0)
    await server.start()
    print(server.port, flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


class TreeHub:
    """A hub of one tree, with its store, as processes."""

    def __init__(self, tree: Path, port: int, stack: ExitStack) -> None:
        self.name, self.port = str(tree), port
        self.took: dict[bool, list[float]] = {False: [], True: []}
        self.cpu: dict[bool, list[float]] = {False: [], True: []}
        self.ratios: list[float] = []
        self._environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "EQUIPOISE_STORE": ""}
        self._folder = stack.enter_context(tempfile.TemporaryDirectory())
        store = self._start(stack, [sys.executable, "-c", STORE])
        assert store.stdout is not None
        self._store = f"eqs://127.0.0.1:{int(store.stdout.readline())}"
        hub = self._words("hub", "--name", "hub", "--port", str(port), "--tcp-rtt-for", "all")
        self.process = self._start(stack, hub)
        while not self._is_there():
            time.sleep(0.1)
        limit = self._words("topics", "set", "slow.*", "--rate", "100/s", "--burst", "10")
        subprocess.run(limit, env=self._environment, check=True, stdout=subprocess.DEVNULL)

    def _words(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "equipoise.cli.main", *words, "--store", self._store]

    def _start(self, stack: ExitStack, words: list[str]) -> subprocess.Popen[bytes]:
        null = subprocess.DEVNULL
        process = subprocess.Popen(
            words, env=self._environment, cwd=self._folder, stdout=subprocess.PIPE, stderr=null
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        return process

    def _is_there(self) -> bool:
        if self.process.poll() is not None:
            raise SystemExit(f"the hub of {self.name} has ended")
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def measure(self, *, is_flooded: bool) -> list[float]:
        cpu_s, began = self._cpu_s(), time.monotonic()
        took: list[float] = limits.pinged(
            "quiet", 97.0, port=self.port, flooded="slow.flood", is_hub_flooded=is_flooded
        )
        self.cpu[is_flooded].append((self._cpu_s() - cpu_s) / (time.monotonic() - began))
        self.took[is_flooded] += took
        return took

    def _cpu_s(self) -> float:
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def tell(self) -> None:
        alone, beside = (1e3 * median(self.cpu[is_flooded]) for is_flooded in (False, True))
        print(
            f"{self.name}: {len(self.took[True])} messages, CPU {alone:.1f} ms/s alone, {beside:.1f} with the flood"
        )
        for quantile in QUANTILES:
            one, other = (
                1e3 * sorted(values)[int(quantile * (len(values) - 1))] for values in self.took.values()
            )
            print(
                f"  p{100 * quantile:g}: {one:.3f} ms alone, {other:.3f} with the flood, x{other / one:.2f}"
            )
        print(
            f"  p99 by round: x{median(self.ratios):.2f} in the middle, {[round(one, 2) for one in self.ratios]}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREE")
    parser.add_argument("--seconds", type=float, default=170.0)
    options = parser.parse_args()
    end, rounds = time.monotonic() + options.seconds, 0
    with ExitStack() as stack:
        hubs = [TreeHub(tree.resolve(), FIRST_PORT + at, stack) for at, tree in enumerate(options.trees)]
        time.sleep(limits.LEASE_S)
        while time.monotonic() < end:
            for hub in hubs if rounds % 2 else hubs[::-1]:
                order = (False, True) if rounds % 4 < 2 else (True, False)
                took = {is_flooded: hub.measure(is_flooded=is_flooded) for is_flooded in order}
                hub.ratios.append(limits.p99(took[True]) / limits.p99(took[False]))
            rounds += 1
        for hub in hubs:
            hub.tell()


if __name__ == "__main__":
    main()
