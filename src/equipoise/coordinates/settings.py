"""Constants of the estimator with their sources, and of the finder with their reasons.

[1] Dabek et al., "Vivaldi: a decentralized network coordinate system", SIGCOMM 2004.
[2] Ledlie et al., "Network coordinates in the wild", NSDI 2007.
[3] Lee et al., "On suitability of Euclidean embedding for host-based network coordinate systems", ToN 2010.
Where they leave a choice the value is that of Serf 0.8, which runs all three.
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


# A gateway is asked as often as hubs get reports, and one answer may be lost: an answer has to hold for longer.
REPORTS_PATIENCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FinderSettings:
    # Between two reports to one hub: ePulsar's 5 s (section 4). Each is a probe as well.
    report_s: float = 5.0
    # But news wait no longer than this, or than for a report where those are more frequent: a swarm that crosses a
    # border is to be known before its topics suffer.
    report_s_min: float = 1.0
    # Between two probes while a place is sought; afterwards reports alone, and as many probes, keep it.
    probe_s: float = 1.0
    # Between two visits to hubs that there is no connection to, once a place is found; 0: none are visited.
    visit_s: float = 60.0
    # And while it is sought: five visits in the first minute. One costs a hub 1 ms of CPU, a third of it for the
    # connection, so 10,000 clients that start at once cost all hubs together one core for that minute.
    visit_s_first: float = 10.0
    # Round trips per visit: the filter takes the median of three, so fewer would not pass a slow one over; and as many
    # as come from the hub in use between two visits, or the place hangs on that hub alone. With 6, one client in six of
    # a square of hubs is wrong by more than an eighth after a minute; with 8, none of 200.
    visit_samples: int = 8
    # A place found from fewer samples than this is no better than what a hub sees by itself.
    known_samples: int = 8
    # So many samples a place is sought, at first and after each change that matters: three of Ledlie's windows, which
    # is a minute with five visits in it.
    young_samples: int = 96
    # How long the word of a gateway holds that does not answer; then the client finds its place by itself.
    gateway_patience_s: float = 30.0

    def __post_init__(self) -> None:
        if min(self.report_s, self.report_s_min, self.probe_s) <= 0:
            raise SettingsError("reports, news and probes are some time apart")
        if self.visit_s < 0 or self.visit_s_first <= 0 or self.visit_samples < 1:
            raise SettingsError("visits to hubs are some time apart and take at least one round trip")
        if self.known_samples < 1 or self.gateway_patience_s < 0:
            raise SettingsError(
                "a place is known from some samples, and a gateway's word holds for some time"
            )
        if 0 < self.gateway_patience_s <= REPORTS_PATIENCE * self.report_s:
            # Else the word of a gateway that answers each time would run out between two answers.
            raise SettingsError(
                f"a gateway asked every {self.report_s:g} s is silent after two questions without an answer: let its "
                f"word hold for more than {REPORTS_PATIENCE * self.report_s:g} s, or 0 for none"
            )
