"""Two hubs with a served memory store, all in this process, for the commands of an operator."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import AsyncExitStack
from typing import Any

import redis
from typer.testing import CliRunner

from equipoise.access import Users
from equipoise.cli.main import app
from equipoise.hub import HubSettings
from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.counters import cluster_counters
from equipoise.hub.membership.process import RunningMember, member
from equipoise.hub.membership.settings import MembershipSettings
from equipoise.store import MemoryStoreServer, MemoryTree

__all__ = ["TIMEOUT_S", "System"]

TIMEOUT_S = 30.0


class System:
    """Runs on a loop in a thread of its own, as commands bring loops of theirs. `login`: a user and a password file."""

    def __init__(self, login: tuple[str, str] = ("", "")) -> None:
        self.url = ""
        self._login = login
        self.members: dict[str, RunningMember] = {}
        self._clients: list[redis.Redis] = []
        self._started = threading.Event()
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> System:
        self._thread.start()
        assert self._started.wait(TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = MemoryStoreServer(MemoryTree(self._loop.time), host="127.0.0.1", port=0)
        await server.start()
        self.url = f"eqs://127.0.0.1:{server.port}"
        async with AsyncExitStack() as stack:
            for name, site in (("h1", "paris"), ("h2", "lyon")):
                user, file = self._login
                own = MembershipSettings(
                    store=self.url,
                    site=site,
                    cluster_user=user,
                    cluster_password_file=file,
                )
                settings = HubSettings(name=name, port=0, membership=own)
                running = await stack.enter_async_context(member(settings, Users.open()))
                await running.wait_ready()
                self.members[name] = running
            self._started.set()
            await self._ended.wait()
        await server.stop()

    def client(self, name: str, **options: str) -> redis.Redis:
        made = redis.Redis(port=self.members[name].hub.port, socket_timeout=TIMEOUT_S, **options)  # type: ignore[arg-type]  # user and password
        self._clients.append(made)
        return made

    def run(self, *words: str, exit_code: int = 0, typed: str = "") -> str:
        result = CliRunner().invoke(app, [*words, "--store", self.url], input=typed)
        assert result.exit_code == exit_code, result.output
        return result.output

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))

    def state(self) -> dict[str, dict[str, float]]:
        """By hub, what tells why a message did not arrive: another incarnation, messages refused or lost."""
        found: dict[str, dict[str, float]] = {}
        for name, running in self.members.items():
            core = running.hub.core
            counted = cluster_counters(core.cluster) if isinstance(core.cluster, Cluster) else {}
            told = {
                key: counted.get(key, 0) for key in ("messages_lost", "messages_dropped", "limits_refused")
            }
            found[name] = {"incarnation": core.incarnation, **told}
        return found

    def envelope(self, client: Any, topic: str) -> dict[str, float]:
        """What the topic's rate limit does at the hub of this client; empty if it is not known there."""
        row = client.execute_command("EQ.ENVELOPE", topic)[0] or []
        return {name.decode(): float(number) for name, number in zip(row[::2], row[1::2], strict=True)}
