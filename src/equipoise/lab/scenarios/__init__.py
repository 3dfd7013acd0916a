"""Named worlds: topology, workload, faults, duration, expectation. Values only, read by simulation and demo alike."""

from equipoise.lab.scenarios.access import Access, AclSync, Grants
from equipoise.lab.scenarios.faults import Fault, FaultKind
from equipoise.lab.scenarios.registry import SCENARIOS, scenario_by_name
from equipoise.lab.scenarios.scenario import ClusterScenario, Expectation, NetworkShape, Scenario
from equipoise.lab.scenarios.workload import Client, Dialect, PublishedStream, Subscribing, Workload

__all__ = [
    "SCENARIOS",
    "Access",
    "AclSync",
    "Client",
    "ClusterScenario",
    "Dialect",
    "Expectation",
    "Fault",
    "FaultKind",
    "Grants",
    "NetworkShape",
    "PublishedStream",
    "Scenario",
    "Subscribing",
    "Workload",
    "scenario_by_name",
]
