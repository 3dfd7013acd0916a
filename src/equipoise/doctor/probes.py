"""Collect the facts that the checks need from this machine and from the store."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import shutil
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path, PurePosixPath

from equipoise.doctor import checks
from equipoise.doctor.checks import CheckResult
from equipoise.errors import EquipoiseError, NoNodeError, StoreUnavailableError
from equipoise.hub.settings import Limits
from equipoise.model.names import shown
from equipoise.store import HubsStore, SpecsStore
from equipoise.store.contract import Store, StoreSettings
from equipoise.store.embedded.zookeeper_process import java_version, locate_java
from equipoise.store.records.bookies import BookiesStore
from equipoise.store.tree import Tree
from equipoise.store.urls import open_store
from equipoise.store.zookeeper_url import ZooKeeperAddress, parse_zookeeper

__all__ = ["PORTS", "CheckOptions", "ClockReading", "examine", "read_clock"]


@dataclass(frozen=True, slots=True)
class ClockReading:
    # The store's time minus the local time; positive if the store is ahead.
    offset_s: float
    # The maximum error: half the round trip.
    uncertainty_s: float


def read_clock(address: ZooKeeperAddress, timeout_s: float) -> ClockReading:
    """Create an ephemeral node, and read its time. Blocks; raises StoreUnavailableError."""
    # Imported here, so that the doctor also runs without the client of ZooKeeper.
    from kazoo.client import KazooClient  # type: ignore[import-untyped]  # kazoo has no types
    from kazoo.exceptions import KazooException  # type: ignore[import-untyped]  # kazoo has no types
    from kazoo.handlers.threading import (  # type: ignore[import-untyped]  # kazoo has no types
        KazooTimeoutError,
    )

    silent = logging.Logger("equipoise.doctor.probes", level=logging.CRITICAL)
    client = KazooClient(address.chroot, timeout=timeout_s, logger=silent, **address.client_options())
    try:
        client.start(timeout=timeout_s)
        client.ensure_path("/")
        before_s = time.time()
        _, stat = client.create(f"/clock-{uuid.uuid4().hex}", b"", ephemeral=True, include_data=True)
        after_s = time.time()
    except (KazooException, KazooTimeoutError, OSError) as problem:
        raise StoreUnavailableError(str(problem) or "no answer in time") from problem
    finally:
        client.stop()
        client.close()
    return ClockReading(stat.ctime / 1_000 - (before_s + after_s) / 2, (after_s - before_s) / 2)


# Default ports.
PORTS = {6399: "a hub", 6398: "the dashboard", 2181: "ZooKeeper"}
_PATIENCE_S = 5.0
# The share of a bookie's disk that should be free.
_ROOM_WANTED = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """The subjects of the checks."""

    # Port and its purpose.
    ports: dict[int, str] = field(default_factory=lambda: dict(PORTS))
    directory: Path = Path()
    # Empty: no store is checked.
    store_url: str = ""


async def examine(wanted: CheckOptions) -> AsyncIterator[CheckResult]:
    """Findings, one after the other."""
    yield checks.check_python((sys.version_info.major, sys.version_info.minor))
    java = locate_java()
    yield checks.check_java(java, None if java is None else await asyncio.to_thread(java_version, java))
    yield checks.check_spark(spark_version())
    for port, purpose in wanted.ports.items():
        yield checks.check_port(port, purpose, is_free=is_free(port))
    yield checks.check_open_files(hard_limit(), Limits().connections_max)
    yield checks.check_memory(available_bytes())
    yield checks.check_processors(os.cpu_count() or 1)
    yield look_at(wanted.directory)
    if wanted.store_url:
        found = await ask_store(wanted.store_url)
        yield found
        if found.status is not checks.CheckStatus.FAILURE and (clock := await ask_clock(wanted.store_url)):
            yield clock
        if found.status is not checks.CheckStatus.FAILURE:
            async for finding in ask_bookies(wanted.store_url):
                yield finding
            async for finding in ask_limits(wanted.store_url):
                yield finding


def spark_version() -> str | None:
    if find_spec("pyspark") is None:
        return None
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError:
        return False
    return True


def hard_limit() -> int | None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if hard == resource.RLIM_INFINITY else hard


def available_bytes(path: Path = Path("/proc/meminfo")) -> int | None:
    """The kernel's estimate; None if there is no such file."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return int(found[0][1]) * 1024 if found else None


def look_at(directory: Path) -> CheckResult:
    """The directory, or its nearest existing parent."""
    there = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    is_writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return checks.check_directory(
        str(directory.absolute()), is_writable=is_writable, free_bytes=shutil.disk_usage(there).free
    )


async def ask_store(url: str) -> CheckResult:
    settings = StoreSettings(session_timeout_s=_PATIENCE_S, request_timeout_s=_PATIENCE_S)
    try:
        store = await open_store(url, settings)
    except EquipoiseError as problem:
        return checks.check_store(url, answer_s=None, problem=str(problem))
    try:
        began_at = time.perf_counter()
        await store.find("/")
        return checks.check_store(url, answer_s=time.perf_counter() - began_at)
    except EquipoiseError as problem:
        return checks.check_store(url, answer_s=None, problem=str(problem))
    finally:
        await store.close()


async def ask_bookies(url: str) -> AsyncIterator[CheckResult]:
    """One finding for each region of the store that has bookies."""
    settings = StoreSettings(session_timeout_s=_PATIENCE_S, request_timeout_s=_PATIENCE_S)
    store = await open_store(url, settings)
    try:
        for region in await _regions(store):
            bookies = BookiesStore(store, Tree(region))
            found = await bookies.load()
            specs = await SpecsStore(store, Tree(region)).load()
            needed = max(
                (spec.durability.ensemble for spec in specs if spec.durability is not None), default=0
            )
            lost = set(await bookies.cookies()) - found.keys()
            if found or lost or needed:
                yield checks.check_durability(
                    region,
                    writable=sum(not each.is_read_only for each in found.values()),
                    needed=needed,
                    lost=sorted(lost),
                    full=[
                        each.name
                        for each in found.values()
                        if each.total_bytes and each.free_bytes < _ROOM_WANTED * each.total_bytes
                    ],
                )
            if found:
                exposed = {
                    f"{each.name} at {each.host}:{each.port}": not each.is_secured
                    and not _is_loopback(each.host)
                    for each in found.values()
                }
                yield checks.check_bookies(region, exposed)
    finally:
        await store.close()


async def ask_limits(url: str) -> AsyncIterator[CheckResult]:
    """One finding for each region of the store that has topics with a rate limit."""
    settings = StoreSettings(session_timeout_s=_PATIENCE_S, request_timeout_s=_PATIENCE_S)
    store = await open_store(url, settings)
    try:
        for region in await _regions(store):
            specs = await SpecsStore(store, Tree(region)).load()
            limited = [shown(spec.pattern) for spec in specs if spec.envelope is not None]
            if limited:
                hubs = await HubsStore(store, Tree(region)).load()
                unable = [
                    hub
                    for hub, seen in hubs.items()
                    if seen.alive is not None and not seen.facts.keeps_limits
                ]
                yield checks.check_limits(region, limited, unable)
    finally:
        await store.close()


async def _regions(store: Store) -> tuple[str, ...]:
    try:
        return await store.children(str(PurePosixPath(Tree().root).parent))
    except NoNodeError:
        return ()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


async def ask_clock(url: str) -> CheckResult | None:
    """None if the store has no clock of its own."""
    address = parse_zookeeper(url)
    if address is None:
        return None
    try:
        reading = await asyncio.to_thread(read_clock, address, _PATIENCE_S)
    except EquipoiseError as problem:
        return checks.check_store(url, answer_s=None, problem=str(problem))
    return checks.check_clock(reading.offset_s, reading.uncertainty_s)
