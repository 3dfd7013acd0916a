"""Find out what a hub can carry from how it has done so far.

Two things are learnt of each hub, view by view. How much CPU it spends per unit of work (a straight line through
its samples, old ones fading), which says at what load its CPU is full. And the outgoing rate at which it fell into
distress (loop lag above its limit while it worked hard and sent at least half as much as it ever sent calmly), which is
where it is full, whatever it has least of; a stated maximum that is higher is not believed.

The alternative, a queueing curve fitted to lag over rate, needs samples near the knee to say anything, and hubs are
kept away from it. A bound that distress lowers and calm raises is right when it matters.

Always true: a profile with too few samples says nothing, and the constants of the settings hold.
"""

from __future__ import annotations

import math

import msgspec

from equipoise.plan.settings import PlannerSettings

__all__ = ["CPU_TELLING", "PRICE_MAX", "PRICE_MIN", "WORK_TELLING", "HubProfile", "HubSample", "learnt"]

# Below this a hub's CPU is its own housekeeping, and says nothing about the price of work.
CPU_TELLING = 0.10
# Nor does a hub whose topics explain less than a thousandth of a core.
WORK_TELLING = 1e-3
# Distress at less than this part of the highest calm rate, or without using its own core, has another cause: a
# neighbour, a pause, a slow disk.
_DISTRESS_PART_MIN = 0.5
_DISTRESS_CPU_MIN = 0.5
# A price of work outside these multiples of the constants is an error of measurement.
PRICE_MIN, PRICE_MAX = 0.02, 50.0


class HubSample(msgspec.Struct, frozen=True):
    """What one view says of one hub."""

    # CPU time per second by the constants of the settings.
    work_ratio: float
    cpu_ratio: float
    out_bytes_per_s: float
    loop_lag_s: float


class HubProfile(msgspec.Struct, frozen=True, array_like=True):
    """Sums over samples, old ones fading, and the bound between calm and distress."""

    samples: int = 0
    weight: float = 0.0
    work: float = 0.0
    work_squared: float = 0.0
    cpu: float = 0.0
    work_cpu: float = 0.0
    # The highest rate sent calmly, and the lowest at which there was distress; 0: none seen.
    calm_bytes_per_s: float = 0.0
    distress_bytes_per_s: float = 0.0

    def price(self, settings: PlannerSettings) -> float | None:
        """CPU spent per unit of work, 1 if the constants are right; None if it is not known yet."""
        if self.samples < settings.profile_samples_min or self.work <= 0:
            return None
        spread = self.weight * self.work_squared - self.work**2
        # Samples that lie together give no slope; the line from nothing through their middle does.
        if spread > 0.01 * self.work**2:
            slope = (self.weight * self.work_cpu - self.work * self.cpu) / spread
        else:
            slope = self.cpu / self.work
        through_origin = self.cpu / self.work
        # A slope above the average would mean that idling costs less than nothing.
        return min(max(min(slope, through_origin), PRICE_MIN), PRICE_MAX)

    def out_bytes_full(self, settings: PlannerSettings) -> float:
        """The outgoing rate that is full, as far as it was met; infinite if it never was."""
        if self.distress_bytes_per_s <= 0:
            return math.inf
        return settings.profile_margin_ratio * max(self.distress_bytes_per_s, self.calm_bytes_per_s)


def learnt(profile: HubProfile, sample: HubSample, settings: PlannerSettings) -> HubProfile:
    """The profile with one more sample."""
    made = _learn_price(profile, sample, settings)
    is_distress = sample.loop_lag_s >= settings.loop_lag_full_s
    rate, calm, distress = sample.out_bytes_per_s, made.calm_bytes_per_s, made.distress_bytes_per_s
    if is_distress:
        if calm > 0 and rate >= _DISTRESS_PART_MIN * calm and sample.cpu_ratio >= _DISTRESS_CPU_MIN:
            # What was calm at a higher rate than this was luck, or long ago.
            distress = rate if distress == 0 else min(distress, rate)
            calm = min(calm, rate)
    elif sample.loop_lag_s <= settings.loop_lag_full_s / 2:
        calm = max(calm, rate)
        # Calm above what was distress: the hub has become faster, or its distress had another cause.
        distress = 0.0 if rate > distress else distress
    return msgspec.structs.replace(made, calm_bytes_per_s=calm, distress_bytes_per_s=distress)


def _learn_price(profile: HubProfile, sample: HubSample, settings: PlannerSettings) -> HubProfile:
    if sample.cpu_ratio < CPU_TELLING or sample.work_ratio < WORK_TELLING:
        return profile
    keep = math.exp(-1 / settings.profile_memory_views)
    work, cpu = sample.work_ratio, sample.cpu_ratio
    return msgspec.structs.replace(
        profile,
        samples=profile.samples + 1,
        weight=profile.weight * keep + 1,
        work=profile.work * keep + work,
        work_squared=profile.work_squared * keep + work * work,
        cpu=profile.cpu * keep + cpu,
        work_cpu=profile.work_cpu * keep + work * cpu,
    )
