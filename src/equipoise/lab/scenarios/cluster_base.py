"""The base of all worlds with several hubs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equipoise.lab.scenarios.cluster_clients import CROWD
from equipoise.lab.scenarios.scenario import ClusterScenario, Expectation
from equipoise.model import Mode

__all__ = ["BOTH_MODES", "LIMITED", "LOUD", "PATIENT", "QUIET", "case", "routed"]

BOTH_MODES = (Mode.ALL_SUBSCRIBERS, Mode.ALL_PUBLISHERS)
# For worlds in which no hub dies and no client loses its connection: a gap has no reason.
QUIET = Expectation(
    properties=("once", "order", "bounded memory", "authorised only", "progress", "no needless gap")
)
LOUD = Expectation()
# Client settings for quiet worlds with hub pauses. A hub that has paused holds its clients until its incarnation is
# confirmed, for at most 5 s. A client that gives up the hub meanwhile loses its connection, which is a reason for a
# gap. By default a client waits a minute for a silent hub; in other worlds 1.4 s.
PATIENT: Mapping[str, int | float] = {"ping_interval_s": 3.0}
# For worlds with limited topics and any fault.
LIMITED = Expectation(properties=(*LOUD.properties, "envelope"))


def case(name: str, summary: str, **fields: object) -> ClusterScenario:
    made = ClusterScenario(name=f"cluster-{name}", summary=summary, workload=CROWD, expectation=QUIET)
    return replace(made, **fields)  # type: ignore[arg-type]  # fields by name


def routed(made: ClusterScenario, **fields: object) -> ClusterScenario:
    """The same world with smart clients that follow redirects to the homes of topics."""
    name = made.name.replace("cluster-", "cluster-routed-")
    summary = f"{made.summary} Smart clients follow redirects."
    return replace(made, name=name, summary=summary, is_routing=True, **fields)  # type: ignore[arg-type]  # by name
