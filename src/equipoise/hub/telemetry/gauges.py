"""Gauges of the hub: CPU, memory, loop lag, bandwidth, connections.

The loop's lag is the delay of a timer that is set ten times a second: whatever blocks the loop also delays every
client's messages. The shell measures the resources of the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from equipoise.telemetry.load import EDGE_STATES, load_ratio

if TYPE_CHECKING:
    from equipoise.hub.content.filtering import Filtering
    from equipoise.hub.data.backlog import Backlogs
    from equipoise.hub.data.other_hubs import EdgePlace, OtherHubs
    from equipoise.hub.data.session import Session
    from equipoise.hub.data.topics import Topic, TopicIndex
    from equipoise.hub.settings import HubSettings
    from equipoise.hub.telemetry.stats import Stats
    from equipoise.telemetry import Values

__all__ = ["PROBE_S", "SPIKE_S", "Gauges", "LagSpikes", "Process", "reply_bytes"]

# Interval of the probe of the loop's lag, in seconds: every other stall of 50 ms is detected, for 0.01 % of CPU time.
PROBE_S = 0.1
# Length of `:1\r\n`, the usual reply to PUBLISH.
PUBLISHED_BYTES = 4
# Windows in a view.
LOAD_WINDOWS = 10
# Topics checked per window to count those whose home is this hub: about 0.4 ms.
HOMES_SLICE = 5_000
# Least lag that is recorded, in seconds, and number of spikes kept, as in Redis.
SPIKE_S = 0.01
SPIKES_MAX = 160


class Process(Protocol):
    """Measures the process of the hub."""

    def cpu_s(self) -> float:
        """CPU time used so far."""

    def work_s(self) -> float:
        """Clock for the duration of work, including waits for the CPU."""

    def resident_bytes(self) -> int:
        """Resident memory in bytes; 0 where it is unknown."""

    def memory_bytes_max(self) -> int:
        """Memory that the process may use, including what it uses; 0 where it is unknown."""

    def network_bytes_per_s(self) -> float:
        """Speed of the network in bytes per second; 0 where it is unknown."""


class _Places(Protocol):
    def own_bytes(self) -> bytes | None: ...


class _Hub(Protocol):
    @property
    def settings(self) -> HubSettings: ...
    @property
    def stats(self) -> Stats: ...
    @property
    def sessions(self) -> dict[int, Session]: ...
    @property
    def backlogs(self) -> Backlogs: ...
    @property
    def index(self) -> TopicIndex: ...
    @property
    def places(self) -> _Places: ...
    @property
    def cluster(self) -> OtherHubs: ...
    @property
    def filtering(self) -> Filtering: ...


class Gauges:
    """Owned by TelemetryRecorder."""

    def __init__(self, core: _Hub, process: Process) -> None:
        self._core = core
        self._process = process
        self._cpu_s = process.cpu_s()
        self._reply_bytes = reply_bytes(core.stats)
        self._lags_s: list[float] = []
        # Lags of the latest windows, as many as in a view.
        self._recent_lags_s: deque[float] = deque(maxlen=round(LOAD_WINDOWS / PROBE_S))
        self._homes = _Homes()
        limits = core.settings.telemetry
        self._out_bytes_per_s_max = limits.out_bytes_per_s_max or process.network_bytes_per_s() or None
        # The latest windows, as many as in a view: length, and CPU ratio, loop lag, bytes and deliveries per second.
        self._windows: deque[tuple[float, tuple[float, float, float, float]]] = deque(maxlen=LOAD_WINDOWS)

    @property
    def load_ratio(self) -> float:
        """The hub's load ratio (telemetry/load.py) over the latest windows; 0 before the first window."""
        if not self._windows:
            return 0.0
        covered_s = sum(window_s for window_s, _ in self._windows)
        lengths, measured = zip(*self._windows, strict=True)
        cpu, lag_s, out, deliveries = (
            sum(length * value for length, value in zip(lengths, values, strict=True)) / covered_s
            for values in zip(*measured, strict=True)
        )
        return load_ratio(
            cpu_ratio=cpu,
            loop_lag_s=lag_s,
            out_bytes_per_s=out,
            out_bytes_per_s_max=self._out_bytes_per_s_max or 0.0,
            deliveries_per_s=deliveries,
            deliveries_per_s_max=self._core.settings.telemetry.deliveries_per_s_max or 0.0,
        )

    def note_lag(self, lag_s: float) -> None:
        self._lags_s.append(max(0.0, lag_s))

    def read(self, window_s: float, sums: Mapping[str, int]) -> dict[str, Values]:
        """The columns of the hub's own record. `sums`: over all topics, by column."""
        core, backlogs = self._core, self._core.backlogs
        cpu_s, replied_bytes = self._process.cpu_s(), reply_bytes(core.stats)
        out_bytes = sums["bytes_out"] + sums["ingress_bytes"] + sums["egress_bytes"]
        out_bytes += replied_bytes - self._reply_bytes
        lags_s = self._lags_s or [0.0]
        self._recent_lags_s += lags_s
        ordered = sorted(self._recent_lags_s)
        facts: dict[str, Values] = {
            **sums,
            "cpu_ratio": (cpu_s - self._cpu_s) / window_s,
            "loop_lag_us_mean": int(1e6 * sum(lags_s) / len(lags_s)),
            "loop_lag_us_max": int(1e6 * max(lags_s)),
            **{
                f"loop_lag_us_p{p}": int(1e6 * ordered[-(-len(ordered) * p // 100) - 1]) for p in (50, 90, 99)
            },
            "memory_bytes": self._process.resident_bytes() or None,
            "out_bytes_per_s": out_bytes / window_s,
            "out_bytes_per_s_max": self._out_bytes_per_s_max,
            "deliveries_per_s_max": core.settings.telemetry.deliveries_per_s_max,
            "connections": len(core.sessions),
            "clients_lagging": len(backlogs.lagging),
            "unsent_bytes": backlogs.bytes,
            "topics_home": self._homes.count(core),
            "coordinate": core.places.own_bytes(),
            "plan_version": core.cluster.router.version,
            "filters": core.filtering.filters,
            "covers": core.cluster.interests.covers,
            **_edge_columns(core.cluster.edge),
            "memory_bytes_max": core.settings.telemetry.memory_bytes_max
            or self._process.memory_bytes_max()
            or None,
        }
        measured = (
            (cpu_s - self._cpu_s) / window_s,
            sum(lags_s) / len(lags_s),
            out_bytes / window_s,
            sums["deliveries"] / window_s,
        )
        self._windows.append((window_s, measured))
        self._cpu_s, self._reply_bytes = cpu_s, replied_bytes
        self._lags_s.clear()
        return facts


def _edge_columns(edge: EdgePlace) -> dict[str, Values]:
    """Columns of an edge of content topics: its measurements, and its latest compared session. One column for a head;
    none for other hubs."""
    if not edge.state:
        return {"content_publishers_moved": edge.facts.content_publishers_moved} if edge.cluster_state else {}
    columns: dict[str, Values] = {
        "content_state": EDGE_STATES.index(edge.state),
        "content_session": edge.session_compared or None,
    }
    for name, value in edge.facts._asdict().items():
        if name.endswith("delay_s"):
            columns[f"{name.removesuffix('_s')}_us"] = int(1e6 * value)
        elif name not in ("content_nonsense", "content_placed"):
            columns[name] = value
    return columns


def reply_bytes(stats: Stats) -> int:
    """Bytes of all replies so far. Replies to PUBLISH are not measured, but counted as four bytes each."""
    return stats.reply_bytes + PUBLISHED_BYTES * stats.commands


class _Homes:
    """Counts the topics whose home is this hub, over several windows if there are many topics."""

    def __init__(self) -> None:
        self._left: Iterator[Topic] | None = None
        self._counted = 0
        self._last = 0

    def count(self, core: _Hub) -> int:
        if core.cluster.is_alone:
            return len(core.index.topics)
        if self._left is None:
            self._left, self._counted = iter(list(core.index.topics.values())), 0
        some = list(islice(self._left, HOMES_SLICE))
        self._counted += sum(topic.is_home for topic in some)
        if len(some) < HOMES_SLICE:
            self._left, self._last = None, self._counted
        return self._last


class LagSpikes:
    """Times and durations of the loop's delays. Recorded by the probe of `recorder`."""

    def __init__(self) -> None:
        # Per spike, the time in whole seconds and the lag in milliseconds; only the worst spike of a second.
        self.latest: deque[tuple[int, int]] = deque(maxlen=SPIKES_MAX)
        self.worst_ms = 0

    def note(self, lag_s: float, wall_s: float) -> None:
        if lag_s < SPIKE_S:
            return
        at_s, lag_ms = int(wall_s), round(1e3 * lag_s)
        self.worst_ms = max(self.worst_ms, lag_ms)
        if self.latest and self.latest[-1][0] == at_s:
            lag_ms = max(lag_ms, self.latest.pop()[1])
        self.latest.append((at_s, lag_ms))

    def clear(self) -> bool:
        """Remove all spikes; return whether there were any."""
        had = bool(self.latest)
        self.latest.clear()
        self.worst_ms = 0
        return had
