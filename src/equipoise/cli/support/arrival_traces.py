"""Traces of arrivals: read from a file, or recorded at all hubs.

Each line of a file is an arrival: seconds, then optionally a publisher and the number of messages that arrived
together,
separated by commas. Empty lines and lines that begin with # are skipped.
"""

from __future__ import annotations

import asyncio
import io
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

from equipoise.cli.support.hub_connection import CommandConnection, ask_all
from equipoise.errors import EquipoiseError, SettingsError
from equipoise.limits.burst_fit import Times
from equipoise.limits.replay import ArrivalTrace
from equipoise.limits.split_fit import trace_of
from equipoise.store.records.hubs import HubSeen

__all__ = ["RecordedArrivals", "read_trace", "record_arrivals", "write_trace"]

# Interval between two reads: a hub's ring holds far more.
_READ_S = 1.0
_READ_BYTES = b"1000000"
# Limit of one trace: some 100 MB.
MESSAGES_MAX = 10_000_000


@dataclass(frozen=True, slots=True)
class RecordedArrivals:
    """`times`: one per message, in order. `is_cut`: hubs have omitted publishers, or lost records."""

    times: Times
    publishers: int
    is_cut: bool = False
    # The same with the publisher of each message, by index; and the stated group of each publisher.
    trace: ArrivalTrace = field(default_factory=lambda: trace_of((), (), ()))
    groups: tuple[str, ...] = ()
    # The pseudonym of each, and the key of the pseudonyms; empty for a trace from a file.
    names: tuple[int, ...] = ()
    key: bytes = b""


class _Arrival(NamedTuple):
    """Messages of one publisher that arrived together."""

    time_us: int
    publisher: int
    messages: int
    group: str


def _recorded(
    times_s: list[float], names: list[Any], counts: list[int], groups: list[str], *, is_cut: bool = False
) -> RecordedArrivals:
    index = {name: at for at, name in enumerate(dict.fromkeys(names))}
    stated = dict(zip(names, groups, strict=True))
    trace = trace_of(times_s, [index[name] for name in names], counts)
    return RecordedArrivals(trace.times_s, len(index), is_cut, trace, tuple(stated[name] for name in index))


def read_trace(path: Path) -> RecordedArrivals:
    """Raises SettingsError with the number of the line."""
    times: list[float] = []
    counts: list[int] = []
    publishers: list[str] = []
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise SettingsError(f"cannot read the trace {path}: {problem}") from problem
    for number, line in enumerate(text.splitlines(), 1):
        words = [word.strip() for word in line.split(",")]
        if not words[0] or words[0].startswith("#"):
            continue
        try:
            at, count = float(words[0]), int(words[2]) if len(words) > 2 else 1
        except ValueError:
            at, count = float("nan"), 0
        if not np.isfinite(at) or not 0 < count <= MESSAGES_MAX or len(words) > 3:
            raise SettingsError(f"{path} line {number}: {line!r} is not: seconds[,publisher[,messages]]")
        if times and at < times[-1]:
            raise SettingsError(
                f"{path} line {number}: {at:g} s comes before {times[-1]:g} s; sort the trace by time"
            )
        times.append(at)
        counts.append(count)
        publishers.append(words[1] if len(words) > 1 else "")
    if sum(counts) > MESSAGES_MAX:
        raise SettingsError(f"{path} has {sum(counts):,} messages; a trace may have {MESSAGES_MAX:,}")
    return _recorded(times, publishers, counts, [""] * len(times))


def write_trace(path: Path, rows: list[tuple[float, int, int]]) -> None:
    lines = [f"{at:.6f},{publisher},{count}" for at, publisher, count in rows]
    path.write_text("\n".join(["# seconds,publisher,messages", *lines]) + "\n")


async def record_arrivals(
    hubs: Mapping[str, HubSeen],
    login: tuple[bytes, bytes] | None,
    topic: bytes,
    duration_s: float,
    progress: Callable[[float], object],
    save: Path | None,
) -> RecordedArrivals:
    """Record the topic at all hubs for this time. Raises the first error of a hub: a partial trace is useless."""
    key = secrets.token_hex(32).encode()
    offsets = _checked(await ask_all(hubs, login, lambda hub: _begin(hub, topic, key)))
    found: dict[str, list[_Arrival]] = {name: [] for name in hubs}
    is_cut, passed_s = False, 0.0
    try:
        while passed_s < duration_s:
            step_s = min(_READ_S, duration_s - passed_s)
            await asyncio.sleep(step_s)
            passed_s += step_s
            progress(passed_s / duration_s)
            is_cut |= await _read_all(hubs, login, topic, offsets, found)
        # The last window ends within a second.
        await asyncio.sleep(_READ_S + 0.2)
        is_cut |= await _read_all(hubs, login, topic, offsets, found)
    finally:
        kept = _checked(await ask_all(hubs, login, lambda hub: _end(hub, topic)))
    share = min(kept.values(), default=1.0)
    rows = sorted(row for some in found.values() for row in some if row.publisher + 2**63 < share * 2**64)
    if save is not None and rows:
        first_us = rows[0].time_us
        write_trace(save, [((row.time_us - first_us) / 1e6, row.publisher, row.messages) for row in rows])
    made = _recorded(
        [row.time_us / 1e6 for row in rows],
        [row.publisher for row in rows],
        [row.messages for row in rows],
        [row.group for row in rows],
        is_cut=is_cut or share < 1.0,
    )
    names = tuple(dict.fromkeys(row.publisher for row in rows))
    return replace(made, names=names, key=bytes.fromhex(key.decode()))


async def _begin(hub: CommandConnection, topic: bytes, key: bytes) -> list[int]:
    await hub.ask(b"EQ.ARRIVALS", topic, b"ON", key)
    incarnation, _, _, _, end = await hub.ask(b"EQ.TELEMETRY", b"0", b"0", b"0")
    return [incarnation, end]


async def _end(hub: CommandConnection, topic: bytes) -> float:
    info = (await hub.ask(b"INFO", b"telemetry")).decode()
    await hub.ask(b"EQ.ARRIVALS", topic, b"OFF")
    words = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    return float(words.get("telemetry_arrivals_kept", "1"))


async def _read_all(
    hubs: Mapping[str, HubSeen],
    login: tuple[bytes, bytes] | None,
    topic: bytes,
    offsets: dict[str, list[int]],
    found: dict[str, list[_Arrival]],
) -> bool:
    """Read new records at all hubs; return whether records were lost."""

    async def read(name: str, hub: CommandConnection) -> bool:
        incarnation, at = offsets[name]
        while True:
            words = (b"%d" % incarnation, b"%d" % at, _READ_BYTES)
            now, first, at_next, data, end = await hub.ask(b"EQ.TELEMETRY", *words)
            if now != incarnation or first > at:
                offsets[name] = [now, at_next]
                return True
            found[name] += _rows(data, topic)
            offsets[name][1] = at = at_next
            if at >= end:
                return False

    answers = await asyncio.gather(
        *(ask_all({name: hubs[name]}, login, partial(read, name)) for name in hubs)
    )
    lost = [_checked(answer) for answer in answers]
    return any(any(answer.values()) for answer in lost)


def _rows(data: bytes, topic: bytes) -> list[_Arrival]:
    """The topic's arrivals."""
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types, and takes long to import

    with pa.ipc.open_stream(io.BytesIO(data)) as stream:
        table = stream.read_all()
    wanted = ["kind", "topic", "time", "publisher", "messages", "publisher_group"]
    # A stream without arrivals lacks their columns.
    table = table.select([name for name in wanted if name in table.column_names])
    return [
        _Arrival(
            round(row["time"].timestamp() * 1e6),
            row["publisher"],
            row["messages"],
            row["publisher_group"] or "",
        )
        for row in table.to_pylist()
        if row["kind"] == "arrival" and row["topic"] == topic
    ]


def _checked(answers: Mapping[str, Any]) -> dict[str, Any]:
    for name, answer in answers.items():
        if isinstance(answer, EquipoiseError):
            typer.echo(f"equipoise: hub {name}: {answer}", err=True)
            raise answer
    return dict(answers)
