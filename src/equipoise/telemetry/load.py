"""The load ratio of a hub, from its own measurements.

The planner, `equipoise hubs ls`, the dashboard and Prometheus all show this number. 1 is a hub that is full, in
its scarcest resource:

    outgoing bandwidth over its maximum (Dynamoth's LR, equation 1);
    deliveries over its maximum in time, by its settings;
    CPU over the usable part of a core;
    loop lag over the tolerable lag.

Always true: an unknown maximum (0) counts as 0; the ratio is not negative and may exceed 1.
"""

from __future__ import annotations

import math

__all__ = ["CPU_FULL_RATIO", "EDGE_STATES", "LOOP_LAG_FULL_S", "lag_ratio", "load_ratio"]

# Cruise Control allows 0.7 of a CPU where it allows 0.8 of a network: 0.7/0.8 lets one threshold serve both.
CPU_FULL_RATIO = 0.875
# A third of the 150 ms in which a game answers (Dynamoth, V-D).
LOOP_LAG_FULL_S = 0.05
# The states of an edge of content topics, by their number in records. The first: not an edge.
EDGE_STATES = ("", "ok", "n/a", "stabilizing", "asking", "sampling", "migrating", "accepting")


def load_ratio(
    *,
    cpu_ratio: float,
    loop_lag_s: float,
    out_bytes_per_s: float,
    out_bytes_per_s_max: float,
    deliveries_per_s: float,
    deliveries_per_s_max: float,
    cpu_full_ratio: float = CPU_FULL_RATIO,
    loop_lag_full_s: float = LOOP_LAG_FULL_S,
) -> float:
    """The load ratio. Rates, CPU and lag are means over the window of a view."""
    return max(
        cpu_ratio / cpu_full_ratio,
        out_bytes_per_s / out_bytes_per_s_max if out_bytes_per_s_max > 0 else 0.0,
        deliveries_per_s / deliveries_per_s_max if deliveries_per_s_max > 0 else 0.0,
        lag_ratio(loop_lag_s, loop_lag_full_s),
    )


def lag_ratio(loop_lag_s: float, full_s: float = LOOP_LAG_FULL_S) -> float:
    """Unlike load, lag is unbounded: beyond full, twice the lag adds a tenth to the ratio."""
    lag = loop_lag_s / full_s
    return lag if lag <= 1 else 1 + 0.1 * math.log2(lag)
