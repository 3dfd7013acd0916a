"""The fan-out benchmark: servers, cases in rounds, memory per idle subscriber, one result.

Every case gets fresh servers. Within a round all servers run the same case one after the other, so round k
of hub and Redis is a pair taken within a second of each other. A server that fails a case is left out of that case
and tried again in the next; its samples of the failed case do not count.

Memory is read twice: one second after the last subscription was acknowledged (`fresh`), and once the figure is stable
(`settled`). Redis gives each new client buffers that it frees after some seconds, and its allocator returns the pages
some ten seconds later; a single reading would be unfair to one of the servers.
"""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

from equipoise.errors import EquipoiseError, PeerError, SettingsError
from equipoise.lab.bench import driver
from equipoise.lab.bench.cases import BenchPlan, Case, FanoutCase, IdleCase, PacedCase
from equipoise.lab.bench.paced import measure_paced
from equipoise.lab.bench.result import OURS, BenchResult, Failure, Metric, Row
from equipoise.profile import environment
from equipoise.profile.audience import LoadSubscribers, await_afterword, close_all, opened, subscribe_all
from equipoise.profile.meters import resident_bytes
from equipoise.profile.servers import KINDS, ServerUnderTest, running, version

__all__ = []

FRESH_S = 1.0
SETTLE_S_MAX = 40.0

# Settled: within this share of the growth for this long. Redis's decline pauses for less.
_STEADY_SHARE = 0.01
_STEADY_S = 3.0
_LOOK_S = 0.25

# Subscribers before the first reading, so that it includes code and tables that any subscription needs.
_WARM_UP = 50

# Descriptors that are not subscribers: files, listeners, the rest of the interpreter.
_DESCRIPTORS_SPARE = 256


@dataclass(frozen=True, slots=True)
class IdleSample:
    fresh_bytes: float
    settled_bytes: float


def raise_descriptor_limit() -> int:
    """Raise the soft limit on open files to the hard one, for this process and its children; return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def measure_idle(servers: Sequence[ServerUnderTest], case: IdleCase) -> dict[str, IdleSample | str]:
    """Measure all servers, as many at a time as descriptors allow. A failed server has a reason instead of a sample."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _DESCRIPTORS_SPARE
    at_once = allowed // (case.connections + _WARM_UP)
    if not at_once:
        needed = case.connections + _WARM_UP + _DESCRIPTORS_SPARE
        return {each.name: f"needs {needed:,} open files" for each in servers}
    outcome: dict[str, IdleSample | str] = {}
    for start in range(0, len(servers), at_once):
        outcome |= _measure_together(servers[start : start + at_once], case)
    return outcome


def _measure_together(servers: Sequence[ServerUnderTest], case: IdleCase) -> dict[str, IdleSample | str]:
    """Measure these servers at the same time."""
    outcome: dict[str, IdleSample | str] = {}
    crowds = [IdleSubscribers(server, case) for server in servers]
    try:
        for crowd in crowds:
            try:
                crowd.connect()
            except (EquipoiseError, OSError) as error:
                outcome[crowd.server.name] = str(error)
        connected = [crowd for crowd in crowds if crowd.server.name not in outcome]
        _settle(connected)
        for crowd in connected:
            try:
                outcome[crowd.server.name] = crowd.sample()
            except (EquipoiseError, OSError) as error:
                outcome[crowd.server.name] = str(error)
    finally:
        for crowd in crowds:
            crowd.close()
    return outcome


def _settle(crowds: Sequence[IdleSubscribers]) -> None:
    """Wait until the memory of all servers is stable, up to a limit."""
    deadline = time.monotonic() + SETTLE_S_MAX
    while time.monotonic() < deadline and not all(crowd.is_steady(time.monotonic()) for crowd in crowds):
        time.sleep(_LOOK_S)


class IdleSubscribers:
    """The idle subscribers of one server. `connect` first, `close` always; `sample` once steady."""

    def __init__(self, server: ServerUnderTest, case: IdleCase) -> None:
        self.server = server
        self._case = case
        self._sockets: list[socket.socket] = []
        self._before_bytes = 0
        self._fresh_bytes = 0.0
        # The reading that later readings are compared with, and the time since which they are close to it.
        self._reference_bytes, self._since_s = -1.0, 0.0

    def connect(self) -> None:
        subscribe_all(self.server, [b"bench.idle.warm"] * _WARM_UP, self._sockets)
        self._before_bytes = resident_bytes(self.server.pid)
        numbers = range(self._case.connections)
        names = [b"bench.idle.%05d" % (0 if self._case.is_topic_shared else number) for number in numbers]
        subscribe_all(self.server, names, self._sockets)
        time.sleep(FRESH_S)
        self._fresh_bytes = self._per_subscriber()

    def is_steady(self, now_s: float) -> bool:
        current = self._per_subscriber()
        if abs(current - self._reference_bytes) > _STEADY_SHARE * abs(self._reference_bytes):
            self._reference_bytes, self._since_s = current, now_s
        return now_s - self._since_s >= _STEADY_S

    def sample(self) -> IdleSample:
        """Raises PeerError if a subscriber was disconnected, because the server then holds no memory for it."""
        for each in self._sockets:
            each.setblocking(False)
            try:
                is_open = each.recv(1, socket.MSG_PEEK) != b""
            except BlockingIOError:
                is_open = True
            if not is_open:
                raise PeerError("the server disconnected an idle subscriber")
        return IdleSample(self._fresh_bytes, self._per_subscriber())

    def close(self) -> None:
        close_all(self._sockets)

    def _per_subscriber(self) -> float:
        return (resident_bytes(self.server.pid) - self._before_bytes) / self._case.connections


# Called before each case with its label and its number, counted from zero.
Progress = Callable[[str, int], None]


@dataclass(slots=True)
class _Book:
    """Collects rows and failures."""

    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def add(self, case: Case, samples: dict[str, list[dict[Metric, float]]]) -> None:
        metrics = next((list(each[0]) for each in samples.values() if each), [])
        for metric in metrics:
            values = {name: [sample[metric] for sample in taken] for name, taken in samples.items() if taken}
            self.rows.append(Row(case, metric, values))

    def fail(self, case: Case, server: str, reason: object) -> None:
        self.failures.append(Failure(case.label, server, str(reason)))


def choose(against: Sequence[str], *, with_hub: bool = True) -> tuple[list[str], dict[str, str]]:
    """The servers to run, hub first, and the reasons for skipped servers. Raises SettingsError on an unknown name."""
    for name in against:
        if name not in KINDS or name == OURS:
            raise SettingsError(
                f"cannot run against {name!r}: choose from {', '.join(sorted(KINDS.keys() - {OURS}))}"
            )
    names = [OURS, *against] if with_hub else list(against)
    skipped = {name: KINDS[name].absence for name in names if KINDS[name].find() is None}
    return [name for name in names if name not in skipped], skipped


def run(
    plan: BenchPlan,
    names: Sequence[str],
    skipped: dict[str, str],
    *,
    window: int = driver.WINDOW,
    is_quick: bool = False,
    progress: Progress = lambda label, number: None,
) -> BenchResult:
    """Measure all cases of `plan`. Takes minutes; stops every server it starts, also when interrupted."""
    raise_descriptor_limit()
    book = _Book()
    cases: list[Case] = [*plan.fanout, *plan.paced, *plan.idle]
    for number, case in enumerate(cases):
        progress(case.label, number)
        with ExitStack() as stack:
            if isinstance(case, IdleCase):
                _run_idle(case, _start(names, case, book, stack), book)
            else:
                _run_rounds(case, _open(names, case, book, stack), book, rounds=plan.rounds, window=window)
    return BenchResult(
        benchmark="fanout",
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=environment.commit(),
        machine=environment.machine(),
        versions=environment.library_versions() | {name: version(KINDS[name]) for name in names},
        rounds=plan.rounds,
        window=window,
        is_quick=is_quick,
        servers=list(names),
        skipped=skipped,
        rows=book.rows,
        failures=book.failures,
    )


def _start(names: Sequence[str], case: Case, book: _Book, stack: ExitStack) -> list[ServerUnderTest]:
    """Start the servers of a case. A server that does not start is a failure of this case."""
    servers = []
    for name in names:
        try:
            servers.append(stack.enter_context(running(KINDS[name])))
        except (EquipoiseError, OSError) as error:
            book.fail(case, name, error)
    return servers


def _open(
    names: Sequence[str], case: FanoutCase | PacedCase, book: _Book, stack: ExitStack
) -> list[tuple[ServerUnderTest, LoadSubscribers]]:
    """Start all servers and connect to them, last to first: NATS sends a frame two seconds after a connect, and
    the other servers start and warm up meanwhile.
    """
    is_single = isinstance(case, PacedCase) or case.batch == 1
    topics = case.topics if isinstance(case, FanoutCase) else 1
    ready: list[tuple[ServerUnderTest, LoadSubscribers]] = []
    for name in reversed(names):
        for server in _start([name], case, book, stack):
            try:
                connected = opened(server, topics=topics, fanout=case.fanout, is_single=is_single)
                ready.insert(0, (server, stack.enter_context(connected)))
            except (EquipoiseError, OSError) as error:
                book.fail(case, name, error)
    return ready


def _run_rounds(
    case: FanoutCase | PacedCase,
    ready: list[tuple[ServerUnderTest, LoadSubscribers]],
    book: _Book,
    *,
    rounds: int,
    window: int,
) -> None:
    samples: dict[str, list[dict[Metric, float]]] = {server.name: [] for server, _ in ready}
    # Round 0 warms up and is not kept.
    for number in range(rounds + 1):
        for server, audience in list(ready):
            try:
                if number == 0:
                    _rehearse(server, case, audience)
                sample = _sample(server, case, audience, window)
            except (EquipoiseError, OSError) as error:
                book.fail(case, server.name, error)
                ready.remove((server, audience))
                samples[server.name] = []
                continue
            if number:
                samples[server.name].append(sample)
    book.add(case, samples)


def _rehearse(server: ServerUnderTest, case: FanoutCase | PacedCase, audience: LoadSubscribers) -> None:
    await_afterword(audience, server.dialect)
    if isinstance(case, FanoutCase):
        driver.rehearse(case, server.dialect, audience)


def _sample(
    server: ServerUnderTest, case: FanoutCase | PacedCase, audience: LoadSubscribers, window: int
) -> dict[Metric, float]:
    if isinstance(case, PacedCase):
        paced = measure_paced(server, case, audience)
        return {
            Metric.LATENCY_P50: paced.p50_us,
            Metric.LATENCY_P99: paced.p99_us,
            Metric.LEFT_OUT: paced.left_out,
        }
    sample = driver.measure(server, case, audience, window=window)
    return {
        Metric.CPU: sample.cpu_us_per_delivery,
        Metric.RATE: sample.deliveries_per_s,
        Metric.BUSY: sample.server_busy,
    }


def _run_idle(case: IdleCase, servers: Sequence[ServerUnderTest], book: _Book) -> None:
    samples: dict[str, list[dict[Metric, float]]] = {each.name: [] for each in servers}
    for name, outcome in measure_idle(servers, case).items():
        if isinstance(outcome, IdleSample):
            samples[name] = [
                {Metric.MEMORY_FRESH: outcome.fresh_bytes, Metric.MEMORY_SETTLED: outcome.settled_bytes}
            ]
        else:
            book.fail(case, name, outcome)
    book.add(case, samples)
