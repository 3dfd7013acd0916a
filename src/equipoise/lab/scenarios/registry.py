"""Find a scenario by its name."""

from __future__ import annotations

from equipoise.errors import SettingsError
from equipoise.lab.scenarios.cluster import CLUSTER_SCENARIOS
from equipoise.lab.scenarios.content import CONTENT_SCENARIOS
from equipoise.lab.scenarios.content_sessions import SESSION_SCENARIOS
from equipoise.lab.scenarios.demo import DEMO
from equipoise.lab.scenarios.durable import DURABLE_SCENARIOS, LOG_SCENARIOS
from equipoise.lab.scenarios.hub import HUB_SCENARIOS
from equipoise.lab.scenarios.limits import LIMITS_SCENARIOS
from equipoise.lab.scenarios.scenario import Scenario

__all__ = ["SCENARIOS", "scenario_by_name"]

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        *HUB_SCENARIOS,
        *CLUSTER_SCENARIOS,
        *LIMITS_SCENARIOS,
        *CONTENT_SCENARIOS,
        *SESSION_SCENARIOS,
        *DURABLE_SCENARIOS,
        *LOG_SCENARIOS,
        DEMO,
    )
}


def scenario_by_name(name: str) -> Scenario:
    """Raises SettingsError, which lists the cases, for an unknown name."""
    if name not in SCENARIOS:
        raise SettingsError(f"unknown case {name!r}; known cases: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]
