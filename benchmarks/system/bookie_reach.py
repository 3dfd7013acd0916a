"""Parts of durable_reach.py about bookies: several bookies, a full bookie, and Apache BookKeeper."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from closed_loop import HOST, PAYLOAD, hub_rate, in_turns, say  # type: ignore[import-not-found]  # beside this one
from streams import START_S, adds, free_port, running  # type: ignore[import-not-found]

from equipoise.bookie.bookie import open_directory
from equipoise.bookie.manifest import load_manifest
from equipoise.bookie.settings import BookieSettings
from equipoise.disk import DirectoryDisk
from equipoise.ledger.entry import LedgerEntry, encode_entry
from equipoise.ledger.wire import AddRequest, Flag

WORDS = (sys.executable, "-m", "equipoise.cli.main")
Found = dict[str, object]


@contextmanager
def said(words: list[str], log: Path, line: str) -> Iterator[int]:
    """A process that has printed this; ended in order."""
    with running(
        [*WORDS, *words], log, lambda: re.search(line, log.read_text(), re.MULTILINE) is not None
    ) as pid:
        yield pid


@contextmanager
def store_at(folder: Path) -> Iterator[str]:
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    words = ["store", "--dir", str(folder / "store"), "--port", str(port)]
    with said(words, folder / "store.log", "ready"):
        yield f"zk://{HOST}:{port}"


def bookie_words(folder: Path, name: str, store: str) -> list[str]:
    words = ["bookie", "--dir", str(folder / name), "--store", store, "--name", name, "--rack", name]
    return [*words, "--port", str(free_port())]


def hub_words(store: str, port: int) -> list[str]:
    return ["hub", "--name", "h1", "--port", str(port), "--store", store]


def set_durable(store: str, topic: str, quorum: str) -> None:
    words = [*WORDS, "topics", "set", topic, "--durable", quorum, "--store", store]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def rates(name: str, pairs: int, requests: int, first: tuple[int, bytes], second: tuple[int, bytes]) -> Found:
    """Appends per second to one port and topic against another, by 64 publishers and by one."""
    found = Found()
    for publishers in (64, 1):
        count = requests if publishers > 1 else max(100, requests // 8)
        row = in_turns(
            pairs,
            partial(hub_rate, first[0], publishers, count, first[1]),
            partial(hub_rate, second[0], publishers, count, second[1]),
        )
        found[f"{publishers}"] = row
        say(f"{publishers} publishers, {name}", row, "acknowledged/s")
    return found


def quorum(folder: Path, pairs: int, requests: int) -> Found:
    with ExitStack() as stack:
        store = stack.enter_context(store_at(folder / "quorum"))
        for name in ("b1", "b2", "b3"):
            words = bookie_words(folder / "quorum", name, store)
            stack.enter_context(said(words, folder / f"{name}.log", "ready on"))
        port = free_port()
        stack.enter_context(
            running([*WORDS, *hub_words(store, port)], folder / "quorum-hub.log", lambda: adds(port))
        )
        set_durable(store, "three", "3/3/2")
        set_durable(store, "one", "1/1/1")
        return rates("3/3/2 and one bookie", pairs, requests, (port, b"three"), (port, b"one"))


def apache(folder: Path, pairs: int, requests: int, jars: Path) -> Found:
    if not any(jars.glob("bookkeeper-server-*.jar")):
        print(f"Apache BookKeeper is left out: there are no jars in {jars} (make bookkeeper)")
        return {}
    with ExitStack() as stack:
        ports = {}
        for kind, extra in (("apache", ["--apache", "--jars", str(jars.resolve())]), ("own", [])):
            home = folder / kind
            store = stack.enter_context(store_at(home))
            words = ["bookie", "--dir", str(home / "b1"), "--store", store, "--name", "b1"]
            words += ["--port", str(free_port()), *extra]
            stack.enter_context(said(words, home / "bookie.log", "ready on"))
            port = ports[kind] = free_port()
            stack.enter_context(
                running([*WORDS, *hub_words(store, port)], home / "hub.log", partial(adds, port))
            )
            set_durable(store, "bench", "1/1/1")
        first, second = (ports["apache"], b"bench"), (ports["own"], b"bench")
        return rates("a bookie of Apache BookKeeper and one of ours", pairs, requests, first, second)


# --- a bookie that holds much


class _Hasty(DirectoryDisk):
    """Files that are not synced: what is written here may be lost, and is made anew then."""

    def sync_directory(self) -> None:
        pass


def fill(directory: Path, size: int) -> int:
    """Store so many bytes in entries of 1 kB as the bookie itself would, without syncs; the number of entries."""
    disk, settings = _Hasty(directory), BookieSettings()
    manifest = load_manifest(disk)
    assert manifest is not None, "the bookie has been started before"
    engine = open_directory(disk, manifest, settings)
    entries, body = size // len(PAYLOAD), b""
    for number in range(entries):
        body = encode_entry(LedgerEntry(7, number, number - 1, number * 1_000, PAYLOAD))
        engine.submit(None, AddRequest(7, number, bytes(20), Flag.HIGH_PRIORITY, body))
        if number % 1_000 == 999 or number == entries - 1:
            while engine.has_work:
                group = engine.take()
                if group is None:
                    engine.segments.roll()
                    continue
                engine.segments.open.file.write(group.offset, group.data)
                engine.commit(group)
    engine.segments.close()
    return entries


def full_bookie(folder: Path, gigabytes: float) -> Found:
    with store_at(folder / "full") as store:
        words = [*bookie_words(folder / "full", "b1", store), "--collect-every", "3600"]
        with said(words, folder / "first.log", "ready on"):
            pass
        began_at = time.monotonic()
        entries = fill(folder / "full" / "b1", int(gigabytes * 1e9))
        filled_s = time.monotonic() - began_at
        os.sync()
        log = folder / "second.log"
        began_at = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen([*WORDS, *words], stdout=output, stderr=subprocess.STDOUT)
        try:
            while b"ready on" not in log.read_bytes():
                if process.poll() is not None or time.monotonic() > began_at + START_S:
                    raise SystemExit(f"the bookie did not start: {log.read_text()}")
                time.sleep(0.01)
            took_s = time.monotonic() - began_at
            resident = _resident_bytes(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
    print(
        f"a bookie with {gigabytes:g} GB in {entries:,} entries: ready after {took_s:.2f} s, "
        f"{resident / 1e6:.0f} MB resident (filled in {filled_s:.0f} s)",
        flush=True,
    )
    return {"entries": entries, "ready_s": took_s, "resident_bytes": resident}


def _resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found, "Linux says it"
    return 1024 * int(found[1])
