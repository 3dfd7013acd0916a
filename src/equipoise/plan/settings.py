"""Constants of the planner, each with unit, bounds and the source of its default.

Sources: *paper* is Dynamoth (Gascon-Samson et al., ICDCS 2015), section III; *released* its published program;
*Pulsar* its TransferShedder; *Cruise Control* its capacity goals; *measured* the costs in docs/results.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from equipoise.errors import SettingsError
from equipoise.telemetry.load import CPU_FULL_RATIO, LOOP_LAG_FULL_S

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
            "CPU use, of one core, at which a hub is full. Cruise Control allows 0.7 of a CPU "
            "where it allows 0.8 of a network: 0.7/0.8 lets one threshold serve both."
        ),
    ] = CPU_FULL_RATIO
    loop_lag_full_s: Annotated[
        float,
        _ratio(
            "Mean event loop lag at which a hub is full: a third of the 150 ms in which a game "
            "has to answer (paper, V-D)."
        ),
    ] = LOOP_LAG_FULL_S
    memory_full_ratio: Annotated[
        float,
        _ratio("Memory use above which a hub receives no more topics.", at_most=1.0),
    ] = 0.9
    delivery_cost_us: Annotated[
        float,
        _amount("CPU time of one delivery, until the hub's own profile is known. Measured at fan-out 10."),
    ] = 0.3
    publication_cost_us: Annotated[
        float, _amount("CPU time of one publication without its deliveries, likewise. Measured at fan-out 1.")
    ] = 2.0
    trend_horizon_s: Annotated[
        float,
        _seconds(
            "How far ahead the load of a rising hub is extrapolated: one control period. 0: no extrapolation."
        ),
    ] = 5.0
    trend_ratio_min: Annotated[
        float,
        _ratio(
            "Smallest rise of a hub's load ratio within a window that is extrapolated; noise "
            "raises the bound."
        ),
    ] = 0.05
    trend_growth_max: Annotated[
        float,
        Meta(
            ge=1,
            description="Limit of the extrapolation of a topic, in multiples of its largest second: a step "
            "looks like an endless ramp.",
        ),
    ] = 1.25

    # --- self-profiling -----------------------------------------------------------------------------------------------
    profile_samples_min: Annotated[
        int,
        _count("Views of a loaded hub before its own profile replaces the constants above: half a minute."),
    ] = 30
    profile_memory_views: Annotated[
        int, _count("Views after which an old sample counts 1/e: ten minutes at one view per second.")
    ] = 600
    profile_margin_ratio: Annotated[
        float,
        _ratio(
            "A hub counts as full at this part of the rate at which it was overloaded before.", at_most=1.0
        ),
    ] = 0.95

    # --- thresholds ---------------------------------------------------------------------------------------------------
    high_ratio: Annotated[float, _ratio("A hub above it is overloaded: LR^high (released: 0.80).")] = 0.80
    safe_ratio: Annotated[
        float, _ratio("Load ratio to which an overloaded hub is brought down: LR^safe (released: 0.60).")
    ] = 0.60
    accept_ratio: Annotated[
        float, _ratio("A hub that would exceed it with a topic does not receive the topic (released: 0.60).")
    ] = 0.60
    severe_ratio: Annotated[
        float,
        _ratio(
            "Above it a hub is severely overloaded and no further evidence is required; Redis "
            "failed at 1.15 (paper, V-D)."
        ),
    ] = 1.0
    crowded_ratio: Annotated[
        float,
        _ratio(
            "Load ratio up to which a hub accepts topics if no further server can be started: "
            "just below overload."
        ),
    ] = 0.75
    crowded_gain_ratio: Annotated[
        float,
        _ratio("If all hubs are above that, how much a move must lower the higher of the two load ratios."),
    ] = 0.05

    # --- timing -------------------------------------------------------------------------------------------------------
    plan_wait_s: Annotated[
        float, _seconds("Shortest time between two plans for load: T_wait (released: 20 s).")
    ] = 20.0
    severe_wait_s: Annotated[
        float, _seconds("The same under severe overload: a handover and half a window to see its effect.")
    ] = 5.0
    hits: Annotated[
        int,
        _count(
            "Views in a row that must show an overload, or a topic to replicate, before the "
            "planner acts (Pulsar: 3)."
        ),
    ] = 3
    clear_deviations: Annotated[
        float,
        _amount(
            "Standard deviations of a hub's own noise by which an overload or a rise must stand "
            "out to be clear. One that is not clear counts once per window, because overlapping "
            "views are one piece of evidence."
        ),
    ] = 5.0
    merge_hits: Annotated[
        int,
        _count(
            "Windows in a row that must show that fewer homes suffice: fast to split, slow to "
            "merge (PIP-364)."
        ),
    ] = 12
    topic_wait_s: Annotated[
        float,
        _seconds("A topic that was moved for load is not moved for load again for this long: three T_wait."),
    ] = 60.0
    settle_s: Annotated[
        float,
        _seconds("How long a view may still show a moved topic at its old hub: the window and the handover."),
    ] = 12.0
    joined_doubt_s: Annotated[
        float,
        _seconds(
            "How long the error of a coordinate counts against a hub that has joined: a coordinate settles within "
            "a minute."
        ),
    ] = 60.0
    move_timeout_s: Annotated[
        float,
        _seconds("A move whose end was not observed is no longer in flight after this time."),
    ] = 60.0
    dead_wait_s: Annotated[
        float,
        _seconds(
            "A dead hub stays a member for this long: a restart takes less, and its part of the "
            "ring comes back to it."
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
            "Publication_threshold, per second. One server carried 2,000 and no more in "
            "experiment 1b; half of that is significant."
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
            "Load ratio of a topic on one hub below which it is not replicated: replication is "
            'for topics that use "significant resources" (paper, III-B). 0: the counts alone '
            "decide, as in Algorithm 1."
        ),
    ] = 0.3
    single_ratio_max: Annotated[
        float,
        _ratio("A topic with a higher load ratio fits on no hub and is replicated regardless of its counts."),
    ] = 0.60
    home_ratio: Annotated[
        float,
        _ratio("Load ratio of a replicated topic on each of its homes: leaves room for other topics."),
    ] = 0.40
    shrink_ratio: Annotated[
        float,
        _ratio(
            "Thresholds for fewer homes, as a part of those for more: the hysteresis.",
            at_most=1.0,
        ),
    ] = 0.7
    homes_max: Annotated[
        int, _count("Homes of one topic; each subscriber may have to connect to all of them.")
    ] = 16
    replication_wait_s: Annotated[
        float, _seconds("Shortest time between two changes of one topic's replication (released: 30 s).")
    ] = 30.0

    content_filters_min: Annotated[
        float,
        _amount(
            "Number of filters from which a topic that needs several homes for its subscribers becomes a content "
            "topic: its hubs then balance the subscribers by filter."
        ),
    ] = 1000.0
    content_session_wait_s: Annotated[
        float,
        _seconds(
            "Content topics whose edges share subscribers in sessions keep their edges for so long at most; then the "
            "planner no longer waits for the sessions to end. Ten sessions with their stabilising time."
        ),
    ] = 600.0

    # --- latency ------------------------------------------------------------------------------------------------------
    latency_hits: Annotated[
        int,
        _count("Views in a row that must show a topic above its latency limit."),
    ] = 2
    latency_clear_ratio: Annotated[
        float,
        _amount(
            "A topic this far above its limit (as a part of it) is above it beyond measurement "
            "error; coordinates are off by 6 % (ePulsar, 5.3)."
        ),
    ] = 0.1
    latency_gain_ratio: Annotated[
        float,
        _ratio("If no hub meets a limit, by how much a move must shorten the latency.", at_most=1.0),
    ] = 0.1
    latency_level_ms: Annotated[
        float,
        _amount(
            "Hubs whose latencies differ by less count as equal, and the least loaded is chosen: "
            "the error of estimates within one site."
        ),
    ] = 2.0
    latency_wait_s: Annotated[
        float,
        _seconds(
            "How long a topic that was moved for latency does not return to the hubs it left, or "
            "to others that are no nearer. Doubles with each return, up to topic_wait_s, so that "
            "a topic whose best hub alternates stays. Resets once views have shown the topic "
            "within its limit for as long."
        ),
    ] = 10.0
    latency_memory_s: Annotated[float, _seconds("How long moves for latency are remembered.")] = 300.0
    resource_full_ratio: Annotated[
        float,
        _ratio(
            "Use of CPU, memory or bandwidth above which a hub receives no topic for latency "
            "(ePulsar, 3.4.2, as Pulsar).",
            at_most=1.0,
        ),
    ] = 0.85

    # --- servers and their price --------------------------------------------------------------------------------------
    low_ratio: Annotated[
        float,
        _ratio("A server is released while avg + avg/(n − 1) is at most this (released: 0.60)."),
    ] = 0.60
    low_margin_ratio: Annotated[
        float,
        _amount("How far the average must rise above that to interrupt a release: the hysteresis."),
    ] = 0.06
    servers_min: Annotated[int, _count("Servers that are never released.")] = 1
    servers_max: Annotated[int, _count("Maximum number of servers.")] = 256
    server_lead_s: Annotated[
        float,
        _seconds(
            "Time from the request for a server until it carries its share: 5 s to start, 10 s to see "
            "and move load."
        ),
    ] = 15.0
    server_hour_price: Annotated[
        float,
        _amount("Cost of a server-hour: the unit of all prices. 0: servers are free and never released."),
    ] = 1.0
    rental_min_s: Annotated[
        float,
        _seconds("Shortest time that is billed for a server; clouds bill by the second, from one minute on."),
    ] = 60.0
    overload_hour_price: Annotated[
        float,
        _amount(
            "Cost of one hub's whole capacity missing for an hour: at 300 a hub that lacks 20 % "
            "has cost a server's minimum within a second, one that lacks 2 % within ten."
        ),
    ] = 300.0
    move_price: Annotated[
        float,
        _amount("Cost of moving one topic: at 0.0001, 10,000 moves cost a server-hour."),
    ] = 0.0001
    release_steps: Annotated[
        int,
        _count("Rounds in which the share of a server on the ring goes down to zero (paper, III-B4)."),
    ] = 4
    release_timeout_s: Annotated[
        float,
        _seconds("A server that could not be emptied within this time is kept."),
    ] = 600.0
    release_wait_s: Annotated[
        float,
        _seconds(
            "How long a drained server still serves clients that ignore redirects before it is stopped."
        ),
    ] = 60.0

    # --- bounds -------------------------------------------------------------------------------------------------------
    moves_per_round_max: Annotated[
        int, _count("Entries changed by one plan: what hubs hand over within a second or two.")
    ] = 256
    moves_in_flight_max: Annotated[int, _count("Topics with a move in flight.")] = 1024
    join_spread_s: Annotated[
        float, _seconds("How long after a hub joined load is spread though no hub is overloaded.")
    ] = 30.0
    join_tolerance_ratio: Annotated[
        float, _ratio("Difference between the fullest and the emptiest hub that needs no spreading.")
    ] = 0.05
    idle_entry_s: Annotated[
        float,
        _seconds(
            "The plan entry of a topic that was unused for this long is removed; clients forgot it before."
        ),
    ] = 900.0

    def __post_init__(self) -> None:
        if not self.safe_ratio <= self.high_ratio <= self.severe_ratio:
            raise SettingsError("thresholds: needs safe_ratio ≤ high_ratio ≤ severe_ratio")
        if not self.accept_ratio <= self.crowded_ratio <= self.high_ratio:
            raise SettingsError("thresholds: needs accept_ratio ≤ crowded_ratio ≤ high_ratio")
        if self.servers_min > self.servers_max:
            raise SettingsError("servers: needs servers_min ≤ servers_max")
