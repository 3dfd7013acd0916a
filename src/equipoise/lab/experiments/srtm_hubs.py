"""Real hubs in the simulator under the arrivals that the vectorised model replays, and their difference.

Each publisher has a connection to the hub of its seat, and sends at the times of the trace; a message ends with its
reply. Hubs have processors with the model's costs per chunk and message, and the envelope in the same shares.

The vectorised model (`limits/replay.py`) admits messages in the order of arrival, at the time of the token. A hub reads
a chunk at once, lets connections take turns at tokens, and has a timer resolution of a millisecond. `turn_latencies`
replays the same arrivals message by message with each of these three switched on or off.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from equipoise.lab.experiments.cloud_region import CloudRegion, Command
from equipoise.lab.simulation import CpuSpec, Simulation
from equipoise.lab.simulation.simulated_hub import PORT
from equipoise.lab.simulation.topology import Lan, LinkSpec
from equipoise.limits.replay import ArrivalTrace, DeliveryCosts, served_at
from equipoise.limits.shares import PARTS, Envelope
from equipoise.model import Entry, Mode, TopicSpec

__all__ = ["TIMER_S", "hub_latencies", "turn_latencies"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TOPIC = b"srtm"
CLOUD = "cloud"
# One-way latency. Measured latencies exclude both directions.
WIRE_S = 1e-6
# Time before the first message, in which buckets fill and hubs get their leases.
SETTLE_S = 10.0
OPENING_S = 2.0
DRAIN_S = 60.0
# Resolution of the event loop's timers.
TIMER_S = 0.001
# A hub accepts no more connections from one address.
CONNECTIONS_MAX = 400
_COMMAND = b"*3\r\n$7\r\nPUBLISH\r\n$4\r\nsrtm\r\n$1\r\n.\r\n"


class _Publisher(asyncio.Protocol):
    """Replies arrive in the order of the messages."""

    def __init__(self, latencies_s: list[tuple[float, float]]) -> None:
        self._sent: list[float] = []
        self._answered = 0
        self._latencies_s = latencies_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def send(self, messages: int) -> None:
        assert self._transport is not None, "the publisher connects before the trace begins"
        self._sent += [self._loop.time()] * messages
        self._transport.write(_COMMAND * messages)

    def data_received(self, data: bytes) -> None:
        assert b"-" not in data, f"refused: {data!r}"
        now = self._loop.time()
        for _ in range(data.count(b":")):
            sent = self._sent[self._answered]
            self._latencies_s.append((sent, now - sent - 2 * WIRE_S))
            self._answered += 1


def hub_latencies(
    trace: ArrivalTrace,
    seats: Ints,
    hubs: int,
    envelope: Envelope,
    costs: DeliveryCosts,
    *,
    warm_up: float = 0.1,
) -> Floats:
    """The latency of each message after the warm-up, with publisher i at hub `seats[i]`."""
    with Simulation(seed=1, topology=Lan(LinkSpec(latency_s=WIRE_S)), steps_max=10**10) as sim:
        found = sim.run(_play(sim, trace, seats, hubs, envelope, costs))
    began, ended = float(trace.times_s[0]), float(trace.times_s[-1])
    first = min(sent for sent, _ in found) + warm_up * (ended - began)
    return np.array([latency for sent, latency in found if sent >= first])


def _shares(trace: ArrivalTrace, seats: Ints, hubs: int) -> tuple[int, ...]:
    """Shares of the hubs by their numbers of messages, as in the model."""
    counts = np.bincount(seats[trace.publishers], minlength=hubs)
    parts = [int(PARTS * count // counts.sum()) for count in counts[1:]]
    return PARTS - sum(parts), *parts


async def _play(
    sim: Simulation, trace: ArrivalTrace, seats: Ints, hubs: int, envelope: Envelope, costs: DeliveryCosts
) -> list[tuple[float, float]]:
    names = [f"hub-{number}" for number in range(hubs)]
    cpu = CpuSpec(
        received_cost_s=lambda data: (
            costs.chunk_s + costs.message_s * count if (count := data.count(_COMMAND)) else 0.0
        )
    )
    region = CloudRegion(sim, Command(hubs=dict.fromkeys(names, CLOUD), cloud=CLOUD, cpu=cpu))
    spec = TopicSpec(
        pattern=TOPIC, rate_per_s=envelope.rate_per_s, burst_messages=envelope.burst, wait_ms=60_000.0
    )
    shares = _shares(trace, seats, hubs) if hubs > 1 else ()
    mode = Mode.ALL_SUBSCRIBERS if hubs > 1 else Mode.SINGLE
    await region.begin([Entry(TOPIC, tuple(names), mode, shares=shares)], [spec])
    await asyncio.sleep(SETTLE_S + envelope.burst / envelope.rate_per_s)
    latencies_s: list[tuple[float, float]] = []
    began = sim.now + OPENING_S
    for number, first in enumerate(range(0, len(seats), CONNECTIONS_MAX)):
        mine = range(first, min(first + CONNECTIONS_MAX, len(seats)))
        crowd = sim.host(f"crowd-{number}", place=CLOUD)
        crowd.spawn(_fire(trace, seats, mine, names, began, latencies_s), name="crowd")
    await sim.until(lambda: len(latencies_s) >= len(trace.times_s), DRAIN_S + float(trace.times_s[-1]))
    return latencies_s


async def _fire(
    trace: ArrivalTrace,
    seats: Ints,
    mine: range,
    names: list[str],
    began: float,
    latencies_s: list[tuple[float, float]],
) -> None:
    """Send the messages of these publishers in the trace."""
    loop = asyncio.get_running_loop()
    publishers = {
        one: (await loop.create_connection(lambda: _Publisher(latencies_s), names[seats[one]], PORT))[1]
        for one in mine
    }
    starts = np.flatnonzero(trace.begins_chunk)
    sizes = np.diff(np.append(starts, len(trace.times_s)))
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        publisher = publishers.get(int(trace.publishers[start]))
        if publisher is None:
            continue
        due = began + float(trace.times_s[start])
        if due > loop.time():
            await asyncio.sleep(due - loop.time())
        publisher.send(size)


def turn_latencies(
    trace: ArrivalTrace,
    seats: Ints,
    hubs: int,
    envelope: Envelope,
    costs: DeliveryCosts,
    *,
    takes_turns: bool = True,
    timer_s: float = TIMER_S,
    warm_up: float = 0.1,
) -> Floats:
    """Like `hub_latencies`, with a model that reads a chunk at once. `timer_s` 0: no timer delay after a token."""
    at_hub, latencies_s = seats[trace.publishers], np.empty(len(trace.times_s))
    for hub in range(hubs):
        mine = np.flatnonzero(at_hub == hub)
        part, begins = len(mine) / len(at_hub), trace.begins_chunk[mine]
        lasts = np.append(np.flatnonzero(begins)[1:] - 1, len(mine) - 1)
        read_s = served_at(trace.times_s[mine], costs.of(begins))[lasts][np.cumsum(begins) - 1]
        parties = trace.publishers[mine] if takes_turns else np.zeros(len(mine), np.int64)
        line = _TokenLine(envelope.rate_per_s * part, max(1.0, envelope.burst * part), timer_s)
        latencies_s[mine] = line.admitted(read_s, parties) - trace.times_s[mine]
    began, ended = float(trace.times_s[0]), float(trace.times_s[-1])
    return latencies_s[trace.times_s >= began + warm_up * (ended - began)]


class _TokenLine:
    """One bucket, and parties that take turns at its tokens, one message per turn."""

    def __init__(self, rate_per_s: float, depth: float, timer_s: float) -> None:
        self._rate_per_s, self._depth, self._timer_s = rate_per_s, depth, timer_s
        self._level, self._at_s = depth, 0.0
        # Parties with waiting messages, in the order of their turns.
        self._turns: deque[int] = deque()
        self._waiting: dict[int, deque[int]] = {}

    def admitted(self, ready_s: Floats, parties: Ints) -> Floats:
        """The time at which each message gets its token. `ready_s` is sorted."""
        admitted_s = np.empty(len(ready_s))
        for message, (now, party) in enumerate(zip(ready_s.tolist(), parties.tolist(), strict=True)):
            while self._turns and (due_s := self._due_s()) < now:
                self._serve(due_s, admitted_s)
            self._fill(now)
            if not self._turns and self._level >= 1:
                self._level -= 1
                admitted_s[message] = now
            else:
                self._wait(message, party)
        while self._turns:
            self._serve(self._due_s(), admitted_s)
        return admitted_s

    def _due_s(self) -> float:
        token_s = self._at_s + max(0.0, 1 - self._level) / self._rate_per_s
        return math.ceil(token_s / self._timer_s - 1e-9) * self._timer_s if self._timer_s else token_s

    def _fill(self, now: float) -> None:
        """Add tokens. With waiting messages the level may exceed the depth."""
        level = self._level + self._rate_per_s * (now - self._at_s)
        self._level, self._at_s = level if self._turns else min(self._depth, level), now

    def _wait(self, message: int, party: int) -> None:
        if party not in self._waiting:
            self._waiting[party] = deque()
            self._turns.append(party)
        self._waiting[party].append(message)

    def _serve(self, now: float, admitted_s: Floats) -> None:
        self._fill(now)
        while self._turns and self._level >= 1 - 1e-9:
            self._level -= 1
            party = self._turns.popleft()
            admitted_s[self._waiting[party].popleft()] = now
            if self._waiting[party]:
                self._turns.append(party)
            else:
                del self._waiting[party]
        self._level = min(self._depth, self._level)
