"""The coordinate of a light client: the finder and shell of the real client, over light links.

A gateway may be a real gateway on the simulated network, or an object with a coordinate. With an object the client
sends no request, and the experiment sets the latency of the access line. So thousands of clients can have gateways.
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
# Timeout of a connection that is opened for a measurement.
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
        """Change the gateway: an address, or an object with a round trip of `access_s`; None: no gateway."""
        self._standing, address = None, None
        if isinstance(gateway, Endpoint | str):
            address = str(gateway)
        elif gateway is not None:
            # A new name each time, so that a gateway with a changed access line is measured again.
            self._gateways += 1
            self._standing, self._access_s = gateway, access_s
            address = f"gateway {self._gateways}"
        self.finding.use_gateway(address)

    # The environment of the coordinate agent.

    def connections(self) -> dict[str, tuple[ProbedConnection, bool]]:
        return {str(link.hub): (link, is_used) for link, is_used in self._links()}

    def known(self) -> list[str]:
        return self._entries

    async def dial(self, address: str, *, is_gateway: bool) -> ProbedConnection:
        if is_gateway and self._standing is not None:
            return _StandingLine(self._standing, self._access_s)
        endpoint = parse_address(address.encode())
        if endpoint is None:
            raise AddressError(f"invalid address {address!r}: write host:port")
        link = LightLink(_NoOwner(), endpoint, self._rng.randbytes(_LINK_NAME_BYTES).hex().encode())
        async with asyncio.timeout(_DIAL_S):
            await link.dial()
        if not link.is_up:
            raise DisconnectedError(f"no server listens at {address}")
        return link


class _StandingLine:
    """A connection to a gateway object."""

    def __init__(self, gateway: StandingGateway, access_s: float) -> None:
        self._gateway = gateway
        self._access_s = access_s

    def measure(self, frame: bytes, answered: Answered) -> None:
        at = self._gateway.coordinate
        answered(None if at is None else at.to_bytes(), self._access_s)

    def close(self) -> None: ...


class _NoOwner:
    """Owner of links without subscriptions."""

    def on_push(self, link: LightLink, push: list[Any]) -> None: ...

    def on_up(self, link: LightLink) -> None: ...

    def on_refused(self, subscription: LightSubscription) -> None: ...

    def on_lost(self, link: LightLink) -> None: ...
