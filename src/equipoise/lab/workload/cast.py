"""Choose who plays a client of a workload."""

from __future__ import annotations

from typing import TypeAlias

from equipoise.lab.scenarios import Client, Dialect
from equipoise.lab.workload.endpoint import Place
from equipoise.lab.workload.history import History
from equipoise.lab.workload.plain import PlainClient
from equipoise.lab.workload.smart import SmartClient
from equipoise.lab.workload.stage import Stage

__all__ = ["Driven", "cast_client"]

Driven: TypeAlias = SmartClient | PlainClient


def cast_client(client: Client, place: Place, stage: Stage, history: History) -> Driven:
    """Make the client ready to `run`. Call it on the loop it will run on."""
    kind = SmartClient if client.dialect is Dialect.SMART else PlainClient
    return kind(client, place, stage, history)
