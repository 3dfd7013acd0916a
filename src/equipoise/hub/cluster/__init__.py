"""Many hubs, one system: links, relays, and handovers driven by the plan. Pure but for `dialer` and `membership`."""

from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.router import LiveHub, Routing

__all__ = ["Cluster", "LiveHub", "Routing"]
