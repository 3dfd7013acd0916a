"""Ports for whole systems of this process: no two workers are given the same one.

A system chooses its ports seconds before its processes listen on them. What two systems that start at the same time
both found free would belong to one of them only: tests choose for them, each process from a block of its own, below
the ports of outgoing connections.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
from pathlib import Path

__all__ = ["own_port", "write_ports"]

_FIRST, _BLOCK, _BLOCKS = 10_000, 40, 240
# What `equipoise up` may start, with the hubs that it adds under load.
_HUBS = [f"hub-{number}" for number in range(1, 7)]
_NAMES = ["store", "controller", "dashboard", *_HUBS, *(f"{hub}-tls" for hub in _HUBS[:2])]
_NAMES += [f"bookie-{number}" for number in range(1, 4)]
_offsets = itertools.count()


def own_port() -> int:
    """A port that is free and that no other process of the tests is given."""
    first = _FIRST + os.getpid() % _BLOCKS * _BLOCK
    for _ in range(_BLOCK):
        port = first + next(_offsets) % _BLOCK
        if _is_free(port):
            return port
    raise AssertionError(f"no port from {first} to {first + _BLOCK} is free")


def write_ports(directory: Path) -> None:
    """Choose the ports of a system in this directory, unless it has some already."""
    file = directory / "ports.json"
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({name: own_port() for name in _NAMES}))


def _is_free(port: int) -> bool:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
