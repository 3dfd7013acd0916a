"""Settings of content balancing, each with unit, bounds and the source of its default.

"[1]" marks the default of the paper; other descriptions give the reason.

Always true of valid settings: a threshold that ends an action is below the one that begins it, so that no hub begins an
action that it would end at once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["BalancingSettings", "DelayEstimate", "LoadMetric", "OverloadThresholds"]

_Ratio = Annotated[float, Meta(gt=0, le=1)]
_Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class DelayEstimate(StrEnum):
    """How the matching delay after a move is estimated."""

    # Equation 4 of [1]: in proportion to the number of subscriptions.
    LINEAR = "linear"
    # By the fitted costs of a message, a match and a subscription.
    FITTED = "fitted"


class LoadMetric(StrEnum):
    """The metrics compared between hubs, beside the matching delay."""

    RATIO = "ratio"
    # Input and output queueing delay. They lag by their own length.
    QUEUEING = "queueing"


class OverloadThresholds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one utilisation ratio. Between the two a hub neither accepts subscribers nor requests a session."""

    lower: Annotated[_Ratio, Meta(description="Above it a hub is N/A: it accepts no subscribers. [1]")] = 0.9
    higher: Annotated[_Ratio, Meta(description="Above it a hub requests a session at once. [1]")] = 0.95

    def __post_init__(self) -> None:
        if self.lower >= self.higher:
            raise ValueError(f"lower ({self.lower:g}) has to be below higher ({self.higher:g})")


class BalancingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hub's settings. Hubs of one cluster should have the same."""

    input: OverloadThresholds = OverloadThresholds()
    output: OverloadThresholds = OverloadThresholds()
    cpu: OverloadThresholds = OverloadThresholds()
    memory: OverloadThresholds = OverloadThresholds()
    local_ratio_trigger: Annotated[
        _Ratio, Meta(description="Difference of a utilisation ratio between edges that begins a session. [1]")
    ] = 0.1
    local_delay_trigger: Annotated[
        _Ratio, Meta(description="Difference of matching delays, by equation 1, that begins a session. [1]")
    ] = 0.1
    global_ratio_trigger: Annotated[
        _Ratio, Meta(description="The same between the means of two clusters. [1]")
    ] = 0.15
    global_delay_trigger: Annotated[
        _Ratio, Meta(description="The same between the means of two clusters. [1]")
    ] = 0.15
    delay_norm_s: Annotated[
        _Seconds, Meta(description="N_f of equation 1: the difference of delays that counts as 1. [1]")
    ] = 0.1
    stabilize_s: Annotated[
        _Seconds, Meta(description="How long both hubs are STABILIZING after a session, at least. [1]")
    ] = 30.0
    stabilize_ratio: Annotated[
        _Ratio,
        Meta(description="Change of a metric from one detection to the next that counts as steady. [1]"),
    ] = 0.05
    balance_ratio: Annotated[
        _Ratio, Meta(description="Estimated difference at which the selection of subscribers ends. [1]")
    ] = 0.005
    side_effect_ratio: Annotated[
        _Ratio,
        Meta(
            description="How far a session about one metric may put the acceptor above the offloading hub in another. "
            "Below the triggers, or that one begins a session back; [1] asks for a minimal effect. 1: any."
        ),
    ] = 0.08
    samples: Annotated[
        int, Meta(ge=1, le=10_000, description="Messages sampled for a profile of subscriptions. [1]")
    ] = 50
    sampling_s: Annotated[_Seconds, Meta(description="Longest time of a profile. [1]")] = 30.0
    detection_s: Annotated[
        _Seconds,
        Meta(description="Seconds between two detections. Not in [1]; six fit into `stabilize_s`."),
    ] = 5.0
    pie_s: Annotated[
        _Seconds,
        Meta(description="Seconds between two PIE messages while load changes; at once with a new state."),
    ] = 5.0
    pie_s_max: Annotated[
        _Seconds,
        Meta(description="The same while nothing changes, to keep control traffic small."),
    ] = 60.0
    window_s: Annotated[
        _Seconds,
        Meta(
            description="Window of the means of rates and delays, in seconds. The stabilising time exceeds one window."
        ),
    ] = 30.0
    reply_s: Annotated[
        _Seconds,
        Meta(description="How long a hub waits for a reply before it sends its request to another hub."),
    ] = 3.0
    migration_s: Annotated[
        _Seconds,
        Meta(description="How long the acceptor waits for each announced subscriber. Not in [1]."),
    ] = 1.0
    fruitless_s: Annotated[
        _Seconds,
        Meta(
            description="Pause after a session without a move, for this pair of hubs and metric, or of clusters; and "
            "after one that reverses the last session of two hubs, then twice as long each time, up to 8 times."
        ),
    ] = 120.0
    global_s: Annotated[
        _Seconds, Meta(description="A session of two clusters ends after this time, balanced or not.")
    ] = 900.0
    global_quiet_s: Annotated[
        _Seconds,
        Meta(
            description="A session of two clusters ends when no session of their edges has moved a subscriber for this "
            "time."
        ),
    ] = 60.0
    estimate: Annotated[
        DelayEstimate, Meta(description="How the matching delay after a move is estimated.")
    ] = DelayEstimate.FITTED
    metric: Annotated[
        LoadMetric, Meta(description="Compare utilisation ratios, or queueing delays instead. [1]")
    ] = LoadMetric.RATIO
    first_edge: Annotated[
        bool,
        Meta(
            description="Send a new subscriber of a hub that is N/A, or is no edge of the topic, to the least loaded "
            "edge. Off: it stays at an edge that is N/A, and draws an edge where the hub is none."
        ),
    ] = True

    def __post_init__(self) -> None:
        for low, high in (
            ("balance_ratio", "local_ratio_trigger"),
            ("balance_ratio", "local_delay_trigger"),
            ("pie_s", "pie_s_max"),
            ("reply_s", "global_s"),
        ):
            if getattr(self, low) >= getattr(self, high):
                raise ValueError(
                    f"{low} ({getattr(self, low):g}) has to be below {high} ({getattr(self, high):g})"
                )
        trigger = min(self.local_ratio_trigger, self.local_delay_trigger)
        if trigger <= self.side_effect_ratio < 1:
            raise ValueError(
                f"side_effect_ratio ({self.side_effect_ratio:g}) has to be below local_ratio_trigger and "
                f"local_delay_trigger ({trigger:g}), or 1"
            )
