"""Ports of this machine: find a free one, say in plain words that one is taken."""

from __future__ import annotations

import socket

from equipoise.errors import SettingsError

__all__ = ["check_port", "free_port"]


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on just now. Another process may take it first."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


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
