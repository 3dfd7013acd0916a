"""Make the driver for each client of a workload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from equipoise.lab.scenarios import Client, Dialect
from equipoise.lab.workload.endpoint import HubEndpoint
from equipoise.lab.workload.history import History
from equipoise.lab.workload.lanes import LaneSubscriber
from equipoise.lab.workload.plain import PlainClient
from equipoise.lab.workload.positioned import PositionedSubscriber
from equipoise.lab.workload.roving import RovingPublisher
from equipoise.lab.workload.smart import SmartClient
from equipoise.lab.workload.stage import RunPhases

__all__ = ["Driven", "cast_client"]


class Driven(Protocol):
    """A client that a run drives."""

    name: str
    # Number of message streams that have not ended.
    unfinished: int

    async def run(self) -> None:
        """Publish and subscribe as described, until the run stops or the caller cancels."""

    def stall(self) -> None:
        """Read nothing until `resume`."""

    def resume(self) -> None: ...


_PLAYERS: dict[Dialect, Callable[[Client, HubEndpoint, RunPhases, History], Driven]] = {
    Dialect.SMART: SmartClient,
    Dialect.RESP2: PlainClient,
    Dialect.RESP3: PlainClient,
    Dialect.POSITIONED: PositionedSubscriber,
    Dialect.LANES: LaneSubscriber,
    Dialect.ROVING: RovingPublisher,
}


def cast_client(client: Client, place: HubEndpoint, stage: RunPhases, history: History) -> Driven:
    """Make the driver of a client. Call it on the loop on which it will run."""
    return _PLAYERS[client.dialect](client, place, stage, history)
