"""Every constant of the planner, with its unit, its bounds and where its default comes from.

Sources: *paper* is Dynamoth (Gascon-Samson et al., ICDCS 2015), section III; *released* its published program;
*Pulsar* its TransferShedder; *Cruise Control* its capacity goals; *measured* the costs in docs/results.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.errors import SettingsError

__all__ = ["PlannerSettings"]


def _ratio(why: str, *, at_most: float = 2.0) -> Meta:
    return Meta(gt=0, le=at_most, description=why)


def _seconds(why: str) -> Meta:
    return Meta(ge=0, description=why)


def _count(why: str, *, at_least: int = 1) -> Meta:
    return Meta(ge=at_least, description=why)


def _amount(why: str) -> Meta:
    return Meta(ge=0, description=why)


class PlannerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One planner. A load ratio of 1 is a hub that is full, in whatever it has least of."""

    # --- what load is -------------------------------------------------------------------------------------------------
    cpu_full_ratio: Annotated[
        float,
        _ratio(
            "CPU, of one core, that makes a hub full. Cruise Control allows 0.7 of a CPU where it allows 0.8 of "
            "a network: 0.7/0.8 lets one threshold serve both."
        ),
    ] = 0.875
    loop_lag_full_s: Annotated[
        float,
        _ratio(
            "Mean loop lag that makes a hub full: a third of the 150 ms in which a game answers (paper, V-D)."
        ),
    ] = 0.05
    memory_full_ratio: Annotated[
        float,
        _ratio("Memory, of what a hub may take, above which it is given nothing more.", at_most=1.0),
    ] = 0.9
    delivery_cost_us: Annotated[
        float,
        _amount("CPU time of one delivery, until the hub's profile knows better. Measured at fan-out 10."),
    ] = 0.3
    publication_cost_us: Annotated[
        float, _amount("CPU time of one publication beside its deliveries, likewise. Measured at fan-out 1.")
    ] = 2.0
    trend_horizon_s: Annotated[
        float,
        _seconds(
            "How far a rising hub is looked ahead: one control period, for which a plan has to hold. 0: not."
        ),
    ] = 5.0
    trend_ratio_min: Annotated[
        float,
        _ratio(
            "Rise of a hub's load ratio within a window that is too small to look ahead by; noise raises the bound."
        ),
    ] = 0.05
    trend_growth_max: Annotated[
        float,
        Meta(
            ge=1,
            description="How far above its largest second a rising topic is expected to get: what has just stepped "
            "up looks like a ramp without end.",
        ),
    ] = 1.25

    # --- self-profiling -----------------------------------------------------------------------------------------------
    profile_samples_min: Annotated[
        int,
        _count(
            "Views of a hub under load before its own profile replaces the constants above: half a minute."
        ),
    ] = 30
    profile_memory_views: Annotated[
        int, _count("Views after which an old sample counts 1/e: ten minutes at one view per second.")
    ] = 600
    profile_margin_ratio: Annotated[
        float,
        _ratio("Where a hub once fell into distress, this part of that rate is full.", at_most=1.0),
    ] = 0.95

    # --- thresholds ---------------------------------------------------------------------------------------------------
    high_ratio: Annotated[float, _ratio("Above it a hub is overloaded: LR^high (released: 0.80).")] = 0.80
    safe_ratio: Annotated[
        float, _ratio("An overloaded hub is brought down to this: LR^safe (released: 0.60).")
    ] = 0.60
    accept_ratio: Annotated[
        float, _ratio("A hub that would get above it by a topic does not get the topic (released: 0.60).")
    ] = 0.60
    severe_ratio: Annotated[
        float, _ratio("Above it nobody waits for more evidence; Redis failed at 1.15 (paper, V-D).")
    ] = 1.0
    crowded_ratio: Annotated[
        float,
        _ratio(
            "What a hub accepts when no further server can be had: just below overload, so that it is not next."
        ),
    ] = 0.75
    crowded_gain_ratio: Annotated[
        float,
        _ratio(
            "When all hubs are above that, how much a move has to lower the higher of the two to be worth it."
        ),
    ] = 0.05

    # --- timing -------------------------------------------------------------------------------------------------------
    plan_wait_s: Annotated[
        float, _seconds("Least time between two plans for load: T_wait (released: 20 s).")
    ] = 20.0
    severe_wait_s: Annotated[
        float, _seconds("The same under severe overload: a handover and half a window to see its effect.")
    ] = 5.0
    hits: Annotated[
        int,
        _count(
            "Times in a row that an overload, or a topic to split, has to be seen before it is acted on (Pulsar: 3)."
        ),
    ] = 3
    clear_deviations: Annotated[
        float,
        _amount(
            "Deviations of a hub's own noise that an overload, or a rise, has to stand out by to be clear. One that is "
            "not clear counts once per window only, since views that overlap are one piece of evidence."
        ),
    ] = 5.0
    merge_hits: Annotated[
        int,
        _count(
            "Windows in a row that have to show that fewer homes suffice: fast to split, slow to merge (PIP-364)."
        ),
    ] = 12
    topic_wait_s: Annotated[
        float, _seconds("A topic that was moved for load stays for at least this long: three T_wait.")
    ] = 60.0
    settle_s: Annotated[
        float,
        _seconds("How long a view may still show a moved topic at its old hub: its window and the handover."),
    ] = 12.0
    hold_max_s: Annotated[
        float,
        _seconds(
            "A move nobody reports the end of is no longer in hand after this; moves end by themselves."
        ),
    ] = 60.0
    dead_wait_s: Annotated[
        float,
        _seconds(
            "A dead hub stays a member for this long: a restart takes less, and its arcs come back to it."
        ),
    ] = 30.0

    # --- replication, Algorithm 1 -------------------------------------------------------------------------------------
    all_subscribers_ratio: Annotated[
        float,
        _amount(
            "AllSubs_threshold: publications per second for each subscriber (released, in a comment: 1,500)."
        ),
    ] = 1500.0
    all_publishers_ratio: Annotated[
        float,
        _amount(
            "AllPubs_threshold: subscribers for each publication per second (released, in a comment: 30)."
        ),
    ] = 30.0
    publications_min: Annotated[
        float,
        _amount(
            "Publication_threshold, per second. One server carried 2,000 and no more in experiment 1b; half of it is "
            "significant."
        ),
    ] = 1000.0
    subscribers_min: Annotated[
        float,
        _amount(
            "Subscriber_threshold. One server slowed down from 100 on and failed above 500 in experiment 1a."
        ),
    ] = 200.0
    replicate_ratio_min: Annotated[
        float,
        _amount(
            'Load ratio that a topic has to put on one hub to be replicated: replication is for what "uses '
            'significant resources" (paper, III-B). 0: the counts alone decide, as in Algorithm 1.'
        ),
    ] = 0.3
    single_ratio_max: Annotated[
        float,
        _ratio(
            "A topic that puts more than this on one hub fits nowhere, whatever its ratios, and is replicated."
        ),
    ] = 0.60
    home_ratio: Annotated[
        float,
        _ratio("Load ratio that a home of a replicated topic gets from it: room is left for other topics."),
    ] = 0.40
    shrink_ratio: Annotated[
        float,
        _ratio(
            "Thresholds for having fewer homes, in parts of those for having more: the hysteresis.",
            at_most=1.0,
        ),
    ] = 0.7
    homes_max: Annotated[int, _count("Homes of one topic; each subscriber may have to connect to all.")] = 16
    replication_wait_s: Annotated[
        float, _seconds("Least time between two changes of one topic's replication (released: 30 s).")
    ] = 30.0

    # --- latency ------------------------------------------------------------------------------------------------------
    latency_hits: Annotated[
        int,
        _count("Times in a row that a topic has to be seen above its limit: one report may be of a moment."),
    ] = 2
    latency_clear_ratio: Annotated[
        float,
        _amount(
            "By this part above its limit a topic is above it beyond doubt; coordinates are off by 6 % (ePulsar, 5.3)."
        ),
    ] = 0.1
    latency_gain_ratio: Annotated[
        float,
        _ratio("Where no hub keeps a limit, how much shorter a move has to make the way.", at_most=1.0),
    ] = 0.1
    latency_level_ms: Annotated[
        float,
        _amount(
            "Hubs that differ by less are equally near, and the least loaded of them is chosen: what estimates are "
            "off by within one site."
        ),
    ] = 2.0
    latency_wait_s: Annotated[
        float,
        _seconds(
            "How long a topic that was moved for latency stays away from the hubs that it left, and from others that "
            "are no nearer. Doubled each time it goes back, up to topic_wait_s: a topic whose best hub changes back "
            "and forth stays. One that views have shown within its limit for as long has settled, and begins anew."
        ),
    ] = 10.0
    latency_memory_s: Annotated[
        float, _seconds("Moves for latency that are longer ago than this are forgotten.")
    ] = 300.0
    resource_full_ratio: Annotated[
        float,
        _ratio(
            "Use of CPU, memory or bandwidth above which a hub takes nothing for latency (ePulsar, 3.4.2, as Pulsar).",
            at_most=1.0,
        ),
    ] = 0.85

    # --- servers and their price --------------------------------------------------------------------------------------
    low_ratio: Annotated[
        float,
        _ratio("A server may go while avg + avg/(n − 1) is at most this (released: 0.60)."),
    ] = 0.60
    low_margin_ratio: Annotated[
        float,
        _amount("How far the average has to get above that for a release to be interrupted: the hysteresis."),
    ] = 0.06
    servers_min: Annotated[int, _count("Servers that are never released.")] = 1
    servers_max: Annotated[int, _count("Servers that are ever asked for, those at work included.")] = 256
    server_lead_s: Annotated[
        float,
        _seconds(
            "From asking for a server until it carries its share: 5 s to start, 10 s to see and move load."
        ),
    ] = 15.0
    server_hour_price: Annotated[
        float,
        _amount(
            "What a server costs in an hour: the unit of all prices. 0: servers are free, none is released."
        ),
    ] = 1.0
    rental_min_s: Annotated[
        float, _seconds("What is paid for a server at least; clouds bill by the second, from one minute on.")
    ] = 60.0
    overload_hour_price: Annotated[
        float,
        _amount(
            "What one hub's whole capacity, missing for an hour, costs in clients: at 300 a hub that lacks 20 % has "
            "cost a server's minimum within a second, one that lacks 2 % within ten."
        ),
    ] = 300.0
    move_price: Annotated[
        float,
        _amount(
            "What moving one topic costs in messages and attention: at 0.0001, 10,000 moves are a server-hour."
        ),
    ] = 0.0001
    release_steps: Annotated[
        int,
        _count("Rounds in which a server's share of the ring goes down to nothing: slowly (paper, III-B4)."),
    ] = 4
    release_patience_s: Annotated[
        float,
        _seconds("A server that could not be emptied within this is kept: something on it fits nowhere."),
    ] = 600.0
    release_wait_s: Annotated[
        float,
        _seconds("How long a drained server serves clients that do not know plans before it goes anyway."),
    ] = 60.0

    # --- bounds -------------------------------------------------------------------------------------------------------
    moves_per_round_max: Annotated[
        int, _count("Entries changed by one plan: what hubs hand over within a second or two.")
    ] = 256
    moves_in_hand_max: Annotated[int, _count("Topics whose moves have not been seen to end.")] = 1024
    join_spread_s: Annotated[
        float, _seconds("How long after a hub joined load is shared out though nobody is overloaded.")
    ] = 30.0
    join_tolerance_ratio: Annotated[
        float, _ratio("Difference between the fullest and the emptiest hub that needs no sharing out.")
    ] = 0.05
    idle_entry_s: Annotated[
        float,
        _seconds(
            "An entry of a topic that nobody has used for this long is dropped; clients forgot it before."
        ),
    ] = 900.0

    def __post_init__(self) -> None:
        if not self.safe_ratio <= self.high_ratio <= self.severe_ratio:
            raise SettingsError("thresholds: needs safe_ratio ≤ high_ratio ≤ severe_ratio")
        if not self.accept_ratio <= self.crowded_ratio <= self.high_ratio:
            raise SettingsError("thresholds: needs accept_ratio ≤ crowded_ratio ≤ high_ratio")
        if self.servers_min > self.servers_max:
            raise SettingsError("servers: needs servers_min ≤ servers_max")
