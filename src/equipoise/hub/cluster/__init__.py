"""Hubs as a cluster: links, relays, and handovers driven by the plan. Pure except for `link/dialer.py`."""

from equipoise.hub.cluster.cluster import Cluster
from equipoise.hub.cluster.router import LiveHub, Routing

__all__ = ["Cluster", "LiveHub", "Routing"]
