"""ePulsar, figure 8 (5.8.1): swarms cross zones under a latency limit; how soon their topics follow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equipoise.lab.experiments.epulsar_limits import (
    HASHED_PER_S,
    Compared,
    compare,
    limit_panel,
    limit_parameter,
)
from equipoise.lab.experiments.epulsar_swarms import (
    RECOVERY_S_MAX,
    STAYS_S,
    Mission,
    Patrol,
    fly,
    topics_of,
)
from equipoise.lab.experiments.epulsar_worlds import CLOUD_MS, LOCAL_MS, SITES_MS, SWARM_LIMIT_MS
from equipoise.lab.experiments.experiment import Experiment, Progress
from equipoise.lab.experiments.result import Claim, Figure, Panel, Size

__all__ = ["EXPERIMENT_8"]

# Swarms in one panel.
TOGETHER = 2


def patrol(mission: Mission, seed: int, progress: Progress) -> Compared[Patrol]:
    mission = replace(mission, seed=seed)
    static = replace(mission, is_planned=False, messages_per_s=HASHED_PER_S)
    return compare(fly, mission, static, progress)


def _swarm_parameters(seen: Compared[Patrol]) -> tuple[tuple[str, str], ...]:
    mission, city = seen.planned.mission, seen.planned.mission.city
    return (
        (
            "swarms",
            f"{mission.swarms} of {mission.drones} drones, {city.speed_m_per_s:g} m/s, random waypoints",
        ),
        (
            "city",
            f"{city.side_m / 1e3:g} by {city.side_m / 1e3:g} km, {city.zones} zones (k-means of towers), a hub in "
            "each and one in the cloud",
        ),
        ("messages", f"{mission.messages_per_s:g}/s of {mission.payload_bytes:,} B from each drone"),
        (
            "round trips",
            f"{SITES_MS:g} ms between sites, {CLOUD_MS:g} ms to the cloud, {LOCAL_MS:g} ms from a drone to the hub "
            "of its zone",
        ),
        limit_parameter(SWARM_LIMIT_MS),
        ("time", f"{mission.seconds} s, after {mission.settle_s + mission.begin_s:g} s to settle"),
    )


def _swarm_notes(seen: Compared[Patrol]) -> tuple[str, ...]:
    return (
        "Latencies are measured from publishing to hearing, one way, and shown doubled: the paper's limit is held "
        "against sums of round trips (figures 4 and 5), and read as one way no swarm of its city would ever be "
        "above 40 ms.",
        "Everything between drones is real: hubs that find their coordinates, drones that report theirs, at once "
        "when their gateway changes, records read over the network, the view, the planner, the controller 40 ms "
        "away from the sites, the store beside it, and handovers. Hubs take no time of their own. A gateway is a "
        "light client that finds its coordinate as a real one does, and drones see it at once, as if on board.",
        f"With hashing each drone sends {HASHED_PER_S:g}/s: nothing depends on how much is sent there.",
        f"A swarm is back when no message of its topics is above the limit for {STAYS_S} seconds on end; seconds "
        "are counted from that of the change. A change that is followed by another before that is left out, unless "
        f"more than {RECOVERY_S_MAX:g} s lie between.",
    )


def _swarm_claims(seen: Compared[Patrol]) -> tuple[Claim, ...]:
    recoveries = list(seen.planned.recoveries_s().values())
    slowest = max(recoveries, default=float("nan"))
    middle = float(np.median(recoveries)) if recoveries else float("nan")
    above, above_hashed = seen.shares_above(SWARM_LIMIT_MS)
    return (
        Claim(
            claim=f"back under the limit after a change of zones ({len(recoveries)} of them)",
            paper=f"transient; within {RECOVERY_S_MAX:g} s asked",
            ours=f"after {middle:.0f} s in the middle, {slowest:.0f} s at worst",
            holds=bool(recoveries) and slowest <= RECOVERY_S_MAX,
            value=slowest,
            at_most=RECOVERY_S_MAX,
        ),
        Claim(
            claim="messages above the limit",
            paper="under it for most of the time",
            ours=f"{above:.1%}; with hashing {above_hashed:.0%}",
            holds=above < 0.1 and above < above_hashed,
            value=100 * above,
            at_most=min(10.0, 100 * above_hashed),
        ),
        seen.no_loss,
    )


def _swarm_figure(seen: Compared[Patrol]) -> Figure:
    patrol = seen.planned
    return Figure(
        name="epulsar-8",
        title="Latency of swarms that cross zones (figure 8), at worst in each second",
        x_label="time, s",
        panels=tuple(
            _swarm_panel(patrol, range(first, min(first + TOGETHER, patrol.mission.swarms)))
            for first in range(0, patrol.mission.swarms, TOGETHER)
        ),
    )


def _hashed_figure(seen: Compared[Patrol]) -> Figure:
    patrol = seen.hashed
    panel = _swarm_panel(patrol, range(patrol.mission.swarms))
    return Figure(name="epulsar-8-hashing", title="The same with hashing", x_label="time, s", panels=(panel,))


def _swarm_panel(patrol: Patrol, swarms: range) -> Panel:
    changes = tuple(change.at_s for change in patrol.changes if change.swarm in swarms)
    is_few = len(swarms) <= TOGETHER
    return limit_panel(
        f"swarms {swarms[0] + 1} to {swarms[-1] + 1}",
        {f"swarm {swarm + 1}": patrol.latencies.worst_s(*topics_of(swarm)) for swarm in swarms},
        SWARM_LIMIT_MS,
        marked="another zone" if is_few else "",
        at_s=changes,
    )


EXPERIMENT_8 = Experiment(
    name="epulsar-8",
    source="ePulsar, 5.8.1, figure 8",
    summary="Swarms of drones cross the zones of a city: how soon their topics follow them, end to end.",
    worlds={
        Size.FULL: Mission(),
        Size.QUICK: Mission(swarms=6, drones=4, messages_per_s=20.0, seconds=240),
    },
    world=patrol,
    claims=_swarm_claims,
    figures=(_swarm_figure, _hashed_figure),
    parameters=_swarm_parameters,
    notes=_swarm_notes,
    views=lambda seen: seen.views,
    takes=("a minute", "15 minutes"),
)
