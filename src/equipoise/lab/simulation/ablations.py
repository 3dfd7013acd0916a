"""All safeguards that can be switched off, by name.

A checker that never complains may be blind. So each safeguard is listed with the property that breaks without it and a
case that shows it. A test takes each away, demands that the checker speaks within a few seeds, and that the same seed
is green with the safeguard back.
"""

from __future__ import annotations

from equipoise.errors import SettingsError
from equipoise.lab.simulation.ablation import Ablation
from equipoise.lab.simulation.cluster.ablations import CLUSTER_ABLATIONS
from equipoise.lab.simulation.cluster.limit_ablations import LIMIT_ABLATIONS
from equipoise.lab.simulation.durable.ablations import DURABLE_ABLATIONS
from equipoise.lab.simulation.hub_ablations import HUB_ABLATIONS

__all__ = ["ABLATIONS", "ablation_by_name"]

ABLATIONS: dict[str, Ablation] = {
    one.name: one for one in (*HUB_ABLATIONS, *CLUSTER_ABLATIONS, *DURABLE_ABLATIONS, *LIMIT_ABLATIONS)
}


def ablation_by_name(name: str) -> Ablation:
    """Raises SettingsError that lists what there is."""
    if name not in ABLATIONS:
        raise SettingsError(f"there is no safeguard {name!r}; there are: {', '.join(ABLATIONS)}")
    return ABLATIONS[name]
