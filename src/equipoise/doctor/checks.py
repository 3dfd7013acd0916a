"""Checks of a machine: plain values in, one finding each. Pure.

Always true: a finding that is not ok has the next step. A failure prevents a part of the system from running; a warning
is a limitation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "CheckResult",
    "CheckStatus",
    "check_bookies",
    "check_clock",
    "check_directory",
    "check_durability",
    "check_java",
    "check_limits",
    "check_memory",
    "check_open_files",
    "check_port",
    "check_processors",
    "check_python",
    "check_spark",
    "check_store",
]

GIB = 1024**3
JAVA_VERSION_MIN = 17
PYTHON_VERSION_MIN = (3, 11)
SPARK_VERSION = (4, 3)
# Heap of the driver and the worker's Python, ZooKeeper, a controller and two hubs, as measured: 1.6 GiB.
MEMORY_BYTES_WANTED = 2 * GIB
# Hubs alone, with room for their clients.
MEMORY_BYTES_MIN = GIB // 4
# A lake of two days on a small system; ZooKeeper keeps a few snapshots.
DISK_BYTES_WANTED = GIB
# Hubs and controllers reject a view older than ten seconds, by their clocks.
CLOCK_S_MAX = 5.0
CLOCK_S_WANTED = 0.5
# A session needs replies within a few seconds; in one network they take milliseconds.
ANSWER_S_WANTED = 0.5
# Open files beside connections.
DESCRIPTORS_RESERVED = 128


class CheckStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    status: CheckStatus
    # The result.
    fact: str
    # The next step; empty if the result is ok.
    next_step: str = ""


def check_python(version: tuple[int, int]) -> CheckResult:
    fact = f"{version[0]}.{version[1]}"
    if version >= PYTHON_VERSION_MIN:
        return CheckResult("python", CheckStatus.OK, fact)
    wanted = ".".join(map(str, PYTHON_VERSION_MIN))
    return CheckResult(
        "python", CheckStatus.FAILURE, fact, f"install Python {wanted} or newer, then `make setup` again"
    )


def check_java(path: str | None, version: int | None) -> CheckResult:
    """Hubs alone need none; ZooKeeper and Spark do."""
    step = f"install Java {JAVA_VERSION_MIN} or newer (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"
    if path is None:
        return CheckResult("java", CheckStatus.FAILURE, "there is none", f"{step}; a single hub needs none")
    if version is None:
        return CheckResult("java", CheckStatus.FAILURE, f"{path} does not print its version", step)
    if version < JAVA_VERSION_MIN:
        return CheckResult("java", CheckStatus.FAILURE, f"{version} at {path}", step)
    return CheckResult("java", CheckStatus.OK, f"{version} at {path}")


def check_spark(version: str | None) -> CheckResult:
    """`version` by the package's metadata; None if it cannot be imported."""
    step = "pip install 'equipoise[pipeline]'"
    if version is None:
        return CheckResult("spark", CheckStatus.FAILURE, "PySpark is not installed", step)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < SPARK_VERSION or numbers[0] > SPARK_VERSION[0]:
        wanted = ".".join(map(str, SPARK_VERSION))
        return CheckResult(
            "spark", CheckStatus.FAILURE, f"PySpark {version}", f"{wanted} or a later 4.x is needed: {step}"
        )
    return CheckResult("spark", CheckStatus.OK, f"PySpark {version}")


def check_port(port: int, purpose: str, *, is_free: bool) -> CheckResult:
    """A port may be in use by the system to be checked."""
    name = f"port {port}"
    if is_free:
        return CheckResult(name, CheckStatus.OK, f"free, for {purpose}")
    step = (
        f"if it is not yours, find the process: ss -ltnp 'sport = :{port}'; or choose another for {purpose}"
    )
    return CheckResult(name, CheckStatus.WARNING, "taken", step)


def check_open_files(hard: int | None, connections_max: int) -> CheckResult:
    """`hard` is the limit that a hub can raise its own to; None for no limit."""
    wanted = connections_max + DESCRIPTORS_RESERVED
    fact = "no limit" if hard is None else f"at most {hard:,} for each process"
    if hard is None or hard >= wanted:
        return CheckResult("open files", CheckStatus.OK, fact)
    fitting = max(0, hard - DESCRIPTORS_RESERVED)
    step = (
        f"a hub takes {fitting:,} connections of {connections_max:,}: raise it (ulimit -Hn {wanted}, or "
        f"LimitNOFILE={wanted} in a systemd unit), or lower limits.connections_max"
    )
    return CheckResult("open files", CheckStatus.WARNING, fact, step)


def check_memory(available_bytes: int | None) -> CheckResult:
    """`available_bytes`: memory available without swapping; None if unknown."""
    if available_bytes is None:
        return CheckResult(
            "memory", CheckStatus.WARNING, "unknown", "see that 2 GiB are free before `equipoise up`"
        )
    fact = f"{available_bytes / GIB:.1f} GiB available"
    if available_bytes < MEMORY_BYTES_MIN:
        return CheckResult(
            "memory", CheckStatus.FAILURE, fact, "a hub and its clients need 256 MiB: end something else"
        )
    if available_bytes < MEMORY_BYTES_WANTED:
        step = "Spark, ZooKeeper and two hubs take some 1.6 GiB: run the pipeline elsewhere, or `up --no-pipeline`"
        return CheckResult("memory", CheckStatus.WARNING, fact, step)
    return CheckResult("memory", CheckStatus.OK, fact)


def check_processors(count: int) -> CheckResult:
    fact = f"{count} {'core' if count == 1 else 'cores'}"
    if count >= 2:
        return CheckResult("processors", CheckStatus.OK, fact)
    return CheckResult(
        "processors", CheckStatus.WARNING, fact, "a hub needs a core of its own: run Spark elsewhere"
    )


def check_directory(directory: str, *, is_writable: bool, free_bytes: int) -> CheckResult:
    """The directory for the state of `equipoise up`."""
    if not is_writable:
        return CheckResult(
            "directory", CheckStatus.FAILURE, f"{directory} cannot be written to", "give --dir another"
        )
    fact = f"{free_bytes / GIB:.1f} GiB free in {directory}"
    if free_bytes < DISK_BYTES_WANTED:
        step = "history takes up to 1 GiB: free space, give --dir another disk, or run the pipeline with --no-lake"
        return CheckResult("directory", CheckStatus.WARNING, fact, step)
    return CheckResult("directory", CheckStatus.OK, fact)


def check_store(url: str, *, answer_s: float | None, problem: str = "") -> CheckResult:
    """`answer_s`: the time of the reply; None without one, for the given reason."""
    if answer_s is None:
        step = "start one with `equipoise store`, or check the address and that its port is open from here"
        return CheckResult("store", CheckStatus.FAILURE, f"{url} does not answer: {problem}", step)
    fact = f"{url} answers in {1_000 * answer_s:.0f} ms"
    if answer_s > ANSWER_S_WANTED:
        step = "hubs that wait for it too long are declared dead: use a nearer store, or a faster disk"
        return CheckResult("store", CheckStatus.WARNING, fact, step)
    return CheckResult("store", CheckStatus.OK, fact)


def check_bookies(region: str, bookies: Mapping[str, bool]) -> CheckResult:
    """By name and address of each: whether any client that reaches it may read and write."""
    exposed = sorted(name for name, is_exposed in bookies.items() if is_exposed)
    if exposed:
        step = (
            "give them --tls-certificate, --cluster-user and --cluster-password-file, or close their ports to all but "
            "hubs"
        )
        fact = f"region {region}: a client that reaches {', '.join(exposed)} can read and write all logs"
        return CheckResult("bookies", CheckStatus.WARNING, fact, step)
    return CheckResult("bookies", CheckStatus.OK, f"region {region}: {len(bookies)} bookies, all restricted")


def check_durability(
    region: str, *, writable: int, needed: int, lost: Sequence[str], full: Sequence[str]
) -> CheckResult:
    """Whether the bookies of a region meet the durability of its specs. `needed`: the largest ensemble of a spec."""
    name = "durability"
    if writable < needed:
        step = "start more: `equipoise bookie --dir DIR --store URL`; until then durable topics are rejected"
        fact = f"region {region}: {writable} bookies are writable, a durable spec needs {needed}"
        return CheckResult(name, CheckStatus.FAILURE, fact, step)
    if lost:
        step = "restart them, or copy their ledgers: `equipoise bookies drain NAME`, then `forget` them"
        return CheckResult(
            name, CheckStatus.WARNING, f"region {region}: lost: {', '.join(sorted(lost))}", step
        )
    if full:
        step = "free space, or start others: above 95 % they are read-only"
        fact = f"region {region}: nearly full: {', '.join(sorted(full))}"
        return CheckResult(name, CheckStatus.WARNING, fact, step)
    return CheckResult(name, CheckStatus.OK, f"region {region}: {writable} bookies are writable")


def check_limits(region: str, limited: Sequence[str], unable: Sequence[str]) -> CheckResult:
    """`limited`: the patterns with a rate limit. `unable`: live hubs of a release without rate limits."""
    topics = f"region {region}: {len(limited)} {'pattern has' if len(limited) == 1 else 'patterns have'} a rate limit"
    if not unable:
        return CheckResult("rate limits", CheckStatus.OK, f"{topics}, and every live hub enforces it")
    fact = f"{topics} that {', '.join(sorted(unable))} cannot enforce: such a hub gets no topics"
    step = (
        f"install this release there and restart the hub, then restore its weight: "
        f"equipoise hubs weigh {min(unable)} 1"
    )
    return CheckResult("rate limits", CheckStatus.WARNING, fact, step)


def check_clock(offset_s: float, uncertainty_s: float) -> CheckResult:
    """Compared with the store's clock. The uncertainty of the round trip does not count."""
    least_s = max(0.0, abs(offset_s) - uncertainty_s)
    direction = "behind" if offset_s > 0 else "ahead of"
    fact = f"{abs(offset_s):.3f} s {direction} the store's, give or take {uncertainty_s:.3f} s"
    step = "synchronise the clocks of all machines with chrony or systemd-timesyncd: timedatectl set-ntp true"
    if least_s > CLOCK_S_MAX:
        return CheckResult("clock", CheckStatus.FAILURE, fact, f"views from here are rejected; {step}")
    if least_s > CLOCK_S_WANTED:
        return CheckResult("clock", CheckStatus.WARNING, fact, step)
    return CheckResult("clock", CheckStatus.OK, fact)
