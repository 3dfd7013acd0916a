"""State of a policy between rounds, as a value: moves in flight, noise and capacity of each hub.

The same view, plan, specs, time and memory always give the same decision; so a decision can be replayed from the stored
input of its round, and a standby with the last memory continues where the leader stopped. A planner with an empty
memory still decides correctly, but later: it collects its evidence anew. Memories are immutable, and share tables.

Moves in flight: only the arbiter records them. The planner, content balancing and operators claim a topic there before
they move it; the claim lasts until views show the end of the move. Always true: a topic has at most one owner; the
number of claimed topics is bounded, and so is the number of one round.

Noise of a hub: a slow mean and a slower variance of its rise, the increase of its load ratio within a window. Steadily
rising load has a constant rise, so growth does not count as noise; an outlier counts as three deviations at most, so
that one event does not hide later rises.

Profile of a hub: its CPU time per unit of work (a straight line through its samples, old ones fading), from which
follows the load at which its CPU is full; and the outgoing rate at which it was in distress (loop lag above its limit
under load, at no less than half of the highest calm rate), which is its maximum, whatever resource was scarce; a higher
stated maximum is not used. The alternative, a queueing curve fitted to lag over rate, needs samples near the knee, and
hubs are kept away from it. With too few samples the constants of the settings apply.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from equipoise.errors import ViewError
from equipoise.limits.fitting import SplitFit
from equipoise.plan.settings import PlannerSettings
from equipoise.view.view import View

__all__ = [
    "CPU_RATIO_LEARNT_MIN",
    "PRICE_MAX",
    "PRICE_MIN",
    "WORK_LEARNT_MIN",
    "Arbiter",
    "HitCount",
    "HubNoise",
    "HubProfile",
    "HubSample",
    "LatencyMoves",
    "Memory",
    "MoveClaim",
    "ReleasedHub",
    "decode_memory",
    "encode_memory",
    "hit",
    "updated_noise",
    "updated_profile",
]


class MoveClaim(msgspec.Struct, frozen=True, array_like=True):
    """One move: its owner, its start, and the version of the plan that contains it."""

    by: str
    since_s: float
    version: int


class Arbiter(msgspec.Struct, frozen=True):
    """The moves in flight. Immutable."""

    in_hand: dict[bytes, MoveClaim] = {}

    def is_free(self, topic: bytes, by: str) -> bool:
        """Whether `by` may claim it: there is no claim on it, not even its own."""
        held = self.in_hand.get(topic)
        return held is None or (held.by == by and held.version == 0)

    def room(self, *, round_max: int, total_max: int) -> int:
        """How many more topics may be claimed."""
        return max(0, min(round_max, total_max - len(self.in_hand)))

    def claim(
        self,
        by: str,
        topics: Iterable[bytes],
        *,
        now: float,
        version: int = 0,
        round_max: int = 256,
        total_max: int = 1024,
    ) -> tuple[Arbiter, tuple[bytes, ...]]:
        """The next arbiter, and the granted topics, in the given order, as far as there is room.

        `version` is that of the plan that moves them; 0 reserves them until a later claim has a version.
        """
        room = self.room(round_max=round_max, total_max=total_max)
        granted: dict[bytes, MoveClaim] = {}
        for topic in topics:
            if len(granted) >= room:
                break
            if topic not in granted and self.is_free(topic, by):
                granted[topic] = MoveClaim(by, now, version)
        return Arbiter({**self.in_hand, **granted}), tuple(granted)

    def settled(
        self, *, now: float, plan_version_min: int, settle_s: float, move_timeout_s: float
    ) -> Arbiter:
        """Without ended moves: all live hubs have applied their plan, and views had time to show it.

        `plan_version_min` is the oldest plan that a live hub has applied, 0 if one is unknown; then, and if a hub
        stays behind, `move_timeout_s` ends a move. It ends reservations, too.
        """

        def is_over(held: MoveClaim) -> bool:
            age_s = now - held.since_s
            is_applied = 0 < held.version <= plan_version_min
            return age_s >= move_timeout_s or (is_applied and age_s >= settle_s)

        left = {topic: held for topic, held in self.in_hand.items() if not is_over(held)}
        return self if len(left) == len(self.in_hand) else Arbiter(left)

    def let_go(self, by: str, topics: Iterable[bytes]) -> Arbiter:
        """Without the claims of `by` on these topics: the move was given up or has ended."""
        gone = {topic for topic in topics if (held := self.in_hand.get(topic)) and held.by == by}
        return Arbiter({topic: held for topic, held in self.in_hand.items() if topic not in gone})


# --- noise of a hub ---------------------------------------------------------------------------------------------------

# A minute: six windows. Slower than a hub's own fluctuation, faster than its daily cycle.
_LEVEL_S = 60.0
_VARIANCE_S = 300.0
_CLIP = 3.0
# Before the first view of a hub: the noise of a hub with a few hundred topics of ordinary traffic.
_PRIOR = 0.03
# With independent noise of seconds, the mean over ten varies 0.29 times as much as the rise over them.
_MEAN_PART = 0.29


class HubNoise(msgspec.Struct, frozen=True, array_like=True):
    """Deviations are those of a view, which is a mean over its window."""

    rise_level: float = 0.0
    rise_variance: float = _PRIOR**2
    # The values of the last view; below 0: none yet.
    ratio_last: float = -1.0

    def is_growing(self, ratio: float, expected: float, parts: float) -> bool:
        """Whether the mean has risen towards the expected value; `parts` is the new part of the window.

        One outstanding second has the same trend as a step; but it does not continue.
        """
        if self.ratio_last < 0:
            return False
        return ratio - self.ratio_last >= 0.75 * min(1.0, parts) * (expected - self.ratio_last)

    @property
    def deviation(self) -> float:
        """The deviation of the load ratio."""
        return _MEAN_PART * self.rise_deviation

    @property
    def rise_deviation(self) -> float:
        return math.sqrt(self.rise_variance)


def updated_noise(noise: HubNoise, ratio: float, rise: float, elapsed_s: float) -> HubNoise:
    """With one more view, `elapsed_s` after the one before."""
    if noise.ratio_last < 0:
        return msgspec.structs.replace(noise, ratio_last=ratio)
    keep, keep_variance = math.exp(-elapsed_s / _LEVEL_S), math.exp(-elapsed_s / _VARIANCE_S)
    off = _clipped(rise - noise.rise_level, noise.rise_deviation)
    return HubNoise(
        rise_level=keep * noise.rise_level + (1 - keep) * rise,
        rise_variance=keep_variance * noise.rise_variance + (1 - keep_variance) * off**2,
        ratio_last=ratio,
    )


def _clipped(off: float, deviation: float) -> float:
    bound = _CLIP * max(deviation, 1e-3)
    return max(-bound, min(bound, off))


# --- profile of a hub -------------------------------------------------------------------------------------------------

# Below this a hub's CPU use is its own housekeeping, which has no price of work.
CPU_RATIO_LEARNT_MIN = 0.10
# Nor has a hub whose topics explain less than a thousandth of a core.
WORK_LEARNT_MIN = 1e-3
# Distress at less than this part of the highest calm rate, or without using its own core, has another cause: a
# neighbour, a pause, a slow disk.
_DISTRESS_PART_MIN = 0.5
_DISTRESS_CPU_MIN = 0.5
# A price of work outside these multiples of the constants is a measurement error.
PRICE_MIN, PRICE_MAX = 0.02, 50.0


class HubSample(msgspec.Struct, frozen=True):
    """The values of one hub in one view."""

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
    # The highest calm rate, and the lowest rate in distress; 0: none.
    calm_bytes_per_s: float = 0.0
    distress_bytes_per_s: float = 0.0

    def price(self, settings: PlannerSettings) -> float | None:
        """CPU time per unit of work, 1 if the constants are right; None if unknown."""
        if self.samples < settings.profile_samples_min or self.work <= 0:
            return None
        spread = self.weight * self.work_squared - self.work**2
        # Samples close to each other give no slope; the line from the origin through their mean does.
        if spread > 0.01 * self.work**2:
            slope = (self.weight * self.work_cpu - self.work * self.cpu) / spread
        else:
            slope = self.cpu / self.work
        through_origin = self.cpu / self.work
        # A slope above the average would mean a negative CPU time at rest.
        return min(max(min(slope, through_origin), PRICE_MIN), PRICE_MAX)

    def out_bytes_full(self, settings: PlannerSettings) -> float:
        """The outgoing rate at which it is full; infinite if it never was in distress."""
        if self.distress_bytes_per_s <= 0:
            return math.inf
        return settings.profile_margin_ratio * max(self.distress_bytes_per_s, self.calm_bytes_per_s)


def updated_profile(profile: HubProfile, sample: HubSample, settings: PlannerSettings) -> HubProfile:
    """The profile with one more sample."""
    made = _learn_price(profile, sample, settings)
    is_distress = sample.loop_lag_s >= settings.loop_lag_full_s
    rate, calm, distress = sample.out_bytes_per_s, made.calm_bytes_per_s, made.distress_bytes_per_s
    if is_distress:
        if calm > 0 and rate >= _DISTRESS_PART_MIN * calm and sample.cpu_ratio >= _DISTRESS_CPU_MIN:
            # A higher calm rate was an outlier, or is outdated.
            distress = rate if distress == 0 else min(distress, rate)
            calm = min(calm, rate)
    elif sample.loop_lag_s <= settings.loop_lag_full_s / 2:
        calm = max(calm, rate)
        # Calm above the rate of distress: the hub has become faster, or the distress had another cause.
        distress = 0.0 if rate > distress else distress
    return msgspec.structs.replace(made, calm_bytes_per_s=calm, distress_bytes_per_s=distress)


def _learn_price(profile: HubProfile, sample: HubSample, settings: PlannerSettings) -> HubProfile:
    if sample.cpu_ratio < CPU_RATIO_LEARNT_MIN or sample.work_ratio < WORK_LEARNT_MIN:
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


# --- the memory -------------------------------------------------------------------------------------------------------

LONG_AGO_S = -1e18


class HitCount(msgspec.Struct, frozen=True, array_like=True):
    """Evidence: its count, and the time of the latest view that counted."""

    count: int
    at_s: float


def hit(before: HitCount | None, view: View, *, step: int = 1, is_clear: bool) -> HitCount:
    """Add one observation. An unclear one counts once per window; one in the other direction starts anew."""
    if before is None or before.count * step < 0:
        return HitCount(step, view.time_s)
    if is_clear or view.time_s - before.at_s >= view.window_s:
        return HitCount(before.count + step, view.time_s)
    return before


class LatencyMoves(msgspec.Struct, frozen=True, array_like=True):
    """Latency moves of one topic: the last one, the hubs that it left recently, and the number of returns."""

    at_s: float
    left: tuple[str, ...]
    # Since it was last within its limit for long enough to have settled.
    returns: int = 0
    # For how long views have shown it within its limit since it was last above it.
    near_s: float = 0.0


class ReleasedHub(msgspec.Struct, frozen=True, array_like=True):
    """The incarnation of a hub that was removed from the plan, and when."""

    incarnation: int
    at_s: float


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All state of the planner. Times are of the clock of `now`."""

    # The last view that was decided on; the same view again is no new evidence.
    view_s: float = LONG_AGO_S
    # The last plan for load: T_wait begins with it.
    plan_s: float = LONG_AGO_S
    # The last change of members or weights: until it has settled, views show topics at their former hubs.
    members_s: float = LONG_AGO_S
    # The end of spreading after a join.
    spread_until_s: float = LONG_AGO_S

    # The number of consecutive overloads of each hub, and the time of the last.
    hits: dict[str, HitCount] = {}
    # The number of consecutive views in which a topic needed more homes (positive) or fewer (negative).
    replica_hits: dict[bytes, HitCount] = {}
    # The same for content topics: more edges (positive) or fewer.
    content_hits: dict[bytes, HitCount] = {}
    # Since when an edge of a content topic has been in a session.
    in_session_s: dict[bytes, float] = {}
    # When a topic's entry was last changed for load, and when its replication was.
    moved_s: dict[bytes, float] = {}
    replicated_s: dict[bytes, float] = {}
    # The same for limited topics: more hubs (positive) or fewer; the last changes of shares and seats; the results of
    # replays.
    split_hits: dict[bytes, HitCount] = {}
    shares_s: dict[bytes, float] = {}
    seats_s: dict[bytes, float] = {}
    fits: dict[bytes, SplitFit] = {}
    # Since when a topic with an entry has been missing in views.
    absent_s: dict[bytes, float] = {}

    # The number of consecutive views with a topic above its latency limit; recent moves for latency.
    far_hits: dict[bytes, HitCount] = {}
    approaches: dict[bytes, LatencyMoves] = {}

    # Of hubs: the incarnation last planned for, the time of death of dead ones, the time of joining of members.
    incarnations: dict[str, int] = {}
    dead_s: dict[str, float] = {}
    joined_s: dict[str, float] = {}
    profiles: dict[str, HubProfile] = {}
    noises: dict[str, HubNoise] = {}
    # The average load ratio with one server less; a slow mean, below 0: none yet.
    average_without_one: float = -1.0
    # The same when a server could last not be emptied; below 0: never.
    kept_average: float = -1.0

    # The cost so far of missing capacity, and of each surplus server.
    overload_debt: float = 0.0
    idle_debts: tuple[float, ...] = ()
    # Servers wanted in all, and since when; 0: the present number.
    servers_wanted: int = 0
    asked_s: float = LONG_AGO_S
    # The hub that is being drained, since when, its former weight, and since when it is empty; and the hubs that the
    # planner has removed from the plan.
    releasing: str = ""
    releasing_s: float = LONG_AGO_S
    releasing_weight: int = 0
    emptied_s: float = LONG_AGO_S
    released: dict[str, ReleasedHub] = {}

    arbiter: Arbiter = Arbiter()


_decoder = msgspec.msgpack.Decoder(Memory)
_encoder = msgspec.msgpack.Encoder()


def encode_memory(memory: Memory) -> bytes:
    return _encoder.encode(memory)


def decode_memory(data: bytes) -> Memory:
    """Raises ViewError if the bytes are not a memory: then start with an empty one."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ViewError(f"not a planner's memory: {problem}") from problem
