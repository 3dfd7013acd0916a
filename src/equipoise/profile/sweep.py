"""All loads of a profile on one hub process in sequence, and their results.

The rates of a shape rise until its messages are far too late or the driver cannot send faster; higher rates give no new
information. A load for which only the driver was too slow does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from equipoise.errors import PeerError, UnmeasuredError
from equipoise.profile import environment
from equipoise.profile.driver import (
    FULL,
    QUICK,
    SHAPES,
    SHAPES_QUICK,
    LoadPace,
    LoadShape,
    Measured,
    crew_of,
    measure,
    rates,
)
from equipoise.profile.environment import MachineFacts
from equipoise.profile.knees import Costs, Knee, costs_of, knees_of, late_ms
from equipoise.profile.servers import KINDS, ServerUnderTest, running

__all__ = ["Profile", "profile_hub", "profile_of"]

# So late that more load only increases the delay.
_LOST_MS = 50.0
# A less busy hub is not the reason why a load could not be sent at its rate.
_BUSY_MIN = 0.8
# The least number of loads for a result.
_LOADS_MIN = 8

Progress = Callable[[str, float], None]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The result."""

    commit: str
    machine: MachineFacts
    versions: dict[str, str]
    is_quick: bool
    # A load whose 95th percentile is above this is late.
    late_ms: float
    knees: list[Knee]
    costs: Costs
    loads: list[Measured]

    def knee(self, number: str) -> Knee:
        return next(knee for knee in self.knees if knee.number == number)


def profile_hub(*, is_quick: bool, limit_ms: float | None, progress: Progress) -> Profile:
    """Start a hub, load it in all shapes, end it. Raises UnmeasuredError, DisconnectedError."""
    shapes, pace = (SHAPES_QUICK, QUICK) if is_quick else (SHAPES, FULL)
    loads: list[Measured] = []
    with running(KINDS["hub"]) as server:
        for at, shape in enumerate(shapes):
            loads += _rising(server, shape, pace, _part(progress, shape.label, at, len(shapes)))
    return profile_of(loads, is_quick=is_quick, limit_ms=limit_ms)


def profile_of(loads: Sequence[Measured], *, is_quick: bool, limit_ms: float | None) -> Profile:
    """The profile from these loads. Raises UnmeasuredError."""
    valid = [load for load in loads if load.is_paced or load.cpu_ratio >= _BUSY_MIN]
    if len(valid) < _LOADS_MIN:
        raise UnmeasuredError(
            f"only {len(valid)} of {len(loads)} loads could be driven at their rates: stop other processes on this "
            "machine, and try again"
        )
    limit_ms = late_ms(valid) if limit_ms is None else limit_ms
    return Profile(
        commit=environment.commit(),
        machine=environment.machine(),
        versions=environment.library_versions(),
        is_quick=is_quick,
        late_ms=limit_ms,
        knees=knees_of(valid, limit_ms),
        costs=costs_of(valid),
        loads=valid,
    )


def _rising(
    server: ServerUnderTest, shape: LoadShape, pace: LoadPace, progress: Callable[[float], None]
) -> list[Measured]:
    found: list[Measured] = []
    rising = rates(pace.factor)
    with crew_of(server, shape) as crew:
        for at, rate_per_s in enumerate(rising):
            progress(at / len(rising))
            try:
                load = measure(server, crew, rate_per_s, pace)
            except PeerError:
                # Disconnected, or no message in time: as late as possible, and the connections are useless now.
                break
            found.append(load)
            if load.p95_ms > _LOST_MS or not load.is_paced:
                break
    return found


def _part(progress: Progress, label: str, at: int, count: int) -> Callable[[float], None]:
    return lambda done: progress(label, (at + done) / count)
