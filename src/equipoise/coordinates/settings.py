"""The constants of the estimator, each with its source.

[1] Dabek et al., "Vivaldi: a decentralized network coordinate system", SIGCOMM 2004.
[2] Ledlie et al., "Network coordinates in the wild", NSDI 2007.
[3] Lee et al., "On suitability of Euclidean embedding for host-based network coordinate systems", ToN 2010.
Where they leave a choice the value is that of Serf 0.8, which runs all three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from equipoise.errors import SettingsError

__all__ = ["CoordinateSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateSettings:
    # More than the five of [2] that were enough for the internet: they cost nothing.
    dimensions: int = 8
    # Error of a node that knows nothing, and the most it may become. [1] takes 1; Serf leaves room above.
    error_max: float = 1.5
    # How much one sample weighs for the error and for the position: c_e and c_c of [1].
    error_gain: float = 0.25
    position_gain: float = 0.25
    # Samples behind the adjustment term of [3]; 0 leaves the term out.
    adjustment_samples: int = 20
    # The height of [1] never falls below this, so that two nodes on one machine are still two.
    height_s_min: float = 10e-6
    # Nor rises above this, for nodes that are known to be behind no access line of their own.
    height_s_max: float = math.inf
    # Samples per peer of which the median counts, [2].
    filter_samples: int = 3
    # Distance from the origin at which gravity [2] pulls by a second: far beyond any network, so it only stops drift.
    gravity_s: float = 150.0
    # Nearer than this two nodes are in one place, and no direction leads from one to the other.
    together_s: float = 1e-6
    # A round trip that takes longer was no round trip.
    rtt_s_max: float = 10.0
    # Peers whose samples are remembered, the latest asked.
    peers_max: int = 512

    def __post_init__(self) -> None:
        if self.dimensions < 1 or self.filter_samples < 1 or self.peers_max < 1:
            raise SettingsError("coordinates need at least one dimension, one sample and one peer")
        if not (0 < self.error_gain < 1 and 0 < self.position_gain < 1):
            raise SettingsError("the gains of coordinates lie between 0 and 1")
