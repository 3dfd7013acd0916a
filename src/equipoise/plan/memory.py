"""State of a policy between rounds, as a value: moves in flight, noise and capacity of each hub.

The same view, plan, specs, time and memory always give the same decision; so a decision can be replayed from what was
stored of its round, and a standby that has the last memory goes on where the leader stopped. A planner that starts with
an empty memory is careful, not wrong: it counts its hits anew. Memories are never changed in place, and their tables
are shared between them.

Moves in flight: the arbiter is the one place where they are known. The planner, content balancing and operators claim a
topic there before they move it; the owner of a claim has it until the move has been seen to end. Always true: a topic
has at most one owner; no more topics are claimed than the bound, and no claim takes more than a round's bound.

Noise of a hub: a slow mean and a slower variance of its rise, how much its load ratio went up within a window. A load
that rises all the time has a rise that stays the same, so growth is not taken for noise; what is far out counts as
three deviations at most, so that one event does not make the planner deaf.

Profile of a hub: how much CPU it spends per unit of work (a straight line through its samples, old ones fading), which
says at what load its CPU is full; and the outgoing rate at which it fell into distress (loop lag above its limit while
it worked hard and sent at least half as much as it ever sent calmly), which is where it is full, whatever it has least
of; a stated maximum that is higher is not believed. The alternative, a queueing curve fitted to lag over rate, needs
samples near the knee to say anything, and hubs are kept away from it. A profile with too few samples says nothing, and
the constants of the settings hold.
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
    "CPU_TELLING",
    "PRICE_MAX",
    "PRICE_MIN",
    "WORK_TELLING",
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
    "heard",
    "hit",
    "updated_profile",
]


class MoveClaim(msgspec.Struct, frozen=True, array_like=True):
    """One move: whose it is, since when, and the version of the plan that says it."""

    by: str
    since_s: float
    version: int


class Arbiter(msgspec.Struct, frozen=True):
    """What is in hand. Never changed in place."""

    in_hand: dict[bytes, MoveClaim] = {}

    def is_free(self, topic: bytes, by: str) -> bool:
        """Whether `by` may claim it: no claim stands on it, not even its own."""
        held = self.in_hand.get(topic)
        return held is None or (held.by == by and held.version == 0)

    def room(self, *, round_max: int, total_max: int) -> int:
        """How many topics may still be taken."""
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
        """The next arbiter, and those of the topics that were granted, in the order asked, as far as there is room.

        `version` is that of the plan that moves them; 0 reserves them until a later claim names one.
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
        """Without the moves that have ended: all live hubs go by their plan and views had time to show it.

        `plan_version_min` is the oldest plan that a live hub goes by, 0 if one of them does not tell; then, and if a
        hub stays behind, `move_timeout_s` ends a move. Reservations end by it too.
        """

        def is_over(held: MoveClaim) -> bool:
            age_s = now - held.since_s
            is_applied = 0 < held.version <= plan_version_min
            return age_s >= move_timeout_s or (is_applied and age_s >= settle_s)

        left = {topic: held for topic, held in self.in_hand.items() if not is_over(held)}
        return self if len(left) == len(self.in_hand) else Arbiter(left)

    def let_go(self, by: str, topics: Iterable[bytes]) -> Arbiter:
        """Without these, as far as they are in `by`'s hand: the move was given up or is known to have ended."""
        gone = {topic for topic in topics if (held := self.in_hand.get(topic)) and held.by == by}
        return Arbiter({topic: held for topic, held in self.in_hand.items() if topic not in gone})


# --- what is usual of a hub -------------------------------------------------------------------------------------------

# A minute: six windows. Slower than a hub's own wobbling, faster than its day.
_LEVEL_S = 60.0
_VARIANCE_S = 300.0
_CLIP = 3.0
# Until a hub has been heard: what a hub with a few hundred topics of ordinary traffic shows.
_PRIOR = 0.03
# Of seconds that wobble independently, the mean over ten varies 0.29 times as much as the rise over them.
_MEAN_PART = 0.29


class HubNoise(msgspec.Struct, frozen=True, array_like=True):
    """Deviations are those of a view, which is a mean over its window."""

    rise_level: float = 0.0
    rise_variance: float = _PRIOR**2
    # What the last view showed; below 0: not heard yet.
    ratio_last: float = -1.0

    def is_growing(self, ratio: float, expected: float, parts: float) -> bool:
        """Whether the mean has gone the way to what is expected, `parts` being the part of the window that is new.

        After one second that stands out the trend says the same as after a step; but it does not go on.
        """
        if self.ratio_last < 0:
            return False
        return ratio - self.ratio_last >= 0.75 * min(1.0, parts) * (expected - self.ratio_last)

    @property
    def deviation(self) -> float:
        """Of the load ratio."""
        return _MEAN_PART * self.rise_deviation

    @property
    def rise_deviation(self) -> float:
        return math.sqrt(self.rise_variance)


def heard(noise: HubNoise, ratio: float, rise: float, elapsed_s: float) -> HubNoise:
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


# --- what a hub can carry ---------------------------------------------------------------------------------------------

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


def updated_profile(profile: HubProfile, sample: HubSample, settings: PlannerSettings) -> HubProfile:
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


# --- the memory -------------------------------------------------------------------------------------------------------

LONG_AGO_S = -1e18


class HitCount(msgspec.Struct, frozen=True, array_like=True):
    """Evidence: how much, and the time of the view that gave the last of it."""

    count: int
    at_s: float


def hit(before: HitCount | None, view: View, *, step: int = 1, is_clear: bool) -> HitCount:
    """One more piece of evidence. What is not clear counts once per window; the other direction starts anew."""
    if before is None or before.count * step < 0:
        return HitCount(step, view.time_s)
    if is_clear or view.time_s - before.at_s >= view.window_s:
        return HitCount(before.count + step, view.time_s)
    return before


class LatencyMoves(msgspec.Struct, frozen=True, array_like=True):
    """Moves of one topic for latency: the last one, the hubs that it left lately, how often it came back to one."""

    at_s: float
    left: tuple[str, ...]
    # Since it was last within its limit for long enough to have settled.
    returns: int = 0
    # For how long views have shown it within its limit since it was last above it.
    near_s: float = 0.0


class ReleasedHub(msgspec.Struct, frozen=True, array_like=True):
    """Which life of a hub was taken out of the plan, and when."""

    incarnation: int
    at_s: float


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All state of the planner. Times are on the clock of `now`."""

    # The last view that was decided on; the same one again is no new evidence.
    view_s: float = LONG_AGO_S
    # The last plan that was made for load: T_wait counts from here.
    plan_s: float = LONG_AGO_S
    # The last change of members or weights: until it has settled, views show topics where they were.
    members_s: float = LONG_AGO_S
    # Sharing out after a join ends then.
    spread_until_s: float = LONG_AGO_S

    # How often in a row a hub was seen overloaded, and when last.
    hits: dict[str, HitCount] = {}
    # How often in a row a topic was seen to need more homes (positive) or fewer (negative).
    replica_hits: dict[bytes, HitCount] = {}
    # The same of content topics: more edges (positive) or fewer.
    content_hits: dict[bytes, HitCount] = {}
    # Since when an edge of a content topic has been seen in a session.
    in_session_s: dict[bytes, float] = {}
    # When a topic's entry was last changed for load, and when its replication was.
    moved_s: dict[bytes, float] = {}
    replicated_s: dict[bytes, float] = {}
    # The same of limited topics: more hubs (positive) or fewer; when shares and seats were last changed; what replays
    # have found.
    split_hits: dict[bytes, HitCount] = {}
    shares_s: dict[bytes, float] = {}
    seats_s: dict[bytes, float] = {}
    fits: dict[bytes, SplitFit] = {}
    # Since when a topic that has an entry has not been in a view.
    absent_s: dict[bytes, float] = {}

    # How often in a row a topic was seen above its latency limit; moves for latency that are not long ago.
    far_hits: dict[bytes, HitCount] = {}
    approaches: dict[bytes, LatencyMoves] = {}

    # Hubs: the life that was last planned for, since when one is dead, since when one is a member.
    incarnations: dict[str, int] = {}
    dead_s: dict[str, float] = {}
    joined_s: dict[str, float] = {}
    profiles: dict[str, HubProfile] = {}
    noises: dict[str, HubNoise] = {}
    # What the servers would carry on average with one less; a slow mean, below 0 if there is none yet.
    average_without_one: float = -1.0
    # The same when a server could last not be emptied; below 0: that has not happened.
    kept_average: float = -1.0

    # What missing capacity has cost since it is missing, and what every server too many has.
    overload_debt: float = 0.0
    idle_debts: tuple[float, ...] = ()
    # Servers asked for in all, and when; 0: as many as there are.
    servers_wanted: int = 0
    asked_s: float = LONG_AGO_S
    # The hub being emptied, since when, the weight it had, and since when it holds nothing; and the hubs that are out
    # of the plan by the planner's own doing.
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
    """Raises ViewError if the bytes are no memory: start with an empty one."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ViewError(f"not a planner's memory: {problem}") from problem
