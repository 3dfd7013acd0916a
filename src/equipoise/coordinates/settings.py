"""Constants of the estimator with their sources, and of the finder with their reasons.

[1] Dabek et al., "Vivaldi: a decentralized network coordinate system", SIGCOMM 2004.
[2] Ledlie et al., "Network coordinates in the wild", NSDI 2007.
[3] Lee et al., "On suitability of Euclidean embedding for host-based network coordinate systems", ToN 2010.
Where they leave a choice, the value is that of Serf 0.8, which uses all three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from equipoise.errors import SettingsError

__all__ = ["REPORTS_PATIENCE", "CoordinateSettings", "FinderSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateSettings:
    # More than the five of [2] that were enough for the internet: they cost nothing.
    dimensions: int = 8
    # The initial error of a node, and the maximum. [1] has 1; Serf is higher.
    error_max: float = 1.5
    # Weights of one sample for the error and for the position: c_e and c_c of [1].
    error_gain: float = 0.25
    position_gain: float = 0.25
    # Samples behind the adjustment term of [3]; 0 leaves the term out.
    adjustment_samples: int = 20
    # The minimum of the height of [1], so that two nodes on one machine have a distance.
    height_s_min: float = 10e-6
    # The maximum of the height, for nodes without an access line of their own.
    height_s_max: float = math.inf
    # Samples per peer of which the median counts, [2].
    filter_samples: int = 3
    # Distance from the origin at which gravity [2] pulls by a second: far beyond any network, so it only stops drift.
    gravity_s: float = 150.0
    # Below this distance two nodes are at one point, without a direction from one to the other.
    together_s: float = 1e-6
    # A longer round trip is invalid.
    rtt_s_max: float = 10.0
    # Peers whose samples are kept, those asked latest.
    peers_max: int = 512

    def __post_init__(self) -> None:
        if self.dimensions < 1 or self.filter_samples < 1 or self.peers_max < 1:
            raise SettingsError("coordinates need at least one dimension, one sample and one peer")
        if not (0 < self.error_gain < 1 and 0 < self.position_gain < 1):
            raise SettingsError("the gains of coordinates lie between 0 and 1")


# A gateway is asked as often as hubs get reports, and one reply may be lost: a reply has to be valid for longer.
REPORTS_PATIENCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FinderSettings:
    # Between two reports to one hub: ePulsar's 5 s (section 4). Each report is a probe as well.
    report_s: float = 5.0
    # A changed coordinate is reported within this time, or with the next report if that is sooner: hubs have to know
    # that a swarm crosses a border before the latency of its topics exceeds the limit.
    report_s_min: float = 1.0
    # Between two probes while the coordinate is sought; then only reports, and as many probes, maintain it.
    probe_s: float = 1.0
    # Between two visits to hubs without a connection, once the coordinate is found; 0: no visits.
    visit_s: float = 60.0
    # And while it is sought: five visits in the first minute. A visit costs a hub 1 ms of CPU, a third of it for the
    # connection, so 10,000 clients that start at once cost all hubs together one core for that minute.
    visit_s_first: float = 10.0
    # Round trips per visit: the filter takes the median of three, so fewer would not reject a slow one; and as many
    # as come from the hub in use between two visits, or that hub alone determines the coordinate. With 6, one client in
    # six in a square of hubs is wrong by more than an eighth after a minute; with 8, none of 200.
    visit_samples: int = 8
    # A coordinate from fewer samples than this is no better than the hub's own estimate.
    known_samples: int = 8
    # The coordinate is sought for this many samples, at first and after each significant change: three of Ledlie's
    # windows, which is a minute with five visits in it.
    young_samples: int = 96
    # How long the coordinate of a silent gateway is used; then the client estimates its own.
    gateway_patience_s: float = 30.0

    def __post_init__(self) -> None:
        if min(self.report_s, self.report_s_min, self.probe_s) <= 0:
            raise SettingsError("the intervals of reports, news and probes must be above 0")
        if self.visit_s < 0 or self.visit_s_first <= 0 or self.visit_samples < 1:
            raise SettingsError(
                "the intervals of visits must be above 0, and a visit needs at least one round trip"
            )
        if self.known_samples < 1 or self.gateway_patience_s < 0:
            raise SettingsError(
                "the numbers of samples must be above 0, and the patience with a gateway not negative"
            )
        if 0 < self.gateway_patience_s <= REPORTS_PATIENCE * self.report_s:
            # Else the coordinate of a gateway that replies each time would expire between two replies.
            raise SettingsError(
                f"a gateway is asked every {self.report_s:g} s, and one reply may be lost: set the patience to "
                f"more than {REPORTS_PATIENCE * self.report_s:g} s, or to 0 for no gateway"
            )
