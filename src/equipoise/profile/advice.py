"""Recommended settings after a profile, for the hub and the controller. Pure."""

from __future__ import annotations

from equipoise.profile.knees import Knee
from equipoise.profile.sweep import Profile

__all__ = ["SETTINGS", "controller_toml", "hub_toml"]

# A bound with a lower share would hold back hubs that are not late, or miss late ones.
SORTS_MIN = 0.7
# By metric, the hub's setting. If both are set, both apply.
SETTINGS = {"deliveries_per_s": "deliveries_per_s_max", "out_bytes_per_s": "out_bytes_per_s_max"}
# With less of a core than this, a hub does not have the core to itself.
_CPU_MIN, _CPU_MAX = 0.3, 1.0


def hub_toml(profile: Profile) -> str:
    """The hub's settings by the best knee; none without a reliable one."""
    lines = [
        f"{setting} = {_rounded(knee.at)}"
        for number, setting in SETTINGS.items()
        if _is_telling(knee := profile.knee(number))
    ]
    return "\n".join(("[telemetry]", *lines)) + "\n" if lines else ""


def controller_toml(profile: Profile) -> str:
    """The costs of messages on this machine, for hubs without a profile of their own."""
    costs, cpu = profile.costs, profile.knee("cpu_ratio")
    lines = [
        f"delivery_cost_us = {max(costs.delivery_us, 0.01):.3g}",
        f"publication_cost_us = {max(costs.publication_us, 0.01):.3g}",
    ]
    if cpu.at is not None and _is_telling(cpu):
        lines.append(f"cpu_full_ratio = {min(max(cpu.at, _CPU_MIN), _CPU_MAX):.2f}")
    return "\n".join(("[planner]", *lines)) + "\n"


def _is_telling(knee: Knee) -> bool:
    return knee.at is not None and knee.sorts >= SORTS_MIN


def _rounded(value: float | None) -> str:
    """Two digits: the precision of a knee."""
    assert value is not None, "called only with a knee"
    return f"{float(f'{value:.2g}'):.0f}"
