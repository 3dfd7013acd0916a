"""A system of live processes, and the faults of each: SIGKILL, SIGSTOP for a while, a full disk.

`equipoise up` runs in a folder of its own. With bookies, each has a small disk of its own where the kernel allows it: a
tmpfs in a mount namespace, which is gone when the processes are.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

# In the environment of everything that is started here: victims are found by it, and nothing else is.
MARK = "EQUIPOISE_KILL_RUN"
START_S = 90.0
# From one fault to the next, and how long a process is stopped: longer than a session, too.
FAULT_EVERY_S = (4.0, 12.0)
STOPPED_S = (2.0, 30.0)
# Two segments of 64 MiB and what this load adds; and the share from which on a bookie is read-only, passed.
DISK_MB = 320
FILLED = 0.97
# Of the faults of bookies, how many are filled disks.
FILLED_SHARE = 0.4


class System:
    """`equipoise up` in a folder of its own."""

    def __init__(
        self, folder: Path, hubs: int, *, has_pipeline: bool, bookies: int, has_disks: bool = True
    ) -> None:
        """`has_disks`: each bookie has a disk of its own, which can be filled."""
        self._folder = folder
        self._disks = [folder / "data" / "bookies" / f"bookie-{n}" for n in range(1, bookies + 1)]
        self._mark = f"{MARK}={folder}".encode()
        self._log = folder / "up.log"
        words = ["up", "--dir", str(folder / "data"), "--hubs", str(hubs)]
        words += [] if has_pipeline else ["--no-pipeline"]
        words += ["--bookies", str(bookies)] if bookies else []
        mounted = mounting(self._disks) if bookies and has_disks else []
        self.has_disks = bool(mounted)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "EQUIPOISE_STORE": "", MARK: str(folder)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*mounted, sys.executable, "-m", "equipoise.cli.main", *words],
                stdout=log,
                stderr=log,
                env=environment,
            )

    async def until_up(self, hubs: int) -> tuple[int, ...]:
        """The ports of the hubs, once all answer."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            ports = {
                words[words.index("--name") + 1]: int(words[words.index("--port") + 1])
                for words in self.processes().values()
                if "hub" in words and "--port" in words
            }
            if len(ports) >= hubs and "equipoise is up" in self._log.read_text():
                return tuple(port for _, port in sorted(ports.items()))
            await asyncio.sleep(0.2)
        raise SystemExit(f"the system did not start:\n{self._log.read_text()[-3000:]}")

    def processes(self) -> dict[int, list[str]]:
        """Command lines of what the supervisor has started, by process id."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                is_ours = self._mark in (entry / "environ").read_bytes().split(b"\0")
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if is_ours and int(entry.name) != self._process.pid:
                found[int(entry.name)] = words
        return found

    @property
    def store(self) -> str:
        found = re.search(r"--store (\S+)", self._log.read_text())
        assert found, "the system is up"
        return found[1]

    def pause(self, *, is_paused: bool) -> None:
        """Stop the supervisor, so that what dies stays dead; or let it go on."""
        _signal(self._process.pid, signal.SIGSTOP if is_paused else signal.SIGCONT)

    def fill(self, rng: random.Random) -> Path:
        """Fill the disk of a bookie; the file that fills it."""
        # Only processes in the namespace see the disk; /proc/PID/root shows it to other processes.
        disk = Path(f"/proc/{self._process.pid}/root{rng.choice(self._disks)}")
        room = os.statvfs(disk)
        size = int(room.f_frsize * (room.f_bavail - room.f_blocks * (1 - FILLED)))
        filler = disk / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, size))
        return filler

    def stop(self) -> None:
        self.pause(is_paused=False)
        for pid in self.processes():
            _signal(pid, signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def mounting(disks: list[Path]) -> list[str]:
    """What makes a command see a small disk at each of these places; empty where the kernel does not allow that."""
    for disk in disks:
        disk.mkdir(parents=True)
    mounts = " && ".join(f"mount -t tmpfs -o size={DISK_MB}m tmpfs '{disk}'" for disk in disks)
    if shutil.which("unshare") is None:
        return []
    words = ["unshare", "-rm", "sh", "-c"]
    can = subprocess.run([*words, mounts], capture_output=True, check=False).returncode == 0
    return [*words, f'{mounts} && exec "$@"', "sh"] if can else []


def kind_of(words: list[str]) -> str | None:
    """What a process is, if it is one that may be hurt."""
    line = " ".join(words)
    for kind, pattern in (
        ("hub", r"\bhub\b.*--name"),
        ("bookie", r"\bbookie\b.*--name"),
        ("controller", r"\bcontroller\b"),
        ("store", "ZooKeeperServerMain"),
        ("pipeline", r"\bpipeline\b"),
    ):
        if re.search(pattern, line):
            return kind
    return None


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


async def make_trouble(system: System, rng: random.Random, until_s: float, faults: Counter[str]) -> None:
    """Hurt one process at a time. Nothing is stopped any more when it returns."""
    while (left_s := until_s - time.monotonic()) > 0:
        await asyncio.sleep(min(left_s, rng.uniform(*FAULT_EVERY_S)))
        victims = [(pid, kind) for pid, words in system.processes().items() if (kind := kind_of(words))]
        if not victims or time.monotonic() > until_s:
            continue
        pid, kind = rng.choice(sorted(victims))
        if kind == "bookie" and system.has_disks and rng.random() < FILLED_SHARE:
            faults["bookie filled"] += 1
            filler = system.fill(rng)
            await asyncio.sleep(rng.uniform(*STOPPED_S))
            filler.unlink()
            continue
        if rng.random() < 0.5:
            faults[f"{kind} killed"] += 1
            _signal(pid, signal.SIGKILL)
            continue
        stopped_s = rng.uniform(*STOPPED_S)
        faults[f"{kind} stopped"] += 1
        _signal(pid, signal.SIGSTOP)
        await asyncio.sleep(stopped_s)
        _signal(pid, signal.SIGCONT)
