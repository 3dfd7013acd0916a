"""The hub's server: sockets, clocks, certificates.

One of the few files of the hub that use the event loop; `tests/test_architecture.py` lists them all.
Runs on uvloop, on asyncio's own loop and on the simulated one alike.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from equipoise.access import Users
from equipoise.clock import clock_of
from equipoise.errors import SettingsError
from equipoise.hub.access.connection_limits import is_loopback
from equipoise.hub.access.login import Logins
from equipoise.hub.cluster import Cluster
from equipoise.hub.cluster.link.dialer import Dialer, Login
from equipoise.hub.cluster.link.frame import Life
from equipoise.hub.cluster.link.link import OutLink
from equipoise.hub.commands.dispatch import Dispatch
from equipoise.hub.core import HubCore
from equipoise.hub.data.client_state import LINGER_S
from equipoise.hub.data.ports import OutputTurns, Timer
from equipoise.hub.data.turns import UngatheredTurns
from equipoise.hub.settings import HubSettings
from equipoise.hub.shell.listening import ListeningPort, listen
from equipoise.hub.shell.log_opener import LogOpener, logs_of, opener_of
from equipoise.hub.shell.tcp_info import has_hung_up, round_trip_s
from equipoise.hub.shell.tls import FailedHandshakes, tls_context
from equipoise.hub.telemetry.gauges import Process
from equipoise.ledger.log import Ledgers
from equipoise.ledger.quorum import Quorum
from equipoise.model import Specs
from equipoise.processes.machine import memory_bytes_free, network_bytes_per_s
from equipoise.store.contract import Store
from equipoise.store.tree import Tree

log = logging.getLogger("equipoise.hub")

# How long a stopping hub waits for clients to read their pending output, in seconds.
STOP_S = 1.0


class Hub:
    """One hub. After `start`, `port` is its listening port; `stop` ends it."""

    def __init__(
        self,
        settings: HubSettings,
        users: Users | None = None,
        *,
        wall_clock: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        executor: Executor | None = None,
        process: Process | None = None,
    ) -> None:
        """`process`: measures resources for telemetry, if the hub does not have a process of its own."""
        self.settings = settings
        self.port = 0
        self.tls_port: int | None = None
        self._tls_context: ssl.SSLContext | None = None
        self.failed_handshakes = FailedHandshakes(time.monotonic)
        self._users = Users.open() if users is None else users
        self._wall_clock = wall_clock
        self._rng = rng or random.SystemRandom()
        self._executor = executor
        self._process = process or OwnProcess()
        self._owned_executor: ThreadPoolExecutor | None = None
        self._servers: list[ListeningPort] = []
        self._core: HubCore | None = None
        self._login: Login = None
        self._opener: LogOpener | None = None
        self._dialer: Dialer | None = None
        # Called when the hub has begun a new incarnation, which the membership then registers.
        self.on_renewed: Callable[[], None] | None = None
        # Called when a connection to another hub has ended or failed.
        self.on_link_lost: Callable[[Life], object] = lambda life: None
        # In a cluster: whether this hub may own a log; and the call after a ledger has rolled.
        self.may_open_log: Callable[[bytes], Awaitable[bool]] | None = None
        self.on_log_rolled: Callable[[bytes], object] | None = None

    @property
    def core(self) -> HubCore:
        assert self._core is not None, "the hub has not been started"
        return self._core

    @property
    def cluster(self) -> Cluster | None:
        """The other hubs; None while this hub is alone."""
        cluster = self.core.cluster
        return cluster if isinstance(cluster, Cluster) else None

    async def start(self) -> None:
        """Listen. Raises SettingsError if the settings would expose an unprotected hub, or a port is taken."""
        settings = self.settings
        check_exposure(settings, self._users)
        has_tls = settings.tls.port is not None
        context = self._tls_context = tls_context(settings.tls, self.failed_handshakes) if has_tls else None
        loop = asyncio.get_running_loop()
        at_once = settings.limits.authentications_max
        if self._executor is None and not self._users.is_open:
            self._executor = self._owned_executor = ThreadPoolExecutor(at_once)
        logins = Logins(self._executor, self._rng.randbytes(32), at_once=at_once)
        self._core = HubCore(
            settings, self._users, LoopShell(loop, self._wall_clock, logins, self._process), Dispatch
        )
        self.core.metering.start(self._process, self._rng.randbytes)
        try:
            self.port = self.core.port = await self._listen(settings.port, {})
            if settings.tls.port is not None:
                # No other timer covers clients that are slow in the TLS handshake or shutdown.
                tls = {
                    "ssl": context,
                    "ssl_handshake_timeout": settings.limits.unauthenticated_timeout_s,
                    "ssl_shutdown_timeout": LINGER_S,
                }
                self.tls_port = await self._listen(settings.tls.port, tls)
        except SettingsError:
            await self.stop()
            raise

    def join_cluster(self, login: Login = None) -> Cluster:
        """Become part of a cluster; the caller then applies routings with the other hubs.

        `login`: this hub's user and password at the other hubs, if they have users.
        """
        core = self.core
        self._dialer = Dialer(core, login, self._rng, self.renew, self._link_lost)
        cluster = core.cluster = Cluster(core, self._dialer)
        if core.logs is not None:
            core.logs.elsewhere = cluster.calls
        core.places.probing.start(self._rng.random)
        core.lease.start(cluster)
        core.standstill.start()
        self._login = login
        return cluster

    def use_logs(
        self,
        store: Store,
        tree: Tree,
        ledgers: Ledgers,
        quorum: Callable[[], Quorum],
        missing: Callable[[], str] = lambda: "",
    ) -> None:
        """Store logs of topics: their owners and lists of ledgers in the store, their entries in ledgers.

        `missing`: the reason why there is no storage; empty: there is.
        """
        core = self.core
        self._opener = opener_of(core, store, tree, ledgers, quorum)
        self._opener.may_open, self._opener.on_rolled = self.may_open_log, self.on_log_rolled
        core.logs = logs_of(core, self._opener, missing)
        core.lease.has_logs = True
        if self.cluster is not None:
            core.logs.elsewhere = self.cluster.calls

    def follow_specs(self, specs: Specs, version: int) -> None:
        """Apply specs at a hub that runs alone: topics become durable, or no longer are."""
        core = self.core
        core.specs.follow(specs, version)
        if core.logs is not None and core.logs.durable is not None:
            core.logs.durable.follow(core.index.topics.values())

    def renew(self) -> None:
        """The other hubs have declared this hub dead while it was unreachable: begin a new incarnation."""
        log.warning(
            "hub %s was declared dead: it restarts as a new incarnation and closes its connections",
            self.settings.name,
        )
        if self.core.logs is not None:
            self.core.logs.begin_anew()
        self.core.begin_anew()
        self.join_cluster(self._login)
        if self.on_renewed is not None:
            self.on_renewed()

    def _link_lost(self, link: OutLink) -> None:
        self.on_link_lost((link.hub, link.incarnation))

    async def _listen(self, port: int, options: dict[str, Any]) -> int:
        """Accept connections; return the port, a free one if `port` is 0."""
        host = self.settings.host
        try:
            server = await listen(self.core, host, port, options)
        except OSError as problem:
            raise SettingsError(
                f"cannot listen on {host}:{port}: {problem.strerror}. Choose another port, or 0 for a free one"
            ) from problem
        self._servers.append(server)
        return server.port

    def reload_certificate(self) -> None:
        """Load the certificate and key again, for new connections. Raises SettingsError."""
        if self._tls_context is not None:
            # Tested with a separate context first: one with a wrong pair would fail all handshakes.
            tls_context(self.settings.tls)
            self._tls_context.load_cert_chain(self.settings.tls.certificate, self.settings.tls.key)

    def reload_login(self, login: Login) -> None:
        """Use this login at other hubs from now on; connected links stay."""
        self._login = login
        if self._dialer is not None:
            self._dialer.login = login

    def reload_users(self, users: Users) -> None:
        """Apply new access rules to all clients, connected and new ones."""
        self._users = users
        self.core.reload_users(users)

    def end_clients(self) -> None:
        """Stop listening, and close the connections of clients; those of other hubs stay."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        for session in [session for session in self.core.sessions.values() if session.peer is None]:
            self.core.leave(session)

    async def stop(self) -> None:
        """Stop listening, then close every connection once its replies are sent, or after STOP_S.

        When it returns, there is no connection, timer or task left.
        """
        for server in self._servers:
            server.close()
        self._servers.clear()
        core = self._core
        if core is not None:
            shell = core.shell
            assert isinstance(shell, LoopShell)
            shell.logins.close()
            if self._opener is not None:
                await self._opener.stop()
            await _end_connections(core)
        if self._owned_executor is not None:
            self._owned_executor.shutdown(wait=False, cancel_futures=True)


async def _end_connections(core: HubCore) -> None:
    empty = asyncio.Event()
    core.when_empty = empty.set
    for end in (core.close, core.abort_leaving):
        end()
        if core.admission.count:
            with suppress(TimeoutError):
                await asyncio.wait_for(empty.wait(), STOP_S)


class LoopShell:
    """The Shell of a running event loop and the operating system."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        wall_clock: Callable[[], float],
        logins: Logins,
        process: Process,
    ) -> None:
        self.now = loop.time
        self.fine_now = clock_of(loop)
        self.work_s, self.cpu_s = process.work_s, process.cpu_s
        self.wall_time = wall_clock
        self.call_later: Callable[..., Timer] = loop.call_later
        self.logins = logins
        self.verify_secret = logins.check
        self.resident_bytes = process.resident_bytes
        self.round_trip_s = round_trip_s
        self.has_hung_up = has_hung_up
        # The poller, if connections are wires.
        self.turns: OutputTurns = UngatheredTurns()

    def memory_bytes(self) -> int:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class OwnProcess:
    """The process that this code runs in."""

    def cpu_s(self) -> float:
        return time.process_time()

    # Read with each frame of another hub, so not a Python function.
    work_s = staticmethod(time.perf_counter)

    def resident_bytes(self) -> int:
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return 0

    def memory_bytes_max(self) -> int:
        free = memory_bytes_free()
        return self.resident_bytes() + free if free else 0

    def network_bytes_per_s(self) -> float:
        return network_bytes_per_s()


def check_exposure(settings: HubSettings, users: Users) -> None:
    if users.is_open and not settings.insecure and not is_loopback(settings.host):
        raise SettingsError(
            f"refusing to listen on {settings.host} without users: every client could read and publish "
            "everything. Give --users FILE (see `equipoise users add --help`), listen on 127.0.0.1, or accept "
            "the risk with --insecure"
        )
