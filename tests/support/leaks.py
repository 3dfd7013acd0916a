"""A test that leaves a socket or a loop open fails, and no later one.

What is dropped without being closed warns when Python finds it: at once, or, as part of a circle, in a collection that
some later test happens to cause. So after a test that has more open sockets than there were before it (a loop has some,
too) the collector runs, and what it finds is the fault of that test.

What is neither closed nor dropped, such as the client of a thread that goes on, warns nowhere. With
EQUIPOISE_TEST_OPEN_SOCKETS=1 no socket may be open after the last test of a module that was not before its first; that
is for looking, since systems and Spark sessions that modules share may end their connections later.

Spark's session is of the whole process, and opens connections whenever it likes: while there is one, sockets may be
left open, and py4j's may be dropped.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Generator
from pathlib import Path

import pytest

from support.spark import gateway_port

__all__ = ["LeakCheck", "open_sockets"]

_DESCRIPTORS = Path("/proc/self/fd")
_PATIENCE_S = 20.0
_IS_STRICT = os.environ.get("EQUIPOISE_TEST_OPEN_SOCKETS") == "1"


def open_sockets() -> frozenset[str]:
    """Those of this process, as the kernel names them; none where it does not."""
    found = set()
    for name in os.listdir(_DESCRIPTORS) if _DESCRIPTORS.exists() else ():  # noqa: PTH208  a path each costs more
        try:
            target = os.readlink(f"{_DESCRIPTORS}/{name}")  # noqa: PTH115  likewise
        except OSError:
            continue  # The one that lists, or closed meanwhile.
        if target.startswith("socket:"):
            found.add(target)
    return frozenset(found)


def dropped() -> list[str]:
    """What the collector finds that was not closed."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        gc.collect()
    told = [str(warning.message) for warning in found if warning.category is ResourceWarning]
    return sorted(words for words in told if f"raddr=('127.0.0.1', {gateway_port()})" not in words)


class LeakCheck:
    """Looks after each test. One scan of the descriptors takes some 50 us."""

    def __init__(self) -> None:
        self._before = self._before_module = open_sockets()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, None, None]:
        yield
        is_last = nextitem is None or nextitem.path != item.path
        now = open_sockets()
        try:
            if now - self._before:
                lost = dropped()
                now = open_sockets()
                if lost:
                    pytest.fail(f"left open and dropped: {', '.join(lost)}", pytrace=False)
            if is_last and _IS_STRICT and not gateway_port():
                now = self._wait(now)
                if left := now - self._before_module:
                    named = ", ".join(map(_described, sorted(left)))
                    pytest.fail(f"sockets left open: {named}; threads: {_threads()}", pytrace=False)
        finally:
            self._before = now
            if is_last:
                self._before_module = now

    def _wait(self, now: frozenset[str]) -> frozenset[str]:
        """What is open once all that is about to close has closed: a client of ZooKeeper ends in a thread."""
        deadline = time.monotonic() + _PATIENCE_S
        while now - self._before_module and time.monotonic() < deadline:
            time.sleep(0.05)
            now = open_sockets()
        return now


def _threads() -> str:
    """Where each thread but the first one is."""
    frames = sys._current_frames()
    found = []
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and thread.ident in frames:
            calls = traceback.extract_stack(frames[thread.ident])[-4:]
            places = " > ".join(f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in calls)
            found.append(f"{thread.name} ({places})")
    return ", ".join(found) or "none"


def _described(socket: str) -> str:
    """With its ports, where it is one of TCP."""
    number = socket.strip("socket:[]")
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9] == number:
                ports = [int(address.rpartition(":")[2], 16) for address in words[1:3]]
                return f"{socket} from port {ports[0]} to {ports[1]}"
    return socket
