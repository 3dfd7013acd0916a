"""Choose the program that plays a client of a workload."""

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
    # Streams of messages that have not come to their end.
    unfinished: int

    async def run(self) -> None:
        """Do all that the description says, until the stage stops or the caller cancels."""

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
    """Make the client ready to `run`. Call it on the loop it will run on."""
    return _PLAYERS[client.dialect](client, place, stage, history)
