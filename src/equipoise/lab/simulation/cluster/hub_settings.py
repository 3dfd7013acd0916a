"""Settings of hubs in simulated clusters: timeouts are short, so that they expire within a run of seconds."""

from __future__ import annotations

from functools import cache

from equipoise.content.balancing.settings import BalancingSettings
from equipoise.hub import HubSettings, Limits
from equipoise.hub.cluster.settings import ClusterSettings
from equipoise.lab.simulation.cluster.region import membership_settings
from equipoise.lab.simulation.simulated_hub import PORT

__all__ = ["hub_settings"]

# Links that detect silence and reconnect within a run.
QUICK: dict[str, int | float | str] = {
    "link_silence_s": 0.3,
    "link_timeout_s": 0.7,
    "reconnect_interval_s_max": 0.2,
    "unsubscribe_delay_s": 0.5,
    "ack_interval_s": 0.05,
}


@cache
def hub_settings(
    name: str,
    limits: tuple[tuple[str, int | float], ...],
    cluster: tuple[tuple[str, int | float | str], ...],
    content: tuple[tuple[str, object], ...],
    *,
    session_s: float,
) -> HubSettings:
    """Cached per process, because a run may take only a tenth of a second."""
    return HubSettings(
        name=name,
        host="0.0.0.0",
        port=PORT,
        insecure=True,
        limits=Limits(**dict(limits)),  # type: ignore[arg-type]  # fields by name, some of them int
        cluster=ClusterSettings(**{**QUICK, **dict(cluster)}),  # type: ignore[arg-type]  # fields by name
        content=BalancingSettings(**dict(content)),  # type: ignore[arg-type]  # fields by name
        membership=membership_settings(session_s),
    )
