"""Choose who plays a client of a workload."""

from __future__ import annotations

from typing import TypeAlias

from equipoise.scenarios import Client, Dialect
from equipoise.workload.history import History
from equipoise.workload.place import Place
from equipoise.workload.plain import PlainClient
from equipoise.workload.smart import SmartClient
from equipoise.workload.stage import Stage

__all__ = ["Driven", "cast_client"]

Driven: TypeAlias = SmartClient | PlainClient


def cast_client(client: Client, place: Place, stage: Stage, history: History) -> Driven:
    """Make the client ready to `run`. Call it on the loop it will run on."""
    kind = SmartClient if client.dialect is Dialect.SMART else PlainClient
    return kind(client, place, stage, history)
