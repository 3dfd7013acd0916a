"""Two sites on one machine: a delaying relay in front of every hub, and a gateway for drones at each site.

Hubs announce the address of their relay, so all traffic of hubs and drones has the latency between the sites. Players
have no site and no delay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from equipoise.client import ClientSettings
from equipoise.gateway import Gateway, GatewaySettings
from equipoise.lab.demo.acts import SITES
from equipoise.lab.demo.wan import HOST, Address, SiteDelays, Wan

__all__ = ["DemoSites", "site_of"]

# ePulsar's one-way latency of 30 ms between sites, and the extra latency of the radio link of drones.
BETWEEN_S = 0.030
ACCESS_S = 0.002


class DemoSites:
    """Owned by one demo. Call `open` before hubs start, `start_gateways` once they run, `close` at the end."""

    def __init__(self, hubs: Sequence[str], address_of: Callable[[str], Address]) -> None:
        """`hubs`: all possible hubs. `address_of` returns the address of a running hub, else raises KeyError."""
        self.ways = SiteDelays(BETWEEN_S, ACCESS_S, {name: site_of(at) for at, name in enumerate(hubs)})
        self._hubs = hubs
        self._address_of = address_of
        self._wan = Wan(self.ways)
        self._doors: dict[str, int] = {}
        self._running: list[Gateway] = []
        # By site, the address of its gateway for drones.
        self.gateways: dict[str, str] = {}

    async def open(self) -> None:
        for name in self._hubs:
            self._doors[name] = await self._wan.open(name, lambda name=name: self._address_of(name))  # type: ignore[misc]  # A lambda's default.

    @property
    def words(self) -> Mapping[str, tuple[str, ...]]:
        """Extra command-line arguments of each hub."""
        return {
            name: ("--site", self.ways.places[name], "--advertise", f"{HOST}:{port}")
            for name, port in self._doors.items()
        }

    def url(self, hub: str) -> str:
        """The URL of the hub's relay."""
        return f"equipoise://{HOST}:{self._doors[hub]}"

    async def start_gateways(self, hubs: Sequence[str]) -> None:
        """Start a gateway at each site, which finds its coordinate with these hubs."""
        url = "equipoise://" + ",".join(f"{HOST}:{self._doors[hub]}" for hub in hubs)
        for site in SITES:
            name = f"gateway-{site}"
            self.ways.places[name] = site
            gateway = Gateway(url, GatewaySettings(port=0), client=ClientSettings(name=name))
            await gateway.start()
            self._running.append(gateway)
            port = await self._wan.open(name, lambda gateway=gateway: (HOST, gateway.port))  # type: ignore[misc]  # As above.
            self.gateways[site] = f"{HOST}:{port}"

    async def close(self) -> None:
        for gateway in self._running:
            await gateway.stop()
        await self._wan.close()


def site_of(turn: int) -> str:
    """The site of the hub with this index."""
    return SITES[turn % len(SITES)]
