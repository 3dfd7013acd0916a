"""`equipoise hub`: run one hub until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from equipoise.access import Users, parse_users
from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.logs import LogForm, LogFormat, Verbose, set_up_logs
from equipoise.errors import SettingsError
from equipoise.hub import Hub, HubSettings, load_settings
from equipoise.hub.core import HubCore
from equipoise.hub.locations.settings import TcpRttFor
from equipoise.hub.membership.process import member, read_login
from equipoise.hub.membership.settings import Join
from equipoise.hub.shell.collector import Collector
from equipoise.hub.shell.descriptors import ensure_descriptors
from equipoise.hub.telemetry.prometheus_endpoint import serve_metrics
from equipoise.processes.allocator import settle_allocator

log = logging.getLogger("equipoise.hub")


Store = Annotated[
    str | None,
    typer.Option(
        envvar="EQUIPOISE_STORE",
        help="Metadata store of the cluster to join: zk://host:port,host:port/root. Without it the hub "
        "is standalone.",
    ),
]
Region = Annotated[str | None, typer.Option(help="Name of the cluster inside the store. [default]")]
Advertise = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Address at which clients and other hubs reach this hub, if it is not the address it "
        "listens on.",
    ),
]
MetricsToken = Annotated[str | None, typer.Option(help="File with the bearer token that Prometheus sends.")]
UsersFile = Annotated[
    str | None, typer.Option(help="Users file; see `equipoise users`. Read again on SIGHUP.")
]
TlsClientCa = Annotated[str | None, typer.Option(help="CA of accepted client certificates (PEM).")]
TlsClientRequired = Annotated[
    bool | None,
    typer.Option(
        "--tls-client-required", help="Refuse TLS clients without a certificate of --tls-client-ca."
    ),
]
LinkTlsCa = Annotated[
    str | None, typer.Option(help="CA of the other hubs' certificates (PEM): links to them then use TLS.")
]
TcpRtt = Annotated[
    TcpRttFor | None,
    typer.Option(help="Topics for which the latency of plain clients is measured by the kernel. [limited]"),
]
Weight = Annotated[float | None, typer.Option(help="Share of topics, in multiples of an ordinary hub. [1]")]
Joining = Annotated[
    Join | None,
    typer.Option(help="auto: add itself to the plan if no controller leads; wait: wait to be added. [auto]"),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Store logs of topics in this folder, for Redis's stream commands and durable topics. Only for a "
        "standalone hub.",
    ),
]
ClusterUser = Annotated[str | None, typer.Option(help="User this hub logs in as on other hubs.")]
Rack = Annotated[str | None, typer.Option(help="Rack of this hub: its failure domain inside the site.")]
ClusterPassword = Annotated[str | None, typer.Option(help="File with the password of --cluster-user.")]
MetricsPort = Annotated[
    int | None, typer.Option(help="Port of /metrics for Prometheus. Without it there are no metrics.")
]


def command(
    name: Annotated[str | None, typer.Option(help="Name of the hub, unique in the cluster.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one. [6399]")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. [127.0.0.1]")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings file (TOML); options have priority over it.")
    ] = None,
    users: UsersFile = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure", help="Allow listening on other addresses than loopback without users."),
    ] = None,
    tls_port: Annotated[int | None, typer.Option(help="Port for TLS; needs certificate and key.")] = None,
    tls_certificate: Annotated[str | None, typer.Option(help="The hub's certificate (PEM).")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Private key of the certificate (PEM).")] = None,
    tls_client_ca: TlsClientCa = None,
    tls_client_required: TlsClientRequired = None,
    link_tls_ca: LinkTlsCa = None,
    store: Store = None,
    region: Region = None,
    advertise: Advertise = None,
    site: Annotated[str | None, typer.Option(help="Site (data centre) of this hub.")] = None,
    rack: Rack = None,
    weight: Weight = None,
    join: Joining = None,
    data: Data = None,
    cluster_user: ClusterUser = None,
    cluster_password_file: ClusterPassword = None,
    metrics_port: MetricsPort = None,
    metrics_host: Annotated[str | None, typer.Option(help="Address of /metrics. [127.0.0.1]")] = None,
    metrics_token_file: MetricsToken = None,
    tcp_rtt_for: TcpRtt = None,
    log_format: LogFormat = LogForm.TEXT,
    verbose: Verbose = False,
) -> None:
    """Run a hub: a pub/sub server that speaks the Redis protocol.

    Try it: start `equipoise hub`, then in another terminal `redis-cli -p 6399 subscribe news`, and in a third
    `redis-cli -p 6399 publish news hello` (or `equipoise sub news` and `equipoise pub news hello`).
    """
    set_up_logs(log_format, verbose=verbose)
    tls = {"port": tls_port, "certificate": tls_certificate, "key": tls_key, "client_ca": tls_client_ca}
    tls["client_certificate_is_required"] = tls_client_required
    membership = {
        "store": store,
        "region": region,
        "advertise": advertise,
        "site": site,
        "rack": rack,
        "weight": weight,
        "join": join,
        "cluster_user": cluster_user,
        "cluster_password_file": cluster_password_file,
    }
    metrics = {"port": metrics_port, "host": metrics_host, "token_file": metrics_token_file}
    with exit_on_failure():
        settings = load_settings(
            config,
            name=name,
            port=port,
            host=host,
            users=users,
            insecure=insecure,
            tls=_given(tls),
            membership=_given(membership),
            metrics=_given(metrics),
            coordinates=_given({"tcp_rtt_for": tcp_rtt_for}),
            cluster=_given({"link_tls_ca": link_tls_ca}),
        )
        uvloop.run(serve(settings, data))


def _given(options: dict[str, Any]) -> dict[str, Any] | None:
    return {key: value for key, value in options.items() if value is not None} or None


async def serve(settings: HubSettings, data: Path | None = None) -> None:
    if data is not None and settings.membership.store:
        raise SettingsError(
            "--data is for standalone hubs: hubs of a cluster store logs on its bookies (`equipoise bookie`)"
        )
    loop = asyncio.get_running_loop()
    settle_allocator()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    settle_descriptors(settings.limits.connections_max)
    work = asyncio.create_task(
        serve_among_others(settings) if settings.membership.store else serve_alone(settings, data)
    )
    stopping = asyncio.create_task(stopped.wait())
    await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
    for task in (work, stopping):
        task.cancel()
    await asyncio.gather(work, stopping, return_exceptions=True)
    if not work.cancelled():
        work.result()


async def serve_alone(settings: HubSettings, data: Path | None = None) -> None:
    """Run one hub without a cluster, until cancelled."""
    hub = Hub(settings, read_users(settings))
    await hub.start()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_files, hub)
    try:
        async with serve_metrics(hub) as metrics, AsyncExitStack() as stack:
            stack.enter_context(quiet_collector(hub))
            if data is not None:
                # Imported only for hubs that need it: it loads the code that writes ledgers.
                from equipoise.cli.support.lone_logs import lone_logs

                await stack.enter_async_context(lone_logs(hub, data))
            print_ready(hub, metrics)
            await asyncio.Event().wait()
    finally:
        await hub.stop()


async def serve_among_others(settings: HubSettings) -> None:
    """Run one hub of a cluster, until cancelled."""
    async with member(settings, read_users(settings)) as running, serve_metrics(running.hub) as metrics:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_member, running.hub)
        await running.wait_ready()
        print_ready(running.hub, metrics)
        with quiet_collector(running.hub):
            await running.wait_over()


def print_ready(hub: Hub, metrics: str | None) -> None:
    settings = hub.settings
    tls = f" and with TLS on {settings.host}:{hub.tls_port}" if hub.tls_port is not None else ""
    print(f"equipoise hub {settings.name} ready on {settings.host}:{hub.port}{tls}", flush=True)
    if metrics is not None:
        log.info("metrics at %s", metrics)


def settle_descriptors(connections_max: int) -> None:
    """Warn at the start, before a client is rejected."""
    fitting = ensure_descriptors(connections_max)
    if fitting < connections_max:
        log.warning(
            "only %d of connections_max = %d connections fit: raise the limit of open files (ulimit -n)",
            fitting,
            connections_max,
        )


def quiet_watch(core: HubCore) -> Callable[[], bool]:
    """Returns whether no message was sent and no log has grown since the last call, and no log is being opened."""
    metering, seen = core.metering, (0, 0)

    def is_quiet() -> bool:
        nonlocal seen
        logs = core.logs
        before, seen = seen, (core.stats.commands, 0 if logs is None else logs.counters.commits)
        is_active = metering.topics_active > 0 if metering.is_on else seen[0] != before[0]
        return not is_active and seen[1] == before[1] and (logs is None or not logs.is_opening)

    return is_quiet


@contextlib.contextmanager
def quiet_collector(hub: Hub) -> Iterator[None]:
    """Run garbage collections in short pauses while the hub runs."""
    core = hub.core
    collector = Collector(core.stats, quiet_watch(core), asyncio.get_running_loop().call_later)
    collector.begin()
    try:
        yield
    finally:
        collector.end()


def read_users(settings: HubSettings) -> Users:
    """The users of the users file; open access if none is set."""
    if not settings.users:
        return Users.open()
    try:
        return parse_users(Path(settings.users).read_text(encoding="utf-8"))
    except OSError as problem:
        raise SettingsError(f"cannot read the users file {settings.users}: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise SettingsError(f"the users file {settings.users} is not UTF-8 text: {problem}") from problem


def reload_files(hub: Hub) -> None:
    reload_users(hub)
    reload_certificate(hub)


def reload_member(hub: Hub) -> None:
    """Read certificate, key and the password at other hubs again."""
    reload_certificate(hub)
    try:
        hub.reload_login(read_login(hub.settings.membership))
    except SettingsError as problem:
        log.error("password of --cluster-user not reloaded: %s", problem)


def reload_certificate(hub: Hub) -> None:
    """Read certificate and key again. A broken pair changes nothing. Users of a cluster are in the store."""
    try:
        hub.reload_certificate()
    except SettingsError as problem:
        log.error("certificate not reloaded: %s", problem)
    else:
        log.info("certificate reloaded")


def reload_users(hub: Hub) -> None:
    """Read the users file again. A broken file changes nothing: the rules in force stay."""
    try:
        users = read_users(hub.settings)
    except SettingsError as problem:
        log.error("users not reloaded: %s", problem)
        return
    hub.reload_users(users)
    log.info("users reloaded: %d users, version %s", len(users), users.version)
