"""How much does the latency of best-effort messages grow while the same hub appends to logs?

A process publishes to a best-effort topic 250 times a second and reads its own messages. Another one meanwhile does
nothing, appends 1,000 entries of 1 kB a second over eight connections, or publishes as many messages without
subscribers. The three take turns. The 99th percentile is that of all messages of all turns: a pause of the machine
decides the tenth worst message of one turn.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from multiprocessing.synchronize import Event

from closed_loop import PAYLOAD, close_all, command, connect  # type: ignore[import-not-found]  # beside this one

TURN_S = 4.0
EVERY_S = 0.004
LOAD_CONNECTIONS = 8
LOAD_EVERY_S = 0.008
LOADS = {
    "nothing": b"",
    "appends": command(b"XADD", b"beside", b"*", b"f", PAYLOAD),
    "messages": command(b"PUBLISH", b"beside-channel", PAYLOAD),
}


def load(port: int, request: bytes, is_over: Event) -> None:
    """Send the request over all connections, 125 times a second each, and read the answers."""
    if not request:
        is_over.wait()
        return
    sockets = [connect(port) for _ in range(LOAD_CONNECTIONS)]
    at = time.monotonic()
    while not is_over.is_set():
        for each in sockets:
            each.sendall(request)
        for each in sockets:
            each.recv(4_096)
        at += LOAD_EVERY_S
        time.sleep(max(0.0, at - time.monotonic()))
    close_all(sockets)


def latencies_ms(port: int) -> list[float]:
    publisher, subscriber = connect(port), connect(port)
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
            at += EVERY_S
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
            process = spawning.Process(target=load, args=(port, LOADS[name], is_over), daemon=True)
            process.start()
            # Until it has begun.
            time.sleep(1.0)
            turns[name].append(latencies_ms(port))
            is_over.set()
            process.join()
    whole = {name: p99([each for turn in turns[name] for each in turn]) for name in LOADS}
    p99s = {name: [p99(turn) for turn in turns[name]] for name in LOADS}
    ratios = {
        name: sorted(a / b for a, b in zip(p99s["appends"], p99s[name], strict=True))
        for name in ("nothing", "messages")
    }
    print(f"best-effort p99 beside 1,000 appends/s: {whole['appends']:.3f} ms", flush=True)
    for name, of_turns in ratios.items():
        print(
            f"  beside {name} {whole[name]:.3f} ms: {whole['appends'] / whole[name]:.2f} x, "
            f"turn by turn {statistics.median(of_turns):.2f} x ({of_turns[0]:.2f} to {of_turns[-1]:.2f})",
            flush=True,
        )
    return {"p99_ms": p99s, "of_all_turns_ms": whole, "ratios": ratios}
