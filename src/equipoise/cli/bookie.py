"""`equipoise bookie`: run one bookie until it is stopped, or check its directory."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from contextlib import AbstractContextManager
from ipaddress import ip_address
from pathlib import Path
from random import SystemRandom
from typing import Annotated
from uuid import uuid4

import typer
import uvloop

from equipoise.bookie.bookie import Bookie
from equipoise.bookie.check import check_directory
from equipoise.bookie.logins import BookieSecurity
from equipoise.bookie.settings import BookieSettings
from equipoise.cli.support.bookie_access import ClusterPasswordFile, ClusterUser, TlsCa, read_access
from equipoise.cli.support.failures import exit_on_failure
from equipoise.cli.support.folders import held
from equipoise.cli.support.logs import LogForm, LogFormat, Verbose, set_up_logs
from equipoise.cli.support.store_options import AsJson, Region
from equipoise.cli.support.tables import show_json, show_table
from equipoise.disk import DirectoryDisk
from equipoise.errors import DisconnectedError, DiskFailedError, SettingsError
from equipoise.ledger.registration import BookieFacts
from equipoise.ledger_client.bookie_pool import BookieAccess
from equipoise.processes.allocator import settle_allocator
from equipoise.store.tree import Tree
from equipoise.store.urls import open_store

app = typer.Typer(
    help="Run a bookie: it stores the entries of durable topics on one disk. Or check its directory.",
    invoke_without_command=True,
)

log = logging.getLogger("equipoise.bookie")

# BookKeeper's own port.
PORT = 3181
# Exit status after a failed sync: a restarted process reads the true content of the disk.
DISK_FAILED = 74
_LOCK = "lock"
_COLLECT_EVERY_S = BookieSettings().collection_interval_s
# Disks with a cache that survives a power cut sync in less; a thread for each sync would double the time of an append.
_LOOP_SYNC_S = 0.005
# New objects that trigger a young garbage collection, as in hubs.
_YOUNG_OBJECTS = 10_000


Directory = Annotated[
    Path | None, typer.Option("--dir", help="Directory of this bookie, on a disk of its own if possible.")
]
StoreAddress = Annotated[
    str, typer.Option(envvar="EQUIPOISE_STORE", help="Metadata store of the cluster: zk://host:port/root.")
]
Site = Annotated[str, typer.Option(help="Site (data centre) of this bookie.")]
Rack = Annotated[str, typer.Option(help="Rack of this bookie: its failure domain. By default the host.")]
BookieName = Annotated[str, typer.Option(help="Name, the same at every start. By default HOST:PORT.")]
ListenHost = Annotated[
    str, typer.Option(help="Address to listen on. Beyond loopback a bookie needs a certificate.")
]
ListenPort = Annotated[
    int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one and needs --name.")
]
Advertise = Annotated[
    str, typer.Option(help="Host at which hubs reach this bookie, if it is not the one it listens on.")
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Allow listening on other addresses than loopback without TLS: anyone who reaches the port can read and "
        "write.",
    ),
]
Certificate = Annotated[
    str,
    typer.Option(help='Certificate (PEM) for TLS. Clients then log in as users with link = ["*"].'),
]
CertificateKey = Annotated[str, typer.Option(help="Private key (PEM), if it is not in the certificate file.")]
SegmentMb = Annotated[int, typer.Option(min=8, max=1024, help="Size of a segment file in MiB.")]
CollectEvery = Annotated[
    float, typer.Option(min=0.1, help="Seconds between two collections of deleted ledgers.")
]
Apache = Annotated[
    bool,
    typer.Option(
        "--apache",
        help="Run a bookie of Apache BookKeeper instead, on loopback: for trials and tests. Needs Java.",
    ),
]
Jars = Annotated[
    Path,
    typer.Option(
        envvar="EQUIPOISE_BOOKKEEPER", help="With --apache: folder of the jars from `make bookkeeper`."
    ),
]


@app.callback()
def command(
    context: typer.Context,
    directory: Directory = None,
    store: StoreAddress = "",
    region: Region = "default",
    site: Site = "",
    rack: Rack = "",
    name: BookieName = "",
    host: ListenHost = "127.0.0.1",
    port: ListenPort = PORT,
    advertise: Advertise = "",
    insecure: Insecure = False,
    tls_certificate: Certificate = "",
    tls_key: CertificateKey = "",
    cluster_user: ClusterUser = "",
    cluster_password_file: ClusterPasswordFile = "",
    link_tls_ca: TlsCa = "",
    segment_mb: SegmentMb = 64,
    collect_every: CollectEvery = _COLLECT_EVERY_S,
    apache: Apache = False,
    jars: Jars = Path("bookkeeper-jars"),
    log_format: LogFormat = LogForm.TEXT,
    verbose: Verbose = False,
) -> None:
    """Run a bookie: it stores the entries of durable topics on one disk.

    An entry is acknowledged once it is synced. After a failed sync the process ends with status 74. Run one for each
    disk; `equipoise bookies ls` shows them all. Beyond loopback it speaks TLS and asks hubs for their login.
    """
    if context.invoked_subcommand is not None:
        return
    set_up_logs(log_format, verbose=verbose)
    with exit_on_failure():
        access = read_access(cluster_user, cluster_password_file, link_tls_ca)
        security = checked_security(tls_certificate, tls_key, access)
        directory = checked(directory, store, host, port, name, is_open=insecure or security is not None)
        facts = BookieFacts(
            name=name or f"{advertise or host}:{port}",
            host=advertise or host,
            port=port,
            site=site,
            rack=rack or advertise or host,
        )
        if apache:
            check_apache(facts, host)
            uvloop.run(serve_apache(facts, directory, jars, store, Tree(region), segment_mb, collect_every))
            return
        settings = BookieSettings(
            segment_bytes=segment_mb * 1024 * 1024,
            collection_interval_s=collect_every,
            loop_sync_s=_LOOP_SYNC_S,
        )
        settle_allocator()
        # An index in memory consists of long-lived objects without cycles: repeated garbage collections are useless.
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, 10, 10)
        with locked(directory):
            try:
                work = serve(facts, directory, store, Tree(region), settings, security, listen_host=host)
                uvloop.run(work)
            except DiskFailedError as error:
                log.critical("disk failure, the bookie stops: %s", error)
                # At once: no thread that still waits for the disk delays the exit.
                os._exit(DISK_FAILED)


@app.command()
def check(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of a bookie that does not run.")
    ],
    as_json: AsJson = False,
) -> None:
    """Read everything in a bookie's directory and report damage. Changes nothing.

    Exits with status 1 if something is damaged.
    """
    with exit_on_failure():
        if not directory.is_dir():
            raise SettingsError(f"there is no directory {directory}: give the --dir of a bookie")
        with locked(directory):
            report = check_directory(DirectoryDisk(directory))
        if as_json:
            show_json(report.as_dict())
        else:
            print(f"bookie {report.bookie} of cluster {report.instance}, format {report.format}")
            show_table(
                ("SEGMENT", "STATE", "ENTRIES", "LEDGERS", "BYTES", "TORN", "DAMAGE", "INDEX"),
                [segment.row() for segment in report.segments],
            )
            print(f"{report.entries} entries of {report.ledgers} ledgers, {report.damaged} damaged places")
    if report.damaged:
        raise typer.Exit(1)


def checked_security(certificate: str, key: str, access: BookieAccess | None) -> BookieSecurity | None:
    """TLS settings of the bookie; None: no TLS. Raises SettingsError."""
    if not certificate:
        return None
    if access is None:
        raise SettingsError(
            "a bookie with --tls-certificate needs --cluster-user and --cluster-password-file: it logs in on other "
            "bookies to repair damaged entries"
        )
    security = BookieSecurity(certificate, key, access)
    security.context()
    return security


def checked(directory: Path | None, store: str, host: str, port: int, name: str, *, is_open: bool) -> Path:
    """The directory, if a bookie can be started with these options. Raises SettingsError."""
    if directory is None or not store:
        raise SettingsError("a bookie needs --dir, its directory, and --store, the cluster's store")
    if not is_open and not _is_loopback(host):
        raise SettingsError(
            f"{host} is not a loopback address: give --tls-certificate, --cluster-user and --cluster-password-file, so "
            "that clients have to log in, or --insecure in a closed network"
        )
    if not name and not port:
        raise SettingsError("a bookie on a free port needs --name: it must have the same name at every start")
    return directory


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def locked(directory: Path) -> AbstractContextManager[None]:
    """Lock the directory: two bookies in one would destroy each other's segments."""
    return held(directory, lock=_LOCK, taken="another bookie uses the directory")


def check_apache(facts: BookieFacts, host: str) -> None:
    """Raises SettingsError for options that --apache does not support."""
    if not _is_loopback(host) or not facts.port or facts.site or facts.rack != facts.host:
        raise SettingsError(
            "--apache runs a bookie for trials: on loopback, on a port that is given, without site and rack"
        )


async def serve_apache(
    facts: BookieFacts,
    directory: Path,
    jars: Path,
    store_url: str,
    tree: Tree,
    log_mb: int,
    collect_every_s: float,
) -> None:
    # Imported here, so that our own bookie starts sooner.
    from equipoise.bookie.apache import HOST, ApacheBookie, ApacheSettings

    stopped = _stop_signal()
    settings = ApacheSettings(
        name=facts.name,
        port=facts.port,
        directory=directory,
        jars=jars,
        store_url=store_url,
        tree=tree,
        collect_every_s=collect_every_s,
        log_bytes=log_mb * 1024 * 1024,
    )
    settings.check()
    store = await open_store(store_url)
    try:
        bookie = ApacheBookie(settings, store)
        with locked(directory):
            await bookie.start(str(uuid4()))
            print(f"equipoise bookie {facts.name} ready on {HOST}:{facts.port}", flush=True)
            ended, stopping = asyncio.create_task(bookie.wait()), asyncio.create_task(stopped.wait())
            await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if ended.done():
                raise DisconnectedError(
                    f"the bookie has ended with status {ended.result()}; see {bookie.log_path}"
                )
            await bookie.stop()
            await ended
    finally:
        await store.close()


def _stop_signal() -> asyncio.Event:
    """Set by SIGINT and SIGTERM."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


async def serve(
    facts: BookieFacts,
    directory: Path,
    store_url: str,
    tree: Tree,
    settings: BookieSettings,
    security: BookieSecurity | None,
    *,
    listen_host: str,
) -> None:
    stopped = _stop_signal()
    store = await open_store(store_url)
    try:
        bookie = Bookie(facts, DirectoryDisk(directory), store, tree, SystemRandom(), settings, security)
        await bookie.start(listen_host=listen_host)
        print(f"equipoise bookie {facts.name} ready on {bookie.facts.host}:{bookie.facts.port}", flush=True)
        work = asyncio.create_task(bookie.run())
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
        for task in (work, stopping):
            task.cancel()
        await asyncio.gather(work, stopping, return_exceptions=True)
        if not work.cancelled():
            work.result()
        await bookie.stop()
    finally:
        await store.close()
