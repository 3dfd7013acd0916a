"""Settings, parameters and notes that PADRES's experiments share."""

from __future__ import annotations

from equipoise.content.balancing.settings import BalancingSettings, DelayEstimate
from equipoise.lab.experiments.experiment import Parameters

__all__ = ["LOCAL_NOTES", "OURS", "PAPER", "common_parameters"]

# The paper's settings: its estimate is equation 4, and subscribers connect to the first edge.
PAPER = BalancingSettings(estimate=DelayEstimate.LINEAR, first_edge=False)
OURS = BalancingSettings()


def common_parameters(settings: BalancingSettings, subscription_s: float) -> Parameters:
    """Parameters of all runs with the paper's settings."""
    return (
        ("publishers", "40, each 0 to 60 messages a minute, at equal intervals; 125 bytes a message"),
        (
            "matching",
            f"{1e6 * subscription_s:g} µs at 1 GHz for each subscription: edges are balanced near 0.45",
        ),
        (
            "detection, PIE",
            f"every {settings.detection_s:g} s; PIE every {settings.pie_s_max:g} s if unchanged",
        ),
        ("windows", f"rates and delays are means over {settings.window_s:g} s"),
        ("migration time-out", f"{settings.migration_s:g} s for each subscriber"),
    )


LOCAL_NOTES = (
    "Hubs are simulated: a processor that takes messages in order, an output, and links of 1 ms. Index, covering sets, "
    "meter, balancers and offload algorithms are the product's own code.",
    "Prices are random walks; the paper has Yahoo's. What the paper does not print is in the table of parameters.",
    "A subscriber has the messages up to a position from its old edge and those beyond from the new one. That it holds "
    "back the latter until it has the former is not in the delays.",
)
