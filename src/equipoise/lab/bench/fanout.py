"""The fan-out benchmark as a whole: which servers, each case in rounds, one result.

Every case gets fresh servers. Within a round all servers run the same case one after the other, so round k
of hub and Redis is a pair taken within a second of each other. A server that fails a case leaves that case
and is tried again in the next; nothing it did in the failed case counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime

from equipoise.errors import EquipoiseError, SettingsError
from equipoise.lab.bench import driver
from equipoise.lab.bench.cases import BenchPlan, Case, FanoutCase, IdleCase, PacedCase
from equipoise.lab.bench.goals import Metric
from equipoise.lab.bench.idle import IdleSample, measure_idle, raise_descriptor_limit
from equipoise.lab.bench.paced import measure_paced
from equipoise.lab.bench.result import OURS, BenchResult, Failure, Row
from equipoise.profile import environment
from equipoise.profile.audience import LoadSubscribers, await_afterword, opened
from equipoise.profile.servers import KINDS, ServerUnderTest, running, version

# Called before each case with its label and its number, counted from zero.
Progress = Callable[[str, int], None]


@dataclass(slots=True)
class _Book:
    """Rows and failures as they come in."""

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
    """The servers to run, hub first, and why others are left out. Raises SettingsError on an unknown name."""
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
    """Measure everything in `plan`. Takes minutes; ends every server it starts, also when interrupted."""
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
    """All servers that can be started; the others are failures of this case."""
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
    """Start all servers and connect to them, last to first: what NATS says two seconds after connecting is
    awaited while the others start and warm up.
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
