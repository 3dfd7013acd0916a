"""Facts about this machine: free ports, memory, network speed.

Limits are read from files under a root, which tests replace. Linux; 0 if a limit is unknown.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Container
from pathlib import Path

from equipoise.errors import SettingsError

__all__ = ["check_port", "free_port", "is_port_free", "memory_bytes_free", "network_bytes_per_s"]

_ROOT = Path("/")
# Megabits in `speed`, bytes here.
_BYTES_PER_MBIT = 125_000
# Below the ports of outgoing connections, one of which could take a port before its process starts.
_PORT_FIRST, _PORTS, _PORT_TRIES = 20_000, 12_000, 50


def memory_bytes_free(root: Path = _ROOT) -> int:
    """Memory that a process may still allocate: by its control group's limit, or by the machine's available memory."""
    found = [free for free in (_available(root), _left_in_group(root)) if free > 0]
    return min(found, default=0)


def _available(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _left_in_group(root: Path) -> int:
    """Of control groups of version 2; a group without a limit has `max`."""
    path = _read(root / "proc/self/cgroup").strip().rpartition("::")[2].strip("/")
    group = root / "sys/fs/cgroup" / path
    limit, used = _read(group / "memory.max").strip(), _read(group / "memory.current").strip()
    return max(1, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else 0


def network_bytes_per_s(root: Path = _ROOT) -> float:
    """Of the interface of the default route, if it reports its speed; virtual ones mostly do not."""
    for line in _read(root / "proc/net/route").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 1 and fields[1] == "00000000":
            speed = _read(root / "sys/class/net" / fields[0] / "speed").strip()
            if speed.isdigit() and int(speed) > 0:
                return float(int(speed) * _BYTES_PER_MBIT)
    return 0.0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        # `speed` is also unreadable for an interface that is down.
        return ""


def free_port(host: str = "127.0.0.1", taken: Container[int] = ()) -> int:
    """A free port outside `taken`. Another process may take it first."""
    for _ in range(_PORT_TRIES):
        port = _PORT_FIRST + secrets.randbelow(_PORTS)
        if port not in taken and is_port_free(host, port):
            return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_port_free(host: str, port: int) -> bool:
    try:
        check_port(host, port)
    except SettingsError:
        return False
    return True


def check_port(host: str, port: int) -> None:
    """Raise SettingsError unless the port can be listened on."""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except (OSError, OverflowError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "no such port"
        raise SettingsError(
            f"cannot listen on {host}:{port}: {reason}. Choose another port, or 0 for a free one"
        ) from problem
