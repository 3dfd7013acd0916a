"""Latencies from clients to the cloud, as on the Internet.

Dynamoth delays every message by values from the King data set, North America only: one for the uplink, one for the
downlink. The set cannot be shipped here, and the paper prints only the result: about 75 ms for both legs on idle
servers. So a leg is drawn from a log-normal distribution, the shape of King's round-trip times, with the median and
width below; two legs then take 72 ms on average.

Each client draws once and uses this latency in both directions. A draw per message, as in the paper after TCP
delivery, would here let every slow message delay the later messages of its connection.

Clients read received data every few milliseconds, as games do once per frame. This adds at most 10 ms to a response,
and needs several times fewer events.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import exp
from random import Random
from statistics import NormalDist

from equipoise.lab.simulation.link import LinkSpec

__all__ = ["CLOUD", "Legs"]

# The place of all hosts that are not clients.
CLOUD = "cloud"
_STANDARD = NormalDist()


@dataclass(frozen=True)
class Legs:
    """Clients around one cloud. A `Topology`: hosts in `CLOUD` are on a LAN, all others have a leg to it."""

    seed: int = 0
    median_s: float = 0.030
    # Standard deviation of the logarithm. Mean = median × exp(σ²/2) = 35.9 ms; 5 % of legs are above 80 ms.
    sigma: float = 0.6
    within: LinkSpec = field(default_factory=lambda: LinkSpec(goes_first=True))
    # Properties of a leg without its latency.
    leg: LinkSpec = field(default_factory=LinkSpec)
    # Interval at which a client reads received data; 0: at once.
    gather_s: float = 0.010

    def link(self, source: str, target: str) -> LinkSpec:
        clients = [place for place in (source, target) if place != CLOUD]
        if not clients:
            return self.within
        gather_s = 0.0 if target == CLOUD else self.gather_s
        return replace(self.leg, latency_s=sum(map(self.leg_s, clients)), gather_s=gather_s)

    def leg_s(self, client: str) -> float:
        """One-way latency between a client and the cloud; always the same for one client."""
        draw = Random(f"leg {self.seed} {client}").random()
        # `inv_cdf` needs an open interval. Rounded to 1 µs: the last digits of a logarithm depend on the platform.
        return round(self.median_s * exp(self.sigma * _STANDARD.inv_cdf(max(draw, 1e-12))), 6)
