"""The coordinate of a light client: the finder and shell of the real client, over light links.

A gateway may be a real one, asked over the simulated network, or any object that knows where it is: then nothing is
sent, and the access line is as long as the experiment says. That is what lets thousands of clients have gateways.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Protocol

from equipoise.client.coordinate_agent import CoordinateAgent
from equipoise.client.url import Endpoint, parse_address
from equipoise.client.wire.requests import Answered, ProbedConnection
from equipoise.coordinates import Coordinate, Finder, FinderSettings
from equipoise.errors import AddressError, DisconnectedError
from equipoise.lab.simulation.light_client.link import LightLink, LightSubscription

__all__ = ["LightFinding", "StandingGateway"]

_LINK_NAME_BYTES = 16
# For a connection that is made to be measured.
_DIAL_S = 5.0

# Open links and whether each is used.
Links = Callable[[], Iterable[tuple[LightLink, bool]]]


class StandingGateway(Protocol):
    """A gateway as an object that knows its coordinate."""

    @property
    def coordinate(self) -> Coordinate | None: ...


class LightFinding:
    """Owned by one light client."""

    def __init__(
        self, settings: FinderSettings, entries: Iterable[Endpoint], links: Links, rng: Random
    ) -> None:
        self._links = links
        self._entries = [str(entry) for entry in entries]
        self._rng = rng
        self._standing: StandingGateway | None = None
        self._access_s = 0.0
        self._gateways = 0
        self.finding = CoordinateAgent(Finder(rng.random, settings), self)
        self.finding.wake()

    def use_gateway(self, gateway: Endpoint | str | StandingGateway | None, access_s: float = 0.0) -> None:
        """Be behind another gateway from now on: one at an address, or an object `access_s` of round trip away."""
        self._standing, address = None, None
        if isinstance(gateway, Endpoint | str):
            address = str(gateway)
        elif gateway is not None:
            # Each time another name, so that the same one with another access line is asked again.
            self._gateways += 1
            self._standing, self._access_s = gateway, access_s
            address = f"gateway {self._gateways}"
        self.finding.use_gateway(address)

    # What surrounds it.

    def connections(self) -> dict[str, tuple[ProbedConnection, bool]]:
        return {str(link.hub): (link, is_used) for link, is_used in self._links()}

    def known(self) -> list[str]:
        return self._entries

    async def dial(self, address: str, *, is_gateway: bool) -> ProbedConnection:
        if is_gateway and self._standing is not None:
            return _StandingLine(self._standing, self._access_s)
        endpoint = parse_address(address.encode())
        if endpoint is None:
            raise AddressError(f"there is no host at {address!r}; an address is written host:port")
        link = LightLink(_Nobody(), endpoint, self._rng.randbytes(_LINK_NAME_BYTES).hex().encode())
        async with asyncio.timeout(_DIAL_S):
            await link.dial()
        if not link.is_up:
            raise DisconnectedError(f"no server listens at {address}")
        return link


class _StandingLine:
    """To a gateway that needs no network."""

    def __init__(self, gateway: StandingGateway, access_s: float) -> None:
        self._gateway = gateway
        self._access_s = access_s

    def measure(self, frame: bytes, answered: Answered) -> None:
        at = self._gateway.coordinate
        answered(None if at is None else at.to_bytes(), self._access_s)

    def close(self) -> None: ...


class _Nobody:
    """Owns links over which nothing is subscribed to."""

    def on_push(self, link: LightLink, push: list[Any]) -> None: ...

    def on_up(self, link: LightLink) -> None: ...

    def on_refused(self, subscription: LightSubscription) -> None: ...

    def on_lost(self, link: LightLink) -> None: ...
