"""What a bus has around it, for finding where it is: its links, the hubs it has heard of, and ways to ask others.

Connections made to be measured carry nothing else. A gateway is not given the login of the hubs.
"""

from __future__ import annotations

import random
from dataclasses import replace

from equipoise.client.publishing import Publishing
from equipoise.client.settings import ClientSettings
from equipoise.client.url import BusUrl, parse_address
from equipoise.client.wire.connection import Connection
from equipoise.client.wire.dial import ClientDialer
from equipoise.client.wire.links import Links
from equipoise.client.wire.requests import NowaitLosses
from equipoise.client.wire.round_trip import ProbedConnection
from equipoise.coordinates import FinderSettings
from equipoise.errors import AddressError, EquipoiseError

_LINK_NAME_BYTES = 16


class BusTransport:
    """Owned by the routing of one bus."""

    def __init__(
        self, dialer: ClientDialer, links: Links, publishing: Publishing, rng: random.Random
    ) -> None:
        self._dialer = dialer
        self._links = links
        self._publishing = publishing
        self._rng = rng

    def connections(self) -> dict[str, tuple[ProbedConnection, bool]]:
        in_use = self._publishing.links_in_use
        return {
            connection.hub.decode(errors="replace"): (
                connection,
                bool(len(link.subscriptions)) or link in in_use,
            )
            for link in self._links.all
            if (connection := link.connection) is not None
        }

    def known(self) -> list[str]:
        """Hubs of the URL and of routes; of the one that the base is connected to, only the name it has itself."""
        connection = self._links.base.connection
        dialled = None if connection is None else connection.dialled
        hubs = [hub for hub in self._dialer.url.endpoints if hub != dialled]
        if self._dialer.settings.routing:
            hubs += self._links.known()
        return list(dict.fromkeys(map(str, hubs)))

    async def dial(self, address: str, *, is_gateway: bool) -> ProbedConnection:
        endpoint = parse_address(address.encode())
        if endpoint is None:
            raise AddressError(f"{address!r} is no address; write host:port")
        dialer = self._dialer
        if is_gateway:
            dialer = replace(dialer, url=BusUrl((endpoint,)), tls=None)
        name = self._rng.randbytes(_LINK_NAME_BYTES).hex().encode()
        return await dialer.dial(endpoint, name, _NoOwner(), NowaitLosses())


class _NoOwner:
    """Owns connections over which nothing is published or subscribed to."""

    def on_push(self, connection: Connection, push: list[object]) -> None: ...

    def on_read(self, connection: Connection) -> None: ...

    def on_lost(self, connection: Connection, error: EquipoiseError) -> None: ...


def finder_settings(settings: ClientSettings) -> FinderSettings:
    """How the settings of a client want its place found."""
    return FinderSettings(
        report_s=settings.coordinate_report_interval_s,
        probe_s=settings.coordinate_probe_interval_s,
        visit_s=settings.coordinate_visit_interval_s,
        gateway_patience_s=settings.coordinate_gateway_timeout_s,
    )
