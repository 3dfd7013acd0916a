"""How much does the latency of best-effort messages grow while the same hub appends to logs?

A process publishes to a best-effort topic 250 times a second and reads its own messages. Another one meanwhile does
nothing, appends 1,000 entries of 1 kB a second over eight connections, appends as many in bursts of eight, or publishes
as many messages without subscribers. The loads take turns. The 99th percentile is that of all messages of all turns: a
pause of the machine decides the tenth worst message of one turn. Intervals are drawn: with fixed ones, all messages of
a turn would come at the same distance from the requests of the load.
"""

from __future__ import annotations

import multiprocessing
import random
import socket
import statistics
import time
from multiprocessing.synchronize import Event

from closed_loop import PAYLOAD, close_all, command, connect  # type: ignore[import-not-found]  # beside this one

TURN_S = 4.0
EVERY_S = 0.004
LOAD_CONNECTIONS = 8
LOAD_PER_S = 1_000
_APPEND = command(b"XADD", b"beside", b"*", b"f", PAYLOAD)
# The request of each load, and how many are sent at once.
LOADS = {
    "nothing": (b"", 0),
    "appends": (_APPEND, 1),
    "bursts": (_APPEND, LOAD_CONNECTIONS),
    "messages": (command(b"PUBLISH", b"beside-channel", PAYLOAD), 1),
}


def load(port: int, request: bytes, burst: int, is_over: Event) -> None:
    """Send the requests over all connections in turn, each after the answer to its previous one."""
    if not request:
        is_over.wait()
        return
    sockets, rng = [connect(port) for _ in range(LOAD_CONNECTIONS)], random.Random(2)
    waiting: list[socket.socket] = []
    at = time.monotonic()
    while not is_over.is_set():
        if len(waiting) > LOAD_CONNECTIONS - burst:
            for each in waiting[:burst]:
                each.recv(4_096)
            del waiting[:burst]
        for _ in range(burst):
            sockets.append(sockets.pop(0))
            sockets[-1].sendall(request)
            waiting.append(sockets[-1])
        at += rng.expovariate(LOAD_PER_S / burst)
        time.sleep(max(0.0, at - time.monotonic()))
    close_all(sockets)


def latencies_ms(port: int, seed: int) -> list[float]:
    publisher, subscriber, rng = connect(port), connect(port), random.Random(seed)
    found: list[float] = []
    try:
        subscriber.sendall(command(b"SUBSCRIBE", b"best-effort"))
        subscriber.recv(1_024)
        at = began_at = time.monotonic()
        while at < began_at + TURN_S:
            sent_at = time.monotonic()
            publisher.sendall(command(b"PUBLISH", b"best-effort", b"%.9f" % sent_at))
            subscriber.recv(1_024)
            found.append(1e3 * (time.monotonic() - sent_at))
            publisher.recv(64)
            at += rng.uniform(0.5, 1.5) * EVERY_S
            time.sleep(max(0.0, at - time.monotonic()))
        # The first are those of a process that has just begun.
        return found[len(found) // 10 :]
    finally:
        close_all([publisher, subscriber])


def p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


def beside(port: int, pairs: int) -> dict[str, object]:
    spawning = multiprocessing.get_context("spawn")
    turns: dict[str, list[list[float]]] = {name: [] for name in LOADS}
    for number in range(pairs):
        for name in list(LOADS)[:: 1 if number % 2 else -1]:
            is_over = spawning.Event()
            process = spawning.Process(target=load, args=(port, *LOADS[name], is_over), daemon=True)
            process.start()
            # Until it has begun.
            time.sleep(1.0)
            turns[name].append(latencies_ms(port, number))
            is_over.set()
            process.join()
    alone = p99([each for turn in turns["nothing"] for each in turn])
    found: dict[str, object] = {}
    for name, of_turns in turns.items():
        every = [each for turn in of_turns for each in turn]
        p99s = [p99(turn) for turn in of_turns]
        row = {"p50_ms": statistics.median(every), "p99_ms": p99(every), "ratio": p99(every) / alone}
        found[name] = {**row, "p99_ms_of_turns": p99s}
        print(
            f"best-effort messages beside {name}: p50 {row['p50_ms']:.3f} ms, p99 {row['p99_ms']:.3f} ms, "
            f"{row['ratio']:.2f} x that beside nothing; of single turns {min(p99s):.3f} to {max(p99s):.3f} ms",
            flush=True,
        )
    return found
