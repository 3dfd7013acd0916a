"""Directories and ports of a local cluster, stable between runs.

    DIR/store/      ZooKeeper's state
    DIR/bookies/    the data of each bookie, with `--bookies`
    DIR/logs/       one file for each process
    DIR/pipeline/   checkpoints and the lake
    DIR/token       the token of operators for the dashboard, generated at the first start
    DIR/tls/        the authority and certificates of `--tls` (`authority`)
    DIR/hubs.password  the password of hubs and the pipeline once there are users, generated likewise
    DIR/ports.json  the ports in use, kept so that clients find their hubs again
    DIR/lock        locked by the supervisor that uses the directory

Always true: a directory is used by one supervisor at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from pathlib import Path

from equipoise.errors import SettingsError
from equipoise.processes import free_port, is_port_free

__all__ = ["Layout"]

HOST = "127.0.0.1"


class Layout:
    """One directory. Changes through `lock` and `port`."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._lock: int | None = None
        self._ports: dict[str, int] = {}
        # Available ports that belong to another process, by process.
        self.taken: dict[str, int] = {}

    @property
    def store(self) -> Path:
        return self.root / "store"

    @property
    def pipeline(self) -> Path:
        return self.root / "pipeline"

    @property
    def tls(self) -> Path:
        return self.root / "tls"

    def bookie(self, name: str) -> Path:
        return self.root / "bookies" / name

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def token(self) -> Path:
        """The file with the token; created if necessary."""
        return self._secret("token")

    def hubs_password(self) -> Path:
        """The file with the password for logins among hubs; created if necessary."""
        return self._secret("hubs.password")

    def lock(self) -> None:
        """Lock the directory. Raises SettingsError if that fails."""
        try:
            (self.root / "logs").mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise SettingsError(f"cannot use {self.root}: {problem.strerror}") from problem
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            raise SettingsError(
                f"{self.root} is in use by another `equipoise up`: stop it, or give --dir another directory"
            ) from problem
        self._ports = self._read_ports()

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def port(self, name: str, preferred: int = 0) -> int:
        """The port of a process: its former one, else the preferred, else a free one; ports in use are skipped."""
        taken = set(self._ports.values()) - {self._ports.get(name)}
        for candidate in (self._ports.get(name, 0), preferred):
            if not candidate or candidate in taken:
                continue
            if is_port_free(HOST, candidate):
                break
            # The first available one: the former port comes first.
            self.taken.setdefault(name, candidate)
        else:
            candidate = free_port(HOST, taken)
        if self._ports.get(name) != candidate:
            self._ports[name] = candidate
            (self.root / "ports.json").write_text(json.dumps(self._ports, indent=1, sort_keys=True) + "\n")
        return candidate

    def known_port(self, name: str) -> int:
        """The assigned port of a process. Raises KeyError before the assignment."""
        return self._ports[name]

    def _secret(self, name: str) -> Path:
        path = self.root / name
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(secrets.token_urlsafe(24) + "\n")
        return path

    def _read_ports(self) -> dict[str, int]:
        """If the file is unreadable, ports are assigned anew: nothing else is lost."""
        try:
            found = json.loads((self.root / "ports.json").read_text())
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {str(name): port for name, port in found.items() if isinstance(port, int) and 0 < port < 65536}
