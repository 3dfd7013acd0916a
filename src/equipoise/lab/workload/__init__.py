"""Drive real clients, smart and plain, by a scenario's workload, and keep a history of what they saw.

Runs on whatever loop is running: the simulated one for a seed, the real one for a demo or a benchmark.
"""

from equipoise.lab.workload.cast import Driven, cast_client
from equipoise.lab.workload.endpoint import HubEndpoint, hurried
from equipoise.lab.workload.history import History, PublishOutcome
from equipoise.lab.workload.plain import PlainClient
from equipoise.lab.workload.smart import SmartClient
from equipoise.lab.workload.stage import RunPhases

__all__ = [
    "Driven",
    "History",
    "HubEndpoint",
    "PlainClient",
    "PublishOutcome",
    "RunPhases",
    "SmartClient",
    "cast_client",
    "hurried",
]
