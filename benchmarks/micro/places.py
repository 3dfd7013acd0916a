"""What do the coordinates of a hub and its clients cost the hub?

    python benchmarks/micro/places.py [--topics 10000] [--clients 1000] [--windows 20] [--peers 127] [--out FOLDER]

Estimate: skipping a topic whose clients have not moved takes 0.1 µs, and its refresh, every 5 s, some 4 µs; its columns
are copied from the previous window. So 10,000 topics take 10 ms of a second, and half as much again if every client
moves. A probe takes 40 µs at each end, and the search for changes 0.5 ms once a second: 0.1 % of a core.

Finding (2 cores busy with other work, Python 3.11): 0.5 % of a core for recording 10,000 topics, 1.6 % with the
kernel's round trip for every client, 3.4 % if all clients move all the time. One topic of 10,000 clients takes 0.3 %,
in steps of at most 0.5 ms. Probing takes 0.1 % and 0.22 MB.

Method: one hub without sockets, in this process. Each topic has one publisher and one subscriber, and a message per
window. The CPU time of the process for making the records of a window is measured: without any location, with the
kernel's round trip for every client, and with clients that all report another coordinate every 5 s. Then a topic that
all clients subscribe to. Then one hub's probing: 127 peers, three replies a second, for five simulated minutes, with
memory by tracemalloc.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from equipoise.access import Users
from equipoise.coordinates import Coordinate, CoordinateSettings, Estimator, Stability
from equipoise.hub.commands.dispatch import Dispatch
from equipoise.hub.core import HubCore
from equipoise.hub.data.ports import NO_WIRE, OutputTurns
from equipoise.hub.data.session import Session
from equipoise.hub.data.turns import UngatheredTurns
from equipoise.hub.locations.client_location import Place
from equipoise.hub.locations.settings import CoordinatesSettings, TcpRttFor
from equipoise.hub.settings import HubSettings
from equipoise.profile.environment import report_result
from equipoise.resp.replies import spell

SPACE = CoordinateSettings()


class Shell:
    """Time passes when it is told to."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.turns: OutputTurns = UngatheredTurns()
        self.rng = random.Random(1)

    def now(self) -> float:
        return self.at

    fine_now = now

    def wall_time(self) -> float:
        return 1.7e9 + self.at

    def call_later(self, delay_s: float, callback: Callable[..., object], *args: object) -> Any:
        return self

    def cancel(self) -> None: ...

    def verify_secret(self, *_: object) -> None: ...

    def memory_bytes(self) -> int:
        return 1 << 33

    def resident_bytes(self) -> int:
        return 0

    def memory_bytes_max(self) -> int:
        return 0

    def network_bytes_per_s(self) -> float:
        return 0.0

    def has_hung_up(self, wire: object) -> bool:
        return False

    def round_trip_s(self, wire: object) -> float:
        # By 10 %: more than what counts as the same.
        return 0.020 * (1 + 0.1 * self.rng.random())

    def cpu_s(self) -> float:
        return 0.0

    work_s = cpu_s


class Hub:
    def __init__(self, topics: int, clients: int, *, tcp_rtt_for: bool) -> None:
        self.shell = Shell()
        asks = TcpRttFor.ALL if tcp_rtt_for else TcpRttFor.NONE
        settings = HubSettings(port=0, coordinates=CoordinatesSettings(tcp_rtt_for=asks))
        self.core = HubCore(settings, Users.open(), self.shell, Dispatch)
        self.core.metering.start(self.shell, random.Random(2).randbytes)
        self.clients = [self._client() for _ in range(clients)]
        self.rng = random.Random(3)
        self.talks: list[tuple[Session, bytes]] = []
        for i in range(topics):
            name = b"game.tile.%05d" % i
            self.rng.choice(self.clients).receive(spell((b"SUBSCRIBE", name)))
            self.talks.append((self._client() if i % 10 == 0 else self.talks[-1][0], name))

    def _client(self) -> Session:
        session = self.core.open_session()
        self.core.join(session, NO_WIRE)
        return session

    def tell(self) -> None:
        """All clients are elsewhere now."""
        for session in self.core.sessions.values():
            point = tuple(self.rng.random() / 10 for _ in range(SPACE.dimensions))
            self.core.places.tell(session, Place(Coordinate(point, 0.1, 0.001), 0.010))

    def window(self) -> tuple[float, float]:
        """Publish to every topic, then record; CPU seconds of recording, and of its longest step."""
        for session, name in self.talks:
            session.receive(spell((b"PUBLISH", name, b"x" * 100)))
        self.shell.at += 1.0
        began = last = time.process_time()
        longest = 0.0
        for _ in self.core.metering._record(1.0, int(1e6 * self.shell.at)):
            now = time.process_time()
            longest, last = max(longest, now - last), now
        return time.process_time() - began, longest


def recording(options: argparse.Namespace, *, tcp_rtt_for: bool, tells: bool) -> dict[str, float]:
    hub = Hub(options.topics, options.clients, tcp_rtt_for=tcp_rtt_for)
    found = []
    for i in range(options.windows + 6):
        if tells and i % 5 == 0:
            hub.tell()
        found.append(hub.window())
    costs, longest = zip(*found[6:], strict=True)
    return {"cpu_ratio": statistics.mean(costs), "step_ms_p50": 1e3 * statistics.median(longest)}


def large_audience(clients: int) -> dict[str, float]:
    hub = Hub(1, clients, tcp_rtt_for=False)
    for session in hub.clients:
        session.receive(spell((b"SUBSCRIBE", b"all")))
    hub.talks.append((hub.talks[0][0], b"all"))
    costs = []
    for i in range(20):
        if i % 5 == 0:
            hub.tell()
        costs.append(hub.window())
    return {
        "cpu_ratio": statistics.mean(cost for cost, _ in costs[5:]),
        "step_ms_max": 1e3 * max(longest for _, longest in costs[5:]),
    }


def probing(peers: int) -> dict[str, float]:
    rng = random.Random(4)
    places = [
        Coordinate(tuple(rng.random() / 10 for _ in range(SPACE.dimensions)), 0.1, 0.001)
        for _ in range(peers)
    ]
    tracemalloc.start()
    estimator, stability = Estimator(SPACE, rng.random), Stability()
    seconds = 300
    known: dict[str, Coordinate] = {}
    began = time.process_time()
    for _ in range(seconds):
        own = estimator.coordinate
        sorted(known, key=lambda peer: own.distance_s(known[peer]))
        for _ in range(3):
            peer = rng.randrange(peers)
            told = Coordinate.from_bytes(places[peer].to_bytes(), SPACE)
            known[f"hub-{peer}"] = told
            estimator.observe(f"hub-{peer}", told, 0.01 + rng.random() / 10)
            # What the others ask.
            estimator.coordinate.to_bytes()
        stability.consider(estimator.coordinate)
    cpu_s = time.process_time() - began
    memory_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"cpu_ratio_with_tracing": cpu_s / seconds, "memory_bytes": memory_bytes}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--peers", type=int, default=127)
    parser.add_argument("--out", type=Path, help="folder to keep the dated result in")
    options = parser.parse_args()
    costs = {
        "none": recording(options, tcp_rtt_for=False, tells=False),
        "kernel": recording(options, tcp_rtt_for=True, tells=False),
        "all report": recording(options, tcp_rtt_for=False, tells=True),
        "10,000 subscribers of one topic": large_audience(10_000),
        f"probing {options.peers} hubs": probing(options.peers),
    }
    counts = {"topics": options.topics, "clients": options.clients, "windows": options.windows}
    report_result("places", {**counts, "costs": costs}, options.out)


if __name__ == "__main__":
    main()
