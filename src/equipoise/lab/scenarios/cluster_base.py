"""The base of all worlds with several hubs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from equipoise.lab.scenarios.cluster_clients import CROWD
from equipoise.lab.scenarios.scenario import ClusterScenario, Expectation
from equipoise.model import Mode

__all__ = ["BOTH_MODES", "LIMITED", "LOUD", "PATIENT", "QUIET", "case", "routed"]

BOTH_MODES = (Mode.ALL_SUBSCRIBERS, Mode.ALL_PUBLISHERS)
# Where no hub dies and no client loses its connection there is no reason for a gap.
QUIET = Expectation(
    properties=("once", "order", "bounded memory", "authorised only", "progress", "no needless gap")
)
LOUD = Expectation()
# Of clients whose hubs stand still, in a world that is to be quiet. A hub that has stood still holds its clients until
# it is confirmed, for 5 s at most. A client that gives it up meanwhile loses its connection, which is a reason for a
# gap. By default a client waits for a silent hub for a minute; in the haste of other worlds for 1.4 s.
PATIENT: Mapping[str, int | float] = {"ping_interval_s": 3.0}
# Of worlds with limited topics, whatever happens.
LIMITED = Expectation(properties=(*LOUD.properties, "envelope"))


def case(name: str, summary: str, **fields: object) -> ClusterScenario:
    made = ClusterScenario(name=f"cluster-{name}", summary=summary, workload=CROWD, expectation=QUIET)
    return replace(made, **fields)  # type: ignore[arg-type]  # fields by name


def routed(made: ClusterScenario, **fields: object) -> ClusterScenario:
    """The same with smart clients that go where topics live."""
    name = made.name.replace("cluster-", "cluster-routed-")
    summary = f"{made.summary} Smart clients follow redirects."
    return replace(made, name=name, summary=summary, is_routing=True, **fields)  # type: ignore[arg-type]  # by name
