"""Latencies from clients to the cloud, as on the Internet.

Dynamoth delays every message by values from the King data set, North America only: one for the leg up, one for the leg
down. The set is not ours to ship, and the paper prints no more of it than the outcome: about 75 ms for both legs on
servers that are not busy. So a leg is drawn from a log-normal distribution, which is what King's round-trip times look
like, with the median and the width below; two legs then take 72 ms on average.

Each client draws once and keeps its leg, up and down alike. To draw anew for each message, as the paper does after
TCP has delivered, would here let every slow message hold up the ones behind it on its connection.

Clients take what has come every few milliseconds, as games do once per frame; that is a hundredth of a second at most
in a response, and several times fewer events.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import exp
from random import Random
from statistics import NormalDist

from equipoise.lab.simulation.link import LinkSpec

__all__ = ["CLOUD", "Legs"]

# The place of everything that is not a client.
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
    # What a leg is like, but for its latency.
    leg: LinkSpec = field(default_factory=LinkSpec)
    # How often a client takes what has come; 0: at once.
    gather_s: float = 0.010

    def link(self, source: str, target: str) -> LinkSpec:
        clients = [place for place in (source, target) if place != CLOUD]
        if not clients:
            return self.within
        gather_s = 0.0 if target == CLOUD else self.gather_s
        return replace(self.leg, latency_s=sum(map(self.leg_s, clients)), gather_s=gather_s)

    def leg_s(self, client: str) -> float:
        """One way between a client and the cloud; the same whenever it is asked."""
        draw = Random(f"leg {self.seed} {client}").random()
        # `inv_cdf` needs an open interval. To the microsecond: the last digits of a logarithm are the platform's.
        return round(self.median_s * exp(self.sigma * _STANDARD.inv_cdf(max(draw, 1e-12))), 6)
